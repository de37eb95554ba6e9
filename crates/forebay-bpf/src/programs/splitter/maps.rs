//! What the program and this process share: tables, counters, marks, records.
//!
//! The layout of the shared memory is that of [`Tables`] and [`Section`].

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::entry::{LOOK_UP, NO_SENSOR, RECORD, Record};
use super::limits::{Limits, MAX_DEVICES, MAX_INPUTS, MAX_SENSORS};
use super::outcomes::{Outcomes, Traffic};
use crate::error::BpfError;
use crate::map::{DeviceMap, HashMap, SharedMemory, SocketMap, WhenFull, processors};
use crate::object::{Loader, include_program};
use crate::program::{Action, Kind, Program, Run};
use crate::sys;
use crate::sys::layout::{
    Cell, Counter, DEAD, MAX_SHUNTED, PRESENT, PUSH_TAG, Pair, SECOND_PLACE, SET_DESTINATION,
    SET_SOURCE, Section, SensorEntry, Shunted, Tables,
};

/// How frames reach a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Slot of the device map: the interface frames go out by.
    pub device: u32,
    /// The destination address they get; none keeps theirs.
    pub destination: Option<[u8; 6]>,
    /// The source address they get; none keeps theirs.
    pub source: Option<[u8; 6]>,
    /// The VLAN tag (priority and identifier) they get, outside all others.
    pub tag: Option<u16>,
}

impl Sensor {
    fn to_words(self) -> [u64; 3] {
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let flags = PRESENT
            | flag(self.destination.is_some(), SET_DESTINATION)
            | flag(self.source.is_some(), SET_SOURCE)
            | flag(self.tag.is_some(), PUSH_TAG);
        [
            mac_word(self.destination) | flags,
            // A tag is written as it lies in the frame, in network order.
            mac_word(self.source) | u64::from(self.tag.unwrap_or(0).to_be()) << 48,
            u64::from(self.device),
        ]
    }
}

/// A MAC address in the lower six bytes of a word, as it lies in a frame.
fn mac_word(mac: Option<[u8; 6]>) -> u64 {
    let mut bytes = [0; 8];
    bytes[..6].copy_from_slice(&mac.unwrap_or_default());
    u64::from_le_bytes(bytes)
}

/// The maps of one splitter. They outlive its programs, which can be replaced.
#[derive(Debug)]
pub struct SplitterMaps {
    tables: SharedMemory<Tables>,
    counters: SharedMemory<Section>,
    marks: HashMap<u64, u64>,
    records: HashMap<u64, u64>,
    pub(super) shunted: SharedMemory<Shunted>,
    /// The place in `shunted` of each hash.
    pub(super) shunt_places: HashMap<u64, u64>,
    devices: DeviceMap,
    sockets: SocketMap,
    processors: u32,
    workers: u32,
    keys_per_move: u32,
    sweeper: Program,
}

