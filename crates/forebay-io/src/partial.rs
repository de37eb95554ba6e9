//! Files that can be read while they grow: `NAME.partial`, renamed to NAME when complete.
//!
//! They may be in a folder of a user with fewer rights than this process: all operations
//! are relative to the folder's descriptor, and symbolic links are not followed. The file
//! is locked (flock(2)) while it grows. If there is a `NAME.partial` of a killed process,
//! it is kept as `NAME.partial.old`, and a later one as `NAME.partial.old2` and so on.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// The suffix of a growing file, and of one left by a killed process.
const PARTIAL: &str = ".partial";
const OLD: &str = ".partial.old";

/// The most files of killed processes that are kept for one name.
const MOST_OLD: usize = 1_000;

/// Attempts to create the name while other processes take it.
const ATTEMPTS: usize = 16;

/// A file `NAME.partial`.
pub(crate) struct Partial {
    folder: OwnedFd,
    name: OsString,
    /// Its final name in that folder.
    target: OsString,
}

impl Partial {
    /// Creates the file that grows until it is `path`. If that is a device or a pipe and
    /// `streams` are allowed, it is written directly, after waiting for a reader of a FIFO,
    /// and there is no partial file.
    ///
    /// # Errors
    /// The system's; if `path` is a symbolic link or a stream that is not allowed; or if
    /// another process writes it.
    pub(crate) fn create(path: &Path, streams: bool) -> io::Result<(File, Option<Self>)> {
        let Some(target) = path.file_name() else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(directory(path), flags, Mode::empty())?;
        match kind(&folder, target)? {
            None | Some(FileType::RegularFile) => {}
            Some(FileType::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(other) if streams && other != FileType::Symlink => {
                return Ok((stream(&folder, target)?, None));
            }
            Some(other) => {
                let what = format!("it is {}: expected the name of a file", named(other));
                return Err(io::Error::other(what));
            }
        }
        let name = with_suffix(target, PARTIAL);
        for _ in 0..ATTEMPTS {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&folder, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => {
                    let file = File::from(file);
                    // A process that began at the same time may have set it aside by now.
                    if lock(&file).is_ok() && is_still(&folder, &name, &file)? {
                        let target = target.to_owned();
                        return Ok((file, Some(Self { folder, name, target })));
                    }
                }
                Err(Errno::EXIST) => set_aside(&folder, &name, &with_suffix(target, OLD))?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(is_written())
    }

    /// Removes the file.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn remove(&self) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Renames the file in its folder: to the name for which it was created, or to `other`.
    ///
    /// # Errors
    /// The system's. The file keeps its partial name then.
    pub(crate) fn finish(&self, other: Option<&OsStr>) -> io::Result<()> {
        let target = other.unwrap_or(&self.target);
        Ok(rustix::fs::renameat(&self.folder, &self.name, &self.folder, target)?)
    }
}

/// Renames the file of a killed process, to keep it.
fn set_aside(folder: &OwnedFd, name: &OsStr, old: &OsStr) -> io::Result<()> {
    match kind(folder, name)? {
        None => return Ok(()),
        Some(FileType::RegularFile) => {}
        Some(_) => {
            let name = name.display();
            return Err(io::Error::other(format!("{name} is there and is no file")));
        }
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    lock(&file).map_err(|_| is_written())?;
    if is_still(folder, name, &file)? {
        return rename_to_free(folder, name, old);
    }
    Ok(())
}

/// Renames a file to `old`, or to the first free name with a number appended.
fn rename_to_free(folder: &OwnedFd, name: &OsStr, old: &OsStr) -> io::Result<()> {
    for number in 1..=MOST_OLD {
        let suffix = if number == 1 { String::new() } else { number.to_string() };
        let free = with_suffix(old, &suffix);
        let renamed =
            match rustix::fs::renameat_with(folder, name, folder, &free, RenameFlags::NOREPLACE) {
                // The file system does not support "no replace": check first.
                Err(Errno::INVAL | Errno::NOSYS) => match kind(folder, &free)? {
                    Some(_) => Err(Errno::EXIST),
                    None => rustix::fs::renameat(folder, name, folder, &free),
                },
                renamed => renamed,
            };
        match renamed {
            Err(Errno::EXIST) => {}
            renamed => return Ok(renamed?),
        }
    }
    let old = old.display();
    Err(io::Error::other(format!("{MOST_OLD} files {old} are there: expected one name to be free")))
}

fn is_written() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process writes it")
}

/// Opens a device or pipe for writing.
fn stream(folder: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    let opened = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    // The stream was replaced by a file meanwhile; existing files are never overwritten.
    if opened == FileType::RegularFile {
        Err(io::ErrorKind::AlreadyExists.into())
    } else {
        Ok(File::from(file))
    }
}

/// The description of a file type that is not accepted.
fn named(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    }
}

/// The type of the file with a name, if there is one.
fn kind(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<FileType>> {
    Ok(stat(folder, name)?.map(|found| FileType::from_raw_mode(found.st_mode)))
}

fn stat(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a name refers to an open file.
fn is_still(folder: &OwnedFd, name: &OsStr, file: &File) -> io::Result<bool> {
    let opened = rustix::fs::fstat(file)?;
    let found = stat(folder, name)?;
    Ok(found.is_some_and(|found| (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)))
}

fn with_suffix(name: &OsStr, suffix: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(suffix);
    name
}

/// Takes the lock that marks a file as being written. Returns false if the file system has
/// no locks: then no file is considered stale either.
pub(crate) fn lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(io::ErrorKind::WouldBlock.into()),
        Err(_) => Ok(false),
    }
}

/// The folder of a file.
pub(crate) fn directory(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_that_grows_says_so_and_what_a_killed_process_left_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        fs::write(at("out"), "before").unwrap();
        let (mut file, partial) = Partial::create(&at("out"), true).unwrap();
        file.write_all(b"one").unwrap();
        assert_eq!((read("out"), read("out.partial")), ("before".to_owned(), "one".to_owned()));
        let taken = Partial::create(&at("out"), true).err().unwrap().to_string();
        assert_eq!(taken, "another process writes it");
        // The lock ends with the process.
        drop((file, partial));
        let (mut file, partial) = Partial::create(&at("out"), true).unwrap();
        assert_eq!(read("out.partial.old"), "one");
        file.write_all(b"two").unwrap();
        partial.unwrap().finish(None).unwrap();
        assert_eq!(read("out"), "two");
        assert!(!at("out.partial").exists() && read("out.partial.old") == "one");
        for left in ["three", "four"] {
            fs::write(at("out.partial"), left).unwrap();
            drop(Partial::create(&at("out"), true).unwrap());
            fs::remove_file(at("out.partial")).unwrap();
        }
        let kept = ["out.partial.old", "out.partial.old2", "out.partial.old3"].map(read);
        assert_eq!(kept, ["one", "three", "four"]);
    }

