//! Writes pcapng: one little-endian section, an Interface Description Block for each interface
//! before its first packet, Enhanced Packet Blocks with the ticks as they are.

use forebay_packet::{Clock, Interface, Resolution};

use super::blocks::{
    BLOCK_HEAD, BLOCK_TAIL, BYTE_ORDER, IF_DESCRIPTION, IF_NAME, IF_TSOFFSET, IF_TSRESOL,
    INTERFACE, OPT_COMMENT, OPT_END, OPTION_HEAD, PACKET, SECTION_HEADER,
};

/// Fixed fields of an Enhanced Packet Block.
const PACKET_FIXED: usize = 20;

/// Why an interface cannot be described in pcapng.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InterfaceDoesNotFit {
    /// Link types have 16 bits.
    Link,
    /// Exponents of resolutions have 7 bits.
    Resolution,
}

impl InterfaceDoesNotFit {
    /// What of an interface does not fit.
    pub(crate) fn text(self, interface: &Interface) -> String {
        match self {
            Self::Link => {
                format!("link type {}, in the pcapng format: at most 65535", interface.link.0)
            }
            Self::Resolution => format!(
                "a clock of {:?}, in the pcapng format: exponents up to 127",
                interface.clock.resolution
            ),
        }
    }
}

/// The block that opens a section of unknown length.
pub(crate) fn section_header() -> Vec<u8> {
    let mut block = open(SECTION_HEADER);
    block.extend(BYTE_ORDER.to_le_bytes());
    block.extend(1_u16.to_le_bytes());
    block.extend(0_u16.to_le_bytes());
    block.extend((-1_i64).to_le_bytes());
    close(block)
}

/// The block that describes an interface. Captured lengths are cut to `cut`.
pub(crate) fn interface_block(
    interface: &Interface,
    cut: Option<u32>,
) -> Result<Vec<u8>, InterfaceDoesNotFit> {
    let link = u16::try_from(interface.link.0).map_err(|_| InterfaceDoesNotFit::Link)?;
    let snap_len = match (interface.snap_len, cut) {
        (0, cut) => cut.unwrap_or(0),
        (snap_len, cut) => snap_len.min(cut.unwrap_or(u32::MAX)),
    };
    let mut block = open(INTERFACE);
    block.extend(link.to_le_bytes());
    block.extend(0_u16.to_le_bytes());
    block.extend(snap_len.to_le_bytes());
    let fixed = block.len();
    if let Some(name) = &interface.name {
        option(&mut block, IF_NAME, option_text(name));
    }
    if let Some(description) = &interface.description {
        option(&mut block, IF_DESCRIPTION, option_text(description));
    }
    if interface.clock.resolution != Clock::MICROS.resolution {
        let exponent = match interface.clock.resolution {
            Resolution::Decimal(n) if n < 0x80 => n,
            Resolution::Binary(n) if n < 0x80 => n | 0x80,
            _ => return Err(InterfaceDoesNotFit::Resolution),
        };
        option(&mut block, IF_TSRESOL, &[exponent]);
    }
    if interface.clock.offset_seconds != 0 {
        option(&mut block, IF_TSOFFSET, &interface.clock.offset_seconds.to_le_bytes());
    }
    if block.len() > fixed {
        option(&mut block, OPT_END, &[]);
    }
    Ok(close(block))
}

/// Appends the block of a packet, with a comment unless that is empty.
pub(crate) fn packet_block(
    out: &mut Vec<u8>,
    (interface, ticks): (u16, u64),
    (packet, wire_len): (&[u8], u32),
    comment: &str,
) {
    // A packet's length fits 31 bits: regions are limited to 32, and the
    // longest packet of any link type to 27.
    let padded = packet.len().next_multiple_of(4);
    let len = (BLOCK_HEAD + PACKET_FIXED + padded + comment_len(comment) + BLOCK_TAIL) as u32;
    let mut head = [0; BLOCK_HEAD + PACKET_FIXED];
    let fields = [
        PACKET,
        len,
        u32::from(interface),
        (ticks >> 32) as u32,
        ticks as u32,
        packet.len() as u32,
        wire_len,
    ];
    for (bytes, field) in head.chunks_exact_mut(4).zip(fields) {
        bytes.copy_from_slice(&field.to_le_bytes());
    }
    out.extend_from_slice(&head);
    out.extend_from_slice(packet);
    out.extend_from_slice(&[0; 3][..padded - packet.len()]);
    if !comment.is_empty() {
        option(out, OPT_COMMENT, option_text(comment));
        option(out, OPT_END, &[]);
    }
    out.extend_from_slice(&len.to_le_bytes());
}

/// The bytes that a comment adds to a block.
pub(crate) fn comment_len(comment: &str) -> usize {
    match option_text(comment).len() {
        0 => 0,
        len => OPTION_HEAD + len.next_multiple_of(4) + OPTION_HEAD,
    }
}

fn open(kind: u32) -> Vec<u8> {
    let mut block = kind.to_le_bytes().to_vec();
    block.extend([0; 4]);
    block
}

/// Sets the length before and after.
fn close(mut block: Vec<u8>) -> Vec<u8> {
    let len = (block.len() + BLOCK_TAIL) as u32;
    block[4..BLOCK_HEAD].copy_from_slice(&len.to_le_bytes());
    block.extend(len.to_le_bytes());
    block
}

fn option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    block.extend(code.to_le_bytes());
    block.extend((value.len() as u16).to_le_bytes());
    block.extend(value);
    block.extend_from_slice(&[0; 3][..value.len().next_multiple_of(4) - value.len()]);
}

/// As much of a text as fits an option.
fn option_text(text: &str) -> &[u8] {
    let mut len = text.len().min(usize::from(u16::MAX));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text.as_bytes()[..len]
}
