//! Changes of the configuration while the broker runs.
//!
//! A file is read, its filters compiled and its rule lists built by a thread of their own:
//! that can take seconds, in which the broker goes on to look after its sensors. Only what
//! is ready is taken over, by the broker's thread and as a whole, or not at all.
//!
//! A preparation has a budget of memory, and leaves some to all else: one that would take
//! more ends with a message, and everything stays as it is. One that is overtaken by another
//! request, or by the broker's end, is cancelled.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{mem, thread};

use forebay_bpf::Program;
use forebay_io::text::MOST_RULES;
use forebay_packet::cancel::{Cancel, Stopped};
use forebay_pipeline::stages::Steering;
use forebay_rules::live::{InForce, Live};

use super::notices::Notices;
use super::stages::Stages;
use super::{Broker, Running, open_group};
use crate::config::Config;
use crate::control::{Answer, ControlRequest};
use crate::group::{LiveGroup, WorkerSteering};
use crate::mailbox::Change;
use crate::memory;
use crate::plan::{CodeOptions, Plan};
use crate::rule_counts;
use crate::trim::trim;
use crate::worker::Route;

/// Who may wait for a change: the control socket has so many clients at once, and others
/// have questions.
const MOST_WAITING: usize = 16;

/// How long the clients of a preparation wait for it, and the next preparation does.
const LONG: Duration = Duration::from_secs(60);

/// Preparations that may be under way besides the last, each cancelled and not at its end
/// yet: libpcap, and a file system that hangs, end in their own time.
const MOST_OVERTAKEN: usize = 4;

/// Preparations in a row that are cancelled because another is asked for. The next comes to
/// its end, or changes that are asked for without a pause would never come into force.
const MOST_CANCELLED: u32 = 3;

/// Bytes of memory that each byte of a list of rules comes to at least, when it is parsed.
const LEAST_FOR_RULES: u64 = 4;

/// How long workers may take to take new settings over.
const HANDING_OVER: Duration = Duration::from_secs(3);

const OTHERS_WAIT: &str =
    "a change is being prepared, and others wait: the file is read again then";
const OVERTAKEN: &str = "another change was asked for in the meantime";
const LATE: &str = "reading the file and what it names takes more than a minute; it is taken \
                    over when that ends, unless another change is asked for";
const ALL_LATE: &str = "reading the file and what it names does not end, several times by now";

/// A configuration that only has to be taken over.
pub(super) struct Prepared {
    config: Config,
    plan: Plan,
}

impl Prepared {
    fn read(
        path: &Path,
        options: &CodeOptions,
        most: u64,
        rules: Option<&Arc<Live>>,
    ) -> Result<Self, String> {
        let config = Config::read(path).map_err(|error| error.to_string())?;
        if let Some(rules) = &config.rules {
            // One that is too long is refused when it is read.
            let len = std::fs::metadata(rules).map_or(0, |metadata| metadata.len());
            let need = len.min(MOST_RULES) * LEAST_FOR_RULES;
            let refused = |why| format!("{}: {why}", rules.display());
            memory::suffices(need, most, memory::KEY).map_err(refused)?;
        }
        let plan = Plan::new(&config, options, rules).map_err(|error| error.to_string())?;
        Ok(Self { config, plan })
    }

    /// Notices for when it is in force.
    fn notices(&self) -> Vec<String> {
        self.plan.notices.clone()
    }
}

/// What is done about requests to read the configuration again.
#[derive(Default)]
pub(super) struct Reloads {
    /// Who has asked since the file was last opened: what they want may be newer than
    /// what is being prepared.
    waiting: Vec<ControlRequest>,
    asked: bool,
    under_way: Option<Preparation>,
    /// Those that were cancelled when the next began. Nobody takes what comes of them.
    overtaken: Vec<JoinHandle<()>>,
    /// How many there were since the last that came to its end.
    cancelled: u32,
}

struct Preparation {
    cancel: Cancel,
    prepared: mpsc::Receiver<Result<Prepared, String>>,
    /// None where the system has none to give.
    thread: Option<JoinHandle<()>>,
    requests: Vec<ControlRequest>,
    begun: Instant,
    /// It took too long, and its clients have an answer that says so.
    is_late: bool,
}

/// What came of a request.
pub(super) enum Begun {
    /// It waits, or there was none.
    Nothing,
    /// The file is being read.
    Another,
    /// Too many preparations do not end; these are not to wait any more.
    TooMany(Vec<ControlRequest>),
}

