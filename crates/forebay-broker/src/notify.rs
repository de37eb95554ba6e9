//! Tells the service manager how things stand (sd_notify(3)).
//!
//! Where the environment names a socket, one datagram a message goes there: that the broker
//! is ready, reads its configuration again, ends. Where it also sets an interval, the
//! watchdog is fed: only when the caller vouches for everything being on the move, so that
//! a broker that hangs is started again.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::time::{ClockId, clock_gettime};

/// Times that the watchdog is fed while it would wait once.
const MEALS: u64 = 3;

/// The environment's variables.
#[derive(Clone, Copy, Debug, Default)]
struct Variables<'a> {
    socket: Option<&'a OsStr>,
    watchdog_usec: Option<&'a OsStr>,
    watchdog_pid: Option<&'a OsStr>,
}

/// The service manager, if there is one that takes notifications.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<UnixDatagram>,
    /// Nanoseconds between two meals of the watchdog, and when it had the last.
    every: Option<u64>,
    fed: u64,
}

impl Notifier {
    /// Who the environment names.
    ///
    /// # Errors
    /// No process listens at the address that the variable names.
    pub fn from_environment() -> io::Result<Self> {
        let variable = std::env::var_os;
        let (socket, usec) = (variable("NOTIFY_SOCKET"), variable("WATCHDOG_USEC"));
        let pid = variable("WATCHDOG_PID");
        Self::of(Variables {
            socket: socket.as_deref(),
            watchdog_usec: usec.as_deref(),
            watchdog_pid: pid.as_deref(),
        })
    }

    fn of(variables: Variables<'_>) -> io::Result<Self> {
        let Some(name) = variables.socket.filter(|name| !name.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match name.as_bytes() {
            // A name that is no file's.
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A service manager that does not read must not hold the broker.
        socket.set_nonblocking(true)?;
        let number = |text: Option<&OsStr>| text?.to_str()?.parse::<u64>().ok();
        let pid = number(variables.watchdog_pid);
        let is_meant = pid.is_none_or(|pid| pid == u64::from(std::process::id()));
        let usec = number(variables.watchdog_usec).filter(|&usec| usec > 0 && is_meant);
        let every = usec.map(|usec| usec.saturating_mul(1_000) / MEALS);
        Ok(Self { socket: Some(socket), every, fed: 0 })
    }

    /// The broker takes packets, with this `status`.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", status.replace('\n', " ")));
    }

    /// It reads its configuration again, and will be ready when it is through with that.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// It passes on what it has, and ends.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    /// Feeds the watchdog if it is time, at `now` in nanoseconds, and `is_well` reports that
    /// all is on the move.
    pub fn feed(&mut self, now: u64, is_well: impl FnOnce() -> bool) {
        let Some(every) = self.every else { return };
        if now.saturating_sub(self.fed) >= every && is_well() {
            self.fed = now;
            self.say("WATCHDOG=1");
        }
    }

    fn say(&self, message: &str) {
        if let Some(socket) = &self.socket {
            // Who does not listen any more misses nothing.
            let _ = socket.send(message.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager() -> (tempfile::TempDir, UnixDatagram, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        (folder, socket, path)
    }

    fn heard(socket: &UnixDatagram) -> Option<String> {
        let mut message = [0; 256];
        let len = socket.recv(&mut message).ok()?;
        Some(String::from_utf8_lossy(&message[..len]).into_owned())
    }

    #[test]
    fn the_manager_hears_how_things_stand() {
        let (_folder, socket, path) = manager();
        let variables = Variables { socket: Some(path.as_os_str()), ..Variables::default() };
        let mut notifier = Notifier::of(variables).unwrap();
        notifier.ready("3 of 3\nsensors");
        assert_eq!(heard(&socket).as_deref(), Some("READY=1\nSTATUS=3 of 3 sensors"));
        notifier.reloading();
        let reloading = heard(&socket).unwrap();
        let usec = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(usec.parse::<u64>().unwrap() > 0);
        notifier.stopping();
        assert_eq!(heard(&socket).as_deref(), Some("STOPPING=1"));
        notifier.feed(u64::MAX, || true);
        assert_eq!(heard(&socket), None, "there is no watchdog");
        drop(socket);
        notifier.stopping();
        assert!(Notifier::of(variables).is_err());
    }

    #[test]
    fn the_watchdog_is_fed_in_time_and_only_when_all_is_well() {
        let (_folder, socket, path) = manager();
        let own = std::process::id().to_string();
        let variables = Variables {
            socket: Some(path.as_os_str()),
            watchdog_usec: Some(OsStr::new("3000000")),
            watchdog_pid: Some(OsStr::new(&own)),
        };
        let mut notifier = Notifier::of(variables).unwrap();
        let second = 1_000_000_000;
        notifier.feed(second - 1, || true);
        assert_eq!(heard(&socket), None);
        notifier.feed(second, || false);
        assert_eq!(heard(&socket), None);
        notifier.feed(second + 1, || true);
        assert_eq!(heard(&socket).as_deref(), Some("WATCHDOG=1"));
        notifier.feed(second + 2, || true);
        assert_eq!(heard(&socket), None);
        let other = Variables { watchdog_pid: Some(OsStr::new("1")), ..variables };
        Notifier::of(other).unwrap().feed(u64::MAX, || true);
        assert_eq!(heard(&socket), None, "the watchdog of another process");
    }

    #[test]
    fn without_a_manager_nothing_is_said() {
        for socket in [None, Some(OsStr::new(""))] {
            let notifier = Notifier::of(Variables { socket, ..Variables::default() }).unwrap();
            notifier.stopping();
            assert!(notifier.socket.is_none());
        }
    }
}
