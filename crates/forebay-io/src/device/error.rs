//! What can go wrong with a network device. Each error names the device.

use std::io;

/// A network device that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no device of that name in this network namespace.
    #[error("there is no network device {device}")]
    Missing {
        /// The name.
        device: String,
    },
    /// The device went away while it was in use.
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
    /// A port of this kind cannot be had with these options.
    #[error("{device}: {what}")]
    Options {
        /// The device.
        device: String,
        /// The option, its value, and what was expected.
        what: String,
    },
    /// The system refuses something.
    #[error("{device}: cannot {action}: {source}")]
    System {
        /// The device.
        device: String,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl DeviceError {
    /// For `map_err`: the system refuses `action` on `device`.
    pub(crate) fn system<E: Into<io::Error>>(
        device: &str,
        action: &'static str,
    ) -> impl FnOnce(E) -> Self {
        let device = device.to_owned();
        move |source| Self::System { device, action, source: source.into() }
    }

    /// An option that cannot be.
    pub(crate) fn options(device: &str, what: impl Into<String>) -> Self {
        Self::Options { device: device.to_owned(), what: what.into() }
    }
}
