//! Reads pcapng: any number of sections of either byte order, each with its own interfaces,
//! which are numbered consecutively over the sections.
//!
//! Packets are taken from Enhanced, Simple and the obsolete Packet Blocks; other blocks are
//! skipped. A Simple Packet Block has no time stamp: its ticks are zero. Lengths inside a
//! block are checked against the block's length, and a block's length against a limit that
//! allows for any packet of its link types. As in libpcap, a length that is no multiple of
//! four or differs from the one repeated at the end of the block is damage.

use std::sync::Arc;

use forebay_packet::{BATCH, Batch, Clock, Interface, LinkType, PacketMeta, Resolution};

use super::blocks::{
    BLOCK_HEAD, BLOCK_TAIL, IF_DESCRIPTION, IF_NAME, IF_TSOFFSET, IF_TSRESOL, INTERFACE,
    OLD_PACKET, OPT_END, PACKET, SECTION_HEADER, SIMPLE_PACKET,
};
use super::fields::{byte_order, number, short, text};
use crate::error::Error;
use crate::read_options::ReadOptions;
use crate::snap_len;
use crate::source::ReadAhead;

/// The longest block, unless an interface may have longer packets.
const BLOCK_LIMIT: usize = 16 << 20;

/// The lower bound of that limit with any options.
const LEAST_LIMIT: usize = 1 << 20;

/// Room in a block for fixed fields and options, besides the packet.
const BLOCK_MARGIN: usize = 128 << 10;

/// The most interfaces: packets have a 16-bit index.
const MAX_INTERFACES: usize = 1 << 16;

/// The most bytes of all interfaces' names and descriptions: every batch in flight may have
/// its own list.
const MAX_TEXT: usize = 1 << 20;

/// The most link types of the interfaces: a filter is compiled for each.
const MAX_LINK_TYPES: usize = 64;

/// The parser's state: the section and its interfaces.
pub(crate) struct Parser {
    interfaces: Arc<Vec<Interface>>,
    /// Index of the section's first interface.
    section: usize,
    big_endian: bool,
    /// The longest block that is not damage.
    possible: usize,
    /// The longest block that is accepted.
    block_limit: usize,
    /// The longest record that the options allow.
    longest: u64,
    clamp: bool,
    /// Bytes of the interfaces' names and descriptions.
    text: usize,
    /// The interfaces' link types.
    links: Vec<LinkType>,
    /// Packets of the next batch.
    metas: Vec<PacketMeta>,
    /// The number of interfaces described before the first packet.
    before_packets: Option<usize>,
}

/// An error in a block.
enum Fault {
    Bad(String),
    UndefinedInterface(u32),
    TooManyInterfaces,
    TooMuchDescribed(String),
    TooLong(usize),
}

/// Why a run of packet blocks ended.
enum Stop {
    /// The batch is full.
    Full,
    /// The next block needs this many bytes.
    Need(usize),
    /// The next block, of this length, describes a section or an interface.
    Describes(usize),
    Fault(Fault),
}

impl Parser {
    /// Whether `head` starts a pcapng file.
    pub(crate) fn recognises(head: [u8; 4]) -> bool {
        u32::from_le_bytes(head) == SECTION_HEADER
    }

    /// Reads the first section header.
    pub(crate) fn open(input: &mut ReadAhead, options: &ReadOptions) -> Result<Self, Error> {
        let longest = usize::try_from(options.longest_record).unwrap_or(usize::MAX);
        let mut parser = Self {
            interfaces: Arc::new(Vec::new()),
            section: 0,
            big_endian: false,
            possible: BLOCK_LIMIT,
            block_limit: BLOCK_LIMIT.min(longest.max(LEAST_LIMIT)),
            longest: options.longest_record,
            clamp: options.clamp_to_snap_len,
            text: 0,
            links: Vec::new(),
            metas: Vec::with_capacity(BATCH),
            before_packets: None,
        };
        loop {
            match parser.block(input.unread()) {
                Ok(block) => {
                    parser.describe(input, block.len)?;
                    return Ok(parser);
                }
                Err(Stop::Need(need)) => {
                    if !input.fill(need)? {
                        return Err(input.cut_off(need));
                    }
                }
                Err(Stop::Fault(fault)) => return Err(parser.error(input, fault)),
                Err(Stop::Full | Stop::Describes(_)) => {}
            }
        }
    }

    pub(crate) fn interfaces(&self) -> &Arc<Vec<Interface>> {
        &self.interfaces
    }

