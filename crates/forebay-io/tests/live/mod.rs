//! What the tests of live ports share: a network namespace of their own, devices in it,
//! and frames that tell which they are.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_io::{Received, Rx, RxCounters, Tx, TxCounters};
use forebay_packet::{BATCH, Batch, Interface, PacketMeta, Region, Rewrites};

#[allow(unused_imports, reason = "each test uses its part")]
pub use forebay_testkit::namespace::{ip, wait_for};

/// As [`forebay_testkit::namespace::in_namespace`], without IPv6: also on devices that lose it
/// and get it back, as by a change of the MTU.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    forebay_testkit::namespace::in_namespace(|| {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
        test();
    });
}

/// A pair of joined devices that are up and speak only when spoken to.
pub fn veth(one: &str, other: &str) {
    ip(&format!("link add {one} type veth peer name {other}"));
    for device in [one, other] {
        silence(device);
        ip(&format!("link set {device} up"));
    }
    wait_for("a carrier", || {
        forebay_io::device::Link::named(one).unwrap().works()
            && forebay_io::device::Link::named(other).unwrap().works()
    });
}

/// Has the host say nothing on a device by itself.
pub fn silence(device: &str) {
    ip(&format!("link set {device} arp off multicast off"));
}

/// Panics unless these are the same frames, and says which differ.
pub fn assert_same(got: &[Vec<u8>], sent: &[Vec<u8>]) {
    for (i, (got, sent)) in got.iter().zip(sent).enumerate() {
        assert!(got == sent, "frame {i} is {got:02x?}, expected {sent:02x?}");
    }
    assert_eq!(got.len(), sent.len(), "frames");
}

/// Mark of the frames that the tests send: an EtherType for local experiments.
const MARK: [u8; 2] = [0x88, 0xb5];

/// The least frame that says which it is.
pub const LEAST: usize = 22;

/// Frame number `sequence` of a flow, of `len` bytes, behind those VLAN tags.
pub fn frame(flow: u32, sequence: u32, len: usize, tags: &[[u8; 4]]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xb, 0x02, 0, 0, 0, 0, 0xa];
    frame.extend(tags.concat());
    frame.extend(MARK);
    frame.extend(flow.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    let filler = (flow as u8).wrapping_add(sequence as u8);
    frame.resize(len.max(LEAST + tags.len() * 4), filler);
    frame
}

/// Flow and number of a frame of ours, whatever its tags; nothing for others. Panics
/// where its bytes are not those it was made of.
pub fn identify(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 12;
    let mut tags = Vec::new();
    while matches!(bytes.get(at..at + 2)?, [0x81, 0] | [0x88, 0xa8]) {
        tags.push(bytes[at..at + 4].try_into().unwrap());
        at += 4;
    }
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().unwrap()));
    if bytes.get(at..at + 2)? != MARK {
        return None;
    }
    let (flow, sequence) = (number(at + 2)?, number(at + 6)?);
    assert_eq!(bytes, frame(flow, sequence, bytes.len(), &tags), "changed on the way");
    Some((flow, sequence))
}

/// A batch of frames.
pub fn batch_of<F: AsRef<[u8]>>(frames: &[F]) -> Batch {
    let lens: usize = frames.iter().map(|frame| frame.as_ref().len()).sum();
    let mut region = Region::new(lens).unwrap();
    let mut metas = Vec::new();
    let mut at = 0;
    for frame in frames {
        let frame = frame.as_ref();
        region.bytes_mut()[at..at + frame.len()].copy_from_slice(frame);
        let len = frame.len() as u32;
        metas.push(PacketMeta {
            offset: at as u32,
            cap_len: len,
            wire_len: len,
            ticks: 0,
            interface: 0,
        });
        at += frame.len();
    }
    let mut batch = Batch::new(Arc::new(region), Arc::new(vec![Interface::default()]));
    for meta in metas {
        batch.push(meta).unwrap();
    }
    batch
}

/// Sends frames as they are, in as many batches as it takes.
pub fn send<F: AsRef<[u8]>>(tx: &mut dyn Tx, frames: &[F]) {
    for chunk in frames.chunks(BATCH) {
        let batch = batch_of(chunk);
        tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
    }
    tx.flush().unwrap();
}

/// Waits until nothing that was given to a port is on its way.
pub fn until_sent(tx: &mut dyn Tx) {
    wait_for("all to be sent", || {
        tx.flush().unwrap();
        tx.counters().unwrap().held == 0
    });
}

/// Everything that comes until nothing came for a while.
pub fn receive_all(rx: &mut dyn Rx) -> Vec<Vec<u8>> {
    receive_until(rx, |_| false)
}

/// Everything that comes until it is enough, or nothing came for a while.
pub fn receive_until(rx: &mut dyn Rx, is_enough: impl Fn(&[Vec<u8>]) -> bool) -> Vec<Vec<u8>> {
    const QUIET: Duration = Duration::from_millis(300);
    let mut frames: Vec<Vec<u8>> = Vec::new();
    let mut last = Instant::now();
    while !is_enough(&frames) {
        // Before the look: this thread may be kept from running for longer than that.
        let quiet = last.elapsed() >= QUIET;
        match rx.receive().unwrap() {
            Received::Batch(batch) => {
                assert!(!batch.is_empty());
                frames.extend((0..batch.len()).map(|i| batch.packet(i).to_vec()));
                last = Instant::now();
            }
            Received::Idle if quiet => break,
            Received::Idle => std::thread::sleep(Duration::from_micros(200)),
            Received::End => break,
        }
    }
    frames
}

/// Which frames of each flow came, in the order they came.
#[derive(Debug, Default)]
pub struct Seen {
    last: BTreeMap<u32, u32>,
    /// Frames that came.
    pub count: u64,
    /// Numbers that were passed over.
    pub missing: u64,
}

impl Seen {
    /// Notes a frame. Panics when it came before, or out of order.
    pub fn note(&mut self, bytes: &[u8]) {
        let Some((flow, sequence)) = identify(bytes) else { return };
        let expected = self.last.get(&flow).map_or(0, |last| last + 1);
        assert!(sequence >= expected, "flow {flow}: {sequence} after {}", expected.wrapping_sub(1));
        self.missing += u64::from(sequence - expected);
        self.last.insert(flow, sequence);
        self.count += 1;
    }

    /// Notes all packets of a batch.
    pub fn note_all(&mut self, batch: &Batch) {
        for i in 0..batch.len() {
            self.note(batch.packet(i));
        }
    }
}

/// A loss by its name.
pub fn loss(losses: &[(&'static str, u64)], name: &str) -> u64 {
    let found = losses.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no loss is called {name}: {losses:?}")).1
}

/// All packets that a receiver accounts for.
pub fn received_in_all(counters: &RxCounters) -> u64 {
    counters.packets + counters.losses.iter().map(|(_, lost)| lost).sum::<u64>()
}

/// All packets that a sender accounts for.
pub fn sent_in_all(counters: &TxCounters) -> u64 {
    counters.packets + counters.held + counters.losses.iter().map(|(_, lost)| lost).sum::<u64>()
}
