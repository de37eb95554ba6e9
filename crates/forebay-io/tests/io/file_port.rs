//! A capture that is taken down while packets of several inputs come.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_io::{
    CaptureTx, Format, Naming, OnFull, Placement, ReadOptions, Reader, Series, SeriesOptions, Tx,
    WriteOptions,
};
use forebay_packet::{Annotation, Arena, Batch, Clock, Interface, MacAddress, Rewrite, Rewrites};

/// Packets of a device, at times in nanoseconds.
fn batch(device: &str, packets: &[(u64, &[u8])]) -> Batch {
    let interface = Interface {
        snap_len: 0,
        clock: Clock::NANOS,
        name: Some(device.to_owned()),
        ..Interface::default()
    };
    let mut arena = Arena::new(packets.len(), 128).unwrap();
    for (time, packet) in packets {
        assert!(arena.push(packet, packet.len() as u32, *time, 0));
    }
    arena.into_batches(&Arc::new(vec![interface])).remove(0)
}

/// Device, time and bytes of each packet of a capture.
fn read(path: &Path) -> Vec<(String, i64, Vec<u8>)> {
    let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
    let mut packets = Vec::new();
    while let Some(batch) = reader.receive().unwrap() {
        packets.extend(batch.live().iter().map(|i| {
            let device = batch.interface(i).name.clone().unwrap_or_default();
            (device, batch.nanos(i), batch.packet(i).to_vec())
        }));
    }
    packets
}

/// What a recorder has told.
type Told = Arc<Mutex<Vec<String>>>;

fn new_recorder(path: &Path, on_full: OnFull, max_len: Option<u64>, told: &Told) -> CaptureTx {
    let series = Series::new(SeriesOptions {
        name: path.to_owned(),
        format: Format::Pcapng,
        write: WriteOptions { placement: Placement::GrowingBeneath, ..WriteOptions::default() },
        max_len,
        max_age: None,
        naming: Naming::Numbered { keep: max_len.map(|_| 3) },
        spared: None,
    });
    let told = Arc::clone(told);
    let tell = move |what| told.lock().unwrap().push(what);
    CaptureTx::new(series.unwrap(), on_full, Box::new(tell))
}

fn recorder(path: &Path, on_full: OnFull, max_len: Option<u64>, told: &Told) -> CaptureTx {
    let mut tx = new_recorder(path, on_full, max_len, told);
    tx.begin().unwrap();
    tx
}

