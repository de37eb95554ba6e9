//! The broker: opens what a configuration names, starts workers, and looks after them.
//!
//! Packets are the workers' business. The thread that runs [`Broker::run`] does all the
//! rest, one thing after another: it answers what is asked over the control socket, has
//! each group's manager move buckets, follows signals, and takes over changes of the
//! configuration. What may take long is left to threads: to compile what a changed file
//! names, and to tell people.

mod edits;
mod ended;
mod error;
mod flow_lists;
mod flow_overrides;
mod notices;
mod open;
mod preparation;
mod reload;
mod running;
mod stages;
mod watching;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use forebay_balance::Event;
use forebay_balance::health::Manual;
use rustix::thread::CapabilitySet;

use crate::answers;
use crate::control::{self, Answer, ControlRequest, Request, Requests, SensorAction, Server};
use crate::export::Exporter;
use crate::group::static_entries;
use crate::kernel::Kernel;
use crate::mailbox::WorkerMailbox;
use crate::metrics;
use crate::privileges;
use crate::scanning;
use crate::worker::Worker;
use ended::end;
use notices::Notices;
use running::{Running, report, shunt};

pub use ended::Ended;
pub use error::BrokerError;
pub use notices::Notice;
pub use open::Broker;

/// How long the broker's own thread waits for a request before it looks round.
const ROUND: Duration = Duration::from_millis(20);

/// Orders from outside, by signals.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// It is to end.
    pub stop: Arc<AtomicBool>,
    /// It is to read its configuration again.
    pub reload: Arc<AtomicBool>,
}

impl Broker {
    /// Runs until all inputs have ended or it is ordered to end.
    ///
    /// # Errors
    /// [`BrokerError`], before the first packet.
    pub fn run(
        mut self,
        signals: &Signals,
        mut tell: impl FnMut(Notice) + Send + 'static,
    ) -> Result<Ended, BrokerError> {
        for finding in &self.findings {
            tell(Notice(answers::finding(finding)));
        }
        for command in self.config.groups.iter().flat_map(static_entries) {
            tell(Notice(format!("at a switch that ages addresses out: {command}")));
        }
        let requests = Requests::default();
        self.give_up_privileges()?;
        self.workers.iter_mut().try_for_each(Worker::begin)?;
        if let Some(exporter) = &mut self.exporter {
            exporter
                .begin()
                .map_err(|source| BrokerError::Export { path: exporter.exported().path, source })?;
        }
        let control = self.config.control.as_ref();
        let _server =
            control.map(|socket| Server::listen(socket, requests.sender())).transpose()?;
        if let Some(address) = self.config.metrics {
            metrics::serve(address, requests.sender())?;
        }
        let mut notices = Notices::new(self.clock, tell)?;
        privileges::confine()?;
        self.exporter.as_mut().map_or(Ok(()), Exporter::start)?;
        let mut running = Vec::new();
        for (number, worker) in std::mem::take(&mut self.workers).into_iter().enumerate() {
            let mailbox = Arc::new(WorkerMailbox::new()?);
            let orders = Arc::clone(&mailbox);
            let name = format!("forebay-work-{number}");
            let thread = thread::Builder::new().name(name).spawn(move || worker.run(&orders))?;
            running.push(Running { mailbox, thread, seen: 0 });
        }
        notices.tell("running".to_owned());
        self.notifier.ready("running");
        self.look_after(&mut running, &requests, signals, &mut notices);
        self.notifier.stopping();
        // Without their programs sockets get nothing more; what they have, and what the
        // kernel has given to workers, is taken in.
        self.kernel.iter_mut().for_each(Kernel::detach);
        self.programs.clear();
        let mut ended = end(running);
        self.exporter.iter_mut().for_each(Exporter::finish);
        self.take_notices(&mut notices);
        ended.report = self.account(ended.report);
        ended.told = notices.finish();
        Ok(ended)
    }

    /// Gives up what it took to open ports, before any thread is started.
    fn give_up_privileges(&self) -> Result<(), BrokerError> {
        if let Some(socket) = &self.config.control {
            let owner = self.config.user.as_deref().map(privileges::numbers_of).transpose()?;
            control::make_folder(socket, owner)?;
        }
        if let Some(user) = &self.config.user {
            privileges::become_user(user, self.kernel.is_some())?;
        }
        let for_programs = self.kernel.as_ref().map(|_| privileges::FOR_PROGRAMS);
        Ok(privileges::keep_capabilities(for_programs.unwrap_or(CapabilitySet::empty()))?)
    }

