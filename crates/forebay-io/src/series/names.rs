//! Names of files in a series, and earlier files with such names.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use crate::date::date;
use crate::partial::directory;

/// The most entries of a folder that are examined for files of the series.
const MOST_ENTRIES: usize = 1_000_000;

/// The most digits of a file's number; longer numbers are ignored.
const MOST_DIGITS: usize = 12;

/// An invalid conversion in a name for files by time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{pattern}: %{conversion} is not known; expected %Y, %m, %d, %H, %M, %S, %s or %%")]
pub struct BadPattern {
    pattern: String,
    conversion: String,
}

/// The name of file number `number`, of a fixed number used in turn, or of any number.
pub(super) fn tcpdump_name(base: &Path, number: u64, files: Option<u64>) -> PathBuf {
    let width = match files {
        Some(files) => (files - 1).to_string().len(),
        None if number == 0 => return base.to_owned(),
        None => 0,
    };
    with_suffix(base, &format!("{number:0width$}"))
}

pub(super) fn with_suffix(name: &Path, suffix: &str) -> PathBuf {
    let mut name = name.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// `stem_00007_20261123094500.ext` for `stem.ext`.
pub(super) fn numbered(base: &Path, number: u64, seconds: u64) -> PathBuf {
    let (stem, extension) = parts(base);
    let day = date((seconds / 86_400) as i64);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let time =
        format!("{:04}{:02}{:02}{hour:02}{minute:02}{second:02}", day.year, day.month, day.day);
    base.with_file_name(format!("{stem}_{number:05}_{time}{extension}"))
}

/// Files with number and time in their names: `stem_00001_20261123094500.ext`, so that names sort
/// and never repeat. A given number of these is kept, including those of earlier runs.
#[derive(Debug)]
pub struct Numbered {
    base: PathBuf,
    keep: Option<u64>,
    /// Number of the last file.
    number: u64,
    /// Existing files, the oldest first; `None` before the folder is listed.
    ring: Option<VecDeque<PathBuf>>,
    removed: u64,
}

impl Numbered {
    /// Files with names derived from `base`, of which the last `keep` are kept, or all.
    #[must_use]
    pub fn new(base: PathBuf, keep: Option<u64>) -> Self {
        Self { base, keep, number: 0, ring: None, removed: 0 }
    }

    /// The name of the next file, if it begins at that time, in seconds since the epoch, and the
    /// folder has been listed.
    #[must_use]
    pub fn name(&self, seconds: u64) -> PathBuf {
        numbered(&self.base, self.number + 1, seconds)
    }

    /// Lists the files of earlier runs, the first time.
    pub fn list(&mut self) {
        if self.ring.is_none() {
            let earlier = earlier(&self.base);
            self.number = earlier.last().map_or(0, |(number, _)| *number);
            self.ring = Some(earlier.into_iter().map(|(_, name)| name).collect());
        }
    }

    /// Records that a file was begun, and removes the oldest beyond the number kept.
    pub fn begun(&mut self, name: PathBuf) {
        self.number += 1;
        let Some(ring) = &mut self.ring else { return };
        ring.push_back(name);
        while self.keep.is_some_and(|keep| ring.len() as u64 > keep) {
            let Some(oldest) = ring.pop_front() else { break };
            // Another process may have removed it, or a killed one left its partial file.
            let partial = with_suffix(&oldest, ".partial");
            if fs::remove_file(&oldest).is_ok() | fs::remove_file(partial).is_ok() {
                self.removed += 1;
            }
        }
    }

    /// Files that were removed for newer ones.
    #[must_use]
    pub fn removed(&self) -> u64 {
        self.removed
    }
}

/// The name without its extension, and the extension with its dot.
fn parts(base: &Path) -> (String, String) {
    let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    let stem = base.file_stem().map(text).unwrap_or_default();
    let extension = base.extension().map(text);
    (stem, extension.map_or_else(String::new, |extension| format!(".{extension}")))
}

/// Numbered files of earlier runs, by number, including incomplete ones.
pub(super) fn earlier(base: &Path) -> Vec<(u64, PathBuf)> {
    let (stem, extension) = parts(base);
    let Ok(entries) = fs::read_dir(directory(base)) else { return Vec::new() };
    let number = |name: &str| -> Option<u64> {
        let name = name.strip_suffix(".partial").unwrap_or(name);
        let middle = name.strip_prefix(&stem)?.strip_prefix('_')?.strip_suffix(&extension)?;
        let (number, time) = middle.split_once('_')?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_ours = digits(number) && digits(time) && time.len() == 14;
        let is_ours = is_ours && (5..=MOST_DIGITS).contains(&number.len());
        if is_ours { number.parse().ok() } else { None }
    };
    let mut found: Vec<(u64, PathBuf)> = entries
        .take(MOST_ENTRIES)
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let number = number(&name)?;
            let name = name.strip_suffix(".partial").unwrap_or(&name);
            Some((number, base.with_file_name(name)))
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// A name with the conversions %Y %m %d %H %M %S %s and %% replaced, in UTC.
pub(super) fn strftime(pattern: &str, seconds: u64) -> Result<String, BadPattern> {
    let day = date((seconds / 86_400) as i64);
    let mut name = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            name.push(c);
            continue;
        }
        name.push_str(&match chars.next() {
            Some('Y') => format!("{:04}", day.year),
            Some('m') => format!("{:02}", day.month),
            Some('d') => format!("{:02}", day.day),
            Some('H') => format!("{:02}", seconds / 3_600 % 24),
            Some('M') => format!("{:02}", seconds / 60 % 60),
            Some('S') => format!("{:02}", seconds % 60),
            Some('s') => seconds.to_string(),
            Some('%') => "%".to_owned(),
            other => {
                let conversion = other.map_or_else(String::new, String::from);
                return Err(BadPattern { pattern: pattern.to_owned(), conversion });
            }
        });
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_as_tcpdump_numbers_them() {
        let name =
            |number, files| tcpdump_name(Path::new("x.pcap"), number, files).display().to_string();
        assert_eq!(name(0, None), "x.pcap");
        assert_eq!(name(1, None), "x.pcap1");
        assert_eq!(name(0, Some(12)), "x.pcap00");
        assert_eq!(name(11, Some(12)), "x.pcap11");
        assert_eq!(name(3, Some(10)), "x.pcap3");
    }

    #[test]
    fn names_tell_the_time() {
        let name = strftime("t-%Y%m%d-%H%M%S-%s-%%.pcap", 1_709_251_199);
        assert_eq!(name.ok().as_deref(), Some("t-20240229-235959-1709251199-%.pcap"));
        assert!(strftime("%Q", 0).is_err() && strftime("%", 0).is_err());
    }

    #[test]
    fn numbered_files_are_found_again_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().join("all.pcapng");
        let at = |number| numbered(&base, number, 1_709_251_199);
        assert_eq!(at(7).file_name().unwrap(), "all_00007_20240229235959.pcapng");
        for number in [100_000, 9, 10] {
            fs::write(at(number), "").unwrap();
        }
        fs::write(with_suffix(&at(8), ".partial"), "").unwrap();
        // The last has the largest number that there is.
        let huge = format!("all_{}_20240229235959.pcapng", u64::MAX);
        for other in [&huge, "all.pcapng", "all_7_20240229235959.pcapng", "all_00007_2024.pcapng"] {
            fs::write(folder.path().join(other), "").unwrap();
        }
        let found = earlier(&base);
        assert_eq!(found, [8, 9, 10, 100_000].map(|number| (number, at(number))));
    }
}
