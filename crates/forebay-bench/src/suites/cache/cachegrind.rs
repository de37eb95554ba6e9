//! The simulator beside valgrind's, on the same look-ups.
//!
//! This program runs under `valgrind --tool=cachegrind` with caches of the same sizes, once
//! with a number of look-ups and once with twice as many, by the AVX2 code of the product, which
//! reads whole buckets as the recorded look-ups do (the scalar code ends at the entry that is
//! found; valgrind has no AVX-512). The difference is that of the second half of the look-ups: the
//! start, the filling of the tables and the first misses cancel out. Cachegrind sees more
//! than the recorded accesses: the stack, the secret of the hash, the code that all levels but
//! the first hold, too.

use std::fs;
use std::path::Path;
use std::time::Duration;

use forebay_flow::Level;

use super::simulator::{Geometry, simulate};
use super::tables::{Engine, Keys, Tables};
use super::traffic::{Set, Traffic};
use crate::failure::{During, Result};
use crate::peers::process::{self, CommandLine};

/// Look-ups of the first run.
const LOOK_UPS: usize = 1 << 17;

/// The time of a run.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A data cache, and the one behind it. The first are those of the paper's machine.
const CACHES: [[Geometry; 2]; 2] = [
    [
        Geometry { bytes: 16 << 10, ways: 4, block: 32 },
        Geometry { bytes: 512 << 10, ways: 4, block: 32 },
    ],
    [
        Geometry { bytes: 32 << 10, ways: 8, block: 64 },
        Geometry { bytes: 1 << 20, ways: 16, block: 64 },
    ],
];

/// The instruction cache, in bytes and ways: it holds the loop of look-ups.
const CODE: [usize; 2] = [64 << 10, 8];

/// Both, for a table on caches.
#[derive(Clone, Debug)]
pub struct Compared {
    pub engine: Engine,
    pub caches: [Geometry; 2],
    /// Misses of a look-up in the first level and in the last.
    pub simulated: [f64; 2],
    pub cachegrind: [f64; 2],
    /// The sum of the answers, here and under valgrind.
    pub answers: [u64; 2],
}

impl Compared {
    /// By how much of cachegrind's the misses of the first level differ.
    pub fn difference(&self) -> f64 {
        (self.simulated[0] / self.cachegrind[0] - 1.0).abs()
    }
}

/// The keys of both runs: the first half is the shorter run's.
fn keys(engine: Engine, traffic: &Traffic) -> Keys {
    Keys::new(engine, &traffic.packets(1, 2 * LOOK_UPS))
}

/// Looks up: what valgrind runs. `what` is ENGINE:RUNS, with 1 or 2 for the runs. An error if
/// valgrind, or the machine, lacks the instructions.
pub fn replay(what: &str) -> Result<()> {
    let (engine, runs) = what.split_once(':').ok_or("expected ENGINE:RUNS").during(what)?;
    let named = |other: &Engine| other.name() == engine;
    let engine = Engine::ALL.into_iter().find(named).ok_or("expected an engine").during(engine)?;
    let runs: usize = runs.parse().during(what)?;
    let traffic = Traffic::new(Set::Paper);
    let tables = Tables::new(&traffic, Level::Avx2)?;
    let keys = keys(engine, &traffic);
    println!("{}", tables.look_up(&keys, 0..runs.min(2) * LOOK_UPS));
    Ok(())
}

/// Compares both on all caches, or on the first.
pub fn compare(quick: bool) -> Result<Vec<Compared>> {
    let valgrind = process::find("valgrind").ok_or("valgrind is not installed")?;
    let folder = tempfile::tempdir()?;
    let traffic = Traffic::new(Set::Paper);
    let tables = Tables::new(&traffic, Level::Avx2)?;
    let mut compared = Vec::new();
    for caches in CACHES.into_iter().take(if quick { 1 } else { CACHES.len() }) {
        for engine in [Engine::Batch, Engine::Compact] {
            eprintln!("{engine} under cachegrind with {} and {}", caches[0], caches[1]);
            let keys = keys(engine, &traffic);
            let (warm, first) = tables.record(&keys, 0..LOOK_UPS);
            let (counted, second) = tables.record(&keys, LOOK_UPS..2 * LOOK_UPS);
            let answered = simulate(&caches, &warm, &counted);
            let run = |runs| run(&valgrind, &caches, engine, runs, folder.path());
            let ((_, once), (answer, twice)) = (run(1)?, run(2)?);
            let of_look_up = |misses: u64| misses as f64 / LOOK_UPS as f64;
            let difference = |level: usize| twice[level].saturating_sub(once[level]);
            compared.push(Compared {
                engine,
                caches,
                simulated: [0, 1].map(|level| of_look_up(answered.missed(level))),
                cachegrind: [0, 1].map(|level| of_look_up(difference(level))),
                answers: [first + second, answer],
            });
        }
    }
    Ok(compared)
}

/// The answer under valgrind, and the misses of data in the first and the last level.
fn run(
    valgrind: &Path,
    [first, last]: &[Geometry; 2],
    engine: Engine,
    runs: usize,
    folder: &Path,
) -> Result<(u64, [u64; 2])> {
    let file = folder.join("cachegrind");
    let program = std::env::current_exe()?;
    let cache = |name: &str, bytes: usize, ways: usize, block: usize| {
        format!("--{name}={bytes},{ways},{block}")
    };
    let arguments = [
        "--tool=cachegrind".to_owned(),
        "--cache-sim=yes".to_owned(),
        cache("I1", CODE[0], CODE[1], first.block),
        cache("D1", first.bytes, first.ways, first.block),
        cache("LL", last.bytes, last.ways, last.block),
        format!("--cachegrind-out-file={}", file.display()),
        program.display().to_string(),
        "cache".to_owned(),
        "--replay".to_owned(),
        format!("{engine}:{runs}"),
    ];
    let output = CommandLine::new(valgrind, &arguments).output_within(TIME_LIMIT)?;
    let answer = output.ok_or("valgrind takes too long")?.trim().parse()?;
    let counts = fs::read_to_string(&file).during("reading the counts of cachegrind")?;
    let misses = misses(&counts).ok_or("expected counts of misses").during(file.display())?;
    Ok((answer, misses))
}

/// Misses of reads and writes of data, of the file that cachegrind writes: its line `events:`
/// has the names of the numbers in the line `summary:`.
fn misses(counts: &str) -> Option<[u64; 2]> {
    let line = |name: &str| counts.lines().find_map(|line| line.strip_prefix(name));
    let (names, numbers) = (line("events:")?, line("summary:")?);
    let number = |wanted: &str| -> Option<u64> {
        let place = names.split_whitespace().position(|name| name == wanted)?;
        numbers.split_whitespace().nth(place)?.parse().ok()
    };
    Some([number("D1mr")? + number("D1mw")?, number("DLmr")? + number("DLmw")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_those_of_data() {
        let counts = "cmd: x\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfn=a\n1 2\n\
                      summary: 900 1 2 300 40 5 60 7 8\n";
        assert_eq!(misses(counts), Some([47, 13]));
        assert_eq!(misses("events: Ir\nsummary: 5\n"), None);
        assert_eq!(misses(""), None);
    }
}
