//! What the check finds, or why it did not run.

use std::fmt;
use std::path::PathBuf;

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, relative to the workspace, with `/` between its parts.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// The rule's name.
    pub rule: &'static str,
    /// The problem and what to do instead.
    pub advice: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.advice)
    }
}

/// Why the check failed to run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// What could not be read.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The folder has nothing to check, so a pass would be meaningless.
    #[error("{path}: no Rust file below this folder: not the workspace", path = .0.display())]
    Nothing(PathBuf),
}
