//! Why a broker does not start.

use std::path::PathBuf;

use crate::compiled::ConfigCompileError;
use crate::config::ConfigError;
use crate::control::ControlError;
use crate::group::GroupError;
use crate::metrics::ServeError;
use crate::ports::PortError;
use crate::privileges::PrivilegeError;
use crate::worker::WorkerError;

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Its configuration is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What the configuration names is not what it takes.
    #[error(transparent)]
    Compile(#[from] ConfigCompileError),
    /// A port.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An output that cannot begin.
    #[error(transparent)]
    Begin(#[from] WorkerError),
    /// The file of records of flows.
    #[error("[export]: cannot create {path}: {source}")]
    Export {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
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
