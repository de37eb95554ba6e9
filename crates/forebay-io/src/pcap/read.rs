//! Reads pcap as libpcap 1.10 does: versions 2.0 to 2.4 and DG/UX's 543.0,
//! either byte order, and the patched variant with longer record headers.
//!
//! Where versions differ: before 2.3 the two lengths of a record are stored
//! wire length first; 2.3 was written both ways, so there the smaller is the
//! captured one. A captured length above the limit of the link type is damage;
//! one above the snap length alone is not, and the packet is kept whole unless
//! the reader was asked to clamp it as libpcap does.
//!
//! Almost every file has little-endian records of 16-byte headers in the usual
//! order. Those are parsed by a loop of their own that only checks the
//! captured length, and their batches are marked [`Layout::PcapRecords`].

use std::sync::Arc;

use forebay_packet::{BATCH, Batch, Clock, Interface, Layout, LinkType, PacketMeta};

use super::layout::{FILE_HEADER, MAGIC_MICROS, MAGIC_NANOS, MAGIC_PATCHED, RECORD_HEADER};
use crate::error::Error;
use crate::read_options::ReadOptions;
use crate::snap_len;
use crate::source::ReadAhead;

/// Length of the record header that [`MAGIC_PATCHED`] announces.
const PATCHED_RECORD_HEADER: usize = 24;

/// The bits of the link field that hold the link type; the others describe a frame check
/// sequence, and are ignored.
const LINK_MASK: u32 = 0x03ff_ffff;

/// Which of a record's two lengths comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    SmallerIsCaptured,
}

/// The properties of the records, from the file header.
pub(crate) struct Parser {
    interfaces: Arc<Vec<Interface>>,
    big_endian: bool,
    record_header: usize,
    lengths: Lengths,
    ticks_per_second: u64,
    /// The longest captured length accepted; a longer one is damage, or exceeds the
    /// reader's options.
    limit: u32,
    /// What captured lengths are clamped to.
    clamp: u32,
}

/// Why a run of records ended.
enum Stop {
    /// The batch is full.
    Full,
    /// The next record needs this many bytes.
    Need(usize),
    /// The next record is invalid.
    CapturedLength(u32),
}

impl Parser {
    /// Whether `head` starts a pcap file.
    pub(crate) fn recognises(head: [u8; 4]) -> bool {
        Self::magic(head).is_some()
    }

    /// The first number and whether it is big-endian.
    fn magic(head: [u8; 4]) -> Option<(u32, bool)> {
        [(u32::from_le_bytes(head), false), (u32::from_be_bytes(head), true)]
            .into_iter()
            .find(|(magic, _)| matches!(*magic, MAGIC_MICROS | MAGIC_NANOS | MAGIC_PATCHED))
    }

    /// Reads the file header.
    pub(crate) fn open(input: &mut ReadAhead, options: &ReadOptions) -> Result<Self, Error> {
        if !input.fill(FILE_HEADER)? {
            return Err(input.cut_off(FILE_HEADER));
        }
        let header: &[u8; FILE_HEADER] = match input.unread().first_chunk() {
            Some(header) => header,
            None => return Err(input.cut_off(FILE_HEADER)),
        };
        let bad = |what| Error::BadRecord { file: input.name().to_owned(), offset: 0, what };
        let Some((magic, big_endian)) = Self::magic(word(header, 0)) else {
            return Err(bad("no pcap file header".to_owned()));
        };
        let number = |at| number(word(header, at), big_endian);
        // Two 16-bit numbers; as one 32-bit number their order would depend on the byte
        // order.
        let pair = number(4);
        let (major, minor) =
            if big_endian { (pair >> 16, pair & 0xffff) } else { (pair & 0xffff, pair >> 16) };
        let lengths = match (major, minor) {
            (2, 0..=2) | (543, 0) => Lengths::WireFirst,
            (2, 3) => Lengths::SmallerIsCaptured,
            (2, 4) => Lengths::CapturedFirst,
            _ => {
                let known = "expected 2.0 to 2.4, or 543.0";
                return Err(bad(format!("pcap version {major}.{minor}; {known}")));
            }
        };
        let link = LinkType(number(20) & LINK_MASK);
        let link_flags = number(20) & !LINK_MASK;
        let mut snap_len = snap_len::effective(link, number(16));
        let patched = magic == MAGIC_PATCHED;
        if patched && link == LinkType::ETHERNET {
            // Such captures may have a synthetic Ethernet header before the bytes that the
            // snap length counts.
            snap_len = snap_len.saturating_add(14).min(i32::MAX as u32);
        }
        let (clock, ticks_per_second) = match magic {
            MAGIC_NANOS => (Clock::NANOS, 1_000_000_000),
            _ => (Clock::MICROS, 1_000_000),
        };
        input.consume(FILE_HEADER);
        let interface = Interface { link, link_flags, snap_len, clock, ..Interface::default() };
        Ok(Self {
            interfaces: Arc::new(vec![interface]),
            big_endian,
            record_header: if patched { PATCHED_RECORD_HEADER } else { RECORD_HEADER },
            lengths,
            ticks_per_second,
            limit: snap_len::within(link, options.longest_record),
            clamp: if options.clamp_to_snap_len { snap_len } else { u32::MAX },
        })
    }

