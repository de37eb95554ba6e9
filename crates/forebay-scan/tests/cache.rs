//! Compiled sets on disk: read again, refused when damaged, and harmless when forged.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forebay_packet::Vectors;
use forebay_packet::random::Random;
use forebay_scan::{
    CacheError, CacheUse, CachedScanner, Engine, LiteralSet, MOST_FILES, Scanner, SetCache,
    TrafficModel,
};
use sha1::{Digest as _, Sha1};
use support::{Engines, scan, string};

/// Bytes in front of the places of a file, and behind them.
const HEADER: usize = 32;
const DIGEST: usize = 20;

fn compile_for(
    cache: &SetCache,
    set: &LiteralSet,
    vectors: Vectors,
    model: &TrafficModel,
) -> CachedScanner {
    CachedScanner::compile(set, Engine::Simd, vectors, model, Some(cache)).unwrap()
}

fn compile(cache: &SetCache, set: &LiteralSet) -> CachedScanner {
    compile_for(cache, set, Vectors::widest(), &TrafficModel::default())
}

/// Literals of all kinds: single bytes, runs, short ones, long ones, equal ones.
fn mixed_set() -> LiteralSet {
    let literals: &[(&[u8], bool)] = &[
        (b"a", true),
        (b"\0", false),
        (b"\0\0\0\0", false),
        (b"zzzzzzzzzzzz", true),
        (b"ab", false),
        (b"xyz", true),
        (b"abcd", true),
        (b"aabbaa", false),
        (b"GET /index", true),
        (b"get /index", false),
        (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", false),
        (b"baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        (b"abcd", true),
    ];
    support::set(literals)
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

/// Writes a file whose digest fits.
fn forge(file: &Path, header: &[u8], places: &[u8]) {
    let mut bytes = [header, places].concat();
    let digest = Sha1::digest(&bytes);
    bytes.extend_from_slice(&digest);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_set_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = SetCache::new(folder.path().to_owned());
    let set = mixed_set();
    let text = b"GET /index abcd zZzZzzzzzzzzzzz \0\0\0\0 xyZ aabbaa".as_slice();
    let expected = scan(&Scanner::compile(&set, Engine::Simd).unwrap(), &[text]);
    for cached in [CacheUse::Written, CacheUse::Read, CacheUse::Read] {
        let compiled = compile(&cache, &set);
        assert_eq!(compiled.cache, Some(cached));
        assert!(compiled.errors.is_empty(), "{:?}", compiled.errors);
        assert_eq!(scan(&compiled.scanner, &[text]), expected);
    }
    // Another set, another case, another model: other files.
    let mut other = mixed_set();
    other.push(b"further", false).unwrap();
    assert_eq!(compile(&cache, &other).cache, Some(CacheUse::Written));
    let mut model = TrafficModel::default();
    model.learn(b"abababab");
    let of_model = |model| compile_for(&cache, &set, Vectors::Scalar, model).cache.unwrap();
    assert_eq!(of_model(&model), CacheUse::Written);
    assert_eq!([of_model(&model), of_model(&TrafficModel::default())], [CacheUse::Read; 2]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn damaged_files_are_refused_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let cache = SetCache::new(folder.path().to_owned());
    let set = mixed_set();
    assert_eq!(compile(&cache, &set).cache, Some(CacheUse::Written));
    let file = only_file(folder.path());
    let good = fs::read(&file).unwrap();
    let mut damaged: Vec<Vec<u8>> = (0..good.len()).map(|len| good[..len].to_vec()).collect();
    damaged.extend((0..good.len()).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    }));
    damaged.push([&good[..], b"x"].concat());
    damaged.push(vec![0; 1 << 20]);
    for bytes in damaged {
        fs::write(&file, &bytes).unwrap();
        let compiled = compile(&cache, &set);
        assert_eq!(compiled.cache, Some(CacheUse::Written));
        let [CacheError::Damaged { path, .. }] = &compiled.errors[..] else {
            panic!("{:?}", compiled.errors)
        };
        assert_eq!(*path, file);
        assert_eq!(fs::read(&file).unwrap(), good);
    }
}

#[test]
fn forged_files_cannot_hide_a_match() {
    let folder = tempfile::tempdir().unwrap();
    let cache = SetCache::new(folder.path().to_owned());
    let set = mixed_set();
    compile(&cache, &set);
    let file = only_file(folder.path());
    let good = fs::read(&file).unwrap();
    let (header, places) = (&good[..HEADER], &good[HEADER..good.len() - DIGEST]);
    let oracle = Scanner::compile(&set, Engine::Oracle).unwrap();
    let mut random = Random::new(3);
    let (mut read, mut refused) = (0, 0);
    for round in 0..600 {
        let mut forged = places.to_vec();
        for _ in 0..1 + random.below(4) {
            // Mostly another position of the same kind, which often suits.
            let at = 2 * random.below(places.len() as u64 / 2) as usize;
            match random.below(4) {
                0 => forged[at + 1] = random.below(256) as u8,
                _ => forged[at] = random.below(48) as u8,
            }
        }
        forge(&file, header, &forged);
        let text = string(&mut random, b"aAbBzx\0 cdGET/in", 400);
        let whole: Vec<u8> = set.literals().iter().flat_map(|one| one.bytes.to_vec()).collect();
        let texts = [&text[..], &whole, &text[..40]];
        let levels = Vectors::ALL.into_iter().filter(|vectors| vectors.are_here());
        let levels = levels.map(|vectors| {
            let compiled = compile_for(&cache, &set, vectors, &TrafficModel::default());
            match compiled.cache {
                Some(CacheUse::Read) => read += 1,
                _ => refused += 1,
            }
            (vectors, compiled.scanner)
        });
        let engines = Engines { oracle: oracle.clone(), levels: levels.collect() };
        engines.assert_equal(&texts, &format!("round {round}, places {forged:?}"));
        engines.assert_equal_stream(&texts, &format!("round {round}, places {forged:?}"));
    }
    assert!(read > 100 && refused > 100, "{read} files were read and {refused} refused");
}

#[test]
fn the_folder_has_a_bounded_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let cache = SetCache::new(folder.path().to_owned());
    let others = ["of-the-user", "others.places"].map(|name| folder.path().join(name));
    others.iter().for_each(|path| fs::write(path, b"stays").unwrap());
    fs::create_dir(folder.path().join(format!("{}.places", "0".repeat(40)))).unwrap();
    let left = folder.path().join(format!("{}.1-0-0.places", "0".repeat(40)));
    fs::write(&left, b"of a killed process").unwrap();
    for number in 0..MOST_FILES + 5 {
        let set = support::set(&[(format!("literal {number}"), false)]);
        assert_eq!(compile(&cache, &set).cache, Some(CacheUse::Written));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MOST_FILES + others.len() + 1);
    assert!(others.iter().all(|path| path.exists()) && !left.exists());
    // That others are younger, as when a clock was set back, does not remove the newest.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let file = fs::File::open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(3600)).unwrap();
    }
    let set = support::set(&[("newest", false)]);
    for expected in [CacheUse::Written, CacheUse::Read] {
        assert_eq!(compile(&cache, &set).cache, Some(expected));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MOST_FILES + others.len() + 1);
}

