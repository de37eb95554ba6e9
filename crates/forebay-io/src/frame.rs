//! Copies a packet of a batch into an output's memory, rewritten for the output.

use std::ops::Deref;

use forebay_packet::{Batch, LinkType, MacAddress, RateLabel, Rewrite, write_dscp};

/// What is changed of one packet: as of all packets of its output, or of those of suspect flows, and
/// with its own rate label.
#[derive(Clone, Copy)]
pub(crate) struct FrameRewrite<'a> {
    rewrite: &'a Rewrite,
    /// In place of that, of a packet of a suspect flow.
    annotated: Option<Rewrite>,
    /// None if no field of the packet gets a label.
    label: Option<RateLabel>,
}

impl Deref for FrameRewrite<'_> {
    type Target = Rewrite;

    #[inline]
    fn deref(&self) -> &Rewrite {
        self.annotated.as_ref().unwrap_or(self.rewrite)
    }
}

/// The rewrite of packet `i`: the element of `rewrites` for its output.
#[inline]
pub(crate) fn rewrite_of<'a>(batch: &Batch, i: usize, rewrites: &'a [Rewrite]) -> FrameRewrite<'a> {
    Rewrites::new(batch, rewrites).get(i)
}

/// The rewrites of the packets of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Rewrites<'a, 'b> {
    batch: &'b Batch,
    rewrites: &'a [Rewrite],
}

impl<'a, 'b> Rewrites<'a, 'b> {
    /// By packet: the element of `rewrites` for its output.
    #[inline]
    pub(crate) fn new(batch: &'b Batch, rewrites: &'a [Rewrite]) -> Self {
        Self { batch, rewrites }
    }

    /// The rewrite of packet `i`.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> FrameRewrite<'a> {
        let output = self.batch.output.get(i).copied().unwrap_or_default();
        let rewrite = self.rewrites.get(usize::from(output)).unwrap_or(&Rewrite::NONE);
        let label = rewrite.label.and_then(|_| self.label(i));
        let annotated = rewrite.annotation.and_then(|_| self.annotated(i, rewrite));
        FrameRewrite { rewrite, annotated, label }
    }

    /// The label of packet `i`, if it is an Ethernet frame.
    fn label(&self, i: usize) -> Option<RateLabel> {
        self.is_ethernet(i).then(|| self.batch.label.get(i).copied().unwrap_or_default())
    }

    /// The rewrite of packet `i`, if it is an Ethernet frame of a suspect flow.
    #[cold]
    fn annotated(&self, i: usize, rewrite: &Rewrite) -> Option<Rewrite> {
        let marks = self.batch.suspect.contains(i) && self.is_ethernet(i);
        marks.then(|| rewrite.annotated())
    }

    fn is_ethernet(&self, i: usize) -> bool {
        self.batch.interface(i).link == LinkType::ETHERNET
    }
}

/// Bytes of the two addresses of an Ethernet frame.
const ADDRESSES: usize = 12;

/// Lengths of frames that are copied as two pieces of fixed size: at least 32 bytes, even
/// without the addresses.
const SHORT: std::ops::RangeInclusive<usize> = 44..=128;

/// Offset of the first byte that is read of every frame: after the addresses, if both are
/// replaced. If the EtherType starts a cache line, the addresses are in another line.
#[inline]
pub(crate) fn first_read(rewrites: &[Rewrite]) -> usize {
    let replaced = |rewrite: &Rewrite| {
        rewrite.destination.is_some()
            && rewrite.source.is_some()
            && rewrite.push_vlan.is_none()
            && rewrite.annotation.is_none()
    };
    if !rewrites.is_empty() && rewrites.iter().all(replaced) { ADDRESSES } else { 0 }
}

/// Copies `frame` to the start of `out` as [`Rewrite::write`] does, then writes its code point and
/// its label.
#[inline]
pub(crate) fn write_frame(
    rewrite: FrameRewrite<'_>,
    frame: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let len = copy_frame(&rewrite, frame, out)?;
    if let Some(code) = rewrite.dscp {
        write_dscp(code, &mut out[..len]);
    }
    if let (Some(field), Some(label)) = (rewrite.rewrite.label, rewrite.label) {
        field.write(label, &mut out[..len]);
    }
    Some(len)
}

/// Copies `frame` to the start of `out` as [`Rewrite::write`] does. A short frame that
/// keeps its length is copied as two pieces of fixed size that may overlap, which compile
/// to a few vector instructions; a call of `memcpy` costs more than the rest of sending.
#[inline]
fn copy_frame(rewrite: &Rewrite, frame: &[u8], out: &mut [u8]) -> Option<usize> {
    let len = frame.len();
    let is_whole =
        rewrite.push_vlan.is_none() && rewrite.slice.is_none() && rewrite.strip.is_none();
    if !is_whole || !SHORT.contains(&len) {
        return rewrite.write(frame, out);
    }
    let out = out.get_mut(..len)?;
    if let (Some(destination), Some(source)) = (rewrite.destination, rewrite.source) {
        copy_short(&frame[ADDRESSES..], &mut out[ADDRESSES..]);
        out[..6].copy_from_slice(&destination.0);
        out[6..ADDRESSES].copy_from_slice(&source.0);
        return Some(len);
    }
    copy_short(frame, out);
    if let Some(MacAddress(address)) = rewrite.destination {
        out[..6].copy_from_slice(&address);
    }
    if let Some(MacAddress(address)) = rewrite.source {
        out[6..ADDRESSES].copy_from_slice(&address);
    }
    Some(len)
}

/// Copies 32 to 128 bytes between slices of equal length.
#[inline(always)]
fn copy_short(from: &[u8], to: &mut [u8]) {
    let len = from.len();
    if len <= 64 {
        to[..32].copy_from_slice(&from[..32]);
        to[len - 32..].copy_from_slice(&from[len - 32..]);
    } else {
        to[..64].copy_from_slice(&from[..64]);
        to[len - 64..].copy_from_slice(&from[len - 64..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_as_by_rewrite() {
        let bytes: Vec<u8> = (0..300).map(|i| (i % 251) as u8).collect();
        let change = Rewrite {
            destination: Some(MacAddress([0xd0; 6])),
            source: Some(MacAddress([0xe0; 6])),
            ..Rewrite::NONE
        };
        let tagged = Rewrite { push_vlan: Some(7), ..change };
        let sliced = Rewrite { slice: Some(40), ..change };
        for rewrite in [Rewrite::NONE, change, tagged, sliced] {
            for len in 0..=bytes.len() {
                let (mut ours, mut expected) = ([0xaa; 310], [0xaa; 310]);
                let written = copy_frame(&rewrite, &bytes[..len], &mut ours);
                assert_eq!(written, rewrite.write(&bytes[..len], &mut expected), "{len}");
                assert_eq!(ours, expected, "{len}");
            }
        }
        assert_eq!(copy_frame(&change, &bytes[..60], &mut [0; 59]), None);
    }
}
