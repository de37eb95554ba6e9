//! Code from the start of an Ethernet frame to its IP header, past at most two VLAN tags
//! (IEEE 802.1Q, 802.1ad and the two older types that `forebay-packet` decodes).

use super::require;
use crate::asm::Register::{R2, R7};
use crate::asm::{Alu, Assembler, Condition, Label, Size};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN_TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];

/// The most VLAN tags that are skipped.
pub(crate) const MAX_TAGS: usize = 2;

/// Length of an Ethernet header, and the offset of its EtherType.
pub(crate) const ETHERNET: i32 = 14;
pub(crate) const ETHER_TYPE: i16 = 12;
/// Length of a VLAN tag, and the offset of the next EtherType from the end of the previous
/// one.
pub(crate) const TAG: i32 = 4;
pub(crate) const TAGGED_TYPE: i16 = 2;

/// An EtherType as a 16-bit load returns it.
fn stored(ether_type: u16) -> i32 {
    i32::from(ether_type.to_be())
}

/// Appends code that jumps to `ip` or `tag` according to the EtherType in R2, as loaded,
/// and else falls through. Without `tag` a further tag is not skipped.
pub(crate) fn dispatch(asm: &mut Assembler, ip: Label, tag: Option<Label>) {
    for ether_type in [IPV4, IPV6] {
        asm.branch(Condition::Equal, R2, stored(ether_type), ip);
    }
    if let Some(tag) = tag {
        for ether_type in VLAN_TAGS {
            asm.branch(Condition::Equal, R2, stored(ether_type), tag);
        }
    }
}

/// Appends code that moves R7 from the frame's start to the IP header; R8 is the frame's
/// end. Clobbers R1 and R2.
pub(super) fn emit(asm: &mut Assembler, no_addresses: Label) {
    let ip = asm.label("ip");
    require(asm, ETHERNET, no_addresses);
    asm.load(Size::Half, R2, R7, ETHER_TYPE);
    asm.alu(Alu::Add, R7, ETHERNET);
    for _ in 0..MAX_TAGS {
        let tag = asm.label("tag");
        dispatch(asm, ip, Some(tag));
        asm.jump(no_addresses);
        asm.bind(tag);
        require(asm, TAG, no_addresses);
        asm.load(Size::Half, R2, R7, TAGGED_TYPE);
        asm.alu(Alu::Add, R7, TAG);
    }
    dispatch(asm, ip, None);
    asm.jump(no_addresses);
    asm.bind(ip);
}