impl Preparation {
    fn begin(
        path: PathBuf,
        options: CodeOptions,
        most: u64,
        rules: Option<Arc<Live>>,
        requests: Vec<ControlRequest>,
    ) -> Self {
        let (done, prepared) = mpsc::channel();
        let cancel = Cancel::watched(memory::watch(most, memory::KEY));
        let prepare = {
            let (done, cancel) = (done.clone(), cancel.clone());
            move || {
                let prepared = cancel.run(|| Prepared::read(&path, &options, most, rules.as_ref()));
                if !matches!(prepared, Ok(Ok(_))) {
                    trim();
                }
                let prepared = prepared.unwrap_or_else(|stopped| match stopped {
                    Stopped::Refused(why) => Err(why),
                    Stopped::Cancelled => Err(OVERTAKEN.to_owned()),
                });
                // Nobody waits for it when the broker ends, or it was overtaken.
                let _ = done.send(prepared);
            }
        };
        let thread = thread::Builder::new().name("forebay-reload".to_owned()).spawn(prepare);
        if let Err(error) = &thread {
            let _ = done.send(Err(format!("there is no thread for it: {error}")));
        }
        let begun = Instant::now();
        Self { cancel, prepared, thread: thread.ok(), requests, begun, is_late: false }
    }
}

impl Drop for Preparation {
    /// Its result is of no use any more: it was overtaken, perhaps by the broker's end.
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Reloads {
    /// Takes a request, whose client waits unless too many wait already.
    pub(super) fn ask(&mut self, request: Option<ControlRequest>) {
        self.asked = true;
        let already = self.under_way.as_ref().map_or(0, |last| last.requests.len());
        if already + self.waiting.len() < MOST_WAITING {
            self.waiting.extend(request);
        } else if let Some(request) = request {
            request.answer(Answer::Refused(OTHERS_WAIT.to_owned()));
        }
    }

    /// Begins the requested preparation, and cancels the one under way, which it replaces.
    /// Clients of the old one get the result of the new one. `most` is the memory that it may
    /// take, in bytes; `rules` are those in force.
    pub(super) fn begin(
        &mut self,
        path: PathBuf,
        options: CodeOptions,
        most: u64,
        rules: Option<Arc<Live>>,
    ) -> Begun {
        if !self.asked {
            return Begun::Nothing;
        }
        self.overtaken.retain(|thread| !thread.is_finished());
        if let Some(last) = &self.under_way {
            let too_many = self.overtaken.len() >= MOST_OVERTAKEN;
            if !last.is_late && (too_many || self.cancelled >= MOST_CANCELLED) {
                return Begun::Nothing;
            }
            if too_many {
                self.asked = false;
                return Begun::TooMany(mem::take(&mut self.waiting));
            }
            self.cancelled += 1;
        }
        self.asked = false;
        let mut requests = mem::take(&mut self.waiting);
        let last = self.under_way.take();
        if let Some(mut last) = last {
            requests.append(&mut last.requests);
            self.overtaken.extend(last.thread.take());
        }
        self.under_way = Some(Preparation::begin(path, options, most, rules, requests));
        Begun::Another
    }

    /// What has been prepared, once, with the requests that wait for it; or that it is late.
    pub(super) fn prepared(&mut self) -> Option<(Result<Prepared, String>, Vec<ControlRequest>)> {
        let under_way = self.under_way.as_mut()?;
        let prepared = match under_way.prepared.try_recv() {
            Ok(prepared) => prepared,
            Err(TryRecvError::Empty) => {
                if under_way.is_late || under_way.begun.elapsed() < LONG {
                    return None;
                }
                under_way.is_late = true;
                return Some((Err(LATE.to_owned()), mem::take(&mut under_way.requests)));
            }
            Err(TryRecvError::Disconnected) => Err("its preparation broke down".to_owned()),
        };
        let mut last = self.under_way.take();
        let requests = last.as_mut().map(|last| mem::take(&mut last.requests)).unwrap_or_default();
        self.cancelled = 0;
        Some((prepared, requests))
    }
}

impl Broker {
    /// Takes over what has been prepared, and has the next prepared if it is asked for.
    pub(super) fn reload(&mut self, running: &[Running], notices: &mut Notices) {
        if let Some((prepared, requests)) = self.reloads.prepared() {
            let told = prepared.as_ref().map_or_else(|_| Vec::new(), Prepared::notices);
            let outcome = prepared.and_then(|prepared| self.take_over(prepared, running));
            self.notifier.ready("running");
            if outcome.is_ok() {
                told.into_iter().for_each(|notice| notices.tell(notice));
            }
            conclude(&outcome, requests, notices);
        }
        let most = self.config.reload_memory;
        let (path, options, rules) = (self.path.clone(), self.options.clone(), self.rules.clone());
        match self.reloads.begin(path, options, most, rules) {
            Begun::Nothing => {}
            Begun::Another => self.notifier.reloading(),
            Begun::TooMany(requests) => conclude(&Err(ALL_LATE.to_owned()), requests, notices),
        }
    }

