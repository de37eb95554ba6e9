//! Terminating signals.
//!
//! The first one sets a flag, on which a run stops and removes incomplete output; the
//! second ends the process at once. A signal that was ignored when the program started, as
//! SIGHUP under nohup(1), stays ignored.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Exit status after a second signal: as a shell reports SIGINT.
const ENDED_AT_ONCE: i32 = 130;

/// From now on the first terminating signal sets `stop` and the second ends the process. To
/// be called just before there is something to clean up: until then the default action is
/// right.
///
/// # Errors
/// If the handlers cannot be set.
pub fn watch(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    // If the list cannot be read, no signal is considered ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored_signals(&status);
    for signal in ENDING {
        if ignored >> (signal - 1) & 1 == 1 {
            continue;
        }
        // In this order: the flag set by the second handler is not set yet when the first
        // handler checks it for the first time.
        flag::register_conditional_shutdown(signal, ENDED_AT_ONCE, Arc::clone(stop))
            .map_err(Failure::Signals)?;
        flag::register(signal, Arc::clone(stop)).map_err(Failure::Signals)?;
    }
    Ok(())
}

/// From now on a write beyond the file size limit (`ulimit -f`) fails like one to a full
/// disk, instead of ending the process. Child processes have the default action.
pub fn outlive_file_limits() {
    // If the handler cannot be set, the signal keeps its default action.
    let _ = flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// The mask of ignored signals in the text of /proc/PID/status (proc_pid_status(5)),
/// signal 1 at bit 0.
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_found() {
        let status = "Name:\tx\nSigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored_signals(status), 0x1001);
        assert_eq!(ignored_signals("Name:\tx\n"), 0);
        assert_eq!(ignored_signals("SigIgn:\tnone\n"), 0);
    }
}
