//! Reads whole files: configurations, rule lists, filter expressions.
//!
//! Every such file has a limit, so that an endless device or a wrong path costs an error
//! message and no memory. A program that must not wait for its input reads regular files
//! only ([`read`] with [`Source::Regular`]): a FIFO blocks its reader until another process
//! writes, and opening some devices has side effects. The file is still opened without
//! blocking, because the path may refer to another file by then, and because some files in
//! `/proc` and `/sys` are reported as regular and wait for events.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The longest configuration of a broker, in bytes.
pub const MOST_CONFIG: u64 = 1 << 20;

/// The longest file of rules, in bytes: a million rules, and some comments.
pub const MOST_RULES: u64 = 128 << 20;

/// The longest file of literals, in bytes: a million of 60 bytes each, in hexadecimal.
pub const MOST_LITERALS: u64 = 128 << 20;

/// The longest file with a filter expression or a BPF program, in bytes.
pub const MOST_FILTER: u64 = 16 << 20;

/// The accepted types of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A regular file, directly or through a symbolic link.
    Regular,
    /// Anything readable, including pipes. The path `-` is standard input.
    Any,
}

/// Why a file cannot be read whole. Messages do not name the file.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A system call failed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// It is not a regular file.
    #[error("it is {found}, expected a regular file")]
    NotRegular {
        /// The type of the file.
        found: &'static str,
    },
    /// It is too long.
    #[error("it has more than {most} bytes, the most that {what} may have")]
    TooLong {
        /// The kind of content.
        what: &'static str,
        /// The limit, in bytes.
        most: u64,
    },
    /// It is not in UTF-8.
    #[error("line {line} has byte {byte:#04x}, expected text in UTF-8")]
    NotText {
        /// The line, from 1.
        line: usize,
        /// The first invalid byte.
        byte: u8,
    },
}

/// Reads the text of a file of at most `most` bytes; `what` is its kind in the error.
///
/// # Errors
/// [`TextError`]
pub fn read(
    path: &Path,
    source: Source,
    what: &'static str,
    most: u64,
) -> Result<String, TextError> {
    String::from_utf8(read_bytes(path, source, what, most)?).map_err(|error| {
        let (before, rest) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        TextError::NotText { line, byte: rest.first().copied().unwrap_or_default() }
    })
}

/// Reads the bytes of a file, as [`read`] does.
///
/// # Errors
/// [`TextError`], except the last variant.
pub fn read_bytes(
    path: &Path,
    source: Source,
    what: &'static str,
    most: u64,
) -> Result<Vec<u8>, TextError> {
    match source {
        Source::Any if path == Path::new("-") => bounded(io::stdin().lock(), 0, what, most),
        Source::Any => bounded(File::open(path)?, 0, what, most),
        Source::Regular => {
            let (file, len) = open_regular(path)?;
            if len > most {
                return Err(TextError::TooLong { what, most });
            }
            bounded(file, len, what, most)
        }
    }
}

/// Opens a regular file without blocking; returns it and its length.
fn open_regular(path: &Path) -> Result<(File, u64), TextError> {
    let judged = |metadata: Metadata| match other_kind(metadata.file_type()) {
        Some(found) => Err(TextError::NotRegular { found }),
        None => Ok(metadata.len()),
    };
    // Checked before opening, which has side effects for devices, and after it, as the name
    // may refer to another file by then.
    judged(fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let len = judged(file.metadata()?)?;
    Ok((file, len))
}

/// The type of a file that is not regular.
fn other_kind(kind: FileType) -> Option<&'static str> {
    Some(match () {
        () if kind.is_file() => return None,
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() => "a character device",
        () if kind.is_block_device() => "a block device",
        () => "of another kind",
    })
}

/// All of `input`, of about `len` bytes, unless it exceeds `most`.
fn bounded(
    input: impl Read,
    len: u64,
    what: &'static str,
    most: u64,
) -> Result<Vec<u8>, TextError> {
    let mut bytes = Vec::new();
    let capacity = usize::try_from(len.min(most)).unwrap_or(0);
    bytes.try_reserve_exact(capacity).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    input.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(TextError::TooLong { what, most });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    fn regular(path: &Path) -> Result<String, String> {
        read(path, Source::Regular, "a trial", 16).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| -> PathBuf {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let longest = "sixteen bytes...";
        assert_eq!(regular(&file("longest", longest.as_bytes())).unwrap(), longest);
        let longer = regular(&file("longer", b"seventeen bytes..")).unwrap_err();
        assert_eq!(longer, "it has more than 16 bytes, the most that a trial may have");
        let binary = regular(&file("binary", b"a\nb\xffc")).unwrap_err();
        assert_eq!(binary, "line 2 has byte 0xff, expected text in UTF-8");
        assert!(regular(&folder.path().join("none")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn what_is_no_regular_file_is_named_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, socket) = (folder.path().join("fifo"), folder.path().join("socket"));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, found) in [
            (fifo.as_path(), "a FIFO"),
            (socket.as_path(), "a socket"),
            (folder.path(), "a directory"),
            (link.as_path(), "a character device"),
        ] {
            let error = regular(path).unwrap_err();
            assert_eq!(error, format!("it is {found}, expected a regular file"));
        }
    }

    #[test]
    fn input_without_an_end_costs_no_more_than_the_limit() {
        let endless = read(Path::new("/dev/zero"), Source::Any, "a trial", 1 << 16);
        assert!(matches!(endless, Err(TextError::TooLong { most: 65_536, .. })), "{endless:?}");
        // Files of /proc have no length that is known before.
        assert!(read(Path::new("/proc/self/status"), Source::Regular, "a trial", 1 << 16).is_ok());
    }
}