/// Runs `test` in a thread with a file system of 128 KiB, which ends with it. Not when we are
/// not root, but in CI we must be.
fn on_small_disk(test: impl FnOnce(&Path) + Send + 'static) {
    if !forebay_testkit::is_root("mounting a file system") {
        return;
    }
    let thread = std::thread::spawn(|| {
        // SAFETY: concerns this thread's mounts alone, and no memory.
        let result = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        assert_eq!(result, 0, "unshare: {}", std::io::Error::last_os_error());
        let folder = tempfile::tempdir().unwrap();
        let mount = |words: &[&str]| {
            let status = Command::new("mount").args(words).arg(folder.path()).status();
            assert!(status.unwrap().success(), "mount {words:?}");
        };
        assert!(Command::new("mount").args(["--make-rprivate", "/"]).status().unwrap().success());
        mount(&["-t", "tmpfs", "-o", "size=128k", "none"]);
        test(folder.path());
        assert!(Command::new("umount").arg("-l").arg(folder.path()).status().unwrap().success());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// What was given is in the file, lost by name, or held; what counts as sent is in the file.
#[track_caller]
fn accounts(tx: &mut CaptureTx, path: &Path, given: u64) {
    let counters = tx.counters().unwrap();
    let lost: u64 = counters.losses.iter().map(|(_, packets)| packets).sum();
    assert_eq!(counters.packets + counters.held + lost, given, "{counters:?}");
    assert_eq!(read(path).len() as u64, counters.packets, "{counters:?}");
}

#[test]
fn what_counts_as_sent_on_a_full_disk_is_in_the_file() {
    on_small_disk(|folder| {
        let (path, told) = (folder.join("all.pcapng"), Told::default());
        let partial = folder.join("all.pcapng.partial");
        let ballast = folder.join("ballast");
        fs::write(&ballast, vec![1; 60 << 10]).unwrap();
        let mut tx = recorder(&path, OnFull::Retry, None, &told);
        let packets: Vec<(u64, &[u8])> = (0..100).map(|time| (time, &[5; 100][..])).collect();
        let (mut given, mut rounds) = (0, 0);
        let mut send = |tx: &mut CaptureTx, device: &str| {
            let batch = batch(device, &packets);
            tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
            tx.flush().unwrap();
            given += 100;
            accounts(tx, &partial, given);
            rounds += 1;
            assert!(rounds < 100_000, "nothing changes");
            given
        };
        while told.lock().unwrap().is_empty() {
            send(&mut tx, "eth1");
        }
        // Another interface comes while there is no room for its description.
        send(&mut tx, "eth2");
        let state = tx.counters().unwrap();
        assert_eq!(state.losses[0].0, "disk_full");
        assert!(state.recorded.unwrap().fault.unwrap().contains("space"));
        let before = state.packets;
        fs::remove_file(&ballast).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        let first_on_full = told.lock().unwrap()[0].clone();
        assert!(first_on_full.contains("No space") && first_on_full.contains("tries again"));
        let small = |tx: &mut CaptureTx, given: u64| {
            let batch = batch("eth2", &packets[..1]);
            tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
            tx.flush().unwrap();
            accounts(tx, &partial, given);
        };
        let mut sum = send(&mut tx, "eth2");
        while told.lock().unwrap().len() < 2 {
            assert!(Instant::now() < end, "it does not go on");
            sum += 1;
            small(&mut tx, sum);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(told.lock().unwrap()[1].contains("again"), "{told:?}");
        let counters = tx.counters().unwrap();
        assert!(counters.packets > before && counters.recorded.unwrap().fault.is_none());
        Box::new(tx).finish().unwrap();
        assert_eq!(read(&path).len() as u64, counters.packets);
        assert!(read(&path).iter().any(|(device, ..)| device == "eth2"));
        assert!(!partial.exists());
    });
}

/// From now on this thread cannot cut files: ftruncate(2) fails.
fn cut_no_files() {
    let step = |code, k, jf| libc::sock_filter { code, jt: 0, jf, k };
    let program = [
        step(0x20, 0, 0),
        step(0x15, libc::SYS_ftruncate as u32, 1),
        step(0x06, libc::SECCOMP_RET_ERRNO | libc::EIO.cast_unsigned(), 0),
        step(0x06, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_ptr().cast_mut() };
    // SAFETY: two system calls, which concern this thread alone and read memory that lives
    // meanwhile.
    let results = unsafe {
        let first = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        (first, libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter))
    };
    assert_eq!(results, (0, 0), "{}", std::io::Error::last_os_error());
}

/// Packets that are whole in a capture that may end within one.
fn whole_packets(path: &Path) -> (u64, bool) {
    let mut reader = Reader::open(path, &ReadOptions::default()).unwrap();
    let mut packets = 0;
    loop {
        match reader.receive() {
            Ok(Some(batch)) => packets += batch.live().count() as u64,
            Ok(None) => return (packets, true),
            Err(_) => return (packets, false),
        }
    }
}

/// The captures in a folder, in order.
fn captures(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| !path.ends_with("ballast")).collect();
    found.sort();
    found
}

#[test]
fn a_file_that_cannot_be_cut_is_left_and_another_begun() {
    for (max_len, names) in [
        (None, ["all.pcapng.partial", "all.pcapng.partial.old"]),
        (Some(1 << 20), ["all_00001_", "all_00002_"]),
    ] {
        on_small_disk(move |folder| {
            let (path, told) = (folder.join("all.pcapng"), Told::default());
            let ballast = folder.join("ballast");
            fs::write(&ballast, vec![1; 60 << 10]).unwrap();
            let mut tx = recorder(&path, OnFull::Retry, max_len, &told);
            cut_no_files();
            let packets: Vec<(u64, &[u8])> = (0..100).map(|time| (time, &[5; 101][..])).collect();
            let mut given = 0;
            let mut send = |tx: &mut CaptureTx, packets: &[(u64, &[u8])]| {
                let batch = batch("eth1", packets);
                tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
                tx.flush().unwrap();
                given += packets.len() as u64;
                let counters = tx.counters().unwrap();
                let lost: u64 = counters.losses.iter().map(|(_, packets)| packets).sum();
                assert_eq!(counters.packets + lost, given, "{counters:?}");
                counters.packets
            };
            while told.lock().unwrap().is_empty() {
                send(&mut tx, &packets);
            }
            let torn = send(&mut tx, &packets);
            assert_eq!(captures(folder).len(), 1);
            assert_eq!(whole_packets(&captures(folder)[0]), (torn, false));
            fs::remove_file(&ballast).unwrap();
            let end = Instant::now() + Duration::from_secs(30);
            while told.lock().unwrap().len() < 2 {
                assert!(Instant::now() < end, "it does not go on");
                // A worker flushes more often than packets come.
                for _ in 0..10 {
                    std::thread::sleep(Duration::from_millis(10));
                    tx.flush().unwrap();
                }
                send(&mut tx, &packets[..1]);
            }
            let found = captures(folder);
            for (path, name) in found.iter().zip(names) {
                assert!(path.file_name().unwrap().to_str().unwrap().starts_with(name), "{found:?}");
            }
            let out = send(&mut tx, &packets[..1]);
            assert_eq!(found.len(), 2, "{found:?}");
            assert_eq!(found.iter().map(|path| whole_packets(path).0).sum::<u64>(), out);
            // The torn one is not called whole.
            Box::new(tx).finish().unwrap();
            let found = captures(folder);
            let left = found.iter().filter(|path| path.display().to_string().contains(".partial"));
            assert_eq!(left.map(|path| whole_packets(path)).collect::<Vec<_>>(), [(torn, false)]);
        });
    }
}

#[test]
fn a_disk_that_is_full_from_the_start_is_waited_for() {
    on_small_disk(|folder| {
        let (path, told) = (folder.join("all.pcapng"), Told::default());
        let ballast = folder.join("ballast");
        fs::write(&ballast, vec![1; 256 << 10]).unwrap_err();
        let mut stops = new_recorder(&folder.join("stops.pcapng"), OnFull::Stop, None, &told);
        assert!(stops.begin().unwrap_err().to_string().contains("No space"));
        assert!(told.lock().unwrap().pop().unwrap().ends_with("records no more"));
        let mut tx = new_recorder(&path, OnFull::Retry, None, &told);
        tx.begin().unwrap();
        assert!(told.lock().unwrap()[0].ends_with("tries again every second"), "{told:?}");
        let batch = batch("eth1", &[(1, &[5; 100])]);
        tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
        assert_eq!(tx.counters().unwrap().losses, [("disk_full", 1)]);
        fs::remove_file(&ballast).unwrap();
        let (mut given, end) = (1, Instant::now() + Duration::from_secs(30));
        while told.lock().unwrap().len() < 2 {
            assert!(Instant::now() < end, "it does not go on");
            tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
            tx.flush().unwrap();
            given += 1;
            std::thread::sleep(Duration::from_millis(50));
        }
        accounts(&mut tx, &folder.join("all.pcapng.partial"), given);
        assert!(tx.counters().unwrap().packets > 0);
        // What is wrong otherwise is said at once.
        let absent = folder.join("absent/all.pcapng");
        new_recorder(&absent, OnFull::Retry, None, &told).begin().unwrap_err();
    });
}

#[test]
fn a_recorder_that_stops_says_so_and_counts_what_it_loses() {
    on_small_disk(|folder| {
        let (path, told) = (folder.join("all.pcapng"), Told::default());
        let mut tx = recorder(&path, OnFull::Stop, None, &told);
        let packets: Vec<(u64, &[u8])> = (0..100).map(|time| (time, &[5; 100][..])).collect();
        let batch = batch("eth1", &packets);
        let mut errors = 0;
        for _ in 0..30 {
            errors += u64::from(tx.send(&batch, &batch.live(), &Rewrites::NONE).is_err());
            errors += u64::from(tx.flush().is_err());
        }
        assert_eq!(errors, 1, "it says so once");
        accounts(&mut tx, &folder.join("all.pcapng.partial"), 3_000);
        assert!(tx.counters().unwrap().recorded.unwrap().has_stopped);
        assert!(told.lock().unwrap()[0].contains("records no more"), "{told:?}");
        let sent = tx.counters().unwrap().packets;
        Box::new(tx).finish().unwrap();
        assert_eq!(read(&path).len() as u64, sent);
    });
}

#[test]
fn a_recorder_keeps_its_newest_files() {
    let folder = tempfile::tempdir().unwrap();
    let (path, told) = (folder.path().join("all.pcapng"), Told::default());
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().into_string().unwrap()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    };
    let packets: Vec<(u64, &[u8])> = (0..200).map(|time| (time, &[5; 100][..])).collect();
    let batch = batch("eth1", &packets);
    for (run, first) in [(0, 1), (1, 6)] {
        let mut tx = recorder(&path, OnFull::Retry, Some(64 << 10), &told);
        for _ in 0..10 {
            tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
        }
        tx.flush().unwrap();
        let counters = tx.counters().unwrap();
        let recorded = counters.recorded.unwrap();
        // 2,000 blocks of 132 bytes, and 64 KiB a file.
        assert_eq!((counters.packets, recorded.files), (2_000, 5), "run {run}");
        assert_eq!(recorded.removed, 2 + 3 * run);
        let found = names();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[2].starts_with(&format!("all_{:05}_", first + 4)), "{found:?}");
        assert!(found[2].ends_with(".pcapng.partial"), "{found:?}");
        if run == 0 {
            // The newest is left as by a process that is killed.
            drop(tx);
        } else {
            Box::new(tx).finish().unwrap();
            assert!(names().iter().all(|name| name.ends_with(".pcapng")), "{:?}", names());
        }
    }
    for name in names() {
        let len = fs::metadata(folder.path().join(&name)).unwrap().len();
        assert!(len <= (64 << 10) + 132, "{name}: {len}");
        assert!(!read(&folder.path().join(&name)).is_empty());
    }
}

#[test]
fn packets_of_several_devices_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    let mut tx = recorder(&path, OnFull::Retry, None, &Told::default());
    let (one, two) = ([1_u8; 60], [2_u8; 70]);
    let sends = [
        batch("eth1", &[(1_000_000_001, &one), (1_000_000_002, &one)]),
        batch("eth2", &[(1_000_000_003, &two)]),
        batch("eth1", &[(1_000_000_004, &one)]),
    ];
    for batch in &sends {
        tx.send(batch, &batch.live(), &Rewrites::NONE).unwrap();
    }
    let change =
        Rewrite { destination: Some(MacAddress([9; 6])), slice: Some(64), ..Rewrite::NONE };
    let last = batch("eth2", &[(1_000_000_005, &two), (1_000_000_006, &two)]);
    tx.send(&last, &last.live(), &Rewrites::from_iter([change])).unwrap();
    let counters = tx.counters().unwrap();
    assert_eq!((counters.packets, counters.held), (0, 6), "not in the file yet");
    tx.flush().unwrap();
    let counters = tx.counters().unwrap();
    assert_eq!((counters.packets, counters.held), (6, 0));
    Box::new(tx).finish().unwrap();
    let changed = [[9; 6].as_slice(), &[2; 58]].concat();
    let expected = [
        ("eth1", 1, one.to_vec()),
        ("eth1", 2, one.to_vec()),
        ("eth2", 3, two.to_vec()),
        ("eth1", 4, one.to_vec()),
        ("eth2", 5, changed.clone()),
        ("eth2", 6, changed),
    ];
    let expected =
        expected.map(|(device, time, bytes)| (device.to_owned(), 1_000_000_000 + time, bytes));
    assert_eq!(read(&path), expected);
}

