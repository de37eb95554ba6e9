//! Changes of the configuration while the broker runs: only what is prepared is taken over, by
//! the broker's thread and as a whole, or not at all.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_bpf::Program;
use forebay_pipeline::stages::Steering;
use forebay_rules::live::InForce;

use super::notices::Notices;
use super::open::{Broker, open_group};
use super::preparation::{Begun, Prepared};
use super::running::{Running, shunt};
use super::stages::Stages;
use crate::compiled::CompiledConfig;
use crate::config::Config;
use crate::control::{Answer, ControlRequest};
use crate::group::{LiveGroup, WorkerSteering};
use crate::mailbox::Change;
use crate::route::Route;
use crate::rule_counts;

/// How long workers may take to take new settings over.
const HANDING_OVER: Duration = Duration::from_secs(3);

const ALL_LATE: &str = "reading the file and what it names does not end, several times by now";

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
        let (path, options) = (self.path.clone(), self.options.clone());
        match self.reloads.begin(path, options, most, self.in_use.clone()) {
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
        let Prepared { config, compiled } = prepared;
        unchangeable(&self.config, &config)?;
        let refused = |error: &dyn fmt::Display| error.to_string();
        let programs = self.kernel.as_ref().map(|kernel| kernel.prepare(&config)).transpose();
        let programs = programs.map_err(|error| refused(&error))?;
        let mut compiled = if self.kernel.is_some() { compiled.unfiltered() } else { compiled };
        let difference = compiled.difference.take();
        let mut changed = match (&compiled.rules, &self.in_use.rules) {
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
                let opened =
                    open_group(group, &config, self.hash_key, self.clock, self.kernel.as_mut());
                let opened = opened.map_err(|error| error.to_string())?;
                fresh.push(opened);
            }
        }
        if let (Some(rules), Some(difference)) = (&compiled.rules, difference) {
            let (changes, (before, ends)) = (difference.changes(), difference.span);
            // Without changes too: it fails if the list is not the one that was compared.
            let followed = rules.follow(difference).map_err(|error| format!("rules: {error}"))?;
            if changes > 0 {
                let mut told = rule_counts::places(before, ends);
                if followed == InForce::Later {
                    told += ", in force when the list has been built anew";
                    self.edits.expect(rules);
                }
                changed = Some(told);
            }
        }
        let made =
            self.put_through(config, &compiled, programs.unwrap_or_default(), fresh, running);
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
        compiled: &CompiledConfig,
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
            kernel.follow(group.route(), &group.spare()).map_err(|error| refused(&error))?;
            kernel.replace(&programs).map_err(|error| refused(&error))?;
        }
        let handed_over = self.hand_over(&config, compiled, steering, running);
        // The groups are those of the new one, whatever comes now.
        self.config = config;
        self.in_use.rules.clone_from(&compiled.rules);
        self.in_use.scan.clone_from(&compiled.scan);
        handed_over?;
        // Only now, when all workers know the way to every sensor.
        for (live, group) in self.groups.iter_mut().zip(&self.config.groups) {
            live.dismiss(group, &self.config)
                .map_err(|error| format!("group {}: {error}", group.name))?;
        }
        // A flow's own sensor may be one that has just come in.
        shunt(&self.config, &self.groups, running);
        self.links.tell_again();
        Ok(())
    }

    /// Gives every worker the new settings, and waits until it has them.
    fn hand_over(
        &self,
        config: &Config,
        compiled: &CompiledConfig,
        steering: Vec<Vec<Option<Box<dyn Steering>>>>,
        running: &[Running],
    ) -> Result<(), String> {
        let (hash_key, groups) = (self.hash_key, self.groups.as_slice());
        let exporter = self.exporter.as_ref();
        let stages = Stages { config, hash_key, compiled, groups, exporter };
        let routes: Vec<Route> = self.groups.iter().map(LiveGroup::route).collect();
        for (worker, (one, steering)) in running.iter().zip(steering).enumerate() {
            let (trunk, settings) = (compiled.trunk(), stages.group_settings(worker));
            let branches = stages.changed_branches(steering, &settings);
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
    if old.export != new.export {
        return refused("the export of records");
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
