//! One capture for each sensor. All get their names together, at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_io::{Format, OutputName, Summary, WriteOptions, Writer};
use forebay_packet::{Batch, Interface, LiveMask};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ending::refuse_input;
use crate::failure::Failure;
use crate::input::file_failure;

/// Bytes buffered for all sensors' captures together, and the least and the most for one.
const GATHERED: usize = 16 << 20;
const GATHERED_FOR_ONE: (usize, usize) = (16 << 10, 256 << 10);

/// The sensors' captures.
pub struct Outputs {
    folder: PathBuf,
    /// Whether the folder was created by this run.
    made_folder: bool,
    sensors: usize,
    /// Captures of an earlier run, to be removed.
    stale: Vec<PathBuf>,
    /// Empty before the first batch, when the interfaces are not known.
    writers: Vec<Writer>,
    interfaces: usize,
    masks: Vec<LiveMask>,
    finished: bool,
    /// Packets of captures that have their names.
    named: u64,
}

impl Outputs {
    /// Prepares a folder for that many captures.
    pub fn in_folder(
        folder: &Path,
        sensors: usize,
        input: &Path,
        force: bool,
    ) -> Result<Self, Failure> {
        let made_folder = !folder.exists();
        if made_folder {
            fs::create_dir_all(folder).map_err(|source| file_failure("create", folder, source))?;
        }
        let stale = refuse_occupied(folder, force)?;
        stale.iter().try_for_each(|file| refuse_input(file, input))?;
        allow_open_files(sensors);
        Ok(Self {
            folder: folder.to_owned(),
            made_folder,
            sensors,
            stale,
            writers: Vec::new(),
            interfaces: 0,
            masks: vec![LiveMask::default(); sensors],
            finished: false,
            named: 0,
        })
    }

    fn open(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Failure> {
        let (least, most) = GATHERED_FOR_ONE;
        let buffer_len = (GATHERED / self.sensors.max(1)).clamp(least, most);
        let options = WriteOptions { buffer_len, ..WriteOptions::default() };
        for i in 0..self.sensors {
            let name = OutputName::Stem(self.folder.join(format!("sensor-{i}")));
            self.writers.push(Writer::create(name, Format::Auto, interfaces, &options)?);
        }
        self.interfaces = interfaces.len();
        Ok(())
    }

    /// Writes the live packets of a batch, each to its sensor.
    pub fn send(&mut self, batch: &Batch) -> Result<(), Failure> {
        let interfaces = batch.interfaces();
        if self.writers.is_empty() {
            self.open(interfaces)?;
        }
        if interfaces.len() > self.interfaces {
            // New interfaces change the format of all captures, whichever gets their
            // packets. Time stamps that pcap cannot represent change only the capture they
            // are in.
            for writer in &mut self.writers {
                writer.require_pcapng(interfaces)?;
            }
            self.interfaces = interfaces.len();
        }
        let mut touched: Vec<usize> = Vec::new();
        for i in batch.live().iter() {
            let sensor = usize::from(batch.output[i]);
            if self.masks[sensor].count() == 0 {
                touched.push(sensor);
            }
            self.masks[sensor].insert(i);
        }
        for sensor in touched {
            let mask = std::mem::take(&mut self.masks[sensor]);
            self.writers[sensor].write(batch, &mask)?;
        }
        Ok(())
    }

    /// Completes all captures under their names. `interfaces` are those of a capture
    /// without packets.
    pub fn finish(&mut self, interfaces: &[Interface]) -> Result<Vec<Summary>, Failure> {
        if self.writers.is_empty() {
            let interfaces = match interfaces {
                [] => vec![Interface::default()],
                some => some.to_vec(),
            };
            self.open(&Arc::new(interfaces))?;
        }
        // First write all data: a full disk shows before any name is given.
        for writer in &mut self.writers {
            writer.prepare()?;
        }
        let mut files = Vec::with_capacity(self.sensors);
        for writer in std::mem::take(&mut self.writers) {
            let file = writer.finish()?;
            self.named += file.packets;
            files.push(file);
        }
        self.finished = true;
        Ok(files)
    }

    /// Packets of captures that have their names.
    pub fn named(&self) -> u64 {
        self.named
    }

    /// Removes captures of an earlier run that no capture of this run has replaced.
    pub fn remove_stale(&self, files: &[Summary]) -> Result<(), Failure> {
        for stale in &self.stale {
            if files.iter().all(|file| file.path != *stale) {
                fs::remove_file(stale).map_err(|source| file_failure("remove", stale, source))?;
            }
        }
        Ok(())
    }
}

impl Drop for Outputs {
    fn drop(&mut self) {
        if self.made_folder && !self.finished {
            self.writers.clear();
            // Not empty: it has files of others, and stays.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// Raises the limit of open files for many sensors, as far as permitted.
fn allow_open_files(sensors: usize) {
    /// Sensors for which the usual limit of 1024 files suffices.
    const FEW: usize = 256;
    if sensors <= FEW {
        return;
    }
    let limit = getrlimit(Resource::Nofile);
    let wanted = 2 * sensors as u64 + FEW as u64;
    let raised = limit.maximum.map_or(wanted, |most| wanted.min(most));
    if limit.current.is_some_and(|current| current < raised) {
        // If this fails, opening a capture fails too, with a message.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
    }
}

/// Captures of an earlier run in a folder, to be replaced; a failure unless `force`.
pub fn refuse_occupied(folder: &Path, force: bool) -> Result<Vec<PathBuf>, Failure> {
    let stale = if folder.exists() { earlier_captures(folder)? } else { Vec::new() };
    match stale.first() {
        Some(first) if !force => Err(Failure::Occupied {
            folder: folder.display().to_string(),
            file: first.file_name().map_or_else(String::new, |n| n.to_string_lossy().into()),
        }),
        _ => Ok(stale),
    }
}

/// `sensor-N.pcap` and `sensor-N.pcapng` in a folder.
fn earlier_captures(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |source| file_failure("list", folder, source);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let number = name.as_deref().and_then(|name| {
            let stem = name.strip_suffix(".pcap").or_else(|| name.strip_suffix(".pcapng"))?;
            stem.strip_prefix("sensor-")
        });
        if number.is_some_and(is_number) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether this program writes a sensor's number like this.
fn is_number(digits: &str) -> bool {
    digits.parse::<u32>().is_ok_and(|number| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_split_gives_are_sensors() {
        assert!(["0", "7", "1023"].into_iter().all(is_number));
        assert!(!["", "+1", "007", "-0", "1x", "4294967296"].into_iter().any(is_number));
    }
}