/// Packets of the last of an input's interfaces.
fn last_of(interfaces: &Arc<Vec<Interface>>) -> Batch {
    let mut arena = Arena::new(1, 128).unwrap();
    assert!(arena.push(&[3; 60], 60, 1, (interfaces.len() - 1) as u16));
    arena.into_batches(interfaces).remove(0)
}

fn named(names: impl Iterator<Item = String>) -> Arc<Vec<Interface>> {
    let interface = |name| Interface {
        snap_len: 0,
        clock: Clock::NANOS,
        name: Some(name),
        ..Interface::default()
    };
    Arc::new(names.map(interface).collect())
}

#[test]
fn interfaces_that_come_one_by_one_are_described_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    let mut tx = recorder(&path, OnFull::Retry, None, &Told::default());
    let mut expected = Vec::new();
    for many in 1..=100 {
        for input in ["a", "b"] {
            let batch = last_of(&named((0..many).map(|number| format!("{input}{number}"))));
            tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
            expected.push(format!("{input}{}", many - 1));
        }
    }
    Box::new(tx).finish().unwrap();
    let found: Vec<String> = read(&path).into_iter().map(|(device, ..)| device).collect();
    assert_eq!(found, expected);
    let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
    while reader.receive().unwrap().is_some() {}
    assert_eq!(reader.interfaces().len(), 200);
}

