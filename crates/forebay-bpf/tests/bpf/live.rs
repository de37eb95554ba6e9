//! Frames through interfaces, in a network namespace of the test's own: generator,
//! splitter, sensors.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use forebay_bpf::flow::FlowOptions;
use forebay_bpf::map::SocketMap;
use forebay_bpf::programs::fanout;
use forebay_bpf::programs::generator::{Flows, Generator, HEAD, Sent};
use forebay_bpf::programs::losses::RedirectLosses;
use forebay_bpf::programs::quiet::Quiet;
use forebay_bpf::programs::redirect::{self, NoSocket};
use forebay_bpf::programs::splitter::entry::{LOOK_UP, OTHER_SHIFT, RECORD, TURNED};
use forebay_bpf::programs::splitter::{self, Limits, Sensor, Settings, SplitterMaps, UserSpace};
use forebay_bpf::programs::trial::Trial;
use forebay_bpf::{XdpLink, XdpMode};
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, LinkType};

use crate::support;
use crate::support::frames::{fragment, tcp, udp, udp6};

const HASH_KEY: HashKey = HashKey([5, 6]);

/// Runs a test in a network namespace that ends with it, where IPv6 is silent.
fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !support::bpf() {
        return;
    }
    let inside = move || {
        // SAFETY: the call has no pointers, and concerns this thread alone.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        for name in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
            if fs::exists(&path).unwrap() {
                fs::write(path, "1").unwrap();
            }
        }
        test();
    };
    thread::spawn(inside).join().unwrap();
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// A pair of interfaces, up.
fn pair(one: &str, other: &str) -> (u32, u32) {
    ip(&format!("link add {one} type veth peer name {other}"));
    ip(&format!("link set {one} up"));
    ip(&format!("link set {other} up"));
    (index(one), index(other))
}

