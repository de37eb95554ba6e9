//! Errors of network devices. Each names the device.

use std::io;

/// Why a network device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no device with that name in this network namespace.
    #[error("there is no network device {device}")]
    Missing {
        /// The name.
        device: String,
    },
    /// The device was deleted while in use.
    #[error("the network device {device} was deleted while in use")]
    Gone {
        /// Its name when it was opened.
        device: String,
    },
    /// The device does not carry Ethernet frames.
    #[error(
        "{device} is no Ethernet device: its hardware type is {hardware}, \
         expected 1 (Ethernet) or 772 (loopback)"
    )]
    NotEthernet {
        /// The device.
        device: String,
        /// ARPHRD_ value of its hardware.
        hardware: u16,
    },
    /// A port of this kind cannot be opened with these options.
    #[error("{device}: {what}")]
    Options {
        /// The device.
        device: String,
        /// The option, its value, and what was expected.
        what: String,
    },
    /// A system call failed.
    #[error("{device}: cannot {action}: {source}")]
    System {
        /// The device.
        device: String,
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl DeviceError {
    /// For `map_err`: a system call failed during `action` on `device`.
    pub(crate) fn system<E: Into<io::Error>>(
        device: &str,
        action: &'static str,
    ) -> impl FnOnce(E) -> Self {
        let device = device.to_owned();
        move |source| Self::System { device, action, source: source.into() }
    }

    /// An invalid option.
    pub(crate) fn options(device: &str, what: impl Into<String>) -> Self {
        Self::Options { device: device.to_owned(), what: what.into() }
    }
}
