//! The side that is asked.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt, fchown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};

use super::message::Answer;
use super::queue::ControlRequest;
use super::serve::{Parsed, Protocol, Refusal, serve};

/// Why a broker cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The socket cannot be made.
    #[error("cannot listen at {socket}: {source}")]
    Listen {
        /// The socket.
        socket: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Its folder is not there and cannot be made.
    #[error("cannot make {folder} for the control socket: {source}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another broker listens there.
    #[error("another broker listens at {0}: expected a `control` of its own for each broker")]
    Taken(PathBuf),
    /// Something else is there.
    #[error("{0} is there and is no socket")]
    NoSocket(PathBuf),
}

/// A socket that requests come over; gone with this value.
pub struct Server {
    socket: PathBuf,
}

impl Server {
    /// Listens at `socket`, and hands requests to `sender`.
    ///
    /// # Errors
    /// [`ControlError`]
    pub fn listen(
        socket: &Path,
        sender: mpsc::Sender<ControlRequest>,
    ) -> Result<Self, ControlError> {
        let failed = |source| ControlError::Listen { socket: socket.to_owned(), source };
        clear(socket)?;
        // Bound under another name first: clients cannot connect before the mode is right.
        let draft = draft_name(socket);
        let _ = std::fs::remove_file(&draft);
        let listener = UnixListener::bind(&draft).map_err(failed)?;
        let ready = open_to_group(&draft).and_then(|()| std::fs::rename(&draft, socket));
        if let Err(error) = ready {
            let _ = std::fs::remove_file(&draft);
            return Err(failed(error));
        }
        let server = Self { socket: socket.to_owned() };
        serve("forebay-control", listener, Lines, sender).map_err(failed)?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread keeps a listener that has no name, and ends with the process.
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Makes the folder of `socket` if only that is missing, as `/run/forebay` is after each
/// start of a machine. It is `owner`'s, and for those of its group.
///
/// # Errors
/// [`ControlError::Folder`]
pub fn make_folder(socket: &Path, owner: Option<(u32, u32)>) -> Result<(), ControlError> {
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => return Ok(()),
    };
    let failed = |source| ControlError::Folder { folder: folder.to_owned(), source };
    match DirBuilder::new().mode(0o750).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    let owned = owner.map_or(Ok(()), |(user, group)| give(folder, user, group));
    owned.map_err(|error| {
        let _ = std::fs::remove_dir(folder);
        failed(error)
    })
}

/// Changes the owner of a folder that this process has just made. Another user who can write
/// beside it may have put a different folder in its place: only our own is changed.
fn give(folder: &Path, user: u32, group: u32) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(folder, flags, Mode::empty())?;
    if rustix::fs::fstat(&made)?.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    fchown(&made, Some(user), Some(group))?;
    Ok(rustix::fs::fchmod(&made, Mode::from(0o750))?)
}

/// Lets the owner and the group connect to a socket that this process has just made. Another
/// user who can write to the folder may have replaced it: no link is followed.
fn open_to_group(socket: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(socket, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&made)?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Through /proc, as fchmod(2) takes no such descriptor.
    let path = format!("/proc/self/fd/{}", made.as_raw_fd());
    std::fs::set_permissions(path, Permissions::from_mode(0o660))
}

/// Says whether there is nothing where a socket is to be made, and not even one that a broker
/// left behind.
///
/// # Errors
/// [`ControlError::NoSocket`], [`ControlError::Taken`].
pub fn is_free(socket: &Path) -> Result<bool, ControlError> {
    let Ok(there) = std::fs::symlink_metadata(socket) else { return Ok(true) };
    if !there.file_type().is_socket() {
        return Err(ControlError::NoSocket(socket.to_owned()));
    }
    if UnixStream::connect(socket).is_ok() {
        return Err(ControlError::Taken(socket.to_owned()));
    }
    Ok(false)
}

/// Removes a socket that a broker left behind.
fn clear(socket: &Path) -> Result<(), ControlError> {
    if is_free(socket)? {
        return Ok(());
    }
    let failed = |source| ControlError::Listen { socket: socket.to_owned(), source };
    std::fs::remove_file(socket).map_err(failed)
}

