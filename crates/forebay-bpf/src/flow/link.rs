//! Code from the start of an Ethernet frame to its IP header, past at most two of the tags
//! of fixed length that `forebay-packet` decodes.

use super::require;
use crate::asm::Register::{R1, R2, R7};
use crate::asm::{Alu, Assembler, Condition, Label, Register, Size};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// Cisco MetaData, which has a length: with one option, as a security group's, it is 1.
const METADATA: u16 = 0x8909;
const METADATA_LENGTH: i16 = 1;

/// Lengths of tags, and the EtherTypes that announce them: VLAN tags (IEEE 802.1Q, 802.1ad
/// and two older types); VN-Tag, HSR, 802.1CB; 802.1BR and Marvell's; MetaData. The last two
/// bytes of a tag are the next EtherType.
const TAGS: [(i32, &[u16]); 4] = [
    (4, &[0x8100, 0x88a8, 0x9100, 0x9200]),
    (6, &[0x8926, 0x892f, 0xf1c1]),
    (8, &[0x893f, 0xdada]),
    (8, &[METADATA]),
];

/// The most tags that are skipped.
const MAX_TAGS: usize = 2;

/// Length of an Ethernet header, and the offset of its EtherType.
pub(crate) const ETHERNET: i32 = 14;
pub(crate) const ETHER_TYPE: i16 = 12;

/// An EtherType as a 16-bit load returns it.
fn stored(ether_type: u16) -> i32 {
    i32::from(ether_type.to_be())
}

/// Appends code that jumps to `ip` with R7 past the tags, or to `no_addresses`. R7 is past
/// the EtherType in R2, as loaded. `load` appends code that makes so many bytes from R7 on
/// readable, at the given offset from a register.
pub(crate) fn emit_tags(
    asm: &mut Assembler,
    ip: Label,
    no_addresses: Label,
    (base, offset): (Register, i16),
    load: impl Fn(&mut Assembler, i32),
) {
    for depth in 0..=MAX_TAGS {
        for ether_type in [IPV4, IPV6] {
            asm.branch(Condition::Equal, R2, stored(ether_type), ip);
        }
        if depth == MAX_TAGS {
            break;
        }
        let labels = TAGS.map(|_| asm.label("tag"));
        for (label, (_, ether_types)) in labels.into_iter().zip(TAGS) {
            for &ether_type in ether_types {
                asm.branch(Condition::Equal, R2, stored(ether_type), label);
            }
        }
        asm.jump(no_addresses);
        let next = asm.label("next");
        for (label, (len, ether_types)) in labels.into_iter().zip(TAGS) {
            asm.bind(label);
            load(asm, len);
            if ether_types == [METADATA] {
                asm.load(Size::Byte, R1, base, offset + METADATA_LENGTH);
                asm.branch(Condition::NotEqual, R1, 1, no_addresses);
            }
            asm.load(Size::Half, R2, base, offset + len as i16 - 2);
            asm.alu(Alu::Add, R7, len);
            asm.jump(next);
        }
        asm.bind(next);
    }
    asm.jump(no_addresses);
}

/// Appends code that moves R7 from the frame's start to the IP header; R8 is the frame's
/// end. Clobbers R1 and R2.
pub(super) fn emit(asm: &mut Assembler, no_addresses: Label) {
    let ip = asm.label("ip");
    require(asm, ETHERNET, no_addresses);
    asm.load(Size::Half, R2, R7, ETHER_TYPE);
    asm.alu(Alu::Add, R7, ETHERNET);
    emit_tags(asm, ip, no_addresses, (R7, 0), |asm, len| require(asm, len, no_addresses));
    asm.bind(ip);
}
