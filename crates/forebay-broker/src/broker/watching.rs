//! What the broker notices of its ports and of losses, and how it reports it.

use serde_json::{Value, json};

use super::notices::Notices;
use super::open::Broker;
use super::running::Running;
use crate::alarms::{Change, Watched};
use crate::answers;
use crate::config::Port;
use crate::export::Exporter;
use crate::kernel::ways::Turn;
use crate::report::Report;

impl Broker {
    /// Follows links, refusals and losses.
    pub(super) fn watch(&mut self, now: u64, running: &[Running], notices: &mut Notices) {
        for what in self.links.follow(&mut self.groups) {
            notices.tell(what);
        }
        let turned = self.kernel.as_mut().map(|kernel| kernel.follow_refusals(now));
        for (output, turn) in turned.unwrap_or_default() {
            notices.tell(self.turned(output, turn));
        }
        if self.alarms.is_due(now) {
            // The answers are there at the next look: no worker is waited for.
            let mut report = Report::default();
            for one in running {
                report.add(one.mailbox.last());
                drop(one.mailbox.ask());
            }
            let report = self.account(report);
            for change in self.alarms.note(now, &report, self.config.alarm) {
                notices.tell(self.alarm(&change));
            }
        }
    }

    /// What workers say of themselves, and the kernel's part with it.
    pub(super) fn account(&self, workers: Report) -> Report {
        let mut report = match &self.kernel {
            Some(kernel) => kernel.account(workers),
            None => workers,
        };
        report.exported = self.exporter.as_ref().map(Exporter::exported);
        // Ports that packets come for tell it in the same words.
        for failure in self.links.failures() {
            if !report.failed.contains(&failure) {
                report.failed.push(failure);
            }
        }
        report
    }

    fn turned(&self, output: usize, turn: Turn) -> String {
        let port = self.config.outputs.get(output);
        let name = port.map_or("?", |port| port.name.as_str());
        let device = port.and_then(Port::device).unwrap_or_default();
        match turn {
            Turn::ToKernel => format!(
                "output {name}: {device} takes redirected frames again: flows that begin are \
                 redirected"
            ),
            Turn::ToWorkers(frames) => {
                let limited = self.config.inputs.iter().any(Port::limits_queues);
                let but = match limited {
                    true => ", but for those of queues beyond `queues` of an input: these are lost",
                    false => "",
                };
                format!(
                    "output {name}: {device} refused {frames} redirected frames (refused): the \
                     workers send its packets from now on{but}. To have them redirected again: \
                     {}",
                    self.cures.napi(device)
                )
            }
        }
    }

    fn alarm(&self, change: &Change) -> String {
        match change {
            Change::Raised(counter, loss) => {
                let cure = self.cures.of(&self.config, counter);
                let at = cure.device.map_or_else(String::new, |device| format!(" at {device}"));
                let window = self.config.alarm.window.as_secs_f64();
                format!(
                    "alarm: {} lost {loss}{at} within {window} s ({}): {}",
                    counter.stage, counter.reason, cure.what
                )
            }
            Change::Over(counter) => {
                format!(
                    "alarm over: {} loses no more than allowed ({})",
                    counter.stage, counter.reason
                )
            }
        }
    }

    /// Alarms that are raised now.
    fn alarms(&self, now: u64) -> Vec<Value> {
        let raised = |watched: &Watched| {
            let (since, loss) = (watched.raised?, watched.loss());
            let cure = self.cures.of(&self.config, &watched.counter);
            Some(json!({
                "stage": watched.counter.stage,
                "reason": watched.counter.reason,
                "device": cure.device,
                "lost": loss.lost,
                "of": loss.of.max(loss.lost),
                "share": loss.share(),
                "for_s": now.saturating_sub(since) / 1_000_000_000,
                "cure": cure.what,
            }))
        };
        self.alarms.watched().iter().filter_map(raised).collect()
    }

    /// How the broker is.
    pub(super) fn status(&self, report: &Report) -> Value {
        let now = self.clock.now();
        let hellos = self.hellos.counts();
        let mut status = answers::status(&self.config, now, &self.groups, hellos, report);
        for (side, ports) in [("input", "inputs"), ("output", "outputs")] {
            for port in status[ports].as_array_mut().into_iter().flatten() {
                let name = port["name"].as_str().unwrap_or_default().to_owned();
                port["up"] = self.links.is_up(side, &name).into();
                if let Some(kernel) = self.kernel.as_ref().filter(|_| side == "output") {
                    let way = if kernel.is_by_workers(&name) { "workers" } else { "kernel" };
                    port["way"] = way.into();
                }
            }
        }
        status["alarms"] = self.alarms(now).into();
        status
    }
}
