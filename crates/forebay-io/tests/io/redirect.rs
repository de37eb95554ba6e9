//! Sending by redirected frames, over veth pairs in a network namespace.

use std::os::fd::BorrowedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::live::{
    Seen, assert_same, batch_of, frame, in_namespace, ip, loss, receive_until, send, sent_in_all,
    veth, wait_for,
};
use forebay_bpf::map::SocketMap;
use forebay_bpf::programs::redirect::{self, NoSocket};
use forebay_bpf::programs::sender::MAX_FRAME;
use forebay_bpf::{XdpLink, XdpMode};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::af_xdp::{Copying, XdpOptions, XdpPort, XdpRx};
use forebay_io::device::{Link, Need, check};
use forebay_io::redirect::RedirectTx;
use forebay_io::{Error, Received, Rx, Tx};
use forebay_packet::{HashKey, MacAddress, Rewrite, Rewrites};

const OPTIONS: XdpOptions = XdpOptions {
    frame_len: 4096,
    rx_frames: 8192,
    tx_frames: 0,
    copying: Copying::Copy,
    multi_buffer: false,
    patience: Duration::from_millis(1),
};

/// What receives at the other end.
struct Far {
    rx: XdpRx,
    _link: XdpLink,
    _map: SocketMap,
}

/// Two devices, of which one takes what is sent to the other.
fn pair(mtu: usize) -> Far {
    veth("va", "vb");
    for device in ["va", "vb"] {
        ip(&format!("link set {device} mtu {mtu}"));
        let need = Need { receive: true, send: true, xdp: true, mtu: 0 };
        check(device, need, true).unwrap();
    }
    let map = SocketMap::create("sockets", 1).unwrap();
    let program = redirect::load(&map, 1, &HashKey::OFFLINE, NoSocket::Drop, false).unwrap();
    let index = Link::named("vb").unwrap().index;
    let link = XdpLink::attach(&program, index, XdpMode::Any).unwrap();
    let enter = |worker: u32, socket: BorrowedFd<'_>| {
        map.set(worker, &socket).map_err(std::io::Error::other)
    };
    let mut ports = XdpPort::open("vb", 0, 1, &OPTIONS, enter).unwrap();
    Far { rx: ports.remove(0).rx.unwrap(), _link: link, _map: map }
}

fn only(mut senders: Vec<RedirectTx>) -> RedirectTx {
    assert_eq!(senders.len(), 1);
    senders.remove(0)
}

/// Notes what comes until as many came, or for some seconds.
fn note(rx: &mut XdpRx, seen: &mut Seen, until: u64) {
    let end = Instant::now() + Duration::from_secs(10);
    while seen.count < until && Instant::now() < end {
        if let Received::Batch(batch) = rx.receive().unwrap() {
            seen.note_all(&batch);
        }
    }
}

#[test]
fn frames_of_every_length_arrive_once_and_in_order() {
    in_namespace(|| {
        let longest = MAX_FRAME - 1;
        let mut far = pair(longest - 18);
        let mut tx = only(RedirectTx::open("va", 1).unwrap());
        let mut seen = Seen::default();
        let mut sequence = [0; 16];
        // From the shortest that tells its number; in batches of mixed lengths.
        let lens: Vec<usize> = (22..=longest).collect();
        let mut bytes = 0;
        for (round, lens) in lens.chunks(500).enumerate() {
            let mixed = lens.iter().enumerate().map(|(i, &len)| {
                let flow = (i + round) % sequence.len();
                let tags: &[[u8; 4]] = if flow == 3 { &[[0x81, 0, 0, 3]] } else { &[] };
                sequence[flow] += 1;
                frame(flow as u32, sequence[flow] - 1, if flow == 5 { 60 } else { len }, tags)
            });
            let frames: Vec<_> = mixed.collect();
            bytes += frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
            send(&mut tx, &frames);
            let expected = seen.count + frames.len() as u64;
            note(&mut far.rx, &mut seen, expected);
        }
        assert_eq!((seen.count, seen.missing), (lens.len() as u64, 0));
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent.bytes), (seen.count, bytes), "{sent:?}");
        assert_eq!(sent_in_all(&sent), seen.count, "{sent:?}");
    });
}

