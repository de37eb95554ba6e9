//! Streams that a visitor may keep us at until a time, however slowly he goes on.
//!
//! A time-out of a socket is for one call. Who sends a byte now and then would never run
//! into it; so before each call it is set to what is left.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A stream whose calls can be bounded in time.
pub(crate) trait Bounded {
    /// The longest that one read takes.
    fn bound_read(&self, left: Duration) -> io::Result<()>;

    /// The longest that one write takes.
    fn bound_write(&self, left: Duration) -> io::Result<()>;
}

impl Bounded for UnixStream {
    fn bound_read(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn bound_write(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }
}

impl Bounded for TcpStream {
    fn bound_read(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn bound_write(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }
}

/// A stream until a time.
pub(crate) struct Deadline<'a, S> {
    stream: &'a S,
    until: Instant,
}

impl<'a, S> Deadline<'a, S> {
    /// `stream` for `patience` from now.
    pub(crate) fn of(stream: &'a S, patience: Duration) -> Self {
        Self { stream, until: Instant::now() + patience }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl<S: Bounded> Read for Deadline<'_, S>
where
    for<'b> &'b S: Read,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.bound_read(self.left()?)?;
        let mut stream = self.stream;
        stream.read(bytes)
    }
}

impl<S: Bounded> Write for Deadline<'_, S>
where
    for<'b> &'b S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.bound_write(self.left()?)?;
        let mut stream = self.stream;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stream = self.stream;
        stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_a_byte_now_and_then_is_not_heard_for_ever() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let slow = std::thread::spawn(move || {
            let mut theirs = theirs;
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut bytes = Vec::new();
        let heard = Deadline::of(&ours, Duration::from_secs(1)).read_to_end(&mut bytes);
        assert!(heard.is_err() && !bytes.is_empty());
        drop(ours);
        slow.join().unwrap();
    }
}