    #[test]
    fn so_many_files_of_killed_processes_are_kept_and_no_more_begun() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("out.partial.old"), "").unwrap();
        for number in 2..MOST_OLD {
            fs::write(at(&format!("out.partial.old{number}")), "").unwrap();
        }
        for left in ["the last", "one more"] {
            fs::write(at("out.partial"), left).unwrap();
            let begun = Partial::create(&at("out"), true);
            if left == "the last" {
                drop(begun.unwrap());
                assert_eq!(fs::read_to_string(at("out.partial.old1000")).unwrap(), left);
            } else {
                let refused = begun.err().unwrap().to_string();
                assert!(refused.starts_with("1000 files out.partial.old are there"), "{refused}");
                assert_eq!(fs::read_to_string(at("out.partial")).unwrap(), left);
            }
        }
    }

    #[test]
    fn streams_are_refused_where_they_are_not_allowed_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        // Without a reader, and with one.
        for with_reader in [false, true] {
            let reader =
                with_reader.then(|| File::options().read(true).write(true).open(&fifo).unwrap());
            let refused = Partial::create(&fifo, false).err().unwrap().to_string();
            assert_eq!(refused, "it is a FIFO: expected the name of a file");
            drop(reader);
        }
        let refused = Partial::create(Path::new("/dev/null"), false).err().unwrap().to_string();
        assert_eq!(refused, "it is a device: expected the name of a file");
        assert!(Partial::create(Path::new("/dev/null"), true).unwrap().1.is_none());
    }

    #[test]
    fn links_are_not_followed_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("out")).unwrap();
        let refused = Partial::create(&at("out"), true).err().unwrap().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        symlink(at("victim"), at("x.partial")).unwrap();
        let refused = Partial::create(&at("x"), true).err().unwrap().to_string();
        assert!(refused.contains("x.partial is there and is no file"), "{refused}");
        // One that comes later is replaced, and what it leads to is not.
        let (_file, partial) = Partial::create(&at("late"), true).unwrap();
        symlink(at("victim"), at("late")).unwrap();
        partial.unwrap().finish(None).unwrap();
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "precious");
        assert!(fs::symlink_metadata(at("late")).unwrap().is_file());
    }
}