fn index(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: the name is terminated and alive.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// A packet socket on an interface.
struct Socket(OwnedFd);

impl Socket {
    fn open(interface: u32) -> Self {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the call makes a descriptor that is owned here alone.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_PACKET, kind, protocol.into());
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            Self(OwnedFd::from_raw_fd(fd))
        };
        // SAFETY: all bytes zero are an address.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = interface as i32;
        let length = size_of_val(&address) as u32;
        let fd = socket.0.as_raw_fd();
        // SAFETY: the address is as long as is said.
        assert_eq!(unsafe { libc::bind(fd, (&raw const address).cast(), length) }, 0);
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1);
        socket
    }

    fn set(&self, level: i32, option: i32, value: i32) {
        let pointer = (&raw const value).cast();
        // SAFETY: the value is four bytes, and alive.
        let result = unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, pointer, 4) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: the frame is as long as is said.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// What has come and is not read yet.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut frame = vec![0; 4096];
        let (fd, room) = (self.0.as_raw_fd(), frame.len());
        // SAFETY: the buffer is as long as is said.
        let length = unsafe { libc::recv(fd, frame.as_mut_ptr().cast(), room, libc::MSG_DONTWAIT) };
        frame.truncate(usize::try_from(length).ok()?);
        Some(frame)
    }

    /// So many frames, which have been sent.
    fn take(&self, frames: usize) -> Vec<Vec<u8>> {
        let until = Instant::now() + Duration::from_secs(30);
        let mut taken = Vec::new();
        while taken.len() < frames && Instant::now() < until {
            match self.receive() {
                Some(frame) => taken.push(frame),
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        taken
    }
}

fn settings() -> Settings {
    Settings {
        filter: None,
        flow: FlowOptions { affinity: Affinity::FiveTuple, hash_key: HASH_KEY, tunnels: true },
        idle_timeout: Duration::from_secs(2),
        user_space: UserSpace::Stack,
        group_filter: None,
        input: 0,
        multi_buffer: false,
    }
}

fn bucket_of(frame: &[u8]) -> u16 {
    let decoded = Decoder::new(DecodeOptions::default()).decode(LinkType::ETHERNET, frame);
    (decoded.affinity.hash(&HASH_KEY) >> 48) as u16
}

/// Two sensors behind one port, told apart by address.
const SENSORS: [[u8; 6]; 2] = [[2, 0, 0, 0, 1, 0], [2, 0, 0, 0, 1, 1]];

fn created_maps(out: u32) -> SplitterMaps {
    let maps = SplitterMaps::create(Limits::default()).unwrap();
    maps.devices().set(0, out).unwrap();
    for (number, mac) in (0..).zip(SENSORS) {
        let source = Some([2, 0, 0, 0, 9, 9]);
        let sensor = Sensor { device: 0, destination: Some(mac), source, tag: None };
        maps.set_sensor(number, Some(sensor)).unwrap();
    }
    (0..=u16::MAX).for_each(|bucket| maps.set_entry(bucket, u32::from(bucket % 2)));
    maps
}

/// Where frames have their number.
const NUMBER_AT: usize = 50;

/// Generator, splitter and sensors, each behind interfaces of their own.
struct Chain {
    generator_side: u32,
    sensors: Socket,
    maps: SplitterMaps,
    /// What the sensors have been sent, in the order that it came.
    received: RefCell<Vec<Vec<u8>>>,
    _links: [XdpLink; 2],
}

/// So many frames are under way at most, as a veth's ring has room for 256.
const UNDER_WAY: u32 = 128;

impl Chain {
    fn new() -> Self {
        let (generator_side, in_side) = pair("gen0", "in0");
        let (out_side, sensor_side) = pair("out0", "sensors0");
        // Redirected frames need a program, or NAPI, at the other end.
        let sockets = SocketMap::create("test_none", 1).unwrap();
        let pass = redirect::load(&sockets, 1, &HASH_KEY, NoSocket::Pass, false).unwrap();
        let pass = XdpLink::attach(&pass, sensor_side, XdpMode::Driver).unwrap();
        let sensors = Socket::open(sensor_side);
        let maps = created_maps(out_side);
        let program = splitter::load(&maps, &settings()).unwrap();
        let link = XdpLink::attach(&program, in_side, XdpMode::Driver).unwrap();
        assert_eq!(link.interface(), in_side);
        let busy = XdpLink::attach(&program, in_side, XdpMode::Driver).unwrap_err();
        assert!(busy.to_string().contains("cannot attach"), "{busy}");
        let received = RefCell::default();
        Self { generator_side, sensors, maps, received, _links: [pass, link] }
    }

    /// Sends so many frames of 100 bytes, and waits until the sensors have them.
    fn send(&self, generator: &Generator, frames: u32) {
        let mut left = frames;
        while left > 0 {
            let some = left.min(UNDER_WAY);
            let goal = generator.sent().frames + u64::from(some);
            // A signal that stops this process for a while ends a run.
            while generator.sent().frames < goal {
                let rest = u32::try_from(goal - generator.sent().frames).unwrap();
                generator.run(&[0; 100], self.generator_side, rest, 64).unwrap();
            }
            assert_eq!(generator.sent(), Sent { frames: goal, ..Sent::default() });
            self.receive(some);
            left -= some;
        }
    }

    fn receive(&self, frames: u32) {
        let mut received = self.received.borrow_mut();
        let goal = received.len() + frames as usize;
        let begun = Instant::now();
        while received.len() < goal {
            match self.sensors.receive() {
                Some(frame) => received.push(frame),
                None => thread::sleep(Duration::from_millis(1)),
            }
            let outcomes = self.maps.outcomes();
            assert!(begun.elapsed() < Duration::from_secs(30), "a frame is lost: {outcomes:?}");
        }
    }
}

/// Frames of TCP connections that differ in one port, and a generator of them.
fn connections(ports: std::ops::Range<u16>) -> (Vec<Vec<u8>>, Generator) {
    let frames: Vec<_> = ports.map(|port| tcp((1, port), (2, 80), 0x10)).collect();
    let head = |frame: &Vec<u8>| {
        let mut head = [0; HEAD];
        head[..54].copy_from_slice(&frame[..54]);
        head
    };
    let heads: Vec<[u8; HEAD]> = frames.iter().map(head).collect();
    let order: Vec<u32> = (0..256_u32).map(|n| n * 7 % heads.len() as u32).collect();
    let flows = Flows { heads: &heads, cuts: &[], order: &order, number_at: NUMBER_AT };
    let generator = Generator::load(&flows).unwrap();
    (frames, generator)
}

/// The port and the number of a generated frame.
fn numbers(frame: &[u8]) -> (u16, u64) {
    let port = u16::from_be_bytes([frame[34], frame[35]]);
    (port, u64::from_be_bytes(*frame[NUMBER_AT..].first_chunk().unwrap()))
}

#[test]
fn generated_flows_arrive_whole_and_in_order_at_their_sensors() {
    in_namespace(|| {
        const FRAMES: u32 = 6000;
        let chain = Chain::new();
        let (frames, generator) = connections(0..50);
        chain.send(&generator, FRAMES);
        let mut next = [0; 50];
        for frame in chain.received.take() {
            assert_eq!(frame.len(), 100);
            let (port, number) = numbers(&frame);
            let sensor = usize::from(bucket_of(&frames[usize::from(port)]) % 2);
            assert_eq!(frame[..6], SENSORS[sensor]);
            assert_eq!(frame[6..12], [2, 0, 0, 0, 9, 9]);
            assert_eq!(number, next[usize::from(port)], "flow {port}");
            next[usize::from(port)] += 1;
        }
        for (flow, frames) in next.iter().enumerate() {
            assert_eq!(*frames, generator.frames_of(flow), "flow {flow}");
        }
        let outcomes = chain.maps.outcomes();
        assert!(outcomes.closes());
        assert_eq!(outcomes.to_sensors.packets, u64::from(FRAMES));
        assert_eq!(outcomes.to_sensors.bytes, 100 * u64::from(FRAMES));
    });
}

#[test]
fn flows_stay_while_every_bucket_moves() {
    in_namespace(|| {
        let chain = Chain::new();
        let (old, begun_before) = connections(0..40);
        let (_, begun_after) = connections(40..80);
        let set_all = |entry: fn(u16, u16) -> u32| {
            for bucket in 0..=u16::MAX {
                chain.maps.set_entry(bucket, entry(bucket % 2, 1 - bucket % 2));
            }
            chain.maps.quiesce().unwrap();
        };
        chain.send(&begun_before, 512);
        set_all(|from, to| LOOK_UP | RECORD | u32::from(to) << OTHER_SHIFT | u32::from(from));
        chain.send(&begun_before, 512);
        set_all(|from, to| {
            LOOK_UP | RECORD | TURNED | u32::from(from) << OTHER_SHIFT | u32::from(to)
        });
        chain.send(&begun_before, 256);
        set_all(|from, to| LOOK_UP | TURNED | u32::from(from) << OTHER_SHIFT | u32::from(to));
        chain.send(&begun_before, 512);
        chain.send(&begun_after, 512);
        let mut frames = 0;
        for frame in chain.received.take() {
            let (port, _) = numbers(&frame);
            let bucket = bucket_of(&tcp((1, port), (2, 80), 0x10));
            let moved = usize::from(port) >= old.len();
            let sensor = usize::from(bucket % 2) ^ usize::from(moved);
            assert_eq!(frame[..6], SENSORS[sensor], "flow {port}");
            frames += 1;
        }
        assert_eq!(frames, 4 * 512 + 256);
        let mut records = 0;
        chain
            .maps
            .sweep(|_| {
                records += 1;
                true
            })
            .unwrap();
        assert!(records <= old.len() && records > 20, "{records}");
        assert!(chain.maps.outcomes().closes());
    });
}

#[test]
fn a_rate_is_kept_and_never_caught_up() {
    in_namespace(|| {
        let (here, there) = pair("gen0", "sink0");
        let _there = Socket::open(there);
        let frame = udp((1, 2), (3, 4));
        let mut head = [0; HEAD];
        head.copy_from_slice(&frame[..HEAD]);
        let flows = Flows { heads: &[head], cuts: &[], order: &[0], number_at: 50 };
        let generator = Generator::load(&flows).unwrap();
        let interval = Duration::from_micros(50);
        generator.set_interval(interval);
        let mut before = Sent::default();
        for _ in 0..3 {
            let begun = Instant::now();
            let whole = generator.run(&[0; 60], here, 1_000_000, 64).unwrap();
            let most = begun.elapsed().as_nanos() / interval.as_nanos() + 1;
            let sent = generator.sent();
            let (frames, idle) = (sent.frames - before.frames, sent.idle - before.idle);
            assert_eq!(frames + idle == 1_000_000, whole);
            // The call itself takes time in which nothing is sent.
            assert!(u128::from(frames) <= most, "{frames} of at most {most}");
            assert!(!whole || u128::from(frames) * 50 > most, "{frames} of at most {most}");
            before = sent;
            thread::sleep(Duration::from_millis(50));
        }
        generator.stop_at(1);
        generator.run(&[0; 60], here, 1000, 64).unwrap();
        assert_eq!(generator.sent().frames, before.frames);
        assert!(generator.run(&[0; 59], here, 1, 64).is_err());
    });
}

#[test]
fn flows_have_their_lengths_and_no_more_is_sent_than_allowed() {
    in_namespace(|| {
        let (here, there) = pair("gen0", "sink0");
        // Redirected frames need a program, or NAPI, at the other end.
        let sockets = SocketMap::create("test_none", 1).unwrap();
        let pass = redirect::load(&sockets, 1, &HASH_KEY, NoSocket::Pass, false).unwrap();
        let _pass = XdpLink::attach(&pass, there, XdpMode::Driver).unwrap();
        let sink = Socket::open(there);
        let frame = udp((1, 2), (3, 4));
        let mut head = [0; HEAD];
        head.copy_from_slice(&frame[..HEAD]);
        let flows = Flows { heads: &[head; 2], cuts: &[0, 40], order: &[0, 1], number_at: 50 };
        let generator = Generator::load(&flows).unwrap();
        for allowed in [10, 16] {
            generator.allow(allowed);
            // A signal that stops this process for a while ends a run.
            while generator.sent().frames < allowed {
                generator.run(&[0; 100], here, 1000, 64).unwrap();
            }
            generator.run(&[0; 100], here, 1000, 64).unwrap();
            assert_eq!(generator.sent().frames, allowed);
        }
        let lengths: Vec<usize> = sink.take(16).iter().map(Vec::len).collect();
        assert_eq!(lengths, [100, 60].repeat(8));
        assert!(generator.run(&[0; 99], here, 1, 64).is_err());
        let uneven = Flows { cuts: &[40], ..flows };
        assert!(Generator::load(&uneven).is_err());
    });
}

#[test]
fn a_program_is_replaced_without_a_frame_lost_and_ends_with_its_link() {
    in_namespace(|| {
        let (here, there) = pair("a0", "b0");
        let (out_side, _sensor_side) = pair("out0", "sensors0");
        let maps = created_maps(out_side);
        let settings = settings();
        let mut program = splitter::load(&maps, &settings).unwrap();
        let link = XdpLink::attach(&program, there, XdpMode::Generic).unwrap();
        let socket = Socket::open(here);
        for port in 0..200 {
            socket.send(&udp((1, port), (2, 9)));
            if port % 10 == 9 {
                program = splitter::load(&maps, &settings).unwrap();
                link.replace(&program).unwrap();
            }
        }
        let until = Instant::now() + Duration::from_secs(5);
        while maps.outcomes().received.packets < 200 && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let outcomes = maps.outcomes();
        assert!(outcomes.closes() && outcomes.received.packets == 200, "{outcomes:?}");
        drop(link);
        socket.send(&udp((1, 1), (2, 9)));
        let again = XdpLink::attach(&program, there, XdpMode::Generic).unwrap();
        assert_eq!(maps.outcomes().received.packets, 200);
        drop(again);
    });
}

#[test]
fn what_a_device_does_not_take_is_counted_by_reason() {
    in_namespace(|| {
        let (here, there) = pair("a0", "b0");
        // Behind an interface of another number than the one that loses.
        pair("other0", "other1");
        let (out_side, sensor_side) = pair("out0", "sensors0");
        let maps = created_maps(out_side);
        let losses = RedirectLosses::watch(&maps, &[(0, out_side)]).unwrap();
        let program = splitter::load(&maps, &settings()).unwrap();
        let _link = XdpLink::attach(&program, there, XdpMode::Driver).unwrap();
        let socket = Socket::open(here);
        let lost = |reason| losses.lost(0).iter().find(|lost| lost.0 == reason).unwrap().1;
        let send = |count: u16, length, reason: &'static str| {
            for port in 0..count {
                let mut frame = udp((1, port), (2, 9));
                frame.resize(length, 0);
                socket.send(&frame);
            }
            let until = Instant::now() + Duration::from_secs(5);
            while lost(reason) < count.into() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(lost(reason), count.into(), "{reason}: {:?}", losses.lost(0));
        };
        // The other end has no NAPI before it has a program.
        send(100, 100, "refused");
        let sockets = SocketMap::create("test_none", 1).unwrap();
        let pass = redirect::load(&sockets, 1, &HASH_KEY, NoSocket::Pass, false).unwrap();
        let _pass = XdpLink::attach(&pass, sensor_side, XdpMode::Driver).unwrap();
        ip("link set out0 mtu 500");
        send(30, 1000, "too_long");
        ip("link set out0 down");
        send(20, 100, "link_down");
        assert_eq!(lost("ring_full"), 0);
        assert_eq!(losses.lost(1).map(|lost| lost.1), [0; 4]);
        assert_eq!(maps.redirected(0).packets, 150);
    });
}

