//! TAP devices: what the host sends is received, what is sent the host receives.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::live::{
    Seen, assert_same, batch_of, frame, in_namespace, ip, loss, receive_all, received_in_all, send,
    sent_in_all, silence,
};
use forebay_bpf::asm::{Assembler, Register, Size};
use forebay_bpf::programs::fanout;
use forebay_bpf::{Kind, Program};
use forebay_io::af_packet::{PacketRx, PacketTx, RxOptions, TxOptions};
use forebay_io::device::{DeviceError, Link};
use forebay_io::tap::{Tap, TapOptions};
use forebay_io::{Error, Received, Rx, Tx};
use forebay_packet::{Decoder, HashKey, LinkType, MacAddress, Rewrite, Rewrites};

/// A device of that name that is up, and its host's side.
fn opened(options: &TapOptions) -> (Tap, PacketTx, PacketRx) {
    let tap = Tap::open("tap%d", options).unwrap();
    assert_eq!(tap.name, "tap0");
    silence("tap0");
    ip("link set tap0 up");
    let tx = PacketTx::open("tap0", &TxOptions::default()).unwrap();
    let rx = PacketRx::open("tap0", &RxOptions::default()).unwrap();
    (tap, tx, rx)
}

#[test]
fn frames_pass_both_ways_as_they_were() {
    in_namespace(|| {
        let (mut tap, mut host_tx, mut host_rx) = opened(&TapOptions::default());
        let (rx, tx) = &mut tap.queues[0];
        let frames: Vec<_> = (0..300)
            .map(|i| {
                let tags: &[[u8; 4]] = if i % 3 == 0 { &[[0x81, 0, 0, 9]] } else { &[] };
                frame(0, i, 60 + (i as usize * 53) % 1450, tags)
            })
            .collect();
        send(&mut host_tx, &frames);
        assert_same(&receive_all(rx), &frames);
        send(tx, &frames);
        let got = receive_all(&mut host_rx);
        assert_same(&got, &frames);
        let counters = tx.counters().unwrap();
        assert_eq!((counters.packets, counters.held), (300, 0));
        assert_eq!(rx.counters().unwrap().packets, 300);
        let batch = batch_of(&[frame(0, 0, 60, &[]), vec![1; 13]]);
        let rewrite = [Rewrite { destination: Some(MacAddress([6; 6])), ..Rewrite::NONE }];
        tx.send(&batch, &batch.live(), &Rewrites::from_iter(rewrite)).unwrap();
        assert_eq!(receive_all(&mut host_rx)[0][..6], [6; 6]);
        let counters = tx.counters().unwrap();
        assert_eq!((loss(&counters.losses, "too_short"), sent_in_all(&counters)), (1, 302));
    });
}

#[test]
fn a_slow_reader_loses_what_is_counted() {
    in_namespace(|| {
        let options = TapOptions { slots: 64, ..TapOptions::default() };
        let (mut tap, mut host_tx, _host_rx) = opened(&options);
        let (rx, _) = &mut tap.queues[0];
        let mut seen = Seen::default();
        for sequence in 0..50 {
            send(
                &mut host_tx,
                &(0..100).map(|flow| frame(flow, sequence, 60, &[])).collect::<Vec<_>>(),
            );
        }
        // While a batch is held its slots are, and the driver's queue fills.
        for frame in receive_all(rx) {
            seen.note(&frame);
        }
        let sent = host_tx.counters().unwrap();
        let counters = rx.counters().unwrap();
        assert!(loss(&counters.losses, "ring_full") > 0, "{counters:?} {sent:?}");
        assert_eq!(counters.packets, seen.count);
        // The sender sees each drop as a refusal, and tries again.
        assert_eq!(sent_in_all(&sent), 5000);
        assert!(received_in_all(&counters) >= sent.packets, "{counters:?} {sent:?}");
    });
}

#[test]
fn a_held_batch_keeps_its_bytes() {
    in_namespace(|| {
        let options = TapOptions { slots: 64, ..TapOptions::default() };
        let (mut tap, mut host_tx, _host_rx) = opened(&options);
        let (rx, _) = &mut tap.queues[0];
        let first: Vec<_> = (0..10).map(|i| frame(9, i, 400, &[])).collect();
        send(&mut host_tx, &first);
        let mut held = Vec::new();
        while held.len() < 10 {
            if let Received::Batch(batch) = rx.receive().unwrap() {
                held.extend((0..batch.len()).map(|i| (batch.clone(), i)));
            }
        }
        let later: Vec<_> = (0..100).map(|i| frame(0, i, 400, &[])).collect();
        send(&mut host_tx, &later);
        let got = receive_all(rx);
        // Those behind the slots that are held.
        assert_same(&got, &later[..54]);
        for ((batch, i), frame) in held.iter().zip(&first) {
            assert_eq!(batch.packet(*i), frame);
        }
        drop(held);
        // The rest waited in the driver.
        assert_same(&receive_all(rx), &later[54..]);
    });
}

