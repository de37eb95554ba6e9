//! Flows that are shunted by hand, in the splitter's program.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use forebay_bpf::programs::splitter::{
    self, Limits, MAX_SHUNTED, Sensor, ShuntedFlows, SplitterMaps, Traffic,
};
use forebay_bpf::{Action, Program};
use forebay_packet::{DecodeOptions, Decoder, LinkType};

use crate::splitter::settings;
use crate::support;
use crate::support::frames::{ACK, ethernet, ipv4, tcp, tcp_header, udp6};

struct Splitter {
    maps: Arc<SplitterMaps>,
    program: Program,
    shunted: ShuntedFlows,
}

impl Splitter {
    /// With one sensor.
    fn new() -> Self {
        let maps = Arc::new(SplitterMaps::create(Limits::default()).unwrap());
        maps.devices().set(3, 1).unwrap();
        let sensor = Sensor { device: 3, destination: None, source: None, tag: None };
        maps.set_sensor(0, Some(sensor)).unwrap();
        (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, 0));
        let program = splitter::load(&maps, &settings()).unwrap();
        let shunted = ShuntedFlows::new(Arc::clone(&maps));
        Self { maps, program, shunted }
    }

    /// Whether each frame is dropped.
    fn drops<const N: usize>(&self, frames: &[Vec<u8>; N]) -> [bool; N] {
        frames.each_ref().map(|frame| {
            let run = self.program.run(frame, &mut vec![0; frame.len() + 64]).unwrap();
            Action::from_result(run.result) == Some(Action::Drop)
        })
    }
}

fn hash(frame: &[u8]) -> u64 {
    let decoded = Decoder::new(DecodeOptions::default()).decode(LinkType::ETHERNET, frame);
    decoded.affinity.hash(&settings().flow.hash_key)
}

/// The monotonic clock, in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time alone.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

const HOUR: u64 = 3_600_000_000_000;

/// Flows that no frame of a test belongs to.
fn others(count: u64, until: u64) -> Vec<(u64, u64)> {
    (0..count).map(|i| ((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), until)).collect()
}

#[test]
fn packets_of_shunted_flows_are_dropped_and_counted_until_their_time_is_over() {
    if !support::bpf() {
        return;
    }
    let mut splitter = Splitter::new();
    let back = ipv4(6, (2, 80), (1, 1234), 0, &tcp_header((2, 80), (1, 1234), ACK));
    let frames = [
        tcp((1, 1234), (2, 80), ACK),
        ethernet(&[(0x8100, 5)], 0x0800, &back),
        udp6((1, 7), (2, 9)),
        tcp((1, 1235), (2, 80), ACK),
    ];
    let [flow, same, six, other] = frames.each_ref().map(|frame| hash(frame));
    assert_eq!(flow, same, "both ways, with a tag and without");
    assert_eq!(splitter.drops(&frames), [false; 4]);
    let later = now() + HOUR;
    // Among many others, of which half go again.
    let mut flows = others(100_000, later);
    splitter.shunted.set(&flows).unwrap();
    assert_eq!(splitter.drops(&frames), [false; 4]);
    flows.truncate(50_000);
    flows.extend([(flow, later), (six, later)]);
    splitter.shunted.set(&flows).unwrap();
    assert_eq!(splitter.drops(&frames), [true, true, true, false]);
    let bytes = (frames[0].len() + frames[1].len()) as u64;
    assert_eq!(splitter.shunted.dropped(flow), Traffic { packets: 2, bytes });
    assert_eq!(splitter.shunted.dropped(six).packets, 1);
    assert_eq!(splitter.shunted.dropped(other), Traffic::default());
    let outcomes = splitter.maps.outcomes();
    assert!(outcomes.closes() && outcomes.shunted.packets == 3, "{outcomes:?}");
    // Renewed, they keep their counters; their time over, they pass.
    splitter.shunted.set(&[(flow, now()), (six, later)]).unwrap();
    sleep(Duration::from_millis(20));
    assert_eq!(splitter.drops(&frames), [false, false, true, false]);
    assert_eq!(splitter.shunted.dropped(flow).packets, 2);
    splitter.shunted.set(&[]).unwrap();
    assert_eq!(splitter.drops(&frames), [false; 4]);
    assert_eq!(splitter.shunted.dropped(flow), Traffic::default());
}

#[test]
fn so_many_flows_are_shunted_and_no_more() {
    if !support::bpf() {
        return;
    }
    let mut splitter = Splitter::new();
    let later = now() + HOUR;
    let frame = [tcp((1, 1234), (2, 80), ACK)];
    let mut many = others(u64::from(MAX_SHUNTED), later);
    splitter.shunted.set(&many).unwrap();
    assert_eq!(splitter.drops(&frame), [false]);
    // All places go to other flows.
    many.iter_mut().for_each(|flow| flow.0 ^= 1);
    many[7].0 = hash(&frame[0]);
    splitter.shunted.set(&many).unwrap();
    assert_eq!(splitter.drops(&frame), [true]);
    many.push((1, later));
    let error = splitter.shunted.set(&many).unwrap_err();
    assert!(error.to_string().contains("must be at most 131072"), "{error}");
    assert_eq!(splitter.drops(&frame), [true], "nothing has changed");
}
