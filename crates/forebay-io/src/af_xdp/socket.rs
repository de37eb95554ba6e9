//! A bound socket, with its device for messages.

use std::io;

use super::ring::Bound;
use crate::device::{DeviceError, Link};
use crate::error::Error;

/// A bound socket of a device.
pub(super) struct Socket {
    pub(super) device: String,
    pub(super) link: Link,
    pub(super) fd: Bound,
    pub(super) is_zero_copy: bool,
}

impl Socket {
    /// For `map_err`: a system call failed during `action`.
    pub(super) fn refused<E: Into<io::Error>>(
        &self,
        action: &'static str,
    ) -> impl FnOnce(E) -> DeviceError {
        DeviceError::system(&self.device, action)
    }

    /// The error that the device is gone.
    pub(super) fn gone(&self) -> Error {
        DeviceError::Gone { device: self.device.clone() }.into()
    }
}
