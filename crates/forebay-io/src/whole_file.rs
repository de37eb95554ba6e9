//! A file that appears under its name only when it is complete.
//!
//! While it is written it has no name at all (O_TMPFILE), so nothing remains if the process
//! is killed. On file systems without support for that, it has a hidden name in the same
//! folder and is locked (flock(2)): a hidden file without a lock was left by a killed
//! process, and is removed by the next output to that folder. At the end the file is linked
//! to its name or, if the name is taken, to a hidden name and renamed, which replaces the
//! existing file atomically. Until then the existing file remains.
//!
//! Standard output, devices and pipes are written directly. A file that can be read while
//! it grows is `NAME.partial` until it is complete: see [`crate::partial`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::partial::{Partial, directory, lock};

/// The most entries of a folder that are examined for files of killed processes, and the
/// most folders examined.
const MOST_ENTRIES: usize = 100_000;
const MOST_FOLDERS: usize = 64;

/// The location of an output until it is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Invisible. An existing file remains until the output is complete.
    #[default]
    Hidden,
    /// In `NAME.partial`, readable while it grows. A symbolic link at NAME is followed.
    Growing,
    /// As [`Placement::Growing`], for a process that may have more rights than the owner of
    /// the folder, and that must not wait: anything but a regular file at NAME is refused.
    GrowingBeneath,
}

/// An output being written. If dropped before it is finished, only `NAME.partial` remains.
pub struct WholeFile {
    file: File,
    state: FileState,
}

enum FileState {
    /// Written directly, or finished.
    Stream,
    /// Without a name.
    Unnamed,
    /// Under a hidden name.
    Hidden(PathBuf),
    /// The partial file, and the requested name.
    Partial(Partial, PathBuf),
}

impl WholeFile {
    /// Starts an output with the final name `path`; `-` is standard output.
    ///
    /// # Errors
    /// The system's, if it cannot be created.
    pub fn create(path: &Path, placement: Placement) -> io::Result<Self> {
        if path.as_os_str() == "-" {
            let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
            return Ok(Self { file, state: FileState::Stream });
        }
        match placement {
            Placement::Hidden => {}
            Placement::Growing => return Self::growing(path, &destination(path), true),
            Placement::GrowingBeneath => return Self::growing(path, path, false),
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(path)?;
                return Ok(Self { file, state: FileState::Stream });
            }
            _ => {}
        }
        let folder = directory(&destination(path));
        remove_stale_once(&folder);
        // If the folder is not usable, creating a file with a name fails as well and
        // reports the error.
        unnamed(&folder).or_else(|_| hidden(&folder, lock))
    }

    /// A file that grows until it is `target`, to which `path` resolves, or a stream if
    /// `streams` are allowed.
    fn growing(path: &Path, target: &Path, streams: bool) -> io::Result<Self> {
        let (file, partial) = Partial::create(target, streams)?;
        let partial = partial.map(|partial| FileState::Partial(partial, path.to_owned()));
        Ok(Self { file, state: partial.unwrap_or(FileState::Stream) })
    }

    /// Whether written data is passed on at once and cannot be withdrawn.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self.state, FileState::Stream)
    }

    /// Truncates the file to `len` bytes; further data follows these.
    ///
    /// # Errors
    /// The system's.
    pub fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len)).map(drop)
    }

    /// The data written so far, if it can be read and the file has no visible name yet.
    pub(crate) fn read_back(&self) -> Option<io::Result<Box<dyn Read + Send>>> {
        if !matches!(self.state, FileState::Unnamed | FileState::Hidden(_)) {
            return None;
        }
        let from_start = || {
            let mut file = self.file.try_clone()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(Box::new(file) as Box<dyn Read + Send>)
        };
        Some(from_start())
    }

    /// Allocates the space needed in the folder of `path`, so that of several outputs
    /// either all get their names or none.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn prepare(&mut self, path: &Path) -> io::Result<()> {
        if !matches!(self.state, FileState::Unnamed) {
            return Ok(());
        }
        let folder = directory(&destination(path));
        loop {
            let name = folder.join(hidden_name());
            match link(&self.file, &name) {
                Ok(()) => {
                    self.state = FileState::Hidden(name);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes what was written, as far as it is in a file.
    ///
    /// # Errors
    /// The system's, if a file `NAME.partial` cannot be removed.
    pub fn discard(self) -> io::Result<()> {
        match &self.state {
            FileState::Partial(partial, _) => partial.remove(),
            FileState::Stream | FileState::Unnamed | FileState::Hidden(_) => Ok(()),
        }
    }

    /// Completes the output under its name, which must be in the directory passed to
    /// [`WholeFile::create`].
    ///
    /// # Errors
    /// The system's, if it cannot be named. A file `NAME.partial` remains then.
    pub fn finish(mut self, path: &Path) -> io::Result<()> {
        if let FileState::Partial(partial, asked) = &self.state {
            // The link's target when the file was started, whatever it is now.
            return partial.finish(path.file_name().filter(|_| path != asked));
        }
        let target = destination(path);
        if matches!(self.state, FileState::Unnamed) {
            match link(&self.file, &target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.prepare(path)?,
                done => return done,
            }
        }
        if let FileState::Hidden(name) = &self.state {
            fs::rename(name, target)?;
            self.state = FileState::Stream;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let FileState::Hidden(name) = &self.state {
            // An error cannot be reported in `drop`.
            let _ = fs::remove_file(name);
        }
    }
}

/// A file without a name, if the file system supports it.
fn unnamed(folder: &Path) -> io::Result<WholeFile> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666))?);
    // Without /proc it could not be linked at the end.
    fs::symlink_metadata(by_descriptor(&file))?;
    lock(&file)?;
    Ok(WholeFile { file, state: FileState::Unnamed })
}

