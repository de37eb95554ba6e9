//! Ports over packet sockets, on veth pairs in a network namespace.

use std::net::UdpSocket;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use crate::live::{
    Seen, assert_same, batch_of, frame, identify, in_namespace, ip, loss, receive_all,
    receive_until, received_in_all, send, sent_in_all, silence, until_sent, veth, wait_for,
};
use forebay_bpf::programs::fanout;
use forebay_io::af_packet::{PacketRx, PacketTx, RxOptions, TxOptions};
use forebay_io::device::DeviceError;
use forebay_io::{Error, Received, Rx, Tx};
use forebay_packet::{Batch, HashKey, MacAddress, Rewrite, Rewrites};

/// A ring of 1 MiB.
const SMALL: RxOptions =
    RxOptions { block_len: 128 << 10, blocks: 8, retire_ms: 1, promiscuous: true };

fn joined() -> (PacketTx, PacketRx) {
    veth("va", "vb");
    let rx = PacketRx::open("vb", &SMALL).unwrap();
    let tx = PacketTx::open("va", &TxOptions::default()).unwrap();
    (tx, rx)
}

/// What is left of frames that were sent by the tests.
fn ours(frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    frames.into_iter().filter(|bytes| identify(bytes).is_some()).collect()
}

#[test]
fn frames_of_all_kinds_arrive_as_they_were() {
    in_namespace(|| {
        let (mut tx, mut rx) = joined();
        let tags: [&[[u8; 4]]; 5] = [
            &[],
            &[[0x81, 0, 0, 5]],
            &[[0x88, 0xa8, 0xe0, 9]],
            &[[0x81, 0, 0x20, 0]],
            &[[0x88, 0xa8, 0, 1], [0x81, 0, 0, 2]],
        ];
        let mut sent = Vec::new();
        for sequence in 0..400 {
            for (flow, tags) in tags.iter().enumerate() {
                let len = 60 + (sequence as usize * 37 + flow * 101) % 1455;
                sent.push(frame(flow as u32, sequence, len, tags));
            }
        }
        let mut got = Vec::new();
        for some in sent.chunks(200) {
            send(&mut tx, some);
            got.extend(ours(receive_until(&mut rx, |got| got.len() >= 200)));
        }
        assert_same(&got, &sent);
        assert_eq!(rx.notes().tags_restored, 1600);
        let counters = tx.counters().unwrap();
        assert_eq!((counters.packets, counters.held), (2000, 0));
        assert_eq!(counters.bytes, sent.iter().map(|frame| frame.len() as u64).sum::<u64>());
        assert!(counters.losses.iter().all(|(_, lost)| *lost == 0), "{counters:?}");
        assert_eq!(loss(&rx.counters().unwrap().losses, "ring_full"), 0);
    });
}

#[test]
fn below_saturation_nothing_is_lost_doubled_or_moved() {
    in_namespace(|| {
        veth("va", "vb");
        // A ring for seconds: the reader may be kept from running.
        let options = RxOptions { retire_ms: 20, ..RxOptions::default() };
        let mut rx = PacketRx::open("vb", &options).unwrap();
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let reader = std::thread::spawn(move || {
            let mut seen = Seen::default();
            let end = Instant::now() + Duration::from_secs(60);
            while seen.count < 60_000 && Instant::now() < end {
                match rx.receive().unwrap() {
                    Received::Batch(batch) => seen.note_all(&batch),
                    _ => std::thread::sleep(Duration::from_micros(100)),
                }
            }
            (seen, rx.counters().unwrap())
        });
        for sequence in 0..600 {
            let frames: Vec<_> =
                (0..100).map(|flow| frame(flow, sequence, 60 + flow as usize, &[])).collect();
            send(&mut tx, &frames);
            std::thread::sleep(Duration::from_millis(2));
        }
        let (seen, counters) = reader.join().unwrap();
        assert_eq!((seen.count, seen.missing), (60_000, 0), "{counters:?}");
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent.held), (60_000, 0), "{sent:?}");
    });
}