#[test]
fn a_trial_tells_whether_a_device_takes_redirected_frames_and_sends_none() {
    in_namespace(|| {
        let (out_side, sensor_side) = pair("out0", "sensors0");
        let maps = created_maps(out_side);
        let losses = RedirectLosses::watch(&maps, &[(0, out_side)]).unwrap();
        let trial = Trial::load(&maps, false).unwrap();
        let takes = |mtu| trial.takes(&maps, &losses, out_side, mtu).unwrap();
        let heard = Socket::open(sensor_side);
        assert_eq!(takes(1500), Some(false), "no NAPI at the other end");
        let sockets = SocketMap::create("test_none", 1).unwrap();
        let pass = redirect::load(&sockets, 1, &HASH_KEY, NoSocket::Pass, false).unwrap();
        let pass = XdpLink::attach(&pass, sensor_side, XdpMode::Driver).unwrap();
        assert_eq!(takes(1500), Some(true));
        assert_eq!(takes(9000), None, "no page has room for a frame that is too long");
        drop(pass);
        assert_eq!(takes(1500), Some(false));
        ip("link set out0 down");
        assert_eq!(takes(1500), Some(false), "its driver is asked first");
        assert!(trial.takes(&maps, &losses, u32::MAX, 1500).is_err());
        assert_eq!(losses.lost(0).map(|lost| lost.1), [0; 4]);
        assert!(heard.receive().is_none());
    });
}