#[test]
fn what_is_no_file_is_neither_waited_for_nor_followed() {
    let folder = tempfile::tempdir().unwrap();
    let cache = SetCache::new(folder.path().to_owned());
    let set = mixed_set();
    compile(&cache, &set);
    let file = only_file(folder.path());
    let good = fs::read(&file).unwrap();
    let target = folder.path().join("target");
    fs::remove_file(&file).unwrap();
    let status = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(status.success());
    let compiled = compile(&cache, &set);
    assert_eq!(compiled.cache, Some(CacheUse::Written));
    assert!(
        compiled.errors[0].to_string().ends_with("not a regular file"),
        "{:?}",
        compiled.errors
    );
    fs::remove_file(&file).unwrap();
    fs::write(&target, b"of another").unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    let compiled = compile(&cache, &set);
    assert_eq!((compiled.cache, compiled.errors.len()), (Some(CacheUse::Written), 1));
    assert_eq!(fs::read(&target).unwrap(), b"of another");
    assert_eq!(fs::read(&file).unwrap(), good);
}

#[test]
fn without_a_folder_sets_are_compiled_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    for place in [file.clone(), file.join("beneath"), folder.path().join("missing/beneath")] {
        let compiled = compile(&SetCache::new(place.clone()), &mixed_set());
        assert_eq!(compiled.cache, Some(CacheUse::Unwritten));
        let error = compiled.errors.last().unwrap().to_string();
        assert!(error.starts_with(&format!("cache {}", place.display())), "{error}");
        assert!(!scan(&compiled.scanner, &[b"xxabcdxx"]).is_empty());
    }
}

#[test]
fn the_version_tells_how_places_are_chosen() {
    let mut random = Random::new(7);
    let mut set = mixed_set();
    for _ in 0..1000 {
        let len = 1 + random.below(40) as usize;
        let literal = string(&mut random, b"abcdefghijklmnop /\0\xff", len);
        set.push(&literal, random.below(2) == 0).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    compile(&SetCache::new(folder.path().to_owned()), &set);
    let bytes = fs::read(only_file(folder.path())).unwrap();
    let places = Sha1::digest(&bytes[HEADER..bytes.len() - DIGEST]);
    let places: String = places.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (u32::from_le_bytes(bytes[8..12].try_into().unwrap()), &*places),
        (1, "d8d72b183b137bc85053ac57048534c5e1f40157"),
        "places are chosen in another way: raise the version in cache.rs, so that files with \
         the former places are not read, and put both here",
    );
}