#[test]
fn frames_with_half_a_vlan_tag_are_counted_as_what_no_socket_gets() {
    in_namespace(|| {
        veth("va", "vb");
        let program = fanout::load(&HashKey([1, 2]), 2).unwrap();
        let mut members =
            PacketRx::open_group("vb", &RxOptions::default(), 2, program.as_fd()).unwrap();
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let short = (14..40).map(|len| {
            let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 0x81, 0, 0, 5];
            frame.resize(len, 0);
            frame
        });
        send(&mut tx, &short.collect::<Vec<_>>());
        let mut undelivered = || {
            let before = members.iter_mut().map(|rx| rx.counters().unwrap().before);
            let each =
                before.map(|losses| losses.iter().find(|one| one.0 == "undelivered").unwrap().1);
            each.max().unwrap()
        };
        wait_for("the count", || undelivered() > 0);
        let counted = undelivered();
        members.iter_mut().for_each(|rx| rx.refuse().unwrap());
        let got: usize = members.iter_mut().map(|rx| receive_all(rx).len()).sum();
        assert_eq!(got as u64 + counted, 26);
        // Six bytes behind the addresses: type, tag, and the type that the kernel looks at.
        assert!((4..=6).contains(&counted), "{counted}");
    });
}

#[test]
fn what_other_members_of_a_group_got_is_not_undelivered() {
    in_namespace(|| {
        veth("va", "vb");
        let program = fanout::load(&HashKey([1, 2]), 2).unwrap();
        let members = PacketRx::open_group("vb", &RxOptions::default(), 2, program.as_fd());
        let mut members = members.unwrap();
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let undelivered = |rx: &mut PacketRx| loss(&rx.counters().unwrap().before, "undelivered");
        // UDP over IPv4, of many address pairs.
        let datagram = |host: u8| {
            let mut frame = vec![2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa, 8, 0];
            frame.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, host]);
            frame.extend([10, 0, 1, 1]);
            frame.extend([4, 4, 5, 6, 0, 26, 0, 0]);
            frame.resize(60, 0);
            frame
        };
        let frames: Vec<_> = (0..50).map(datagram).collect();
        for _ in 0..4 {
            send(&mut tx, &frames);
            until_sent(&mut tx);
            // When the second is asked, the first has as many each time that nobody asked for.
            assert_eq!(undelivered(&mut members[1]), 0);
            assert_eq!(undelivered(&mut members[0]), 0);
        }
        members.iter_mut().for_each(|rx| rx.refuse().unwrap());
        for rx in &mut members {
            assert_eq!(undelivered(rx), 0);
            assert!(!receive_all(rx).is_empty());
        }
    });
}

#[test]
fn a_slow_reader_loses_what_is_counted() {
    in_namespace(|| {
        veth("va", "vb");
        let mut rx = PacketRx::open("vb", &SMALL).unwrap();
        // The kernel, which takes what is sent, may be kept from running.
        let patient = TxOptions { patience: Duration::from_secs(2), ..TxOptions::default() };
        let mut tx = PacketTx::open("va", &patient).unwrap();
        let mut seen = Seen::default();
        for round in 0..6 {
            for sequence in 0..50 {
                let frames: Vec<_> =
                    (0..200).map(|flow| frame(flow, round * 50 + sequence, 300, &[])).collect();
                send(&mut tx, &frames);
            }
            until_sent(&mut tx);
            for frame in receive_all(&mut rx) {
                seen.note(&frame);
            }
        }
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent_in_all(&sent)), (60_000, 60_000), "{sent:?}");
        let counters = rx.counters().unwrap();
        assert_eq!(seen.count, counters.packets);
        assert!(loss(&counters.losses, "ring_full") > 0, "the ring held all: {counters:?}");
        assert_eq!(received_in_all(&counters), 60_000, "{counters:?}");
        assert!(rx.notes().freezes > 0);
    });
}