#[test]
fn many_frames_share_a_call_and_are_changed_on_their_way() {
    in_namespace(|| {
        let mut far = pair(1500);
        let mut tx = only(RedirectTx::open("va", 1).unwrap());
        let frames: Vec<_> = (0..4000).map(|i| frame(i % 7, i / 7, 60, &[])).collect();
        let change = Rewrite {
            destination: Some(MacAddress([2, 0, 0, 0, 0, 9])),
            source: Some(MacAddress([2, 0, 0, 0, 0, 8])),
            push_vlan: Some(77),
            ..Rewrite::NONE
        };
        for chunk in frames.chunks(250) {
            let batch = batch_of(chunk);
            tx.send(&batch, &batch.live(), &Rewrites::from_iter([change])).unwrap();
        }
        assert_eq!(tx.counters().unwrap().held, 4000);
        tx.flush().unwrap();
        let expected: Vec<Vec<u8>> = frames
            .iter()
            .map(|frame| {
                let mut out = vec![0; 100];
                let len = change.write(frame, &mut out).unwrap();
                out.truncate(len);
                out
            })
            .collect();
        let got = receive_until(&mut far.rx, |got| got.len() == expected.len());
        assert_same(&got, &expected);
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent.held), (4000, 0), "{sent:?}");
    });
}

#[test]
fn what_the_device_does_not_take_has_its_name() {
    in_namespace(|| {
        let mut far = pair(1500);
        let mut tx = only(RedirectTx::open("va", 1).unwrap());
        let one = |tx: &mut RedirectTx, len| send(tx, &[frame(0, 0, len, &[])]);
        let lost = |tx: &mut RedirectTx, name| loss(&tx.counters().unwrap().losses, name);
        one(&mut tx, 1519);
        assert_eq!(lost(&mut tx, "too_long"), 1);
        send(&mut tx, &[&[0_u8; 13]]);
        assert_eq!(lost(&mut tx, "too_short"), 1);
        // The MTU is looked at now and then; before that the kernel finds out.
        ip("link set va mtu 1400");
        one(&mut tx, 1500);
        assert_eq!(lost(&mut tx, "too_long"), 2);
        ip("link set vb down");
        one(&mut tx, 100);
        assert_eq!(lost(&mut tx, "refused"), 1);
        ip("link set va down");
        one(&mut tx, 100);
        assert_eq!(lost(&mut tx, "link_down"), 1);
        ip("link set vb up");
        ip("link set va up");
        one(&mut tx, 100);
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent_in_all(&sent)), (1, 6), "{sent:?}");
        assert_eq!(receive_until(&mut far.rx, |got| !got.is_empty()).len(), 1);
        ip("link delete va");
        let batch = batch_of(&[frame(0, 0, 100, &[])]);
        wait_for("the device to be gone", || {
            let sent = tx.send(&batch, &batch.live(), &Rewrites::NONE).and_then(|()| tx.flush());
            matches!(sent, Err(Error::Device(forebay_io::device::DeviceError::Gone { .. })))
        });
        assert!(lost(&mut tx, "device_failed") > 0);
    });
}

#[test]
fn a_full_ring_at_the_other_end_is_counted_for_each_sender() {
    in_namespace(|| {
        let mut far = pair(1500);
        // Whoever empties the ring is a thread then, and not sooner there than we.
        let script = "mount -t sysfs none /sys && echo 1 > /sys/class/net/vb/threaded";
        let mut unshare = Command::new("unshare");
        assert!(unshare.args(["--mount", "sh", "-c", script]).status().unwrap().success());
        let mut senders = RedirectTx::open("va", 2).unwrap();
        let mut seen = [0_u64; 2];
        let mut given = 0;
        wait_for("a full ring", || {
            for (flow, tx) in senders.iter_mut().enumerate() {
                let frames: Vec<_> = (0..2000).map(|i| frame(flow as u32, i, 60, &[])).collect();
                send(tx, &frames);
            }
            given += 2000;
            for frame in crate::live::receive_all(&mut far.rx) {
                let (flow, _) = crate::live::identify(&frame).unwrap();
                seen[flow as usize] += 1;
            }
            senders.iter_mut().all(|tx| loss(&tx.counters().unwrap().losses, "ring_full") > 0)
        });
        for (tx, seen) in senders.iter_mut().zip(seen) {
            let sent = tx.counters().unwrap();
            assert_eq!((sent.packets, sent_in_all(&sent)), (seen, given), "{sent:?}");
        }
    });
}