    pub(crate) fn interfaces(&self) -> &Arc<Vec<Interface>> {
        &self.interfaces
    }

    /// The next packets, or `None` if the file ends between two records.
    pub(crate) fn next_batch(&mut self, input: &mut ReadAhead) -> Result<Option<Batch>, Error> {
        loop {
            let mut batch = Batch::new(Arc::clone(input.region()), Arc::clone(&self.interfaces));
            let start = input.window_start();
            let ordinary = !self.big_endian
                && self.record_header == RECORD_HEADER
                && self.lengths == Lengths::CapturedFirst
                && self.clamp >= self.limit;
            let (at, stop) = if ordinary {
                batch.set_layout(Layout::PcapRecords);
                self.ordinary_records(input.unread(), start, &mut batch)
            } else {
                self.any_records(input.unread(), start, &mut batch)
            };
            input.consume(at);
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
            match stop {
                Stop::Full => {}
                Stop::Need(need) => {
                    if !input.fill(need)? {
                        let between = input.unread().is_empty();
                        return if between { Ok(None) } else { Err(input.cut_off(need)) };
                    }
                }
                Stop::CapturedLength(cap_len) => return Err(self.too_long(input, cap_len)),
            }
        }
    }

    fn too_long(&self, input: &ReadAhead, cap_len: u32) -> Error {
        let link = self.interfaces[0].link;
        let (file, offset) = (input.name().to_owned(), input.offset());
        let possible = snap_len::limit(link);
        if cap_len <= possible {
            let (len, limit) = (u64::from(cap_len), u64::from(self.limit));
            return Error::RecordTooLong { file, offset, len, limit };
        }
        let what = format!(
            "a captured length of {cap_len} bytes; at most {possible} are possible with {link}"
        );
        Error::BadRecord { file, offset, what }
    }

    /// Parses little-endian records of 16-byte headers, captured length first.
    /// Returns how many bytes of `bytes` they take.
    fn ordinary_records(&self, bytes: &[u8], base: usize, batch: &mut Batch) -> (usize, Stop) {
        let (mut at, mut stop) = (0, Stop::Full);
        batch.fill(|| {
            let rest = &bytes[at..];
            let Some(header) = rest.first_chunk::<RECORD_HEADER>() else {
                stop = Stop::Need(RECORD_HEADER);
                return None;
            };
            let number = |at| u32::from_le_bytes(word(header, at));
            let cap_len = number(8);
            if cap_len > self.limit {
                stop = Stop::CapturedLength(cap_len);
                return None;
            }
            let len = RECORD_HEADER + cap_len as usize;
            if rest.len() < len {
                stop = Stop::Need(len);
                return None;
            }
            let meta = PacketMeta {
                offset: (base + at + RECORD_HEADER) as u32,
                cap_len,
                wire_len: number(12),
                ticks: u64::from(number(0)) * self.ticks_per_second + u64::from(number(4)),
                interface: 0,
            };
            at += len;
            Some(meta)
        });
        (at, stop)
    }

    /// Parses records of any kind. Returns how many bytes of `bytes` they take.
    fn any_records(&self, bytes: &[u8], base: usize, batch: &mut Batch) -> (usize, Stop) {
        let mut at = 0;
        let mut as_stored = !self.big_endian && self.record_header == RECORD_HEADER;
        for _ in 0..BATCH {
            let Some(header) = bytes.get(at..at + self.record_header) else {
                return (at, Stop::Need(self.record_header));
            };
            let number = |at| number(word(header, at), self.big_endian);
            let (first, second) = (number(8), number(12));
            let swapped = match self.lengths {
                Lengths::CapturedFirst => false,
                Lengths::WireFirst => true,
                Lengths::SmallerIsCaptured => first > second,
            };
            let (stored_len, wire_len) = if swapped { (second, first) } else { (first, second) };
            if stored_len > self.limit {
                return (at, Stop::CapturedLength(stored_len));
            }
            let len = self.record_header + stored_len as usize;
            if bytes.len() - at < len {
                return (at, Stop::Need(len));
            }
            as_stored &= !swapped && stored_len <= self.clamp;
            let meta = PacketMeta {
                offset: (base + at + self.record_header) as u32,
                cap_len: stored_len.min(self.clamp),
                wire_len,
                ticks: u64::from(number(0)) * self.ticks_per_second + u64::from(number(4)),
                interface: 0,
            };
            let _ = batch.push(meta);
            batch.set_layout(if as_stored { Layout::PcapRecords } else { Layout::Scattered });
            at += len;
        }
        (at, Stop::Full)
    }
}

/// Four bytes of a header; zeros past its end, which callers exclude.
fn word(header: &[u8], at: usize) -> [u8; 4] {
    header.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default()
}

fn number(bytes: [u8; 4], big_endian: bool) -> u32 {
    if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}
