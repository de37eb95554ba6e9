//! Requests about flows that are handled by hand.

use std::time::Duration;

use forebay_pipeline::stages::FlowOverride;
use serde_json::Value;

use super::open::Broker;
use super::running::{Running, report, shunt};
use crate::control::{FlowAction, Request};
use crate::group::{LiveGroup, nanos};
use crate::overrides::{FlowPage, OverrideEdit, Selector, show};

/// The longest time that flows can be handled by hand.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl Broker {
    /// Answers a request about flows. An edit is answered when it is in effect.
    pub(super) fn handle_flows(
        &mut self,
        request: &Request,
        running: &[Running],
    ) -> Result<Value, String> {
        let now = self.clock.now();
        match request {
            Request::OverrideFlows { group, action, flows, seconds } => {
                let flows = Selector::read_all(flows)?;
                let lasts = Duration::try_from_secs_f64(*seconds).ok();
                let lasts = lasts.filter(|&lasts| !lasts.is_zero() && lasts <= LONGEST);
                let lasts = lasts.ok_or("`seconds`: expected more than 0, and a year at most")?;
                let (action, done) = match action {
                    FlowAction::Shunt => (FlowOverride::Shunt, "shunted"),
                    FlowAction::Pass => (FlowOverride::Pass, "passed"),
                };
                let until = now.saturating_add(nanos(lasts));
                let edit = OverrideEdit { flows: &flows, action, until };
                let places = places(&self.groups, group.as_deref())?;
                for &place in &places {
                    let live = &self.groups[place];
                    let refused = |why| format!("group {}: {why}", live.config.name);
                    live.overrides.check(&edit, now).map_err(refused)?;
                }
                places.iter().for_each(|&place| self.groups[place].overrides.edit(&edit, now));
                shunt(&self.config, &self.groups, running);
                let in_kernel = self.shunt_in_kernel();
                // Workers report after they have taken the change over.
                report(running);
                in_kernel.map_err(|why| {
                    format!("in effect for packets that workers handle, not in the kernel: {why}")
                })?;
                let count = flows.len();
                Ok(format!("{count} {} {done}", if count == 1 { "flow" } else { "flows" }).into())
            }
            Request::OverriddenFlows { group, flows, from, limit } => {
                let flows = Selector::read_all(flows)?;
                let page = FlowPage { flows: &flows, from: *from, limit: *limit };
                let places = places(&self.groups, group.as_deref())?;
                let dropped = |hash| {
                    let traffic = self.kernel.as_ref().map(|kernel| kernel.shunted(hash));
                    traffic.map_or((0, 0), |traffic| (traffic.packets, traffic.bytes))
                };
                let shown = |place: usize| {
                    let live = &self.groups[place];
                    show(&live.config.name, &live.overrides, page, now, dropped)
                };
                Ok(places.into_iter().map(shown).collect())
            }
            _ => Err("no request about flows".to_owned()),
        }
    }

    /// Has the kernel shunt the flows of the group whose packets it steers, if there is one.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(super) fn shunt_in_kernel(&mut self) -> Result<(), String> {
        let (Some(kernel), Some(group)) = (&mut self.kernel, self.groups.first()) else {
            return Ok(());
        };
        kernel.shunt(group.overrides.table(), self.clock).map_err(|error| error.to_string())
    }
}

/// The places of the group of a name, or of all of them.
fn places(groups: &[LiveGroup], name: Option<&str>) -> Result<Vec<usize>, String> {
    let is_it = |live: &LiveGroup| name.is_none_or(|name| name == live.config.name);
    let places: Vec<usize> = (0..groups.len()).filter(|&place| is_it(&groups[place])).collect();
    if places.is_empty() {
        return Err(format!("no group `{}`", name.unwrap_or_default()));
    }
    Ok(places)
}
