//! Ports over AF_XDP sockets, in copy mode, on veth pairs in a network namespace.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::live::{
    Seen, assert_same, batch_of, frame, in_namespace, ip, loss, receive_all, received_in_all, send,
    sent_in_all, silence, until_sent, veth, wait_for,
};
use forebay_bpf::map::SocketMap;
use forebay_bpf::programs::redirect::{self, NoSocket};
use forebay_bpf::{Program, XdpLink, XdpMode};
use forebay_io::af_packet::{PacketRx, PacketTx, RxOptions, TxOptions};
use forebay_io::af_xdp::{Copying, XdpOptions, XdpPort, XdpRx, XdpTx};
use forebay_io::device::{DeviceError, Link, Need, check};
use forebay_io::{Error, Received, Rx, Tx};
use forebay_packet::{HashKey, Rewrites};

const OPTIONS: XdpOptions = XdpOptions {
    frame_len: 2048,
    rx_frames: 1024,
    tx_frames: 256,
    copying: Copying::Copy,
    multi_buffer: false,
    patience: Duration::from_millis(1),
};

/// What keeps a device's frames coming to its sockets.
struct Redirection {
    _link: XdpLink,
    _program: Program,
    map: SocketMap,
}

fn redirect(device: &str, workers: u32, multi_buffer: bool) -> Redirection {
    let map = SocketMap::create("sockets", 16).unwrap();
    let key = HashKey::OFFLINE;
    let program = redirect::load(&map, workers, &key, NoSocket::Pass, multi_buffer).unwrap();
    let index = Link::named(device).unwrap().index;
    let link = XdpLink::attach(&program, index, XdpMode::Any).unwrap();
    Redirection { _link: link, _program: program, map }
}

impl Redirection {
    fn open(&self, device: &str, workers: u32, options: &XdpOptions) -> Vec<XdpPort> {
        let enter = |worker: u32, socket: BorrowedFd<'_>| {
            self.map.set(worker, &socket).map_err(std::io::Error::other)
        };
        XdpPort::open(device, 0, workers, options, enter).unwrap()
    }
}

/// Frames go from one end of a pair to the other, as by a wire.
fn joined(options: &XdpOptions) -> (XdpTx, XdpRx, Redirection) {
    veth("va", "vb");
    for device in ["va", "vb"] {
        let need = Need { receive: true, send: true, xdp: true, mtu: 0 };
        check(device, need, true).unwrap();
    }
    let redirection = redirect("vb", 1, options.multi_buffer);
    let tx = XdpOptions { rx_frames: 0, ..*options };
    let rx = XdpOptions { tx_frames: 0, ..*options };
    let tx = XdpPort::open("va", 0, 1, &tx, |_, _| Ok(())).unwrap().remove(0);
    assert!(!tx.is_zero_copy && tx.rx.is_none());
    let rx = redirection.open("vb", 1, &rx).remove(0);
    assert!(rx.tx.is_none());
    (tx.tx.unwrap(), rx.rx.unwrap(), redirection)
}

#[test]
fn frames_arrive_as_they_were_and_frames_go_around() {
    in_namespace(|| {
        let (mut tx, mut rx, _redirection) = joined(&OPTIONS);
        let mut seen = Seen::default();
        for sequence in 0..100 {
            let frames: Vec<_> = (0..100)
                .map(|flow| {
                    let tags: &[[u8; 4]] = if flow % 2 == 0 { &[[0x81, 0, 0, 3]] } else { &[] };
                    frame(
                        flow,
                        sequence,
                        60 + (flow as usize * 31 + sequence as usize) % 1450,
                        tags,
                    )
                })
                .collect();
            send(&mut tx, &frames);
            let end = Instant::now() + Duration::from_secs(5);
            let expected = seen.count + 100;
            while seen.count < expected && Instant::now() < end {
                if let Received::Batch(batch) = rx.receive().unwrap() {
                    seen.note_all(&batch);
                }
            }
        }
        assert_eq!((seen.count, seen.missing), (10_000, 0));
        until_sent(&mut tx);
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent_in_all(&sent)), (10_000, 10_000), "{sent:?}");
        let got = rx.counters().unwrap();
        assert_eq!((got.packets, received_in_all(&got)), (10_000, 10_000), "{got:?}");
    });
}

