//! A device in a process of its own: killed, stopped, restarted, lying.
//!
//! The process is this test program, started with a name of a socket in its environment.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{env, slice, thread};

use forebay_packet::random::Random;
use forebay_scan::LiteralSet;
use forebay_scan::accelerator::protocol::{Answer, COMPLETED, Hello, SUBMITTED, VERSION, Welcome};
use forebay_scan::accelerator::{
    Accelerator, Cause, Device, DeviceLimits, Remote, RemoteError, RemoteOptions, SetIdentity,
};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketType, accept, bind, connect as connect_socket, listen, recvmsg, send, socket,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

use super::same_matches::connect;
use super::support::{MILLISECOND, Record, compile, letters, literals, small_limits};

const SOCKET: &str = "FOREBAY_TEST_DEVICE_SOCKET";
const LIES: &str = "FOREBAY_TEST_DEVICE_LIES";
const FILES: &str = "FOREBAY_TEST_DEVICE_FILES";

/// The time within which everything must be over.
const LIMIT: Duration = Duration::from_secs(60);

fn set() -> LiteralSet {
    literals(&mut Random::new(10), 30)
}

/// The device, if this program was started as one: it returns only then.
#[test]
fn device_process() {
    let Some(path) = env::var_os(SOCKET) else { return };
    let path = Path::new(&path);
    if let Some(seed) = env::var_os(LIES) {
        return lie(path, seed.to_str().unwrap().parse().unwrap());
    }
    if let Some(files) = env::var_os(FILES) {
        let most = files.to_str().unwrap().parse().unwrap();
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
    }
    let identity = SetIdentity::of(&set());
    let device = Device::listen(path, compile(&set()), identity, DeviceLimits::default()).unwrap();
    device.run(&AtomicBool::new(false)).unwrap();
}

/// A device that writes random words wherever it can write.
fn lie(path: &Path, seed: u64) {
    let listener = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    let mut random = Random::new(seed);
    loop {
        let client = accept(&listener).unwrap();
        let mut bytes = [0; 64];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut places = [std::io::IoSliceMut::new(&mut bytes)];
        recvmsg(&client, &mut places, &mut control, RecvFlags::empty()).unwrap();
        let files = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files.collect::<Vec<_>>()),
            _ => None,
        });
        let hello = Hello::decode(&bytes).unwrap();
        let sizes = hello.layout.region_words();
        let maps: Vec<&[std::sync::atomic::AtomicU64]> = files
            .unwrap()
            .iter()
            .zip(sizes)
            .map(|(file, words)| {
                let both = ProtFlags::READ | ProtFlags::WRITE;
                let none = std::ptr::null_mut();
                // SAFETY: a new mapping where the kernel chooses, never unmapped, accessed as
                // atomics alone.
                unsafe {
                    let base =
                        mmap(none, words * 8, both, MapFlags::SHARED, file.as_fd(), 0).unwrap();
                    slice::from_raw_parts(base.cast(), words)
                }
            })
            .collect();
        let (generation, set) = (hello.generation, hello.set);
        let answer = Some(Answer::Accepted);
        let welcome = Welcome { version: VERSION, generation, answer, set };
        send(&client, &welcome.encode(), SendFlags::NOSIGNAL).unwrap();
        let started = Instant::now();
        let mut completed = 0;
        // The client ends the session with the first lie that it reads.
        while started.elapsed() < Duration::from_millis(20) {
            for _ in 0..random.below(100) {
                let map = maps[random.index(3)];
                let at = if random.one_in(2) {
                    random.index(map.len().min(700))
                } else {
                    random.index(map.len())
                };
                if !(map.len() == sizes[0] && at == SUBMITTED) {
                    map[at].store(random.next() >> random.below(64), Relaxed);
                }
            }
            if maps[0][SUBMITTED].load(Relaxed) > completed {
                completed += 1;
            }
            if random.one_in(3) {
                maps[0][COMPLETED].store(completed, Relaxed);
            }
            if send(&client, &[1], SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
                break;
            }
        }
    }
}

/// A device process, killed when dropped.
struct Process(Child);

impl Process {
    fn start(socket: &Path, lies: Option<u64>) -> Self {
        Self::with(socket, lies.map(|seed| (LIES, seed)))
    }

    fn with(socket: &Path, variable: Option<(&str, u64)>) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["processes::device_process", "--exact", "--nocapture"]);
        command.env(SOCKET, socket).stdout(Stdio::null());
        if let Some((name, value)) = variable {
            command.env(name, value.to_string());
        }
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client, what it has submitted, and its clock.
struct Client {
    remote: Remote,
    record: Record,
    random: Random,
    started: Instant,
}

impl Client {
    fn new(socket: &Path, seed: u64) -> Self {
        let options = RemoteOptions {
            limits: small_limits(),
            patience: 100 * MILLISECOND,
            retry: MILLISECOND,
            ..RemoteOptions::new(socket.to_owned())
        };
        Self {
            remote: Remote::new(options, &set()).unwrap(),
            record: Record::default(),
            random: Random::new(seed),
            started: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Submits and polls for a time.
    fn run(&mut self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {
            for _ in 0..self.random.below(12) {
                let len = self.random.below(90) as usize;
                let (text, now) = (letters(&mut self.random, len), self.now());
                self.record.push(&mut self.remote, &text, now);
            }
            let now = self.now();
            self.record.submit(&mut self.remote, now);
            self.remote.wait(Duration::from_micros(200)).unwrap();
            self.poll();
        }
    }

    fn poll(&mut self) {
        let now = self.now();
        self.record.poll(&mut self.remote, now);
    }

    /// Submits and polls until a condition holds.
    fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            self.run(Duration::from_millis(1));
            assert!(begun.elapsed() < LIMIT, "{:?}", self.remote.take_trouble());
        }
    }