#[test]
fn frames_of_a_device_that_is_set_aside_go_to_user_space_as_they_came() {
    in_namespace(|| {
        let chain = Chain::new();
        let (frames, generator) = connections(0..20);
        chain.send(&generator, 200);
        let tally = |chain: &Chain| {
            (0..=u16::MAX).fold(0_u64, |sum, one| sum.wrapping_add(chain.maps.bucket_tally(one)))
        };
        let before = tally(&chain);
        assert_eq!(before >> 36, 200);
        chain.maps.set_by_workers(0, true);
        let user_space = Socket::open(index("in0"));
        generator.run(&[0; 100], chain.generator_side, 100, 64).unwrap();
        let mut came = Vec::new();
        let until = Instant::now() + Duration::from_secs(10);
        while came.len() < 100 && Instant::now() < until {
            match user_space.receive() {
                Some(frame) => came.push(frame),
                None => thread::sleep(Duration::from_millis(1)),
            }
        }
        assert_eq!(came.len(), 100);
        for frame in &came {
            let (port, _) = numbers(frame);
            assert_eq!(frame[..12], frames[usize::from(port)][..12], "its addresses are its own");
        }
        assert_eq!(chain.maps.outcomes().to_user_space.packets, 100);
        // Whoever gets them counts them.
        assert_eq!(tally(&chain), before);
        // Those that took the longer way stay on it, so that none overtakes another.
        chain.maps.set_by_workers(0, false);
        generator.run(&[0; 100], chain.generator_side, 100, 64).unwrap();
        let outcomes = chain.maps.outcomes();
        assert_eq!((outcomes.to_user_space.packets, outcomes.to_sensors.packets), (200, 200));
        assert!(outcomes.closes());
    });
}

