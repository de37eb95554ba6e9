//! The workers that run: their accounts, and the flows that they shunt.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_pipeline::{Branch, Chain, Settings};

use crate::config::Config;
use crate::group::LiveGroup;
use crate::mailbox::{Change, WorkerMailbox};
use crate::report::Report;
use crate::route::Route;
use crate::worker::WorkerError;

/// How long workers may take to say how they are.
const PATIENCE: Duration = Duration::from_secs(1);

/// A worker that runs.
pub(super) struct Running {
    pub(super) mailbox: Arc<WorkerMailbox>,
    pub(super) thread: JoinHandle<(Report, Result<(), WorkerError>)>,
    /// How often it had looked for orders when it was last vouched for.
    pub(super) seen: u64,
}

impl Running {
    /// Whether the worker has moved on since this was last asked, or has nothing more to do.
    pub(super) fn moves(&mut self) -> bool {
        let before = std::mem::replace(&mut self.seen, self.mailbox.heartbeat());
        before != self.seen || self.thread.is_finished()
    }
}

/// The account of all workers. One that does not answer is included with its last report.
pub(super) fn report(running: &[Running]) -> Report {
    let asked: Vec<_> = running.iter().map(|one| one.mailbox.ask()).collect();
    let until = Instant::now() + PATIENCE;
    let mut sum = Report::default();
    for (number, (one, asked)) in running.iter().zip(asked).enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        sum.add(asked.answer(left).unwrap_or_else(|| {
            let silent = format!("worker {number} does not answer: these are its last numbers");
            Report { failed: vec![silent], ..one.mailbox.last() }
        }));
    }
    sum
}

/// Gives the workers the flows that are shunted, or handled by hand.
pub(super) fn shunt(config: &Config, groups: &[LiveGroup], running: &[Running]) {
    let settings = |group: &LiveGroup| {
        let settings = Settings::new().with(group.shunt(config)).with(group.shunted());
        group.overrides.settings(settings)
    };
    let settings: Vec<Settings> = groups.iter().map(settings).collect();
    let routes: Vec<Route> = groups.iter().map(LiveGroup::route).collect();
    for one in running {
        // Each is there already, and stays as it is.
        let known = |group: &LiveGroup| Branch::new(group.config.name.clone(), Chain::new());
        one.mailbox.change(Change {
            trunk: Settings::new(),
            branches: groups.iter().map(known).collect(),
            settings: settings.clone(),
            routes: routes.clone(),
        });
    }
}