    /// Batches that were scanned.
    fn scanned(&self) -> usize {
        self.record.completions.iter().filter(|one| one.result.is_ok()).count()
    }

    /// Polls until nothing is in flight, and checks all results. Returns the number of batches that
    /// were scanned.
    fn finish(&mut self) -> usize {
        let now = self.now();
        self.record.submit(&mut self.remote, now);
        let begun = Instant::now();
        while self.remote.in_flight() > 0 {
            self.remote.wait(Duration::from_millis(1)).unwrap();
            self.poll();
            assert!(begun.elapsed() < LIMIT, "in flight: {}", self.remote.in_flight());
        }
        assert_eq!(self.record.completions.len(), self.record.submitted.len());
        self.record.check(&compile(&set()))
    }

    fn causes(&self, cause: Cause) -> usize {
        let completions = &self.record.completions;
        completions.iter().filter(|one| one.result == Err(cause)).count()
    }
}

#[test]
fn killed_at_any_instant_and_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("device");
    let mut client = Client::new(&socket, 11);
    let mut scanned = 0;
    for round in 0..12 {
        let mut process = Process::start(&socket, None);
        connect(&mut client.remote);
        let time = client.random.below(20_000);
        client.run(Duration::from_micros(time));
        process.kill();
        if round % 2 == 0 {
            // The end of the process is noticed.
            client.run_until(|client| !client.remote.is_connected());
        }
        let so_far = client.finish();
        assert!(so_far >= scanned);
        scanned = so_far;
    }
    assert!(scanned > 20, "{scanned}");
}

#[test]
fn stopped_and_continued() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("device");
    let process = Process::start(&socket, None);
    let mut client = Client::new(&socket, 12);
    connect(&mut client.remote);
    for _ in 0..3 {
        client.run_until(|client| client.scanned() > 0);
        process.signal(Signal::STOP);
        let late = client.causes(Cause::TimeOut);
        client.run_until(|client| client.causes(Cause::TimeOut) > late);
        process.signal(Signal::CONT);
        let scanned = client.scanned();
        client.run_until(|client| client.scanned() > scanned);
    }
    process.signal(Signal::STOP);
    client.run_until(|client| !client.remote.is_connected());
    process.signal(Signal::CONT);
    let scanned = client.scanned();
    client.run_until(|client| client.scanned() > scanned);
    client.finish();
    assert!(client.remote.generation() > 1, "the longest pause ended the session");
}

/// A connection by which nothing is sent.
fn silent_client(path: &Path) -> rustix::io::Result<OwnedFd> {
    let client = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    connect_socket(&client, &SocketAddrUnix::new(path)?)?;
    Ok(client)
}

#[test]
fn a_device_that_is_stopped_before_the_handshake_is_waited_for_without_blocking() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("device");
    let process = Process::start(&socket, None);
    let begun = Instant::now();
    // Its file is there before it listens, and until then connections are refused.
    while silent_client(&socket).is_err() {
        thread::sleep(Duration::from_millis(1));
        assert!(begun.elapsed() < LIMIT);
    }
    process.signal(Signal::STOP);
    let mut client = Client::new(&socket, 13);
    let no_device =
        |remote: &mut Remote| matches!(remote.take_trouble(), Some(RemoteError::NoDevice { .. }));
    let begun = Instant::now();
    while !no_device(&mut client.remote) {
        client.run(Duration::from_millis(1));
        assert!(begun.elapsed() < LIMIT, "the handshake has a time limit");
    }
    assert!(!client.remote.is_connected());
    assert!(client.record.refused > 0, "texts are refused, and not kept");
    process.signal(Signal::CONT);
    client.run_until(|client| client.scanned() > 0);
    client.finish();
}

#[test]
fn a_device_that_has_no_more_files_serves_again_when_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let socket_path = folder.path().join("device");
    let mut process = Process::with(&socket_path, Some((FILES, 12)));
    let mut client = Client::new(&socket_path, 14);
    connect(&mut client.remote);
    // More connections than files, of which none says hello.
    let silent: Vec<_> = (0..12).map(|_| silent_client(&socket_path).unwrap()).collect();
    thread::sleep(Duration::from_millis(300));
    assert!(process.0.try_wait().unwrap().is_none(), "the device runs");
    // The one that is served goes on, and another is served when the others are gone.
    let scanned = client.scanned();
    client.run_until(|client| client.scanned() > scanned);
    drop(silent);
    let mut another = Client::new(&socket_path, 15);
    another.run_until(|client| client.scanned() > 0);
    client.finish();
    another.finish();
}

#[test]
fn lies_are_never_taken_for_answers() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..3 {
        let socket = folder.path().join(format!("device-{seed}"));
        let _process = Process::start(&socket, Some(seed));
        let mut client = Client::new(&socket, seed);
        connect(&mut client.remote);
        client.run_until(|client| {
            client.causes(Cause::Garbage) > 0 && client.remote.generation() > 10
        });
        assert_eq!(client.finish(), 0, "no batch was scanned");
    }
}
