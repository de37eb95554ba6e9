//! Frames of a test's own, and a sender that paces them.

#![allow(dead_code, reason = "each test that includes this module uses its own part of it")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_io::Tx as _;
use forebay_io::af_packet::{PacketTx, TxOptions};
use forebay_packet::random::Random;
use forebay_packet::{BATCH, Batch, Interface, PacketMeta, Region, Rewrites};

use super::namespace::wait_for;

/// Length of the frames of floods.
const LEN: usize = 60;

/// A number for a number, as if drawn at random.
fn scrambled(n: u64) -> u64 {
    Random::new(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next()
}

/// An IPv4 packet in an Ethernet frame; `flags` is the field of flags and fragment offset
/// (RFC 791).
fn ipv4(source: u32, destination: u32, id: u16, flags: u16, protocol: u8) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0x02, 0x02, 0, 0, 0, 0, 0x01, 8, 0, 0x45, 0];
    frame.extend((LEN as u16 - 14).to_be_bytes());
    frame.extend(id.to_be_bytes());
    frame.extend(flags.to_be_bytes());
    frame.extend([64, protocol, 0, 0]);
    frame.extend(source.to_be_bytes());
    frame.extend(destination.to_be_bytes());
    frame
}

/// Frame `n` of a flood of connection attempts, from random hosts to one.
pub fn syn_from_anywhere(n: u64) -> Vec<u8> {
    syn(scrambled(n) as u32, 0xc000_0201, (scrambled(n) >> 32) as u16)
}

/// Frame `n` of a flood of connection attempts, from one host to random ones: where flows
/// go by their source they all fall into one bucket.
pub fn syn_to_anywhere(n: u64) -> Vec<u8> {
    syn(0xc633_6407, scrambled(n) as u32, (scrambled(n) >> 32) as u16)
}

fn syn(source: u32, destination: u32, port: u16) -> Vec<u8> {
    let mut frame = ipv4(source, destination, 1, 0, 6);
    frame.extend(port.to_be_bytes());
    frame.extend(443_u16.to_be_bytes());
    // Sequence and acknowledgement number, five words of header, SYN, window.
    frame.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0x20, 0]);
    frame.resize(LEN, 0);
    frame
}

/// Frame `n` of a flood of fragments between random hosts, of datagrams that are never
/// whole: every other is a first fragment, and they have nothing to do with each other.
pub fn fragment(n: u64) -> Vec<u8> {
    const MORE: u16 = 0x2000;
    let random = scrambled(n);
    let flags = if n.is_multiple_of(2) { MORE } else { 4 };
    let addresses = scrambled(random);
    let (source, destination) = (addresses as u32, (addresses >> 32) as u32);
    let mut frame = ipv4(source, destination, random as u16, flags, 17);
    frame.extend(((random >> 16) as u16).to_be_bytes());
    frame.extend(53_u16.to_be_bytes());
    frame.resize(LEN, 0);
    frame
}

/// Sends frames at a device.
pub struct Sender(PacketTx);

impl Sender {
    pub fn open(device: &str) -> Self {
        let options = TxOptions { patience: Duration::from_secs(5), ..TxOptions::default() };
        Self(PacketTx::open(device, &options).unwrap())
    }

    /// Sends frames now.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) {
        for chunk in frames.chunks(BATCH) {
            let batch = batch_of(chunk);
            self.0.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
            self.0.flush().unwrap();
        }
    }

    /// Sends so many frames a second, and waits until the last has been sent.
    pub fn paced(mut self, frame: impl Fn(u64) -> Vec<u8>, frames: u64, rate: f64) {
        let (start, mut sent) = (Instant::now(), 0);
        while sent < frames {
            // What is late is not made up for in a burst.
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            let now = due.min(frames).saturating_sub(sent).min(BATCH as u64);
            self.send(&(sent..sent + now).map(&frame).collect::<Vec<_>>());
            sent += now;
            std::thread::sleep(Duration::from_millis(2));
        }
        wait_for("the last frame to be sent", || {
            self.0.flush().unwrap();
            self.0.counters().unwrap().held == 0
        });
        assert_eq!(self.0.counters().unwrap().packets, frames);
    }
}

fn batch_of<F: AsRef<[u8]>>(frames: &[F]) -> Batch {
    let lens: usize = frames.iter().map(|frame| frame.as_ref().len()).sum();
    let mut region = Region::new(lens).unwrap();
    let mut metas = Vec::new();
    let mut offset = 0;
    for frame in frames {
        let frame = frame.as_ref();
        region.bytes_mut()[offset..offset + frame.len()].copy_from_slice(frame);
        let (len, offset_of_it) = (frame.len() as u32, offset as u32);
        metas.push(PacketMeta {
            offset: offset_of_it,
            cap_len: len,
            wire_len: len,
            ticks: 0,
            interface: 0,
        });
        offset += frame.len();
    }
    let mut batch = Batch::new(Arc::new(region), Arc::new(vec![Interface::default()]));
    metas.into_iter().for_each(|meta| batch.push(meta).unwrap());
    batch
}