#[test]
fn a_program_chooses_the_queue() {
    in_namespace(|| {
        let options = TapOptions { queues: 3, ..TapOptions::default() };
        let (mut tap, mut host_tx, _host_rx) = opened(&options);
        assert_eq!(Link::named("tap0").unwrap().kind.as_deref(), Some("tun"));
        // Returns the first field of `struct __sk_buff`, the length.
        let mut by_length = Assembler::new();
        by_length.load(Size::Word, Register::R0, Register::R1, 0);
        by_length.exit();
        let program = Program::load("by_length", Kind::SocketFilter, by_length).unwrap();
        tap.steer(program.as_fd()).unwrap();
        let frames: Vec<_> = (0..300).map(|i| frame(0, i, 60 + i as usize % 30, &[])).collect();
        send(&mut host_tx, &frames);
        for (queue, (rx, _)) in tap.queues.iter_mut().enumerate() {
            let own = frames.iter().filter(|frame| frame.len() % 3 == queue);
            assert_same(&receive_all(rx), &own.cloned().collect::<Vec<_>>());
        }
    });
}

/// A UDP datagram between two hosts of 10.0.0.0/8, in a frame with those tags.
fn datagram(from: u8, to: u8, tags: &[[u8; 4]]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xb, 0x02, 0, 0, 0, 0, 0xa];
    frame.extend(tags.concat());
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    frame.extend([from, 1, to, 2, 0, 26, 0, 0]);
    frame.resize(60 + 4 * tags.len(), 0);
    frame
}

#[test]
fn flows_have_the_queue_that_user_space_computes() {
    const QUEUES: u32 = 3;
    in_namespace(|| {
        let options = TapOptions { queues: QUEUES as usize, ..TapOptions::default() };
        let (mut tap, mut host_tx, _host_rx) = opened(&options);
        let key = HashKey([7, 1 << 40]);
        tap.steer(fanout::load_for_queues(&key, QUEUES).unwrap().as_fd()).unwrap();
        let mut expected = vec![Vec::new(); QUEUES as usize];
        for host in 2..60 {
            for tags in [&[][..], &[[0x81, 0, 0, 9]], &[[0x88, 0xa8, 0, 1], [0x81, 0, 0, 9]]] {
                for frame in [datagram(1, host, tags), datagram(host, 1, tags)] {
                    let pair = Decoder::default().decode(LinkType::ETHERNET, &frame).key;
                    let hash = pair.address_pair().hash(&key);
                    expected[fanout::worker_of(hash, QUEUES) as usize].push(frame.clone());
                    send(&mut host_tx, &[frame]);
                }
            }
        }
        for ((rx, _), expected) in tap.queues.iter_mut().zip(expected) {
            assert!(expected.len() > 50, "{}", expected.len());
            assert_same(&receive_all(rx), &expected);
        }
    });
}

#[test]
fn a_device_that_is_down_or_deleted_is_told() {
    in_namespace(|| {
        let (mut tap, _host_tx, _host_rx) = opened(&TapOptions::default());
        let (rx, tx) = &mut tap.queues[0];
        ip("link set tap0 down");
        send(tx, &[frame(0, 0, 60, &[])]);
        assert_eq!(loss(&tx.counters().unwrap().losses, "link_down"), 1);
        assert!(matches!(rx.receive().unwrap(), Received::Idle));
        ip("link set tap0 up");
        send(tx, &[frame(0, 1, 60, &[])]);
        assert_eq!(tx.counters().unwrap().packets, 1);
        ip("link del tap0");
        let one = batch_of(&[frame(0, 2, 60, &[])]);
        let gone = |error: Error| {
            assert!(
                matches!(error, Error::Device(DeviceError::Gone { ref device }) if device == "tap0"),
                "{error}"
            );
        };
        gone(tx.send(&one, &one.live(), &Rewrites::NONE).unwrap_err());
        let start = Instant::now();
        loop {
            match rx.receive() {
                Ok(_) => assert!(start.elapsed() < Duration::from_secs(5), "it hangs"),
                Err(error) => break gone(error),
            }
        }
        assert!(matches!(rx.receive().unwrap(), Received::End));
        assert_eq!(sent_in_all(&tx.counters().unwrap()), 3);
    });
}

#[test]
fn options_that_cannot_be_are_refused() {
    in_namespace(|| {
        for options in [
            TapOptions { queues: 0, ..TapOptions::default() },
            TapOptions { slots: 100, ..TapOptions::default() },
        ] {
            assert!(Tap::open("tap%d", &options).is_err());
        }
        assert!(Tap::open("a-name-that-is-too-long", &TapOptions::default()).is_err());
    });
}