/// A file under a hidden name, locked by `lock`.
fn hidden(folder: &Path, lock: fn(&File) -> io::Result<bool>) -> io::Result<WholeFile> {
    loop {
        let name = folder.join(hidden_name());
        match OpenOptions::new().read(true).write(true).create_new(true).open(&name) {
            Ok(file) => match lock(&file) {
                // Locked; or the file system has no locks, and no file is taken for stale.
                Ok(_) if rustix::fs::fstat(&file)?.st_nlink > 0 => {
                    return Ok(WholeFile { file, state: FileState::Hidden(name) });
                }
                Ok(_) => {}
                // Another output considers it stale, and removes it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            },
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes hidden files of killed processes from a folder, the first time it is used.
fn remove_stale_once(folder: &Path) {
    static EXAMINED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    if is_first(&mut EXAMINED.lock().unwrap_or_else(PoisonError::into_inner), folder) {
        remove_stale(folder, MOST_ENTRIES);
    }
}

/// Records a folder as examined; returns whether it was not before. False beyond the limit
/// of folders.
fn is_first(examined: &mut Vec<PathBuf>, folder: &Path) -> bool {
    let is_first = examined.len() < MOST_FOLDERS && !examined.iter().any(|known| known == folder);
    if is_first {
        examined.push(folder.to_owned());
    }
    is_first
}

/// Removes hidden files that no process has locked, among the first `most` entries of a
/// folder. Files that cannot be opened or removed remain, which is harmless.
fn remove_stale(folder: &Path, most: usize) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.take(most).flatten() {
        let name = entry.file_name();
        let is_ours = name
            .to_str()
            .is_some_and(|name| name.starts_with(".forebay-") && name.ends_with(".part"));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(entry.path());
        if opened.is_ok_and(|file| lock(&file).is_ok_and(|locked| locked)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Links an unnamed file to a name. [`io::ErrorKind::AlreadyExists`] if the name is taken.
fn link(file: &File, name: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, by_descriptor(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
}

fn by_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Whether data written to `path` is passed on at once and cannot be withdrawn: standard
/// output, a FIFO, a device.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-" || fs::metadata(path).is_ok_and(|found| !found.is_file())
}

/// The target of `path`: a link's target is replaced, not the link.
fn destination(path: &Path) -> PathBuf {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
        }
        _ => path.to_owned(),
    }
}

/// A unique hidden name within this process.
fn hidden_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!(".forebay-{}-{n}.part", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Both ways to write an output that is not visible yet.
    const WAYS: [fn(&Path) -> io::Result<WholeFile>; 2] = [unnamed, |folder| hidden(folder, lock)];

    #[test]
    fn an_output_replaces_what_has_its_name_when_it_is_whole() {
        for way in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            for (text, prepared) in [("first", false), ("second", false), ("third", true)] {
                let mut file = way(folder.path()).unwrap();
                file.write_all(text.as_bytes()).unwrap();
                assert_ne!(fs::read_to_string(&path).unwrap_or_default(), text);
                if prepared {
                    file.prepare(&path).unwrap();
                    assert_eq!(names_in(folder.path()).len(), 2);
                }
                file.finish(&path).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
                assert_eq!(names_in(folder.path()), ["out"]);
            }
            let mut given_up = way(folder.path()).unwrap();
            given_up.prepare(&path).unwrap();
            drop(given_up);
            assert_eq!(names_in(folder.path()), ["out"]);
            assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        }
    }

    #[test]
    fn a_name_that_cannot_be_replaced_leaves_nothing_hidden() {
        for way in WAYS {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("out");
            fs::create_dir(&path).unwrap();
            assert!(way(folder.path()).unwrap().finish(&path).is_err());
            assert_eq!(names_in(folder.path()), ["out"]);
        }
    }

    #[test]
    fn only_files_without_a_writer_are_stale() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".forebay-1-0.part", ".forebay-x.part", ".forebay-1-0", "forebay-1-0.part"] {
            fs::write(at(name), "left").unwrap();
        }
        std::os::unix::fs::symlink(at("elsewhere"), at(".forebay-2-0.part")).unwrap();
        let mut writing = hidden(folder.path(), lock).unwrap();
        let mut linked = unnamed(folder.path()).unwrap();
        linked.prepare(&at("out")).unwrap();
        remove_stale(folder.path(), MOST_ENTRIES);
        let kept = [".forebay-1-0", ".forebay-2-0.part", "forebay-1-0.part"];
        let left = names_in(folder.path());
        assert!(kept.iter().all(|name| left.iter().any(|left| left == name)), "{left:?}");
        assert_eq!(left.len(), kept.len() + 2, "{left:?}");
        writing.write_all(b"whole").unwrap();
        writing.finish(&at("out")).unwrap();
        assert_eq!(fs::read_to_string(at("out")).unwrap(), "whole");
    }

    #[test]
    fn of_many_entries_and_folders_the_first_are_examined() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..10 {
            fs::write(folder.path().join(format!(".forebay-1-{number}.part")), "left").unwrap();
        }
        remove_stale(folder.path(), 4);
        assert_eq!(names_in(folder.path()).len(), 6);
        let mut examined = Vec::new();
        let folders: Vec<PathBuf> =
            (0..=MOST_FOLDERS).map(|number| number.to_string().into()).collect();
        let first = |folder: &PathBuf| is_first(&mut examined, folder);
        let found: Vec<bool> = folders.iter().chain(&folders).map(first).collect();
        let expected = (0..2 * folders.len()).map(|number| number < MOST_FOLDERS);
        assert!(found.into_iter().eq(expected));
    }

    #[test]
    fn a_file_system_without_locks_takes_hidden_files() {
        static TRIES: AtomicU64 = AtomicU64::new(0);
        let without_locks = |_: &File| {
            assert_eq!(TRIES.fetch_add(1, Ordering::Relaxed), 0, "it tries one name after another");
            Ok(false)
        };
        let folder = tempfile::tempdir().unwrap();
        let file = hidden(folder.path(), without_locks).unwrap();
        assert_eq!(names_in(folder.path()).len(), 1);
        file.finish(&folder.path().join("out")).unwrap();
        assert_eq!(names_in(folder.path()), ["out"]);
    }

    #[test]
    fn streams_are_told_from_files() {
        assert!(is_stream(Path::new("-")) && is_stream(Path::new("/dev/null")));
        assert!(!is_stream(Path::new("/no/such/file")));
        assert!(!is_stream(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").as_path()));
    }
}
