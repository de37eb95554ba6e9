//! Names of compiled code for profilers.
//!
//! `perf` looks up addresses outside any file in `/tmp/perf-PID.map`, a line
//! for each symbol: start and size in hexadecimal, then the name up to the end
//! of the line (`tools/perf/Documentation/jit-interface.txt` in Linux). Lines
//! are appended, all those of one filter by one write, so that the lines of
//! filters compiled concurrently do not mix. Lines are never removed: `perf`
//! reads the file after the process has ended.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, write};

/// The environment variable that turns the map on, by the value `1`.
pub const PERF_MAP_VARIABLE: &str = "FOREBAY_PERF_MAP";

/// A symbol: its addresses and name.
pub(crate) struct Symbol {
    pub(crate) addresses: Range<usize>,
    pub(crate) name: String,
}

/// The path of this process's map.
#[must_use]
pub fn path() -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{}.map", process::id()))
}

/// Appends `symbols` to the map at `path`.
pub(crate) fn append(path: &Path, symbols: &[Symbol]) -> Result<(), Errno> {
    let lines: String = symbols.iter().map(line).collect();
    // The folder is writable by all: do not follow a link that another user may
    // have placed there.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let file = open(path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::from(0o644))?;
    // A short write means a full disk; the next write reports it.
    let mut rest = lines.as_bytes();
    while !rest.is_empty() {
        rest = &rest[write(&file, rest)?..];
    }
    Ok(())
}

fn line(symbol: &Symbol) -> String {
    let Symbol { addresses, name } = symbol;
    let name = name.replace(|c: char| c.is_control(), " ");
    format!("{:x} {:x} {name}\n", addresses.start, addresses.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(addresses: Range<usize>, name: &str) -> Symbol {
        Symbol { addresses, name: name.to_owned() }
    }

    #[test]
    fn lines_are_as_perf_reads_them_and_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("perf-1.map");
        append(&path, &[symbol(0x7f00..0x7f40, "one"), symbol(0x7f40..0x8000, "a\nb")]).unwrap();
        append(&path, &[symbol(0xabc..0xabd, "port 80")]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "7f00 40 one\n7f40 c0 a b\nabc 1 port 80\n");
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        let path = folder.path().join("perf-2.map");
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(append(&path, &[symbol(1..2, "x")]).is_err());
        assert!(!target.exists());
    }
}
