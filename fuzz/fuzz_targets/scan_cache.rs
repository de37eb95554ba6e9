//! A file of the cache of compiled sets, as damage or a forger leaves it: the engine finds what the
//! reference finds all the same.
//!
//! The first byte of an input tells what it is: a whole file, or places in a file whose header and
//! digest fit, with a text behind them.
#![no_main]

#[path = "../../crates/forebay-scan/tests/support/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use forebay_packet::Vectors;
use forebay_scan::{CachedScanner, Engine, LiteralSet, Scanner, SetCache, TrafficModel};
use libfuzzer_sys::fuzz_target;
use sha1::{Digest as _, Sha1};
use tempfile::TempDir;

const HEADER: usize = 32;

struct Fixture {
    set: LiteralSet,
    oracle: Scanner,
    model: TrafficModel,
    cache: SetCache,
    file: PathBuf,
    header: Vec<u8>,
    /// It is removed at the end of the process.
    _folder: TempDir,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let literals: &[(&[u8], bool)] = &[
        (b"a", true),
        (b"\0\0\0\0", false),
        (b"ab", false),
        (b"xyz", true),
        (b"abcd", true),
        (b"aabbaa", false),
        (b"get /ab", false),
        (b"GET /abcdef", true),
        (b"baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
    ];
    let set = support::set(literals);
    let folder = tempfile::tempdir().expect("a folder");
    let cache = SetCache::new(folder.path().to_owned());
    let model = TrafficModel::default();
    CachedScanner::compile(&set, Engine::Simd, Vectors::widest(), &model, Some(&cache))
        .expect("a small set");
    let file = fs::read_dir(folder.path()).expect("the folder").next().expect("a file");
    let file = file.expect("a file").path();
    let header = fs::read(&file).expect("the file")[..HEADER].to_vec();
    let oracle = Scanner::compile(&set, Engine::Oracle).expect("a small set");
    Fixture { set, oracle, model, cache, file, header, _folder: folder }
});

fuzz_target!(|data: &[u8]| {
    let fixture = &*FIXTURE;
    let Some((&kind, rest)) = data.split_first() else { return };
    let (file, text) = if kind & 1 == 0 {
        (rest.to_vec(), rest)
    } else {
        let (places, text) = rest.split_at((2 * fixture.set.len()).min(rest.len()));
        let mut file = [&fixture.header, places].concat();
        let digest = Sha1::digest(&file);
        file.extend_from_slice(&digest);
        (file, text)
    };
    fs::write(&fixture.file, file).expect("the folder can be written");
    let levels = Vectors::ALL.into_iter().filter(|vectors| vectors.are_here());
    let levels = levels.map(|vectors| {
        let Fixture { set, model, cache, .. } = fixture;
        let compiled = CachedScanner::compile(set, Engine::Simd, vectors, model, Some(cache));
        (vectors, compiled.expect("a small set").scanner)
    });
    let engines = support::Engines { oracle: fixture.oracle.clone(), levels: levels.collect() };
    let literals = fixture.set.literals().iter().flat_map(|literal| literal.bytes.to_vec());
    let literals: Vec<u8> = literals.collect();
    engines.assert_equal(&[text, &literals], "a batch");
    let segments: Vec<&[u8]> = literals.chunks(5).chain(text.chunks(7)).collect();
    engines.assert_equal_stream(&segments, "a stream");
});