    /// Does what there is to do until the workers have ended or are to end.
    fn look_after(
        &mut self,
        running: &mut [Running],
        requests: &Requests,
        signals: &Signals,
        notices: &mut Notices,
    ) {
        loop {
            let now = self.clock.now();
            self.notifier.feed(now, || running.iter_mut().all(Running::moves));
            if let Some(request) = requests.next(ROUND) {
                let drains = request.kind == Request::Drain;
                self.answer(request, running, notices);
                if drains {
                    return;
                }
            }
            self.look_round(running, notices);
            if signals.reload.swap(false, Ordering::Relaxed) {
                self.reloads.ask(None);
            }
            self.reload(running, notices);
            let over = running.iter().all(|one| one.thread.is_finished());
            let disorder = running.iter().any(|one| one.mailbox.has_failed());
            if over || disorder || signals.stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Takes in what has happened to sensors, and has each group follow it.
    fn look_round(&mut self, running: &[Running], notices: &mut Notices) {
        let now = self.clock.now();
        let heard = self.hellos.take(&mut self.groups, now);
        heard.into_iter().for_each(|what| notices.tell(what));
        self.take_notices(notices);
        let (mut changed, mut flows_changed) = (false, false);
        for group in &mut self.groups {
            let events: Vec<Event> = group.manager.tick(now);
            for event in &events {
                notices.tell(group.tell(event));
                changed |= group.follow(event);
            }
            flows_changed |= group.overrides.maintain(now);
        }
        if flows_changed && let Err(why) = self.shunt_in_kernel() {
            notices.tell(format!("flows shunted by hand: {why}"));
        }
        changed |= flows_changed;
        if changed {
            shunt(&self.config, &self.groups, running);
        }
        self.flow_lists.follow(&self.groups);
        self.edits.follow(self.in_use.rules.as_ref(), now, notices);
        self.watch(now, running, notices);
    }

    /// Passes on what recorders and the exporter report.
    fn take_notices(&self, notices: &mut Notices) {
        let exporter = self.exporter.iter().flat_map(Exporter::notices);
        self.recorders.try_iter().chain(exporter).for_each(|what| notices.tell(what));
    }

    fn answer(&mut self, request: ControlRequest, running: &[Running], notices: &Notices) {
        let done = match &request.kind {
            Request::Drain => Ok("draining".into()),
            // Answered when it is done.
            Request::Reload => return self.reloads.ask(Some(request)),
            Request::Sensor { group, name, action } => {
                self.command(group.as_deref(), name, *action).map(Into::into)
            }
            Request::Buckets { group } => {
                let wanted = group.as_deref();
                let found =
                    self.groups.iter().find(|live| wanted.is_none_or(|g| g == live.config.name));
                let missing = || format!("no group `{}`", wanted.unwrap_or_default());
                found.map(answers::buckets).ok_or_else(missing)
            }
            Request::Sensors => Ok(answers::sensors(&self.groups)),
            Request::Ledger => Ok(answers::ledger(&self.account(report(running)))),
            Request::Status => Ok(self.status(&self.account(report(running)))),
            // Answered when the workers have made their lists.
            Request::Flows { .. } => {
                return self.flow_lists.ask(request, &self.groups, running);
            }
            Request::Events => Ok(notices.events()),
            Request::Scan => scanning::answer(self.in_use.scan.as_ref()),
            // Answered when no change waits.
            Request::Rules { .. } | Request::EditRules { .. } => {
                return self.edits.answer(request, self.in_use.rules.as_ref(), self.clock.now());
            }
            Request::OverrideFlows { .. } | Request::OverriddenFlows { .. } => {
                self.handle_flows(&request.kind, running)
            }
            Request::Metrics => {
                let report = self.account(report(running));
                let page = metrics::page(&metrics::Shown {
                    groups: &self.groups,
                    hellos: self.hellos.counts(),
                    report: &report,
                    alarms: &self.alarms,
                    links: &self.links,
                    rules: self.in_use.rules.as_deref(),
                    scan: self.in_use.scan.as_deref(),
                });
                Ok(page.into())
            }
        };
        request.answer(match done {
            Ok(value) => Answer::Done(value),
            Err(why) => Answer::Refused(why),
        });
    }

    /// An operator's word about a sensor.
    fn command(
        &mut self,
        group: Option<&str>,
        name: &str,
        action: SensorAction,
    ) -> Result<String, String> {
        let mut found = Vec::new();
        for (place, live) in self.groups.iter().enumerate() {
            if group.is_none_or(|group| group == live.config.name) {
                let of_name = live.indices().filter(|(_, sensor)| sensor.name == name);
                found.extend(of_name.map(|(index, _)| (place, index)));
            }
        }
        let &[(place, index)] = found.as_slice() else {
            let groups: Vec<&str> =
                found.iter().map(|&(place, _)| self.groups[place].config.name.as_str()).collect();
            return Err(match groups.as_slice() {
                [] => format!("no sensor `{name}`"),
                several => format!("sensor `{name}` is in {}: name one", several.join(", ")),
            });
        };
        let (manual, done) = match action {
            SensorAction::Up => (Manual::Up, "is up"),
            SensorAction::Down => (Manual::Down, "is down"),
            SensorAction::Drain => (Manual::Drain, "is draining"),
            SensorAction::Auto => (Manual::Automatic, "goes by what is observed of it"),
        };
        self.groups[place].manager.command(index, manual);
        Ok(format!("{name} {done}"))
    }
}
