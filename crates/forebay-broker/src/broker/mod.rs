//! The broker: opens what a configuration names, starts workers, and looks after them.
//!
//! Packets are the workers' business. The thread that runs [`Broker::run`] does all the
//! rest, one thing after another: it answers what is asked over the control socket, has
//! each group's manager move buckets, follows signals, and takes over changes of the
//! configuration. What may take long is left to threads: to compile what a changed file
//! names, and to tell people.

mod edits;
mod ended;
mod notices;
mod reload;
mod stages;
mod watching;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_balance::Event;
use forebay_balance::health::Manual;
use forebay_io::device::Finding;
use forebay_packet::HashKey;
use forebay_pipeline::{Branch, Chain, Fork, Settings};
use forebay_rules::live::Live;
use rustix::thread::CapabilitySet;

use crate::alarms::Alarms;
use crate::answers;
use crate::clock::Clock;
use crate::config::{Config, ConfigError, Group};
use crate::control::{
    self, Answer, ControlError, ControlRequest, Request, Requests, SensorAction, Server,
};
use crate::cures::Cures;
use crate::group::{GroupError, LiveGroup, WorkerSteering};
use crate::hellos::Hellos;
use crate::kernel::Kernel;
use crate::links::Links;
use crate::mailbox::{Change, WorkerMailbox};
use crate::metrics::{self, ServeError};
use crate::notify::Notifier;
use crate::plan::{CodeOptions, Plan, PlanError};
use crate::ports::{Attached, PortError, Ports};
use crate::privileges::{self, PrivilegeError};
use crate::report::Report;
use crate::worker::{Route, Worker, WorkerError};
use edits::Edits;
use ended::end;
use notices::Notices;
use reload::Reloads;
use stages::Stages;

pub use ended::Ended;
pub use notices::Notice;

/// How long the broker's own thread waits for a request before it looks round.
const ROUND: Duration = Duration::from_millis(20);

