//! Output files by size (-C) and by time (-G), named as tcpdump names them.
//!
//! By size: NAME, NAME1, NAME2 …; with -W N: NAME0 to NAME(N-1), padded with zeros,
//! used in turn. By time: the name may hold conversions of strftime(3), in UTC. As in
//! tcpdump, time is the clock on the wall, also when a capture is read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_io::{Format, OutputName, WriteOptions, Writer};
use forebay_packet::{Batch, Interface, LiveMask};

use crate::cli::FilterArgs;
use crate::ending::is_stream;
use crate::failure::Failure;
use crate::show::time::date;

/// The files that selected packets are written to, one after another.
pub struct Files {
    pattern: PathBuf,
    /// The format of the input.
    input: Format,
    options: WriteOptions,
    limits: Limits,
    writer: Option<Writer>,
    /// Files finished so far.
    names: Vec<String>,
    /// Packets in them.
    packets: u64,
    /// Number of the current file in its time slice.
    number: u64,
    /// When the current time slice began, in seconds since the epoch.
    slice_start: u64,
}

#[derive(Clone, Copy)]
struct Limits {
    bytes: Option<u64>,
    seconds: Option<u64>,
    files: Option<u64>,
}

impl Files {
    /// Files as the options say. None is opened before its first packet comes.
    pub fn new(args: &FilterArgs, input: Format, in_place: bool) -> Result<Self, Failure> {
        let pattern = args.write.clone().unwrap_or_default();
        let limits = Limits {
            bytes: args.file_size.map(|millions| millions.saturating_mul(1_000_000)),
            seconds: args.rotate_seconds,
            files: args.file_count,
        };
        let rotates = limits.bytes.or(limits.seconds).is_some();
        if pattern.as_os_str() == "-" && rotates {
            return Err(Failure::Usage(
                "-C and -G need a file name after -w, not standard output".to_owned(),
            ));
        }
        if limits.seconds.is_some() {
            strftime(&pattern.to_string_lossy(), 0)?;
        }
        let options = WriteOptions {
            snap_len: args.snap_len.filter(|&bytes| bytes != 0),
            packet_buffered: args.packet_buffered,
            in_place,
        };
        Ok(Self {
            pattern,
            input,
            options,
            limits,
            writer: None,
            names: Vec::new(),
            packets: 0,
            number: 0,
            slice_start: now(),
        })
    }

    /// Whether packets go to standard output.
    pub fn is_stdout(&self) -> bool {
        self.pattern.as_os_str() == "-"
    }

    /// Whether what was written cannot be taken back.
    pub fn is_stream(&self) -> bool {
        self.name().is_ok_and(|name| is_stream(&name))
    }

    /// The files finished so far.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Packets written to files that are finished, also where a later file has taken
    /// the place of one.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes the live packets of a batch.
    pub fn send(&mut self, batch: &Batch) -> Result<(), Failure> {
        if self.writer.is_none() {
            self.open(batch.interfaces())?;
        }
        if self.limits.bytes.is_none() && self.limits.seconds.is_none() {
            return self.write(batch, &batch.live());
        }
        for i in batch.live().iter() {
            self.rotate(batch.interfaces())?;
            let mut one = LiveMask::default();
            one.insert(i);
            self.write(batch, &one)?;
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch, which: &LiveMask) -> Result<(), Failure> {
        match &mut self.writer {
            Some(writer) => Ok(writer.write(batch, which)?),
            None => Ok(()),
        }
    }

    /// Goes on to the next file where the current one is old or large enough.
    fn rotate(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Failure> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let time_is_up = self
            .limits
            .seconds
            .is_some_and(|limit| now().saturating_sub(self.slice_start) >= limit);
        let is_full = self.limits.bytes.is_some_and(|limit| writer.file_len() > limit);
        if !time_is_up && !is_full {
            return Ok(());
        }
        self.close()?;
        if time_is_up {
            self.slice_start = now();
            self.number = 0;
        } else {
            self.number += 1;
            if self.limits.files.is_some_and(|files| self.number >= files) {
                self.number = 0;
            }
        }
        self.open(interfaces)
    }

    fn open(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Failure> {
        let name = self.name()?;
        // A stream cannot be begun anew as pcapng when a second interface comes.
        let format = match self.input {
            Format::Pcapng if is_stream(&name) => Format::Pcapng,
            _ => Format::Auto,
        };
        let name = OutputName::Exact(name);
        self.writer = Some(Writer::create(name, format, interfaces, &self.options)?);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        if let Some(writer) = self.writer.take() {
            let summary = writer.finish()?;
            self.packets += summary.packets;
            let name = summary.path.display().to_string();
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        Ok(())
    }

    /// The name of the current file.
    fn name(&self) -> Result<PathBuf, Failure> {
        let base = match self.limits.seconds {
            Some(_) => strftime(&self.pattern.to_string_lossy(), self.slice_start)?.into(),
            None => self.pattern.clone(),
        };
        Ok(numbered(&base, self.number, self.limits))
    }

    /// Gives the last file its name. A run that selected nothing leaves a capture
    /// without packets.
    pub fn finish(&mut self, interfaces: &[Interface]) -> Result<(), Failure> {
        if self.writer.is_none() {
            let interfaces = match interfaces {
                [] => vec![Interface::default()],
                some => some.to_vec(),
            };
            self.open(&Arc::new(interfaces))?;
        }
        self.close()
    }
}

/// The name of file number `number` of a time slice.
fn numbered(base: &Path, number: u64, limits: Limits) -> PathBuf {
    let Some(_) = limits.bytes else { return base.to_owned() };
    let width = match limits.files {
        Some(files) if limits.seconds.is_none() => (files - 1).to_string().len(),
        _ if number == 0 => return base.to_owned(),
        _ => 0,
    };
    let mut name = base.to_owned().into_os_string();
    name.push(format!("{number:0width$}"));
    name.into()
}

/// A name with the conversions %Y %m %d %H %M %S %s and %% replaced, in UTC.
fn strftime(pattern: &str, seconds: u64) -> Result<String, Failure> {
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
                return Err(Failure::Usage(format!(
                    "-w {pattern}: %{conversion} is not known; \
                     expected %Y, %m, %d, %H, %M, %S, %s or %%"
                )));
            }
        });
    }
    Ok(name)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_numbered_as_tcpdump_numbers_them() {
        let name = |number, files, seconds| {
            let limits = Limits { bytes: Some(1), seconds, files };
            numbered(Path::new("x.pcap"), number, limits).display().to_string()
        };
        assert_eq!(name(0, None, None), "x.pcap");
        assert_eq!(name(1, None, None), "x.pcap1");
        assert_eq!(name(0, Some(12), None), "x.pcap00");
        assert_eq!(name(11, Some(12), None), "x.pcap11");
        assert_eq!(name(3, Some(10), None), "x.pcap3");
        assert_eq!(name(1, Some(10), Some(5)), "x.pcap1");
    }

    #[test]
    fn names_tell_the_time() {
        let name = strftime("t-%Y%m%d-%H%M%S-%s-%%.pcap", 1_709_251_199);
        assert_eq!(name.ok().as_deref(), Some("t-20240229-235959-1709251199-%.pcap"));
        assert!(strftime("%Q", 0).is_err() && strftime("%", 0).is_err());
    }
}
