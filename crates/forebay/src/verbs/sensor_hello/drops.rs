//! The drops of a sensor's program, from a file that it writes.
//!
//! Programs use different formats: a file with a number, or a log to which lines with a
//! name and a number are appended. The last number is used, of all lines or of those with a
//! given text. Only the end of a file is read, so a log may grow.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

/// Bytes at the end of the file that are read.
const END: u64 = 64 << 10;

/// Reads a program's drops.
pub struct Drops<'a> {
    file: &'a Path,
    key: Option<&'a str>,
    /// The last number, kept while the file is missing.
    last: u64,
    /// When the file was written last.
    written: Option<SystemTime>,
}

impl<'a> Drops<'a> {
    /// Uses the last number in `file`, of lines that contain `key`.
    pub fn new(file: &'a Path, key: Option<&'a str>) -> Self {
        Self { file, key, last: 0, written: None }
    }

    /// The drops so far, if the file was written since the last call; the previous number if it
    /// has none.
    pub fn news(&mut self) -> Option<u64> {
        let written = std::fs::metadata(self.file).and_then(|file| file.modified()).ok();
        let is_new = written.is_some() && written != self.written;
        self.written = written;
        let before = self.last;
        let count = self.count();
        (is_new || count != before).then_some(count)
    }

    /// The drops so far; the previous number if the file has none.
    pub fn count(&mut self) -> u64 {
        let text = end_of(self.file).unwrap_or_default();
        if let Some(number) = last_number(&text, self.key) {
            self.last = number;
        }
        self.last
    }
}

fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(len.saturating_sub(END)))?;
    let mut bytes = Vec::new();
    file.take(END).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last number of the last line that contains `key`.
fn last_number(text: &str, key: Option<&str>) -> Option<u64> {
    let lines = text.lines().rev().filter(|line| key.is_none_or(|key| line.contains(key)));
    let numbers = |line: &str| -> Option<u64> {
        line.rsplit(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok())
    };
    lines.filter_map(numbers).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(last_number("17\n", None), Some(17));
        assert_eq!(last_number("1 of 2 dropped\n\n", None), Some(2));
        let log = "capture.kernel_drops | Total | 5\nuptime: 9\n\
                   capture.kernel_drops | Total | 8\ndecoder.pkts | Total | 900\n";
        assert_eq!(last_number(log, Some("kernel_drops")), Some(8));
        assert_eq!(last_number(log, Some("nothing")), None);
        assert_eq!(last_number("99999999999999999999999", None), None);
    }

    #[test]
    fn a_file_that_is_away_says_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drops");
        let mut drops = Drops::new(&path, None);
        assert_eq!(drops.count(), 0);
        let long = "x 1\n".repeat(50_000) + "x 7\n";
        std::fs::write(&path, long).unwrap();
        assert_eq!((drops.news(), drops.news()), (Some(7), None));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(drops.count(), 7);
    }
}