    /// The interfaces described before the first packet.
    pub(crate) fn first_interfaces(&self) -> &[Interface] {
        let n = self.before_packets.unwrap_or(self.interfaces.len());
        self.interfaces.get(..n).unwrap_or_default()
    }

    /// The next packets, or `None` if the file ends between two blocks.
    pub(crate) fn next_batch(&mut self, input: &mut ReadAhead) -> Result<Option<Batch>, Error> {
        let mut metas = std::mem::take(&mut self.metas);
        metas.clear();
        let outcome = self.collect(input, &mut metas);
        let batch = (!metas.is_empty()).then(|| {
            // Created last, so that descriptions between the packets cost one list of
            // interfaces for the whole batch.
            let region = Arc::clone(input.region());
            let interfaces = Arc::clone(&self.interfaces);
            let mut batch = Batch::with_capacity(region, interfaces, metas.len());
            for meta in &metas {
                // At most a batch of packets is collected.
                let _ = batch.push(*meta);
            }
            batch
        });
        self.metas = metas;
        // If packets precede an error, the next call finds it again.
        match batch {
            Some(batch) => Ok(Some(batch)),
            None => outcome.map(|()| None),
        }
    }

    /// Collects packets of one region, up to a batch full of them.
    fn collect(&mut self, input: &mut ReadAhead, metas: &mut Vec<PacketMeta>) -> Result<(), Error> {
        loop {
            let base = input.window_start();
            let (at, stop) = self.packets(input.unread(), base, metas);
            input.consume(at);
            if !metas.is_empty() {
                self.before_packets.get_or_insert(self.interfaces.len());
            }
            match stop {
                Stop::Full => return Ok(()),
                Stop::Describes(len) => self.describe(input, len)?,
                Stop::Need(_) if !metas.is_empty() => return Ok(()),
                Stop::Need(need) => {
                    if !input.fill(need)? {
                        let between = input.unread().is_empty();
                        return if between { Ok(()) } else { Err(input.cut_off(need)) };
                    }
                }
                Stop::Fault(fault) => return Err(self.error(input, fault)),
            }
        }
    }

    fn error(&self, input: &ReadAhead, fault: Fault) -> Error {
        let (file, offset) = (input.name().to_owned(), input.offset());
        match fault {
            Fault::Bad(what) => Error::BadRecord { file, offset, what },
            Fault::UndefinedInterface(id) => Error::UndefinedInterface {
                file,
                offset,
                id,
                described: self.interfaces.len() - self.section,
            },
            Fault::TooManyInterfaces => {
                Error::TooManyInterfaces { file, offset, limit: MAX_INTERFACES }
            }
            Fault::TooMuchDescribed(what) => Error::TooMuchDescribed { file, offset, what },
            Fault::TooLong(len) => Error::RecordTooLong {
                file,
                offset,
                len: len as u64,
                limit: self.block_limit as u64,
            },
        }
    }

    /// Parses blocks up to one that is incomplete or changes the interfaces. Returns how
    /// many bytes of `bytes` they take.
    fn packets(&self, bytes: &[u8], base: usize, metas: &mut Vec<PacketMeta>) -> (usize, Stop) {
        let mut at = 0;
        loop {
            let block = match self.block(&bytes[at..]) {
                Ok(block) => block,
                Err(stop) => return (at, stop),
            };
            let meta = match block.kind {
                SECTION_HEADER | INTERFACE => return (at, Stop::Describes(block.len)),
                PACKET => self.packet(block.body),
                OLD_PACKET => self.old_packet(block.body),
                SIMPLE_PACKET => self.simple_packet(block.body),
                _ => {
                    at += block.len;
                    continue;
                }
            };
            match meta {
                Ok(mut meta) => {
                    meta.offset += (base + at + BLOCK_HEAD) as u32;
                    if metas.len() == BATCH {
                        return (at, Stop::Full);
                    }
                    metas.push(meta);
                }
                Err(fault) => return (at, Stop::Fault(fault)),
            }
            at += block.len;
        }
    }