/// The next batch with packets of ours.
fn next_batch(rx: &mut dyn Rx) -> Batch {
    let mut found = None;
    wait_for("packets", || {
        if let Received::Batch(batch) = rx.receive().unwrap() {
            found = Some(batch);
        }
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_held_batch_keeps_its_bytes_while_the_ring_goes_around() {
    in_namespace(|| {
        let (mut tx, mut rx) = joined();
        let first: Vec<_> = (0..20).map(|i| frame(1000, i, 500, &[])).collect();
        send(&mut tx, &first);
        // On a slow machine a block may be given out before all have come.
        let mut held = Vec::new();
        while held.iter().map(Batch::len).sum::<usize>() < first.len() {
            held.push(next_batch(&mut rx));
        }
        // The ring stops at the first block that is held.
        let mut sent = 0;
        while loss(&rx.counters().unwrap().losses, "ring_full") == 0 {
            send(&mut tx, &(0..100).map(|i| frame(0, sent + i, 1000, &[])).collect::<Vec<_>>());
            sent += 100;
            assert!(sent < 100_000, "the ring never fills");
            while let Received::Batch(batch) = rx.receive().unwrap() {
                drop(batch);
            }
        }
        let kept = held.iter().flat_map(|batch| (0..batch.len()).map(|i| batch.packet(i)));
        assert!(kept.eq(&first));
        drop(held);
        let last: Vec<_> = (0..20).map(|i| frame(2000, i, 500, &[])).collect();
        send(&mut tx, &last);
        let got = ours(receive_all(&mut rx));
        assert_same(&got[got.len() - 20..], &last);
        drop(tx);
        drop(rx);
    });
}

#[test]
fn checksums_that_a_sender_left_half_done_are_completed() {
    in_namespace(|| {
        veth("va", "vb");
        ip("addr add 10.1.2.1/24 dev va");
        ip("neigh add 10.1.2.2 lladdr 02:00:00:00:00:02 dev va");
        std::fs::write("/proc/sys/net/ipv6/conf/va/disable_ipv6", "0").unwrap();
        ip("addr add fd00::1/64 dev va nodad");
        ip("neigh add fd00::2 lladdr 02:00:00:00:00:02 dev va");
        let mut rx = PacketRx::open("vb", &SMALL).unwrap();
        for len in [1, 2, 333, 1400] {
            let message: Vec<u8> = (0..len).map(|i| (i * 3) as u8).collect();
            UdpSocket::bind("10.1.2.1:0").unwrap().send_to(&message, "10.1.2.2:9").unwrap();
            UdpSocket::bind("[fd00::1]:0").unwrap().send_to(&message, "[fd00::2]:9").unwrap();
        }
        // A SYN.
        let address = "10.1.2.2:80".parse().unwrap();
        let _ = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(50));
        let frames = receive_all(&mut rx);
        let mut kinds = [0; 3];
        for frame in &frames {
            let (protocol, transport, addresses) = match frame[12..14] {
                [0x08, 0x00] => (frame[23], 34, &frame[26..34]),
                [0x86, 0xdd] => (frame[20], 54, &frame[22..54]),
                _ => continue,
            };
            match (protocol, addresses.len()) {
                (17, 8) => kinds[0] += 1,
                (17, 32) => kinds[1] += 1,
                (6, 8) => kinds[2] += 1,
                _ => continue,
            }
            let segment = &frame[transport..];
            let pseudo = [addresses, &[0, protocol], &(segment.len() as u16).to_be_bytes()];
            let words = [&pseudo.concat()[..], segment].concat();
            let sum: u32 = words
                .chunks(2)
                .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
                .sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "checksum of {frame:02x?}");
        }
        assert!(kinds[0] == 4 && kinds[1] == 4 && kinds[2] >= 1, "{kinds:?}");
        assert_eq!(rx.notes().checksums_completed, kinds.iter().sum::<u64>());
    });
}

#[test]
fn what_the_device_cannot_carry_is_counted() {
    in_namespace(|| {
        let (mut tx, mut rx) = joined();
        ip("link set vb mtu 9000");
        let tag: &[[u8; 4]] = &[[0x81, 0, 0, 7]];
        let frames = [
            frame(0, 0, 1514, &[]),
            frame(0, 1, 1515, &[]),
            frame(0, 2, 1518, tag),
            frame(0, 3, 1519, tag),
            frame(0, 4, 1518, &[[0x88, 0xa8, 0, 7]]),
            vec![2; 13],
            vec![2; 14],
            Vec::new(),
        ];
        send(&mut tx, &frames);
        let got = receive_all(&mut rx);
        let expected = [frames[0].clone(), frames[2].clone(), frames[6].clone()];
        assert_same(&got, &expected);
        let losses = tx.counters().unwrap().losses;
        assert_eq!((loss(&losses, "too_long"), loss(&losses, "too_short")), (3, 2));

        // The device's limit falls while the sender knows the old one, and rises again.
        ip("link set va mtu 600");
        let frames: Vec<_> =
            (10..20).map(|i| frame(0, i, 60 + (i as usize % 2) * 700, &[])).collect();
        send(&mut tx, &frames);
        let got = receive_all(&mut rx);
        assert_same(&got, &frames.iter().step_by(2).cloned().collect::<Vec<_>>());
        let counters = tx.counters().unwrap();
        assert_eq!(loss(&counters.losses, "too_long"), 8, "{counters:?}");
        assert_eq!(sent_in_all(&counters), 18);
        ip("link set va mtu 1500");
        assert_eq!(tx.counters().unwrap().held, 0);
        send(&mut tx, &frames);
        assert_same(&receive_all(&mut rx), &frames);
    });
}

#[test]
fn jumbo_frames_pass_where_the_device_carries_them() {
    in_namespace(|| {
        ip("link add va mtu 9000 type veth peer name vb mtu 9000");
        for device in ["va", "vb"] {
            silence(device);
            ip(&format!("link set {device} up"));
        }
        let mut rx = PacketRx::open("vb", &SMALL).unwrap();
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let frames: Vec<_> = (0..50).map(|i| frame(0, i, 8965 + i as usize, &[])).collect();
        send(&mut tx, &frames);
        assert_same(&receive_all(&mut rx), &frames);
    });
}

#[test]
fn frames_are_changed_on_their_way_out() {
    in_namespace(|| {
        let (mut tx, mut rx) = joined();
        let mut batch = batch_of(&[frame(0, 0, 60, &[]), frame(0, 1, 1514, &[])]);
        batch.output = vec![0, 1];
        let rewrites = [
            Rewrite { destination: Some(MacAddress([2, 0, 0, 0, 0, 9])), ..Rewrite::NONE },
            Rewrite { push_vlan: Some(300), slice: Some(100), ..Rewrite::NONE },
        ];
        tx.send(&batch, &batch.live(), &Rewrites::from_iter(rewrites)).unwrap();
        tx.flush().unwrap();
        let got = receive_all(&mut rx);
        assert_eq!((&got[0][..6], &got[0][6..]), (&[2, 0, 0, 0, 0, 9][..], &batch.packet(0)[6..]));
        assert_eq!((got[1].len(), &got[1][12..16]), (104, &[0x81, 0, 1, 44][..]));
        assert_eq!(got[1][16..], batch.packet(1)[12..100]);
    });
}

#[test]
fn a_link_that_goes_down_loses_by_name_and_comes_back() {
    in_namespace(|| {
        let (mut tx, mut rx) = joined();
        send(&mut tx, &[frame(0, 0, 60, &[])]);
        assert_eq!(receive_all(&mut rx).len(), 1);
        for (device, sequence) in [("va", 1), ("vb", 1001)] {
            ip(&format!("link set {device} down"));
            let start = Instant::now();
            for i in 0..10 {
                let first = sequence + i * 100;
                let frames: Vec<_> = (0..100).map(|i| frame(0, first + i, 60, &[])).collect();
                send(&mut tx, &frames);
            }
            until_sent(&mut tx);
            assert!(start.elapsed() < Duration::from_secs(2), "it waits in vain");
            assert!(matches!(rx.receive().unwrap(), Received::Idle));
            ip(&format!("link set {device} up"));
            wait_for("the link", || {
                forebay_io::device::Link::named("va").unwrap().works()
                    && forebay_io::device::Link::named("vb").unwrap().works()
            });
        }
        let counters = tx.counters().unwrap();
        assert_eq!(loss(&counters.losses, "link_down"), 2000, "{counters:?}");
        let after: Vec<_> = (3000..3010).map(|i| frame(0, i, 60, &[])).collect();
        send(&mut tx, &after);
        assert_eq!(receive_all(&mut rx), after);
        assert_eq!(sent_in_all(&tx.counters().unwrap()), 2011);
    });
}

#[test]
fn a_device_deleted_under_load_is_an_error_that_names_it() {
    in_namespace(|| {
        let (mut tx, mut rx) = joined();
        let deleter = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
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
                    batch_of(&(0..64).map(|i| frame(0, given + i, 200, &[])).collect::<Vec<_>>());
                given += 64;
                tx_error =
                    tx.send(&batch, &batch.live(), &Rewrites::NONE).and_then(|()| tx.flush()).err();
            }
            match rx.receive() {
                Ok(Received::End) => panic!("ended without a word"),
                Ok(_) => {}
                Err(error) => rx_error = Some(error),
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
        let one = batch_of(&[frame(0, 0, 60, &[])]);
        assert!(tx.send(&one, &one.live(), &Rewrites::NONE).is_err() && tx.flush().is_err());
        let counters = tx.counters().unwrap();
        assert_eq!(
            (sent_in_all(&counters), counters.held),
            (u64::from(given) + 1, 0),
            "{counters:?}"
        );
        rx.counters().unwrap();
    });
}

#[test]
fn a_group_shares_the_packets_and_flows_stay_together() {
    in_namespace(|| {
        veth("va", "vb");
        let mut tx = PacketTx::open("va", &TxOptions::default()).unwrap();
        let key = HashKey::OFFLINE;
        let program = fanout::load(&key, 3).unwrap();
        let mut group = PacketRx::open_group("vb", &SMALL, 3, program.as_fd()).unwrap();
        // IPv4 from 10.0.0.flow to 10.1.0.1, and what the tests know a frame by behind it.
        let datagram = |flow: u8, sequence: u8| {
            let mut bytes = frame(0, 0, 60, &[])[..12].to_vec();
            bytes.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0]);
            bytes.extend([10, 0, 0, flow, 10, 1, 0, 1]);
            bytes.resize(60, 0);
            bytes[58..60].copy_from_slice(&[flow, sequence]);
            bytes
        };
        let mut last = [None; 100];
        let mut home = [None; 100];
        let mut counts = [0; 3];
        for sequence in 0..50 {
            send(&mut tx, &(0..100).map(|flow| datagram(flow, sequence)).collect::<Vec<_>>());
            wait_for("the group to get all", || {
                for (member, rx) in group.iter_mut().enumerate() {
                    let Received::Batch(batch) = rx.receive().unwrap() else { continue };
                    counts[member] += batch.len();
                    for i in 0..batch.len() {
                        let frame = batch.packet(i);
                        let (flow, sequence) = (usize::from(frame[58]), frame[59]);
                        assert_eq!(
                            *home[flow].get_or_insert(member),
                            member,
                            "flow {flow} is torn"
                        );
                        assert_eq!(last[flow].map_or(0, |last: u8| last + 1), sequence);
                        last[flow] = Some(sequence);
                    }
                }
                counts.iter().sum::<usize>() == (usize::from(sequence) + 1) * 100
            });
        }
        assert!(counts.iter().all(|&count| count > 500), "{counts:?}");
        assert_eq!(last, [Some(49); 100]);
        for rx in &mut group {
            assert_eq!(loss(&rx.counters().unwrap().losses, "ring_full"), 0);
        }
    });
}

#[test]
fn what_is_no_device_or_no_ethernet_is_refused_by_name() {
    in_namespace(|| {
        ip("tuntap add mode tun name nix");
        for open in [
            |device: &str| PacketRx::open(device, &SMALL).err(),
            |device: &str| PacketTx::open(device, &TxOptions::default()).err(),
        ] {
            let error = open("missing").unwrap().to_string();
            assert!(error.contains("no network device missing"), "{error}");
            let error = open("nix").unwrap().to_string();
            assert!(error.contains("nix is no Ethernet device"), "{error}");
        }
        for wrong in [
            RxOptions { block_len: 4096, ..SMALL },
            RxOptions { block_len: (128 << 10) + 1, ..SMALL },
            RxOptions { blocks: 1, ..SMALL },
            RxOptions { blocks: u32::MAX, ..SMALL },
        ] {
            let error = PacketRx::open("lo", &wrong).err().unwrap().to_string();
            assert!(error.starts_with("lo: ") && error.contains("expected"), "{error}");
        }
        assert!(PacketTx::open("lo", &TxOptions { slots: 0, ..TxOptions::default() }).is_err());
    });
}