#[test]
fn a_slow_reader_loses_what_is_counted() {
    in_namespace(|| {
        let (mut tx, mut rx, _redirection) = joined(&OPTIONS);
        let mut seen = Seen::default();
        for sequence in 0..100 {
            let frames: Vec<_> = (0..100).map(|flow| frame(flow, sequence, 200, &[])).collect();
            send(&mut tx, &frames);
        }
        until_sent(&mut tx);
        for frame in receive_all(&mut rx) {
            seen.note(&frame);
        }
        let sent = tx.counters().unwrap();
        assert_eq!(sent_in_all(&sent), 10_000, "{sent:?}");
        let got = rx.counters().unwrap();
        assert_eq!(got.packets, seen.count);
        assert!(loss(&got.losses, "no_frame") + loss(&got.losses, "ring_full") > 0, "{got:?}");
        assert_eq!(received_in_all(&got), sent.packets, "{got:?} {sent:?}");
    });
}

#[test]
fn a_sender_waits_for_the_other_end_of_a_veth_pair() {
    in_namespace(|| {
        veth("va", "vb");
        let _redirection = redirect("vb", 1, false);
        let patience = Duration::from_secs(20);
        let options = XdpOptions { rx_frames: 0, tx_frames: 4096, patience, ..OPTIONS };
        let port = XdpPort::open("va", 0, 1, &options, |_, _| Ok(())).unwrap().remove(0);
        let mut tx = port.tx.unwrap();
        for sequence in 0..200 {
            send(&mut tx, &(0..250).map(|flow| frame(flow, sequence, 60, &[])).collect::<Vec<_>>());
        }
        let start = Instant::now();
        while tx.counters().unwrap().held > 0 && start.elapsed() < patience {
            tx.flush().unwrap();
        }
        let counters = tx.counters().unwrap();
        assert_eq!((counters.packets, counters.held), (50_000, 0), "{counters:?}");
    });
}

#[test]
fn a_held_batch_keeps_its_frames() {
    in_namespace(|| {
        let (mut tx, mut rx, _redirection) = joined(&XdpOptions { rx_frames: 64, ..OPTIONS });
        let first: Vec<_> = (0..16).map(|i| frame(7, i, 300, &[])).collect();
        send(&mut tx, &first);
        let mut held = Vec::new();
        wait_for("the first", || {
            if let Received::Batch(batch) = rx.receive().unwrap() {
                held.extend((0..batch.len()).map(|i| (batch.clone(), i)));
            }
            held.len() == 16
        });
        for sequence in 0..100 {
            send(&mut tx, &(0..32).map(|flow| frame(flow, sequence, 300, &[])).collect::<Vec<_>>());
            receive_all_quickly(&mut rx, 32);
        }
        for ((batch, i), frame) in held.iter().zip(&first) {
            assert_eq!(batch.packet(*i), frame);
        }
        assert_eq!(loss(&rx.counters().unwrap().losses, "no_frame"), 0);
    });
}

fn receive_all_quickly(rx: &mut XdpRx, count: usize) {
    let mut got = 0;
    wait_for("packets", || {
        if let Received::Batch(batch) = rx.receive().unwrap() {
            got += batch.len();
        }
        got >= count
    });
}

#[test]
fn long_frames_come_in_pieces_and_are_put_together() {
    in_namespace(|| {
        ip("link add va mtu 9000 type veth peer name vb mtu 9000");
        for device in ["va", "vb"] {
            silence(device);
            ip(&format!("link set {device} up"));
        }
        wait_for("a carrier", || Link::named("va").unwrap().works());
        let options = XdpOptions { multi_buffer: true, tx_frames: 0, ..OPTIONS };
        let redirection = redirect("vb", 1, true);
        let mut rx = redirection.open("vb", 1, &options).remove(0).rx.unwrap();
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let frames: Vec<_> = (0..60)
            .map(|i| frame(0, i, if i % 3 == 0 { 60 } else { 1700 + i as usize * 120 }, &[]))
            .collect();
        send(&mut tx, &frames);
        let got = receive_all(&mut rx);
        assert_eq!(got.len(), 60, "{:?}", rx.counters().unwrap());
        assert_same(&got, &frames);
        // All frames went back.
        for _ in 0..20 {
            send(&mut tx, &frames);
            assert_eq!(receive_all(&mut rx).len(), 60);
        }
    });
}

#[test]
fn frames_too_long_for_either_side_are_counted() {
    in_namespace(|| {
        let (mut tx, mut rx, _redirection) = joined(&OPTIONS);
        send(&mut tx, &[frame(0, 0, 1514, &[]), frame(0, 1, 1519, &[]), vec![0; 13]]);
        assert_eq!(receive_all(&mut rx).len(), 1);
        let counters = tx.counters().unwrap();
        assert_eq!(
            (loss(&counters.losses, "too_long"), loss(&counters.losses, "too_short")),
            (1, 1)
        );
    });
}