/// IP packets that the stack of this network has heard of so far.
fn heard_of() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let numbers = text.lines().filter(|line| line.starts_with("Ip:")).nth(1).unwrap();
    numbers.split(' ').nth(3).unwrap().parse().unwrap()
}

#[test]
fn a_host_hears_nothing_of_a_tap_that_is_kept_quiet() {
    in_namespace(|| {
        let (here, there) = pair("a0", "b0");
        let (sender, tap) = (Socket::open(here), Socket::open(there));
        let mut frame = udp((1, 2), (3, 4));
        frame[..6].fill(0xff);
        let send = |frames: u64| {
            let before = heard_of();
            for _ in 0..frames {
                sender.send(&frame);
                assert_eq!(tap.take(1).len(), 1);
            }
            // The stack has its turn behind the socket, in the same run of the softirq.
            sender.send(&frame);
            thread::sleep(Duration::from_millis(50));
            assert_eq!(tap.take(1).len(), 1);
            heard_of() - before
        };
        assert_eq!(send(20), 21);
        let quiet = Quiet::attach(there, 0x88b5).unwrap();
        assert_eq!(send(20), 0);
        drop(quiet);
        let quiet = Quiet::attach(there, 0x0800).unwrap();
        assert_eq!(send(20), 21, "IP is heard");
        drop(quiet);
        assert_eq!(send(20), 21);
    });
}

