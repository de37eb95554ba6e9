//! Why a port cannot be opened.

use forebay_bpf::BpfError;
use forebay_io::device::DeviceError;

use crate::config::Port;

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The port itself.
    #[error("{side} {name}: {source}")]
    Io {
        /// "input" or "output".
        side: &'static str,
        /// The port's name.
        name: String,
        /// Its error.
        source: forebay_io::Error,
    },
    /// The device below it.
    #[error("{side} {name}: {source}")]
    Device {
        /// "input" or "output".
        side: &'static str,
        /// The port's name.
        name: String,
        /// What is wrong with the device.
        source: DeviceError,
    },
    /// The program that shares packets out to workers.
    #[error("input {name}: {source}")]
    Program {
        /// The port's name.
        name: String,
        /// The kernel's error.
        source: BpfError,
    },
    /// What the port cannot do.
    #[error("{side} {name}: {what}")]
    Cannot {
        /// "input" or "output".
        side: &'static str,
        /// The port's name.
        name: String,
        /// What, and what was expected.
        what: String,
    },
}

/// For `map_err`: the error of a port.
pub(crate) fn io_error<'a>(
    side: &'static str,
    port: &'a Port,
) -> impl Fn(forebay_io::Error) -> PortError + 'a {
    move |source| PortError::Io { side, name: port.name.clone(), source }
}
