//! Changes of the configuration while the broker runs.
//!
//! A file is read, its filters compiled and its rule lists built by a thread of their own:
//! that can take seconds, in which the broker goes on to look after its sensors. Only what
//! is ready is taken over, by the broker's thread and as a whole, or not at all.

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{self, TryRecvError};
use std::{mem, thread};

use forebay_bpf::Program;
use forebay_pipeline::stages::Steering;

use super::notices::Notices;
use super::stages::Stages;
use super::{Broker, PATIENCE, Running, TRIES, open_group};
use crate::config::Config;
use crate::control::{Answer, Visit};
use crate::desk::Change;
use crate::group::{LiveGroup, Sides};
use crate::plan::{CodeOptions, Plan};
use crate::worker::Route;

/// Who may wait for the next: the control socket hears few at once, and others have
/// questions.
const MOST_WAITING: usize = 4;

/// A configuration that only has to be taken over.
pub(super) struct Prepared {
    config: Config,
    plan: Plan,
}

impl Prepared {
    fn read(path: &std::path::Path, options: &CodeOptions) -> Result<Self, String> {
        let config = Config::read(path).map_err(|error| error.to_string())?;
        let plan = Plan::new(&config, options).map_err(|error| error.to_string())?;
        Ok(Self { config, plan })
    }
}

/// What is done about requests to read the configuration again.
#[derive(Default)]
pub(super) struct Reloads {
    /// Who has asked since the file was last opened: what they want may be newer than
    /// what is being prepared.
    waiting: Vec<Visit>,
    asked: bool,
    under_way: Option<Preparation>,
}

struct Preparation {
    prepared: mpsc::Receiver<Result<Prepared, String>>,
    visits: Vec<Visit>,
}

impl Reloads {
    /// Somebody asks for it, and waits if there is a visit and not too many wait already.
    pub(super) fn ask(&mut self, visit: Option<Visit>) {
        self.asked = true;
        if self.waiting.len() < MOST_WAITING {
            self.waiting.extend(visit);
        } else if let Some(visit) = visit {
            let why = "a change is being prepared, and others wait: the file is read again then";
            visit.answer(Answer::Refused(why.to_owned()));
        }
    }

    /// Begins with what is asked for, unless the last is still being prepared. Returns
    /// whether it began.
    pub(super) fn begin(&mut self, path: PathBuf, options: CodeOptions) -> bool {
        if self.under_way.is_some() || !mem::take(&mut self.asked) {
            return false;
        }
        let (done, prepared) = mpsc::channel();
        let prepare = {
            let done = done.clone();
            move || {
                // Nobody waits for it when the broker ends.
                let _ = done.send(Prepared::read(&path, &options));
            }
        };
        let begun = thread::Builder::new().name("forebay-reload".to_owned()).spawn(prepare);
        if let Err(error) = begun {
            let _ = done.send(Err(format!("there is no thread for it: {error}")));
        }
        self.under_way = Some(Preparation { prepared, visits: mem::take(&mut self.waiting) });
        true
    }

    /// What has been prepared, once, and who waits for it.
    pub(super) fn prepared(&mut self) -> Option<(Result<Prepared, String>, Vec<Visit>)> {
        let prepared = match self.under_way.as_ref()?.prepared.try_recv() {
            Ok(prepared) => prepared,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("its preparation broke down".to_owned()),
        };
        let visits = self.under_way.take().map(|all| all.visits).unwrap_or_default();
        Some((prepared, visits))
    }
}

impl Broker {
    /// Takes over what has been prepared, and has the next prepared if it is asked for.
    pub(super) fn reload(&mut self, running: &[Running], notices: &mut Notices) {
        if let Some((prepared, visits)) = self.reloads.prepared() {
            let outcome = prepared.and_then(|prepared| self.take_over(prepared, running));
            self.notifier.ready("running");
            notices.tell(match &outcome {
                Ok(()) => "reloaded".to_owned(),
                Err(why) => format!("not reloaded: {why}"),
            });
            for visit in visits {
                visit.answer(match &outcome {
                    Ok(()) => Answer::Done("reloaded".into()),
                    Err(why) => Answer::Refused(why.clone()),
                });
            }
        }
        if self.reloads.begin(self.path.clone(), self.options.clone()) {
            self.notifier.reloading();
        }
    }

    /// Puts a configuration through, or leaves all as it is.
    fn take_over(&mut self, prepared: Prepared, running: &[Running]) -> Result<(), String> {
        let Prepared { config, plan } = prepared;
        unchangeable(&self.config, &config)?;
        let refused = |error: &dyn fmt::Display| error.to_string();
        let programs = self.kernel.as_ref().map(|kernel| kernel.prepare(&config)).transpose();
        let programs = programs.map_err(|error| refused(&error))?;
        let plan = if self.kernel.is_some() { plan.unfiltered() } else { plan };
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
        let made = self.put_through(config, &plan, programs.unwrap_or_default(), fresh, running);
        made.map_err(|why| format!("{why}. Part of the change is in force: reload again"))
    }

    /// Changes what runs. `fresh` are the groups that are new.
    fn put_through(
        &mut self,
        config: Config,
        plan: &Plan,
        programs: Vec<Program>,
        fresh: Vec<(LiveGroup, Sides)>,
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
        self.hand_over(&config, plan, steering, running)?;
        // Only now, when all workers know the way to every sensor.
        for (live, group) in self.groups.iter_mut().zip(&config.groups) {
            live.dismiss(group, &config)
                .map_err(|error| format!("group {}: {error}", group.name))?;
        }
        self.links.tell_again();
        self.config = config;
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
            one.desk.change(Change { trunk, branches, settings, routes: routes.clone() });
        }
        for (number, one) in running.iter().enumerate() {
            // A worker that has ended needs no settings.
            let mut tries = 0..TRIES;
            if !tries.any(|_| one.desk.ask().answer(PATIENCE).is_some()) {
                return Err(format!("worker {number} hangs: sensors that are to go stay"));
            }
        }
        Ok(())
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
        if known.is_some_and(|known| known.key != group.key) {
            return refused(&format!("the key of group {}", group.name));
        }
    }
    Ok(())
}