/// A second splitter, at the sensors' end, counts what arrives there.
#[test]
fn what_comes_and_what_is_lost_is_what_was_redirected() {
    in_namespace(|| {
        let (generator_side, in_side) = pair("gen0", "in0");
        let (out_side, sensor_side) = pair("out0", "sensors0");
        let first = created_maps(out_side);
        let losses = RedirectLosses::watch(&first, &[(0, out_side)]).unwrap();
        let second = SplitterMaps::create(Limits::default()).unwrap();
        let _links = [(&second, sensor_side), (&first, in_side)].map(|(maps, interface)| {
            let program = splitter::load(maps, &settings()).unwrap();
            XdpLink::attach(&program, interface, XdpMode::Driver).unwrap()
        });
        let (_, generator) = connections(0..50);
        for _ in 0..20 {
            generator.run(&[0; 60], generator_side, 10_000, 256).unwrap();
        }
        let lost = || losses.lost(0).iter().map(|lost| lost.1).sum::<u64>();
        let adds_up = || second.outcomes().received.packets + lost() == first.redirected(0).packets;
        let until = Instant::now() + Duration::from_secs(5);
        while !adds_up() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let (first, second) = (first.outcomes(), second.outcomes());
        assert!(first.closes() && second.closes());
        assert_eq!(first.to_sensors.packets, second.received.packets + lost());
        assert!(second.received.packets > 10_000, "{second:?}, {} lost", lost());
    });
}

/// A fanout group of sockets: each gets the frames that the program says.
#[test]
fn a_fanout_group_is_shared_out_by_the_program() {
    in_namespace(|| {
        const WORKERS: u32 = 3;
        /// `PACKET_FANOUT_EBPF`, and the option that takes its program.
        const EBPF: i32 = 7;
        const PACKET_FANOUT_DATA: i32 = 22;
        let (here, there) = pair("a0", "b0");
        let program = fanout::load(&HASH_KEY, WORKERS).unwrap();
        let group: Vec<Socket> = (0..WORKERS)
            .map(|_| {
                let socket = Socket::open(there);
                socket.set(libc::SOL_PACKET, libc::PACKET_FANOUT, 77 | EBPF << 16);
                socket
            })
            .collect();
        let fd = program.as_fd().as_raw_fd();
        group[0].set(libc::SOL_PACKET, PACKET_FANOUT_DATA, fd);
        let sender = Socket::open(here);
        let mut expected = [0; WORKERS as usize];
        for peer in 2..40 {
            let (a, b) = ((1, 50_000), (peer, 443));
            for frame in [tcp(a, b, 2), tcp(b, a, 2), fragment(a, b), udp6(b, a), udp(a, b)] {
                let mut tagged = frame[..12].to_vec();
                tagged.extend([0x81, 0, 0, 5]);
                tagged.extend(&frame[12..]);
                for frame in [&frame, &tagged] {
                    let pair = Decoder::default().decode(LinkType::ETHERNET, frame).key;
                    let hash = pair.address_pair().hash(&HASH_KEY);
                    let worker = fanout::worker_of(hash, WORKERS) as usize;
                    sender.send(frame);
                    expected[worker] += 1;
                }
            }
        }
        let mut numbers = [0; WORKERS as usize];
        let until = Instant::now() + Duration::from_secs(30);
        while numbers.iter().sum::<u32>() < expected.iter().sum() && Instant::now() < until {
            for (number, socket) in numbers.iter_mut().zip(&group) {
                *number += u32::from(socket.receive().is_some());
            }
        }
        assert_eq!(numbers, expected);
        assert!(numbers.iter().all(|&number| number > 0), "{numbers:?}");
    });
}
