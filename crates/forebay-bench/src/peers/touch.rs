//! The floor under every engine: a loop that loads each packet's offset and one byte
//! of its header, and does nothing with it.
//!
//! The byte is the first of the EtherType, as every filter of the suite loads it.
#![allow(unsafe_code, reason = "loads a byte at an offset checked before")]

use std::hint::black_box;

use forebay_jit::Packets;
use forebay_packet::TAIL_GUARD;

use crate::suites::filters::packets::Engine;

/// Bytes from the packet's start to its EtherType.
pub const ETHER_TYPE: usize = 12;

const _: () = assert!(ETHER_TYPE < TAIL_GUARD);

#[derive(Debug)]
pub struct Touch;

impl Engine for Touch {
    fn run(&mut self, packets: &Packets<'_>, _first: usize, _verdict: &mut [u32]) {
        let base = packets.base();
        let mut sum = 0_u32;
        for &offset in packets.tables()[0] {
            // SAFETY: packets start inside their memory or at its end; it is that of a
            // region, after whose end `TAIL_GUARD` bytes can be read.
            sum = sum.wrapping_add(u32::from(unsafe { *base.add(offset as usize + ETHER_TYPE) }));
        }
        black_box(sum);
    }
}