#[test]
fn packets_of_interfaces_that_a_file_cannot_have_are_lost_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.pcapng");
    let mut tx = recorder(&path, OnFull::Retry, None, &Told::default());
    let many = named((0..65_535).map(|number| number.to_string()));
    let two = named(["last", "lost"].map(str::to_owned).into_iter());
    let other = named(["other".to_owned()].into_iter());
    for interfaces in [&many, &Arc::new(two[..1].to_vec()), &two, &other, &many] {
        let batch = last_of(interfaces);
        tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
    }
    tx.flush().unwrap();
    let counters = tx.counters().unwrap();
    assert_eq!(counters.losses, [("too_many_interfaces", 2)]);
    assert_eq!(counters.packets, 3);
    Box::new(tx).finish().unwrap();
    let found: Vec<String> = read(&path).into_iter().map(|(device, ..)| device).collect();
    assert_eq!(found, ["65534", "last", "65534"]);
}

/// The comment of each packet of a little-endian pcapng file (draft-ietf-opsawg-pcapng, 4.3).
fn comments(path: &Path) -> Vec<Option<String>> {
    let bytes = fs::read(path).unwrap();
    let (mut rest, mut comments) = (&bytes[..], Vec::new());
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    };
    while !rest.is_empty() {
        let (block, next) = rest.split_at(word(rest, 4));
        rest = next;
        if word(block, 0) != 6 {
            continue;
        }
        let options = &block[28 + word(block, 20).next_multiple_of(4)..block.len() - 4];
        comments.push((!options.is_empty()).then(|| {
            let [code, len] = [0, 2].map(|at| u16::from_le_bytes([options[at], options[at + 1]]));
            let len = usize::from(len);
            assert_eq!(code, 1, "opt_comment");
            assert_eq!(options[4 + len.next_multiple_of(4)..], [0; 4], "opt_endofopt");
            String::from_utf8(options[4..4 + len].to_vec()).unwrap()
        }));
    }
    comments
}