#[test]
fn workers_of_a_queue_share_its_frames_and_flows_stay_together() {
    in_namespace(|| {
        veth("va", "vb");
        let redirection = redirect("vb", 2, false);
        let mut ports = redirection.open("vb", 2, &OPTIONS);
        let mut host_rx = PacketRx::open("va", &RxOptions::default()).unwrap();
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let datagram = |flow: u8, sequence: u8| {
            let mut bytes = frame(0, 0, 60, &[])[..12].to_vec();
            bytes.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0]);
            bytes.extend([10, 0, 0, flow, 10, 1, 0, 1]);
            bytes.resize(60, 0);
            bytes[58..60].copy_from_slice(&[flow, sequence]);
            bytes
        };
        let mut home = [None; 50];
        let mut count = 0;
        for sequence in 0..40 {
            send(&mut tx, &(0..50).map(|flow| datagram(flow, sequence)).collect::<Vec<_>>());
            let end = Instant::now() + Duration::from_secs(5);
            while count < (usize::from(sequence) + 1) * 50 && Instant::now() < end {
                for (worker, port) in ports.iter_mut().enumerate() {
                    let Received::Batch(batch) = port.rx.as_mut().unwrap().receive().unwrap()
                    else {
                        continue;
                    };
                    for i in 0..batch.len() {
                        let flow = usize::from(batch.packet(i)[58]);
                        assert_eq!(*home[flow].get_or_insert(worker), worker, "flow {flow}");
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(count, 2000);
        assert!(home.contains(&Some(0)) && home.contains(&Some(1)), "{home:?}");
        // Both send, and each gets its own frames back.
        for sequence in 0..20 {
            for (worker, port) in (0..).zip(&mut ports) {
                let frames: Vec<_> =
                    (0..50).map(|i| frame(worker, sequence * 50 + i, 100, &[])).collect();
                let tx = port.tx.as_mut().unwrap();
                send(tx, &frames);
                // The queue of the other end holds no more than some hundreds.
                until_sent(tx);
            }
        }
        let mut seen = Seen::default();
        for frame in receive_all(&mut host_rx) {
            seen.note(&frame);
        }
        for port in &mut ports {
            assert_eq!(sent_in_all(&port.tx.as_mut().unwrap().counters().unwrap()), 1000);
        }
        assert_eq!((seen.count, seen.missing), (2000, 0));
    });
}

#[test]
fn a_device_deleted_under_load_is_an_error_that_names_it() {
    in_namespace(|| {
        let (mut tx, mut rx, _redirection) = joined(&OPTIONS);
        let deleter = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            ip("link del va");
        });
        let start = Instant::now();
        let mut given = 0;
        let (mut tx_error, mut rx_error) = (None, None);
        while (tx_error.is_none() || rx_error.is_none())
            && start.elapsed() < Duration::from_secs(10)
        {
            if tx_error.is_none() {
                let batch =
                    batch_of(&(0..32).map(|i| frame(0, given + i, 200, &[])).collect::<Vec<_>>());
                given += 32;
                tx_error =
                    tx.send(&batch, &batch.live(), &Rewrites::NONE).and_then(|()| tx.flush()).err();
            }
            if rx_error.is_none() {
                rx_error = rx.receive().err();
            }
        }
        deleter.join().unwrap();
        for (error, name) in [(tx_error, "va"), (rx_error, "vb")] {
            match error.expect("neither error nor packets") {
                Error::Device(DeviceError::Gone { device }) => assert_eq!(device, name),
                other => panic!("{other}"),
            }
        }
        assert!(matches!(rx.receive().unwrap(), Received::End));
        let counters = tx.counters().unwrap();
        assert_eq!((sent_in_all(&counters), counters.held), (u64::from(given), 0), "{counters:?}");
    });
}

#[test]
fn options_that_cannot_be_are_refused() {
    in_namespace(|| {
        veth("va", "vb");
        for (queue, workers, options) in [
            (0, 1, XdpOptions { frame_len: 1000, ..OPTIONS }),
            (0, 1, XdpOptions { rx_frames: 100, ..OPTIONS }),
            (0, 1, XdpOptions { rx_frames: 0, tx_frames: 0, ..OPTIONS }),
            (0, 0, OPTIONS),
            (9, 1, OPTIONS),
            (0, 1, XdpOptions { copying: Copying::ZeroCopy, ..OPTIONS }),
        ] {
            let refused = XdpPort::open("va", queue, workers, &options, |_, _| Ok(())).err();
            let error = refused.unwrap_or_else(|| panic!("{options:?}")).to_string();
            assert!(error.starts_with("va: "), "{error}");
        }
        let refuse = |_: u32, _: BorrowedFd<'_>| Err(std::io::Error::other("no such map"));
        let error = XdpPort::open("va", 0, 1, &OPTIONS, refuse).err().unwrap().to_string();
        assert!(error.contains("no such map"), "{error}");
    });
}