fn draft_name(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

/// A line of JSON, answered by a line of JSON.
struct Lines;

impl Protocol for Lines {
    // 100,000 flows of IPv6 have 10 MB.
    const MOST_REQUEST: usize = 16 << 20;
    const ASKING: Duration = Duration::from_secs(5);
    // A change may take as long as it does to be prepared.
    const WAITING: Option<Duration> = None;

    fn parse(&self, received: &[u8], parsed: usize) -> Parsed {
        // A long request comes in many parts, of which each is searched once.
        let end = received[parsed..].iter().position(|&byte| byte == b'\n');
        let Some(end) = end else { return Parsed::More };
        match serde_json::from_slice(&received[..parsed + end]) {
            Ok(request) => Parsed::Request(request),
            Err(error) => {
                let why = format!("that is no request: {error}");
                Parsed::Answer(self.answer(Answer::Refused(why)))
            }
        }
    }

    fn answer(&self, answer: Answer) -> Vec<u8> {
        // Values of JSON can all be written.
        let mut line = serde_json::to_vec(&answer).unwrap_or_default();
        line.push(b'\n');
        line
    }

    fn refuse(&self, refusal: Refusal) -> Vec<u8> {
        self.answer(Answer::Refused(refusal.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::thread;

    use serde_json::json;

    use super::super::{AskError, Request, Requests, ask};
    use super::*;

    #[test]
    fn the_sockets_folder_is_made_where_only_that_is_missing() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("run");
        let mode = || std::fs::metadata(&folder).unwrap().permissions().mode() & 0o777;
        make_folder(&folder.join("socket"), None).unwrap();
        assert_eq!(mode(), 0o750);
        // One that is there stays as it is.
        std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        make_folder(&folder.join("socket"), Some((0, 0))).unwrap();
        assert_eq!(mode(), 0o700);
        make_folder(Path::new("socket"), None).unwrap();
        let error = make_folder(&folder.join("neither/socket/socket"), None).unwrap_err();
        assert!(error.to_string().contains("neither/socket for the control socket"), "{error}");
    }

    #[test]
    fn requests_are_heard_and_answered() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let requests = Requests::default();
        let server = Server::listen(&socket, requests.sender()).unwrap();
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let broker = thread::spawn(move || {
            for _ in 0..2 {
                let request = requests.next(Duration::from_secs(10)).unwrap();
                let answer = match request.kind {
                    Request::Status => Answer::Done(json!({ "well": true })),
                    _ => Answer::Refused("not now".to_owned()),
                };
                request.answer(answer);
            }
        });
        assert_eq!(ask(&socket, &Request::Status).unwrap(), json!({ "well": true }));
        let refused = ask(&socket, &Request::Drain).unwrap_err();
        assert!(matches!(&refused, AskError::Refused(why) if why == "not now"), "{refused}");
        broker.join().unwrap();
        let stream = UnixStream::connect(&socket).unwrap();
        (&stream).write_all(b"{\"ask\":\"lunch\"}\n").unwrap();
        let mut answer = String::new();
        BufReader::new(&stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("unknown variant `lunch`"), "{answer}");
        drop(server);
        assert!(!socket.exists());
        assert!(matches!(ask(&socket, &Request::Status), Err(AskError::NoBroker { .. })));
    }

    #[test]
    fn the_mode_of_what_a_link_leads_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        std::fs::write(&victim, "precious").unwrap();
        std::fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        assert!(open_to_group(&link).is_err() && open_to_group(&victim).is_err());
        assert_eq!(std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_socket_in_use_is_left_alone_and_one_left_behind_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let requests = Requests::default();
        let listen = || Server::listen(&socket, requests.sender());
        let first = listen().unwrap();
        assert!(matches!(listen(), Err(ControlError::Taken(_))));
        drop(first);
        drop(UnixListener::bind(&socket).unwrap());
        assert!(listen().is_ok());
        std::fs::write(&socket, "text").unwrap();
        assert!(matches!(listen(), Err(ControlError::NoSocket(_))));
        assert_eq!(std::fs::read(&socket).unwrap(), b"text");
    }
}