/// How long workers may take to say how they are.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Its configuration is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What the configuration names is not what it takes.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An output that cannot begin.
    #[error(transparent)]
    Begin(#[from] WorkerError),
    /// The sensors of a group.
    #[error("group {group}: {source}")]
    Sensors {
        /// The group.
        group: String,
        /// What is wrong with them.
        source: GroupError,
    },
    /// The control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The page of metrics.
    #[error(transparent)]
    Metrics(#[from] ServeError),
    /// Giving up privileges.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// The service manager.
    #[error("no service manager listens at NOTIFY_SOCKET of the environment: {0}")]
    Notify(std::io::Error),
    /// The system has no thread, descriptor or random number left.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

/// Orders from outside, by signals.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// It is to end.
    pub stop: Arc<AtomicBool>,
    /// It is to read its configuration again.
    pub reload: Arc<AtomicBool>,
}

struct Running {
    mailbox: Arc<WorkerMailbox>,
    thread: JoinHandle<(Report, Result<(), WorkerError>)>,
    /// How often it had looked for orders when it was last vouched for.
    seen: u64,
}

impl Running {
    /// Whether the worker has moved on since this was last asked, or has nothing more to do.
    fn moves(&mut self) -> bool {
        let before = std::mem::replace(&mut self.seen, self.mailbox.heartbeat());
        before != self.seen || self.thread.is_finished()
    }
}

/// A broker whose ports are open.
pub struct Broker {
    path: PathBuf,
    config: Config,
    options: CodeOptions,
    clock: Clock,
    hash_key: HashKey,
    groups: Vec<LiveGroup>,
    workers: Vec<Worker>,
    findings: Vec<Finding>,
    hellos: Hellos,
    links: Links,
    notifier: Notifier,
    /// What recorders say.
    recorders: mpsc::Receiver<String>,
    /// Kept, as they are gone when dropped.
    programs: Vec<Attached>,
    /// What the kernel does by itself, if anything.
    kernel: Option<Kernel>,
    alarms: Alarms,
    cures: Cures,
    reloads: Reloads,
    /// The rules in force, which workers count by.
    rules: Option<Arc<Live>>,
    edits: Edits,
}

impl Broker {
    /// Opens the ports of `config`, which was read from `path`.
    ///
    /// # Errors
    /// [`BrokerError`]: the first thing that is not as it has to be.
    pub fn open(
        path: &Path,
        config: Config,
        plan: Plan,
        options: CodeOptions,
    ) -> Result<Self, BrokerError> {
        let clock = Clock::default();
        let hash_key = drawn_key()?;
        let mut kernel =
            if config.is_in_kernel() { Some(Kernel::create(&config, hash_key)?) } else { None };
        let mut groups = Vec::new();
        // By worker, then by group.
        let mut steering: Vec<WorkerSteering> = Vec::new();
        steering.resize_with(config.workers, Vec::new);
        for group in &config.groups {
            let (live, workers) = open_group(group, &config, clock, kernel.as_mut())?;
            groups.push(live);
            steering.iter_mut().zip(workers).for_each(|(all, one)| all.push(one));
        }
        let ports = Ports::open(&config, &hash_key, kernel.as_mut())?;
        let routes: Vec<Route> = groups.iter().map(LiveGroup::route).collect();
        let plan = if kernel.is_some() { plan.unfiltered() } else { plan };
        let stages = Stages { config: &config, hash_key, plan: &plan, groups: &groups };
        let mut workers = Vec::new();
        for (steering, ports) in steering.into_iter().zip(ports.workers) {
            let fork = Fork::new(stages.branches(steering));
            workers.push(Worker::new(
                ports.inputs,
                stages.trunk(),
                fork,
                routes.clone(),
                ports.outputs,
                clock,
                config.busy_poll,
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            hellos: Hellos::open(&config)?,
            links: Links::open(&config)?,
            cures: Cures::open(&config),
            alarms: Alarms::default(),
            notifier: Notifier::from_environment().map_err(BrokerError::Notify)?,
            config,
            options,
            clock,
            hash_key,
            groups,
            workers,
            findings: ports.findings,
            recorders: ports.notices,
            programs: ports.programs,
            kernel,
            reloads: Reloads::default(),
            rules: plan.rules,
            edits: Edits::default(),
        })
    }

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
        for command in self.config.groups.iter().flat_map(crate::group::static_entries) {
            tell(Notice(format!("at a switch that ages addresses out: {command}")));
        }
        let requests = Requests::default();
        self.give_up_privileges()?;
        self.workers.iter_mut().try_for_each(Worker::begin)?;
        let control = self.config.control.as_ref();
        let _server =
            control.map(|socket| Server::listen(socket, requests.sender())).transpose()?;
        if let Some(address) = self.config.metrics {
            metrics::serve(address, requests.sender())?;
        }
        let mut notices = Notices::new(self.clock, tell)?;
        privileges::confine()?;
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
        self.recorders.try_iter().for_each(|what| notices.tell(what));
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

    /// What workers say of themselves, and the kernel's part with it.
    fn account(&self, workers: Report) -> Report {
        let mut report = match &self.kernel {
            Some(kernel) => kernel.account(workers),
            None => workers,
        };
        // Ports that packets come for tell it in the same words.
        for failure in self.links.failures() {
            if !report.failed.contains(&failure) {
                report.failed.push(failure);
            }
        }
        report
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
        self.recorders.try_iter().for_each(|what| notices.tell(what));
        let mut changed = false;
        for group in &mut self.groups {
            let events: Vec<Event> = group.manager.tick(now);
            for event in &events {
                notices.tell(group.tell(event));
                changed |= group.follow(event);
            }
        }
        if changed {
            self.shunt(running);
        }
        self.follow_edits(notices);
        self.watch(now, running, notices);
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
            Request::Events => Ok(notices.events()),
            // Answered when no change waits.
            Request::Rules { .. } | Request::EditRules { .. } => {
                return self.answer_on_rules(request);
            }
            Request::Metrics => {
                let report = self.account(report(running));
                let page = metrics::page(&metrics::Shown {
                    groups: &self.groups,
                    hellos: self.hellos.counts(),
                    report: &report,
                    alarms: &self.alarms,
                    links: &self.links,
                    rules: self.rules.as_deref(),
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

    /// Tells the workers which flows are shunted.
    fn shunt(&self, running: &[Running]) {
        let settings = |group: &LiveGroup| {
            Settings::new().with(group.shunt(&self.config)).with(group.shunted())
        };
        let settings: Vec<Settings> = self.groups.iter().map(settings).collect();
        let routes: Vec<Route> = self.groups.iter().map(LiveGroup::route).collect();
        for one in running {
            // Each is there already, and stays as it is.
            let known = |group: &LiveGroup| Branch::new(group.config.name.clone(), Chain::new());
            one.mailbox.change(Change {
                trunk: Settings::new(),
                branches: self.groups.iter().map(known).collect(),
                settings: settings.clone(),
                routes: routes.clone(),
            });
        }
    }
}

fn open_group(
    group: &Group,
    config: &Config,
    clock: Clock,
    kernel: Option<&mut Kernel>,
) -> Result<(LiveGroup, WorkerSteering), BrokerError> {
    let opened = match kernel {
        Some(kernel) => LiveGroup::in_kernel(group, config, clock, kernel),
        None => LiveGroup::new(group, config, clock.now()),
    };
    opened.map_err(|source| BrokerError::Sensors { group: group.name.clone(), source })
}

/// A key that cannot be guessed, so that traffic cannot be aimed at one sensor.
fn drawn_key() -> std::io::Result<HashKey> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let [low, high] = [0, 8].map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    });
    Ok(HashKey([low, high]))
}

/// The account of all workers. One that does not answer is included with its last report.
fn report(running: &[Running]) -> Report {
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