#[test]
fn packets_of_suspect_flows_get_a_comment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.pcapng");
    let mut tx = recorder(&path, OnFull::Retry, None, &Told::default());
    let packets: Vec<(u64, &[u8])> = (0..100).map(|time| (time, &[5; 61][..])).collect();
    let annotation = Some(Annotation::Comment);
    let comment = Rewrite { annotation, ..Rewrite::NONE };
    let slice = Rewrite { slice: Some(60), ..comment };
    let mut expected = Vec::new();
    // As they are, changed, of an input whose interface has another number, of two sensors.
    for (device, rewrites) in
        [("a", [comment; 2]), ("a", [slice; 2]), ("b", [comment; 2]), ("a", [Rewrite::NONE, slice])]
    {
        let mut batch = batch(device, &packets);
        batch.output = (0..100).map(|i| i % 2).collect();
        (0..100).filter(|i| i % 3 == 0).for_each(|i| batch.suspect.insert(i));
        let mut which = batch.live();
        which.remove(0);
        tx.send(&batch, &which, &Rewrites::from_iter(rewrites)).unwrap();
        expected.extend((1..100).map(|i| {
            let is_marked = i % 3 == 0 && rewrites[i % 2].annotation.is_some();
            is_marked.then(|| "forebay: suspect".to_owned())
        }));
    }
    Box::new(tx).finish().unwrap();
    assert_eq!(comments(&path), expected);
    assert_eq!(read(&path).len(), expected.len());
}
