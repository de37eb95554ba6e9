//! Suricata's counters, from its command socket or its events.
//!
//! The protocol of the socket: a line of JSON in each direction, the first with the
//! protocol's version (Suricata's user guide, "Interacting via Unix Socket").
//! `dump-counters` returns the counters as of the last `stats.interval`.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::total::Reading;

/// Time-out of an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest answer: counters of many threads.
const ANSWER: usize = 4 << 20;

/// Suricata's command socket.
pub struct Socket {
    path: PathBuf,
    open: Option<UnixStream>,
}

impl Socket {
    pub fn new(path: PathBuf) -> Self {
        Self { path, open: None }
    }

    /// Queries the statistics.
    pub fn ask(&mut self) -> io::Result<Reading> {
        let mut socket = match self.open.take() {
            Some(socket) => socket,
            None => self.connect()?,
        };
        let answer = ask(&mut socket, &json!({"command": "dump-counters"}))?;
        self.open = Some(socket);
        reading_in(&answer["message"])
            .ok_or_else(|| io::Error::other("its counters have no capture.kernel_drops"))
    }

    fn connect(&self) -> io::Result<UnixStream> {
        let mut socket = UnixStream::connect(&self.path)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        ask(&mut socket, &json!({"version": "0.2"}))?;
        Ok(socket)
    }
}

/// Sends a line and reads the answer.
fn ask(socket: &mut UnixStream, question: &Value) -> io::Result<Value> {
    socket.write_all(format!("{question}\n").as_bytes())?;
    let until = Instant::now() + PATIENCE;
    let (mut answer, mut some) = (Vec::new(), [0; 16 << 10]);
    while !answer.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::other("it does not answer"));
        }
        if answer.len() > ANSWER {
            return Err(io::Error::other(format!("an answer of more than {ANSWER} bytes")));
        }
        socket.set_read_timeout(Some(left))?;
        match socket.read(&mut some) {
            Ok(0) => return Err(io::Error::other("it closed the connection")),
            Ok(read) => answer.extend_from_slice(&some[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let answer: Value = serde_json::from_slice(&answer)?;
    match answer["return"].as_str() {
        Some("OK") => Ok(answer),
        _ => Err(io::Error::other("it refuses the question")),
    }
}

/// The statistics in `line`, if it is a `stats` event.
pub fn reading_in_event(line: &[u8]) -> Option<Reading> {
    // Most events are of other types; check cheaply first.
    let mark = b"\"stats\"";
    line.windows(mark.len()).any(|bytes| bytes == mark).then_some(())?;
    let event: Value = serde_json::from_slice(line).ok()?;
    (event["event_type"] == "stats").then(|| reading_in(&event["stats"]))?
}

/// The statistics in Suricata's counters.
fn reading_in(counters: &Value) -> Option<Reading> {
    let dropped = counters.pointer("/capture/kernel_drops")?.as_u64()?;
    Some(Reading { dropped, uptime: counters["uptime"].as_u64() })
}