    /// Puts a configuration through, or leaves all as it is. Says how the list of rules
    /// differs from the one before.
    fn take_over(
        &mut self,
        prepared: Prepared,
        running: &[Running],
    ) -> Result<Option<String>, String> {
        let Prepared { config, plan } = prepared;
        unchangeable(&self.config, &config)?;
        let refused = |error: &dyn fmt::Display| error.to_string();
        let programs = self.kernel.as_ref().map(|kernel| kernel.prepare(&config)).transpose();
        let programs = programs.map_err(|error| refused(&error))?;
        let mut plan = if self.kernel.is_some() { plan.unfiltered() } else { plan };
        let difference = plan.difference.take();
        let mut changed = match (&plan.rules, &self.rules) {
            (Some(new), Some(old)) if !Arc::ptr_eq(new, old) => {
                old.look(|old| new.look(|new| rule_counts::difference(old, new)))
            }
            (Some(_), Some(_)) => None,
            (Some(new), None) => {
                Some(format!("there are rules now, {}", new.look(|list| list.count())))
            }
            (None, Some(old)) => {
                let count = old.look(|list| list.count());
                Some(format!("there are no rules any more, of {count}"))
            }
            (None, None) => None,
        };
        // All that can be wrong, before anything is changed.
        for group in &config.groups {
            if let Some(live) = self.groups.iter().find(|live| live.config.name == group.name) {
                live.can_become(group, &config)
                    .map_err(|error| format!("group {}: {error}", group.name))?;
            }
        }
        let mut fresh = Vec::new();
        for group in &config.groups {
            if !self.groups.iter().any(|live| live.config.name == group.name) {
                let opened = open_group(group, &config, self.clock, self.kernel.as_mut());
                let opened = opened.map_err(|error| error.to_string())?;
                fresh.push(opened);
            }
        }
        if let (Some(rules), Some(difference)) = (&plan.rules, difference) {
            let (changes, (before, ends)) = (difference.changes(), difference.span);
            // Without changes too: it fails if the list is not the one that was compared.
            let followed = rules.follow(difference).map_err(|error| format!("rules: {error}"))?;
            if changes > 0 {
                let mut told = rule_counts::places(before, ends);
                if followed == InForce::Later {
                    told += ", in force when the list has been built anew";
                    self.await_rules(rules);
                }
                changed = Some(told);
            }
        }
        let made = self.put_through(config, &plan, programs.unwrap_or_default(), fresh, running);
        made.map_err(|why| {
            let rules = changed.as_ref().map_or_else(String::new, |rules| format!(" ({rules})"));
            format!("{why}. Part of the change is in force{rules}: reload again")
        })?;
        Ok(changed)
    }