    /// The block at the start of `bytes`, which must be complete.
    fn block<'a>(&self, bytes: &'a [u8]) -> Result<Block<'a>, Stop> {
        let Some(head) = bytes.first_chunk::<BLOCK_HEAD>() else {
            return Err(Stop::Need(BLOCK_HEAD));
        };
        let kind = self.number(head, 0);
        let mut big_endian = self.big_endian;
        if kind == SECTION_HEADER {
            let Some(order) = bytes.get(BLOCK_HEAD..BLOCK_HEAD + 4) else {
                return Err(Stop::Need(BLOCK_HEAD + 4));
            };
            big_endian = byte_order(order).map_err(|what| Stop::Fault(Fault::Bad(what)))?;
        }
        let len = number(head, 4, big_endian);
        let fault = |what| Err(Stop::Fault(Fault::Bad(what)));
        let fixed = fixed_len(kind);
        let min = BLOCK_HEAD + fixed + BLOCK_TAIL;
        if (len as usize) < min || !len.is_multiple_of(4) || len as usize > self.possible {
            return fault(format!(
                "a block of type {kind} and length {len}; expected a multiple of 4 \
                 from {min} to {}",
                self.possible
            ));
        }
        let len = len as usize;
        if len > self.block_limit {
            return Err(Stop::Fault(Fault::TooLong(len)));
        }
        let Some(block) = bytes.get(..len) else { return Err(Stop::Need(len)) };
        let again = number(block, len - BLOCK_TAIL, big_endian) as usize;
        if again != len {
            return fault(format!("a block whose length is {len} before and {again} behind it"));
        }
        Ok(Block { kind, len, body: &block[BLOCK_HEAD..len - BLOCK_TAIL] })
    }

    /// Applies the section header or interface description of length `len` at the window,
    /// and moves past it.
    fn describe(&mut self, input: &mut ReadAhead, len: usize) -> Result<(), Error> {
        let block = &input.unread()[..len];
        let body = &block[BLOCK_HEAD..len - BLOCK_TAIL];
        let described = if self.number(block, 0) == SECTION_HEADER {
            self.describe_section(body)
        } else {
            self.describe_interface(body)
        };
        described.map_err(|fault| self.error(input, fault))?;
        input.consume(len);
        Ok(())
    }

    fn describe_section(&mut self, body: &[u8]) -> Result<(), Fault> {
        self.big_endian = byte_order(body).map_err(Fault::Bad)?;
        let major = self.short(body, 4);
        if major != 1 {
            return Err(Fault::Bad(format!("pcapng version {major}; expected 1")));
        }
        self.section = self.interfaces.len();
        Ok(())
    }

    fn describe_interface(&mut self, body: &[u8]) -> Result<(), Fault> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Fault::TooManyInterfaces);
        }
        let mut interface = Interface {
            link: LinkType(u32::from(self.short(body, 0))),
            snap_len: self.number(body, 4),
            ..Interface::default()
        };
        let mut options = &body[fixed_len(INTERFACE)..];
        while let Some(option) = self.option(options)? {
            describe_option(&mut interface, &option, self.big_endian)?;
            options = option.rest;
        }
        self.keep_within(&interface)?;
        let (link, margin) = (interface.link, BLOCK_MARGIN);
        let taken = snap_len::within(link, self.longest) as usize;
        self.possible = self.possible.max(snap_len::limit(link) as usize + margin);
        self.block_limit = self.block_limit.max(taken + margin);
        Arc::make_mut(&mut self.interfaces).push(interface);
        Ok(())
    }

    /// Counts the text and link type of an interface, and rejects too much.
    fn keep_within(&mut self, interface: &Interface) -> Result<(), Fault> {
        let texts = [&interface.name, &interface.description];
        self.text += texts.into_iter().flatten().map(String::len).sum::<usize>();
        if self.text > MAX_TEXT {
            return Err(Fault::TooMuchDescribed(format!(
                "interfaces with more than {MAX_TEXT} bytes of names and descriptions"
            )));
        }
        if !self.links.contains(&interface.link) {
            if self.links.len() == MAX_LINK_TYPES {
                let what = format!("interfaces of more than {MAX_LINK_TYPES} link types");
                return Err(Fault::TooMuchDescribed(what));
            }
            self.links.push(interface.link);
        }
        Ok(())
    }

    /// The first of `options`, and the rest (section 3.5).
    fn option<'a>(&self, options: &'a [u8]) -> Result<Option<OptionField<'a>>, Fault> {
        if options.len() < 4 {
            return Ok(None);
        }
        let (code, len) = (self.short(options, 0), usize::from(self.short(options, 2)));
        if code == OPT_END {
            return Ok(None);
        }
        let Some(value) = options.get(4..4 + len) else {
            return Err(Fault::Bad(format!(
                "an interface's option {code} of {len} bytes; its block has {} left",
                options.len() - 4
            )));
        };
        let rest = options.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Ok(Some(OptionField { code, value, rest }))
    }

    /// An Enhanced Packet Block.
    fn packet(&self, body: &[u8]) -> Result<PacketMeta, Fault> {
        let id = self.number(body, 0);
        let ticks = u64::from(self.number(body, 4)) << 32 | u64::from(self.number(body, 8));
        let lengths = (self.number(body, 12), self.number(body, 16));
        self.meta(id, ticks, lengths, fixed_len(PACKET), body)
    }

    /// A Packet Block: as an Enhanced one, but for a 16-bit interface and a
    /// count of drops.
    fn old_packet(&self, body: &[u8]) -> Result<PacketMeta, Fault> {
        let id = u32::from(self.short(body, 0));
        let ticks = u64::from(self.number(body, 4)) << 32 | u64::from(self.number(body, 8));
        let lengths = (self.number(body, 12), self.number(body, 16));
        self.meta(id, ticks, lengths, fixed_len(OLD_PACKET), body)
    }

    /// A Simple Packet Block: of the section's first interface, captured up to
    /// that interface's snap length.
    fn simple_packet(&self, body: &[u8]) -> Result<PacketMeta, Fault> {
        let interface = self.interfaces.get(self.section).ok_or(Fault::UndefinedInterface(0))?;
        let wire_len = self.number(body, 0);
        let cap_len = wire_len.min(snap_len::effective(interface.link, interface.snap_len));
        self.meta(0, 0, (cap_len, wire_len), fixed_len(SIMPLE_PACKET), body)
    }

    /// The description of a packet block's packet, with its offset in the block's body.
    fn meta(
        &self,
        id: u32,
        ticks: u64,
        (cap_len, wire_len): (u32, u32),
        fixed: usize,
        body: &[u8],
    ) -> Result<PacketMeta, Fault> {
        let index = self.section + id as usize;
        let interface = self.interfaces.get(index).ok_or(Fault::UndefinedInterface(id))?;
        let link = interface.link;
        let stored = body.len() - fixed;
        let most = stored.min(snap_len::limit(link) as usize);
        if cap_len as usize > most {
            return Err(Fault::Bad(format!(
                "a captured length of {cap_len} bytes; at most {most} are possible in a block \
                 with {stored} bytes behind its fixed fields and link type {link}"
            )));
        }
        let clamp = self.clamp.then(|| snap_len::effective(link, interface.snap_len));
        Ok(PacketMeta {
            offset: fixed as u32,
            cap_len: cap_len.min(clamp.unwrap_or(u32::MAX)),
            wire_len,
            ticks,
            // `describe_interface` keeps the number of interfaces below 2^16.
            interface: index as u16,
        })
    }

    fn number(&self, bytes: &[u8], at: usize) -> u32 {
        number(bytes, at, self.big_endian)
    }

    fn short(&self, bytes: &[u8], at: usize) -> u16 {
        short(bytes, at, self.big_endian)
    }
}

