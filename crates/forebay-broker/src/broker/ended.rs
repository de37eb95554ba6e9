//! The end of a broker: its workers are joined, and their accounts added up.

use super::running::Running;
use crate::answers;
use crate::report::Report;

/// How a broker ended.
#[derive(Debug)]
pub struct Ended {
    /// The account of all workers.
    pub report: Report,
    /// What ended a worker before its time.
    pub errors: Vec<String>,
    /// Whether all notices were printed: if not, a thread is still printing them,
    /// and may have standard error locked.
    pub told: bool,
}

impl Ended {
    /// The account and what went wrong, for scripts.
    #[must_use]
    pub fn as_json(&self) -> serde_json::Value {
        let mut value = answers::ledger(&self.report);
        value["errors"] = self.problems().into();
        value
    }

    /// What went wrong: with workers, then with ports.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.errors.iter().chain(&self.report.failed).cloned().collect()
    }
}

/// Ends the workers.
pub(super) fn end(running: Vec<Running>) -> Ended {
    running.iter().for_each(|one| one.mailbox.stop());
    let mut ended = Ended { report: Report::default(), errors: Vec::new(), told: false };
    for one in running {
        let name = one.thread.thread().name().unwrap_or("a worker").to_owned();
        match one.thread.join() {
            Ok((report, outcome)) => {
                ended.report.add(report);
                ended.errors.extend(outcome.err().map(|error| error.to_string()));
            }
            Err(_) => {
                ended.report.add(one.mailbox.last());
                ended.errors.push(format!("{name} broke down: its numbers are not the last"));
            }
        }
    }
    ended
}