impl SplitterMaps {
    /// No sensors, no traffic; every bucket is settled at no sensor.
    ///
    /// # Errors
    /// The kernel's refusal; more processors than there can be counters for.
    pub fn create(limits: Limits) -> Result<Self, BpfError> {
        let processors = processors()?;
        let sections = processors as usize + limits.workers as usize;
        let records = HashMap::create("split_records", limits.records, WhenFull::Refuse)?;
        let sweeper = Loader::new(include_program!("sweep")).map("records", &records);
        let maps = Self {
            tables: SharedMemory::create("split_tables", 1)?,
            counters: SharedMemory::create("split_counters", sections)?,
            marks: HashMap::create("split_marks", limits.marks, WhenFull::EvictOldest)?,
            sweeper: sweeper.load("forebay_sweep", Kind::Xdp { multi_buffer: false })?,
            records,
            shunted: SharedMemory::create("split_shunted", 1)?,
            shunt_places: HashMap::create("split_places", MAX_SHUNTED as u32, WhenFull::Refuse)?,
            devices: DeviceMap::create("split_devices", limits.devices)?,
            sockets: SocketMap::create("split_sockets", limits.sockets)?,
            processors,
            workers: limits.workers,
            keys_per_move: limits.keys_per_move,
        };
        (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, NO_SENSOR.into()));
        Ok(maps)
    }

    /// The programs of `programs/splitter.bpf.c` with these maps.
    pub(super) fn loader(&self) -> Loader<'_> {
        Loader::new(include_program!("splitter"))
            .set("processors", self.processors.into())
            .set("keys_per_move", self.keys_per_move.into())
            .map("tables", &self.tables)
            .map("counters", &self.counters)
            .map("marks", &self.marks)
            .map("records", &self.records)
            .map("shunted", &self.shunted)
            .map("shunt_places", &self.shunt_places)
            .map("devices", &self.devices)
            .map("sockets", &self.sockets)
    }

    pub(super) fn tables(&self) -> &Tables {
        &self.tables.values()[0]
    }

    /// The table's entry of a bucket: see [`super::entry`].
    #[must_use]
    pub fn entry(&self, bucket: u16) -> u32 {
        self.tables().entries[usize::from(bucket)].load(Acquire) as u32
    }

    /// Says `entry` of a bucket, from the next packet on.
    pub fn set_entry(&self, bucket: u16, entry: u32) {
        self.tables().entries[usize::from(bucket)].store(entry.into(), Release);
    }

    /// Sets the entry of a bucket to `new` if it still is `current`.
    ///
    /// # Errors
    /// The entry that it has instead.
    pub fn replace_entry(&self, bucket: u16, current: u32, new: u32) -> Result<(), u32> {
        self.tables().entries[usize::from(bucket)]
            .compare_exchange(current.into(), new.into(), AcqRel, Acquire)
            .map(drop)
            .map_err(|other| other as u32)
    }

    /// Allows a bucket anew as many records as a move may make.
    pub fn allow_records(&self, bucket: u16) {
        self.tables().recorded[usize::from(bucket)].store(0, Relaxed);
    }

    /// Says how frames reach a sensor, or that it does not exist. Whether it is alive
    /// stays as it was said. Between two changes of one sensor everybody must have seen
    /// the first: see [`SplitterMaps::quiesce`].
    ///
    /// # Errors
    /// A number that no sensor can have.
    pub fn set_sensor(&self, sensor: u16, entry: Option<Sensor>) -> Result<(), BpfError> {
        let words = self.sensor_entry(sensor)?;
        let [first, second, third] = entry.map_or([0; 3], Sensor::to_words);
        let place = !words.destination.load(Acquire) & SECOND_PLACE;
        let other = &words.places[usize::from(place != 0)];
        other.source.store(second, Relaxed);
        other.device.store(third, Relaxed);
        // The flags come last: whoever sees them sees the rest of a new entry.
        let changed = |word: u64| Some(first | place | word & DEAD);
        let _ = words.destination.fetch_update(AcqRel, Acquire, changed);
        Ok(())
    }

    /// Says which sensors take the packets of buckets without a sensor, by their hash;
    /// none, and they are dropped. Numbers that no sensor can have are left out.
    pub fn set_spare(&self, sensors: &[u16]) {
        let sensors: Vec<u16> = sensors.iter().copied().filter(|&s| s < MAX_SENSORS).collect();
        let sensors = &sensors[..sensors.len().min(MAX_SENSORS.into())];
        let count = &self.tables().spare_count;
        // Whatever mixture is seen meanwhile, a place that counts holds a sensor.
        count.fetch_min(sensors.len() as u64, AcqRel);
        for (place, &sensor) in self.tables().spares.iter().zip(sensors) {
            place.store(sensor.into(), Relaxed);
        }
        count.store(sensors.len() as u64, Release);
    }

    /// The section of counters of a thread of user space.
    ///
    /// # Errors
    /// A number that no worker has.
    pub(super) fn section_of(&self, number: u32) -> Result<u32, BpfError> {
        if number >= self.workers {
            return Err(BpfError::Setting {
                setting: "the number of a worker",
                value: number.into(),
                expected: "less than their number",
            });
        }
        Ok(self.processors + number)
    }

    /// Says whether a sensor is alive, as all are from the start. A key on record at a
    /// dead one counts as not on record, at once.
    ///
    /// # Errors
    /// A number that no sensor can have.
    pub fn set_alive(&self, sensor: u16, alive: bool) -> Result<(), BpfError> {
        let flags = &self.sensor_entry(sensor)?.destination;
        if alive {
            flags.fetch_and(!DEAD, AcqRel);
        } else {
            flags.fetch_or(DEAD, AcqRel);
        }
        Ok(())
    }

    fn sensor_entry(&self, sensor: u16) -> Result<&SensorEntry, BpfError> {
        self.tables().sensors.get(usize::from(sensor)).ok_or(BpfError::Setting {
            setting: "the number of a sensor",
            value: sensor.into(),
            expected: "0 to 1023",
        })
    }

    /// Has user space send the frames for the interface in a slot of the device map, from the
    /// next frame on, or no longer. Address pairs that went that way stay on it until they
    /// pause for the idle timeout, so that no packet overtakes another. Slots that the map
    /// does not have are left alone.
    pub fn set_by_workers(&self, device: u32, by_workers: bool) {
        if device < MAX_DEVICES {
            self.tables().by_workers[device as usize].store(by_workers.into(), Release);
        }
    }

    /// The interfaces that sensors' entries name by slot.
    #[must_use]
    pub fn devices(&self) -> &DeviceMap {
        &self.devices
    }

    /// The sockets of user space, in slots as of [`super::UserSpace::Sockets`].
    #[must_use]
    pub fn sockets(&self) -> &SocketMap {
        &self.sockets
    }

    /// The packets and bytes of a bucket that were decided on, as one number:
    /// packets × 2³⁶ + bytes. Only differences modulo 2⁶⁴ mean something, of times that
    /// are not more than 2³⁶ bytes apart.
    #[must_use]
    pub fn bucket_tally(&self, bucket: u16) -> u64 {
        let cells = self.cells(bucket);
        cells.fold(0, |sum, cell| sum.wrapping_add(cell.tally.load(Relaxed)))
    }

    /// The flows of a bucket: each set the bit of a map that bits 43 to 47 of its hash
    /// say, in this generation or the one before.
    #[must_use]
    pub fn bucket_flows(&self, bucket: u16) -> u32 {
        let [current, older] = self.bucket_flow_maps(bucket);
        current | older
    }

    /// The same of this generation, and of the one before.
    #[must_use]
    pub fn bucket_flow_maps(&self, bucket: u16) -> [u32; 2] {
        let cells = self.cells(bucket);
        let both = cells.fold(0, |maps, cell| maps | cell.flows.load(Relaxed));
        let maps = [both as u32, (both >> 32) as u32];
        if self.tables().generation.load(Relaxed) & 1 == 0 { maps } else { [maps[1], maps[0]] }
    }

    /// Forgets the older generation of flows, and begins a new one.
    pub fn rotate_flows(&self) {
        let generation = &self.tables().generation;
        let older = !generation.load(Relaxed) & 1;
        let keep = if older == 0 { !u64::from(u32::MAX) } else { u64::from(u32::MAX) };
        for bucket in 0..=u16::MAX {
            for cell in self.cells(bucket) {
                // The program writes the other half, by itself.
                cell.flows.fetch_and(keep, Relaxed);
            }
        }
        generation.store(older, Relaxed);
    }

    /// A bucket's counters on each processor.
    fn cells(&self, bucket: u16) -> impl Iterator<Item = &Cell> {
        let sections = self.counters.values().iter();
        sections.map(move |section| &section.buckets[usize::from(bucket)])
    }

    /// A bucket's counters in one section.
    pub(super) fn cell(&self, section: u32, bucket: u16) -> &Cell {
        &self.counters.values()[section as usize].buckets[usize::from(bucket)]
    }

    /// Which of two maps of flows is current.
    pub(super) fn generation(&self) -> u64 {
        self.tables().generation.load(Relaxed) & 1
    }

    /// Traffic that went by records elsewhere than where its bucket's new keys go, as
    /// tallies like [`SplitterMaps::bucket_tally`]: what came to this sensor so, and what
    /// went by it.
    #[must_use]
    pub fn displaced(&self, sensor: u16) -> (u64, u64) {
        if sensor >= MAX_SENSORS {
            return (0, 0);
        }
        let pair = self.sum(|section| &section.displaced[usize::from(sensor)]);
        (pair.packets, pair.bytes)
    }

    /// Traffic that was redirected to the interface in a slot of the device map.
    #[must_use]
    pub fn redirected(&self, device: u32) -> Traffic {
        if device >= MAX_DEVICES {
            return Traffic::default();
        }
        self.sum(|section| &section.devices[device as usize])
    }

    /// Traffic that came in by an input.
    #[must_use]
    pub fn received(&self, input: u32) -> Traffic {
        if input >= MAX_INPUTS {
            return Traffic::default();
        }
        self.sum(|section| &section.inputs[input as usize])
    }

    /// What became of all frames.
    #[must_use]
    pub fn outcomes(&self) -> Outcomes {
        let sum = |counter: Counter| self.sum(|section| &section.counters[counter as usize]);
        let mut to_sensors = Traffic::default();
        (0..MAX_DEVICES).for_each(|device| to_sensors += self.redirected(device));
        let outcomes = Outcomes {
            received: Traffic::default(),
            to_sensors,
            filtered: sum(Counter::Filtered),
            group_filtered: sum(Counter::GroupFiltered),
            to_user_space: sum(Counter::ToUserSpace),
            no_sensor: sum(Counter::NoSensor),
            no_interface: sum(Counter::NoInterface),
            no_socket: sum(Counter::NoSocket),
            no_room: sum(Counter::NoRoom),
            shunted: sum(Counter::Shunted),
            not_recorded: sum(Counter::NotRecorded).packets,
            restarts: sum(Counter::Restarts).packets,
            not_marked: sum(Counter::NotMarked).packets,
        };
        // Read last, so that no outcome is ahead of what was received.
        let mut received = Traffic::default();
        (0..MAX_INPUTS).for_each(|input| received += self.received(input));
        Outcomes { received, ..outcomes }
    }

    /// A pair of counters over all sections.
    fn sum(&self, pair: impl Fn(&Section) -> &Pair) -> Traffic {
        let mut sum = Traffic::default();
        for Pair { packets, bytes } in self.counters.values().iter().map(pair) {
            sum += Traffic { packets: packets.load(Relaxed), bytes: bytes.load(Relaxed) };
        }
        sum
    }

    /// The record of a key by its hash, where there is one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn record(&self, hash: u64) -> Result<Option<Record>, BpfError> {
        let word = self.records.get(&hash)?;
        Ok(word.map(|word| Record { hash, word }).filter(|record| record.counts()))
    }

    /// Shows each record to `keep`, and removes those that it does not want to keep;
    /// those that change meanwhile stay. While this is called no move may begin.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sweep(&self, mut keep: impl FnMut(Record) -> bool) -> Result<(), BpfError> {
        let mut unwanted = Vec::new();
        self.records.for_each(|hash, word| {
            let record = Record { hash, word };
            if !record.counts() || !keep(record) {
                unwanted.push(record);
            }
        })?;
        for record in unwanted {
            let records = self.entry(record.bucket()) & (LOOK_UP | RECORD) == LOOK_UP | RECORD;
            self.remove(record, !records)?;
        }
        Ok(())
    }

    /// Removes a record, unless it has changed since it was read; false then.
    fn remove(&self, record: Record, delete: bool) -> Result<bool, BpfError> {
        let run = ask(&self.sweeper, [record.hash, record.word, delete.into()])?;
        Ok(Action::from_result(run.result) == Some(Action::Pass))
    }

    /// Waits until every run of the program that has begun by now has ended: nobody
    /// acts any more on what the tables said before. Takes some milliseconds.
    ///
    /// # Errors
    /// The kernel cannot tell.
    pub fn quiesce(&self) -> Result<(), BpfError> {
        sys::wait_for_programs().map_err(BpfError::Quiesce)
    }
}

/// Runs a program with a `Question` in place of a frame.
pub(super) fn ask(program: &Program, question: [u64; 3]) -> Result<Run, BpfError> {
    program.run(question.map(u64::to_ne_bytes).as_flattened(), &mut [])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_sensors_lie_as_frames_do() {
        let sensor = Sensor {
            device: 7,
            destination: Some([1, 2, 3, 4, 5, 6]),
            source: None,
            tag: Some(0x0102),
        };
        let [destination, source, device] = sensor.to_words();
        assert_eq!(destination.to_le_bytes()[..6], [1, 2, 3, 4, 5, 6]);
        assert_eq!(destination >> 48 << 48, PRESENT | SET_DESTINATION | PUSH_TAG);
        assert_eq!(source.to_le_bytes(), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(device, 7);
    }
}