    /// Changes what runs. `fresh` are the groups that are new.
    fn put_through(
        &mut self,
        config: Config,
        plan: &Plan,
        programs: Vec<Program>,
        fresh: Vec<(LiveGroup, WorkerSteering)>,
        running: &[Running],
    ) -> Result<(), String> {
        let refused = |error: &dyn fmt::Display| error.to_string();
        for group in &config.groups {
            if let Some(live) = self.groups.iter_mut().find(|live| live.config.name == group.name) {
                live.admit(group, &config)
                    .map_err(|error| format!("group {}: {error}", group.name))?;
            }
        }
        let mut groups = Vec::new();
        let mut steering: Vec<Vec<Option<Box<dyn Steering>>>> = Vec::new();
        steering.resize_with(running.len(), Vec::new);
        let mut fresh = fresh.into_iter();
        let mut old = std::mem::take(&mut self.groups);
        for group in &config.groups {
            match old.iter().position(|live| live.config.name == group.name) {
                Some(at) => {
                    groups.push(old.remove(at));
                    steering.iter_mut().for_each(|all| all.push(None));
                }
                None => {
                    if let Some((live, workers)) = fresh.next() {
                        groups.push(live);
                        let ends = steering.iter_mut().zip(workers);
                        ends.for_each(|(all, worker)| all.push(Some(worker)));
                    }
                }
            }
        }
        self.groups = groups;
        if let (Some(kernel), Some(group)) = (&mut self.kernel, self.groups.first()) {
            kernel.follow(group).map_err(|error| refused(&error))?;
            kernel.replace(&programs).map_err(|error| refused(&error))?;
        }
        let handed_over = self.hand_over(&config, plan, steering, running);
        // The groups are those of the new one, whatever comes now.
        self.config = config;
        self.rules.clone_from(&plan.rules);
        handed_over?;
        // Only now, when all workers know the way to every sensor.
        for (live, group) in self.groups.iter_mut().zip(&self.config.groups) {
            live.dismiss(group, &self.config)
                .map_err(|error| format!("group {}: {error}", group.name))?;
        }
        // A flow's own sensor may be one that has just come in.
        self.shunt(running);
        self.links.tell_again();
        Ok(())
    }

    /// Gives every worker the new settings, and waits until it has them.
    fn hand_over(
        &self,
        config: &Config,
        plan: &Plan,
        steering: Vec<Vec<Option<Box<dyn Steering>>>>,
        running: &[Running],
    ) -> Result<(), String> {
        let stages = Stages { config, hash_key: self.hash_key, plan, groups: &self.groups };
        let routes: Vec<Route> = self.groups.iter().map(LiveGroup::route).collect();
        for (one, steering) in running.iter().zip(steering) {
            let branches = stages.changed_branches(steering);
            let (trunk, settings) = (plan.trunk(), stages.group_settings());
            one.mailbox.change(Change { trunk, branches, settings, routes: routes.clone() });
        }
        // All workers at once: meanwhile the broker does not look after the sensors.
        let asked: Vec<_> = running.iter().map(|one| one.mailbox.ask()).collect();
        let deadline = Instant::now() + HANDING_OVER;
        for (number, asked) in asked.into_iter().enumerate() {
            // A worker that has ended needs no settings.
            if asked.answer(deadline.saturating_duration_since(Instant::now())).is_none() {
                return Err(format!(
                    "worker {number} hangs: new sensors get nothing yet, and those that are to \
                     go stay"
                ));
            }
        }
        Ok(())
    }
}

/// Writes a notice of the result of a change, and answers the requests that wait for it.
fn conclude(
    outcome: &Result<Option<String>, String>,
    requests: Vec<ControlRequest>,
    notices: &mut Notices,
) {
    let changed = outcome.as_ref().ok().and_then(Option::as_ref);
    changed.into_iter().for_each(|changed| notices.tell(changed.clone()));
    notices.tell(match outcome {
        Ok(_) => "reloaded".to_owned(),
        Err(why) => format!("not reloaded: {why}"),
    });
    let done = changed.map_or("reloaded".to_owned(), |changed| format!("reloaded; {changed}"));
    for request in requests {
        request.answer(match outcome {
            Ok(_) => Answer::Done(done.as_str().into()),
            Err(why) => Answer::Refused(why.clone()),
        });
    }
}

/// What a running broker cannot take over.
fn unchangeable(old: &Config, new: &Config) -> Result<(), String> {
    let refused =
        |what: &str| Err(format!("{what} cannot change while the broker runs: restart it"));
    if old.inputs != new.inputs || old.outputs != new.outputs {
        return refused("ports");
    }
    if old.workers != new.workers || old.busy_poll != new.busy_poll {
        return refused("workers");
    }
    if (&old.control, &old.metrics, &old.user) != (&new.control, &new.metrics, &new.user) {
        return refused("control, metrics and user");
    }
    let flow = |config: &Config| (config.tunnel_depth, config.vlan_in_key, config.idle_timeout);
    if flow(old) != flow(new) {
        return refused("what a flow is");
    }
    let names = |config: &Config| -> Vec<String> {
        config.groups.iter().map(|group| group.name.clone()).collect()
    };
    if new.is_in_kernel() && names(old) != names(new) {
        return refused("the name of a group in the kernel");
    }
    for group in &new.groups {
        let known = old.groups.iter().find(|known| known.name == group.name);
        if known.is_some_and(|known| (known.key, &known.follow) != (group.key, &group.follow)) {
            return refused(&format!("the key of group {}", group.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
