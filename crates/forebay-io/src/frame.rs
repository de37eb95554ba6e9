//! Copies a packet of a batch into an output's memory, rewritten for the output.

use std::ops::Deref;

use forebay_packet::{ADDRESSES, Batch, LinkType, RateLabel, Rewrite, Rewrites, write_dscp};

/// What is changed of one packet: as of all packets of its output, or of those of suspect flows, and
/// with its own rate label.
#[derive(Clone, Copy)]
pub(crate) struct FrameRewrite<'a> {
    rewrite: &'a Rewrite,
    /// The new addresses, if nothing else is changed.
    addresses: Option<&'a [u8; ADDRESSES]>,
    /// None if no field of the packet gets a label.
    label: Option<RateLabel>,
}

impl Deref for FrameRewrite<'_> {
    type Target = Rewrite;

    #[inline]
    fn deref(&self) -> &Rewrite {
        self.rewrite
    }
}

/// The rewrite of packet `i`: that of its output.
#[inline]
pub(crate) fn rewrite_of<'a>(
    batch: &'a Batch,
    i: usize,
    rewrites: &'a Rewrites,
) -> FrameRewrite<'a> {
    FrameRewrites::new(batch, rewrites).get(i)
}

/// The rewrites of the packets of a batch.
#[derive(Clone, Copy)]
pub(crate) struct FrameRewrites<'a> {
    batch: &'a Batch,
    /// Looked up in the batch once, not for each packet.
    outputs: &'a [u16],
    rewrites: &'a Rewrites,
}

impl<'a> FrameRewrites<'a> {
    /// By packet: those of its output.
    #[inline]
    pub(crate) fn new(batch: &'a Batch, rewrites: &'a Rewrites) -> Self {
        Self { batch, outputs: &batch.output, rewrites }
    }

    /// The rewrite of packet `i`.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> FrameRewrite<'a> {
        let output = self.rewrites.of(self.outputs.get(i).copied().unwrap_or_default());
        let (rewrite, addresses) = (&output.rewrite, output.addresses.as_ref());
        if addresses.is_some() {
            return FrameRewrite { rewrite, addresses, label: None };
        }
        let label = rewrite.label.and_then(|_| self.label(i));
        let is_annotated = rewrite.annotation.is_some() && self.is_annotated(i);
        let rewrite = if is_annotated { &output.annotated } else { rewrite };
        FrameRewrite { rewrite, addresses, label }
    }

    /// The label of packet `i`, if it is an Ethernet frame.
    fn label(&self, i: usize) -> Option<RateLabel> {
        self.is_ethernet(i).then(|| self.batch.label.get(i).copied().unwrap_or_default())
    }

    /// Whether packet `i` is an Ethernet frame of a suspect flow.
    fn is_annotated(&self, i: usize) -> bool {
        self.batch.suspect.contains(i) && self.is_ethernet(i)
    }

    fn is_ethernet(&self, i: usize) -> bool {
        self.batch.interface(i).link == LinkType::ETHERNET
    }
}

/// The shortest frames that [`copy`] copies, even without their addresses.
const SHORTEST: usize = ADDRESSES + 32;

/// Offset of the first byte that is read of frames that [`copy`] copies: after the addresses, if all get
/// new ones and nothing else is changed. If the EtherType starts a cache line, the addresses are in
/// another line.
#[inline]
pub(crate) fn first_read(rewrites: &Rewrites) -> usize {
    if rewrites.replace_all_addresses() { ADDRESSES } else { 0 }
}

/// Copies `frame` to the start of `out` as [`Rewrite::write`] does, then writes its code point and
/// its label. Where only the addresses are new, which most outputs have, that is asked once.
#[inline]
pub(crate) fn write_frame(
    rewrite: FrameRewrite<'_>,
    frame: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    if let Some(addresses) = rewrite.addresses.filter(|_| frame.len() >= SHORTEST) {
        let out = out.get_mut(..frame.len())?;
        copy(&frame[ADDRESSES..], &mut out[ADDRESSES..]);
        out[..ADDRESSES].copy_from_slice(addresses);
        return Some(frame.len());
    }
    let len = copy_frame(&rewrite, frame, out)?;
    if let Some(code) = rewrite.dscp {
        write_dscp(code, &mut out[..len]);
    }
    if let (Some(field), Some(label)) = (rewrite.rewrite.label, rewrite.label) {
        field.write(label, &mut out[..len]);
    }
    Some(len)
}

/// Copies `frame` to the start of `out` as [`Rewrite::write`] does.
#[inline]
fn copy_frame(rewrite: &Rewrite, frame: &[u8], out: &mut [u8]) -> Option<usize> {
    let len = frame.len();
    let is_whole =
        rewrite.push_vlan.is_none() && rewrite.slice.is_none() && rewrite.strip.is_none();
    if !is_whole || len < SHORTEST {
        return rewrite.write(frame, out);
    }
    let out = out.get_mut(..len)?;
    copy(frame, out);
    rewrite.write_header(out);
    Some(len)
}

/// Copies at least 32 bytes between slices of equal length. Up to 128 bytes are copied as two pieces of
/// fixed size that may overlap, which compile to a few vector instructions; a call of `memcpy` costs
/// more than the rest of sending.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    let len = from.len();
    if len <= 64 {
        to[..32].copy_from_slice(&from[..32]);
        to[len - 32..].copy_from_slice(&from[len - 32..]);
    } else if len <= 128 {
        to[..64].copy_from_slice(&from[..64]);
        to[len - 64..].copy_from_slice(&from[len - 64..]);
    } else {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::{MacAddress, OutputRewrite};

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
        let half = Rewrite { source: None, ..change };
        for rewrite in [Rewrite::NONE, change, half, tagged, sliced] {
            let rewrites = Rewrites::from_iter([rewrite]);
            let OutputRewrite { rewrite, addresses, .. } = rewrites.of(0);
            assert_eq!(addresses.is_some(), *rewrite == change);
            let frame_rewrite =
                FrameRewrite { rewrite, addresses: addresses.as_ref(), label: None };
            for len in 0..=bytes.len() {
                let (mut ours, mut expected) = ([0xaa; 310], [0xaa; 310]);
                let written = write_frame(frame_rewrite, &bytes[..len], &mut ours);
                assert_eq!(written, rewrite.write(&bytes[..len], &mut expected), "{len}");
                assert_eq!(ours, expected, "{len}");
                if let Some(short) = written.and_then(|written| written.checked_sub(1)) {
                    assert_eq!(write_frame(frame_rewrite, &bytes[..len], &mut ours[..short]), None);
                }
            }
        }
    }
}