/// A complete block.
struct Block<'a> {
    kind: u32,
    /// Length of all of it.
    len: usize,
    body: &'a [u8],
}

/// An option, and the options after it.
struct OptionField<'a> {
    code: u16,
    value: &'a [u8],
    rest: &'a [u8],
}

/// Length of the fixed fields at the start of a block's body.
fn fixed_len(kind: u32) -> usize {
    match kind {
        SECTION_HEADER => 16,
        INTERFACE => 8,
        PACKET | OLD_PACKET => 20,
        SIMPLE_PACKET => 4,
        _ => 0,
    }
}

fn describe_option(
    interface: &mut Interface,
    &OptionField { code, value, .. }: &OptionField<'_>,
    big_endian: bool,
) -> Result<(), Fault> {
    let length = |expected: usize| {
        let found = value.len();
        Fault::Bad(format!("an interface's option {code} of {found} bytes; expected {expected}"))
    };
    match code {
        IF_NAME => interface.name = Some(text(value)),
        IF_DESCRIPTION => interface.description = Some(text(value)),
        IF_TSRESOL => {
            let &[exponent] = value else { return Err(length(1)) };
            interface.clock.resolution = match exponent {
                0x80.. => Resolution::Binary(exponent & 0x7f),
                _ => Resolution::Decimal(exponent),
            };
        }
        IF_TSOFFSET => {
            let bytes: [u8; 8] = value.try_into().map_err(|_| length(8))?;
            interface.clock.offset_seconds =
                if big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
        }
        _ => {}
    }
    Ok(())
}

const _: () = assert!(MAX_INTERFACES - 1 <= u16::MAX as usize);
const _: () = {
    let Clock { resolution, offset_seconds } = Clock::MICROS;
    // The defaults of an interface without the options (section 4.2).
    assert!(matches!(resolution, Resolution::Decimal(6)) && offset_seconds == 0);
};