#[test]
fn a_device_that_takes_no_redirected_frames_is_refused() {
    in_namespace(|| {
        veth("va", "vb");
        ip("link set vb mtu 9000");
        let refused = |mtu: u32| {
            ip(&format!("link set va mtu {mtu}"));
            RedirectTx::open("va", 1).map(drop).unwrap_err().to_string()
        };
        let said = refused(1500);
        assert!(said.contains("frames: run `ethtool -K vb gro on`"), "{said}");
        let said = refused(9000);
        assert!(said.contains("MTU of 9000") && said.contains("3373"), "{said}");
    });
}

#[test]
fn a_ring_sends_while_the_device_refuses_redirected_frames() {
    in_namespace(|| {
        let far = pair(1500);
        let mut tx = only(RedirectTx::open("va", 1).unwrap());
        let mut heard = PacketRx::open("vb", &RxOptions::default()).unwrap();
        // Its NAPI goes with the program, and GRO is off.
        drop(far);
        let frames = |from: u32| (from..from + 50).map(|i| frame(1, i, 200, &[]));
        send(&mut tx, &frames(0).collect::<Vec<_>>());
        let lost = loss(&tx.counters().unwrap().losses, "refused");
        assert_eq!(lost, 50);
        send(&mut tx, &frames(50).collect::<Vec<_>>());
        assert_eq!(receive_until(&mut heard, |got| got.len() >= 50).len(), 50);
        // And back, when it takes them again: nothing is lost or counted twice.
        check("va", Need { receive: false, send: true, xdp: true, mtu: 0 }, true).unwrap();
        std::thread::sleep(Duration::from_millis(1_100));
        send(&mut tx, &frames(100).collect::<Vec<_>>());
        assert_eq!(receive_until(&mut heard, |got| got.len() >= 50).len(), 50);
        let sent = tx.counters().unwrap();
        assert_eq!((sent.packets, sent.bytes), (100, 100 * 200), "{sent:?}");
        assert_eq!((loss(&sent.losses, "refused"), sent_in_all(&sent)), (50, 150), "{sent:?}");
        let ring = Link::named("vb").unwrap().stats;
        assert_eq!(ring.rx_dropped, 0);
    });
}

#[test]
fn the_rest_of_a_batch_goes_by_the_ring_after_a_refusal() {
    in_namespace(|| {
        let far = pair(1500);
        let mut tx = only(RedirectTx::open("va", 1).unwrap());
        let mut heard = PacketRx::open("vb", &RxOptions::default()).unwrap();
        // Its NAPI goes with the program, and GRO is off.
        drop(far);
        // Frames wait until there is no room for more, which is within a batch.
        let (len, all) = (1000, 1500);
        let frames: Vec<_> = (0..all).map(|i| frame(1, i, len, &[])).collect();
        for chunk in frames.chunks(100) {
            let batch = batch_of(chunk);
            tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
        }
        tx.flush().unwrap();
        let refused = loss(&tx.counters().unwrap().losses, "refused");
        assert!(refused > 0 && !refused.is_multiple_of(100), "{refused}");
        let got = receive_until(&mut heard, |got| got.len() as u64 >= u64::from(all) - refused);
        assert_same(&got, &frames[refused as usize..]);
        let sent = tx.counters().unwrap();
        assert_eq!(sent_in_all(&sent), u64::from(all), "{sent:?}");
        assert_eq!(sent.bytes, got.len() as u64 * len as u64);
    });
}
