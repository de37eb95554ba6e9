//! The client side.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::message::{Answer, Request};

/// The longest answer, in bytes.
const MOST_ANSWER: u64 = 64 << 20;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take until the broker has built what a changed configuration names.
const PATIENCE_TO_RELOAD: Duration = Duration::from_secs(300);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No broker listens there.
    #[error("no broker answers at {socket}: {source}")]
    NoBroker {
        /// The socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("the broker at {socket} does not answer: {source}")]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What came is no answer.
    #[error("what listens at {socket} is no broker of this version: {source}")]
    Foreign {
        /// The socket.
        socket: PathBuf,
        /// What is wrong with the answer.
        source: serde_json::Error,
    },
    /// The broker refuses.
    #[error("{0}")]
    Refused(String),
}

/// Asks the broker that listens at `socket`.
///
/// # Errors
/// [`AskError`]
pub fn ask(socket: &Path, request: &Request) -> Result<Value, AskError> {
    let no_broker = |source| AskError::NoBroker { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket).map_err(no_broker)?;
    let line = converse(stream, request)
        .map_err(|source| AskError::Broken { socket: socket.to_owned(), source })?;
    let foreign = |source| AskError::Foreign { socket: socket.to_owned(), source };
    match serde_json::from_str(&line).map_err(foreign)? {
        Answer::Done(value) => Ok(value),
        Answer::Refused(why) => Err(AskError::Refused(why)),
    }
}

fn converse(mut stream: UnixStream, request: &Request) -> io::Result<String> {
    let builds =
        matches!(request, Request::Reload | Request::Rules { .. } | Request::EditRules { .. });
    let patience = if builds { PATIENCE_TO_RELOAD } else { PATIENCE };
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    // Where the broker takes no request, because it is busy, it has already answered so.
    let asked = stream.write_all(line.as_bytes());
    let mut answer = String::new();
    let heard = BufReader::new(stream).take(MOST_ANSWER).read_line(&mut answer);
    if !answer.ends_with('\n') {
        asked?;
        heard?;
    }
    if answer.ends_with('\n') {
        Ok(answer)
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer breaks off"))
    }
}
