//! What caches do for look-ups of flows: the paper's simulation on the recorded reads of both
//! tables, its equation of the mean delay beside the measured time, and the simulator beside
//! valgrind's.
//!
//! Ata, Murata and Miyahara (2000), section 5. Equation (1) gives the mean delay as the
//! accesses of a look-up that each level answers, times its latency, added up (it is printed
//! as a product). Here it has a term for each level that this machine has.

mod cachegrind;
mod figures;
mod latency;
mod simulator;
mod tables;
mod traffic;

use std::hint::black_box;
use std::time::Instant;

use forebay_flow::Level;
use forebay_packet::random::Random;
use serde_json::json;

use self::cachegrind::Compared;
pub use self::cachegrind::replay;
use self::figures::Point;
use self::latency::Chain;
use self::simulator::{Answered, Geometry, simulate};
use self::tables::{Engine, Keys, Tables, without_keys};
use self::traffic::{Flow, Set, Traffic};
use crate::bar::{self, Bar, Limit};
use crate::clock::Clock;
use crate::failure::{Failure, Result, ensure};
use crate::options::Options;
use crate::record::{Record, Row, cache_note};
use crate::stats::Sample;
use crate::table::{number, range, table};

/// Look-ups that are simulated, after as many that fill the caches.
const SIMULATED: usize = 1 << 20;
const QUICK_SIMULATED: usize = 1 << 17;

/// Look-ups of a round, timed after as many others that are not.
const TIMED: usize = 1 << 16;

const ROUNDS: usize = 101;
const QUICK_ROUNDS: usize = 31;

/// Windows of the clock before anything is measured, and in each round.
const FIRST_WINDOWS: usize = 50;
const WINDOWS: usize = 2;

/// The first part of the traffic that is timed: those before are simulated.
const FIRST_PART: u64 = 100;

/// By how much the simulator's misses may differ from cachegrind's.
const TOLERANCE: f64 = 0.05;

/// The look-ups of a set by an engine.
#[derive(Debug)]
struct Measured {
    set: Set,
    engine: Engine,
    flows: usize,
    bytes: usize,
    /// What each level of this machine answers of the simulated look-ups.
    answered: Answered,
    look_ups: usize,
    /// Nanoseconds of a look-up, round by round.
    times: Vec<f64>,
}

/// A run of the suite under way.
struct Study {
    /// Look-ups that are simulated.
    simulated: usize,
    rounds: usize,
    /// The caches of this machine.
    caches: Vec<Geometry>,
    chains: Vec<Chain>,
    /// Nanoseconds of a step along each chain, round by round.
    latencies: Vec<Vec<f64>>,
    clock: Clock,
    points: Vec<Point>,
    measured: Vec<Measured>,
    notes: Vec<String>,
}

pub fn run(options: &Options) -> Result<Record> {
    let mut study = Study::new(options);
    for set in Set::ALL {
        let traffic = Traffic::new(set);
        eprintln!("{set}: {} flows", traffic.flows.len());
        let tables = Tables::new(&traffic, Level::fastest())?;
        study.notes.push(note(set, &traffic, &tables));
        Engine::ALL.into_iter().for_each(|engine| study.simulate(set, engine, &traffic, &tables));
        study.measure(set, &traffic, &tables)?;
    }
    let compared = cachegrind::compare(options.quick).unwrap_or_else(|Failure(why)| {
        study.notes.push(format!("cachegrind: {why}"));
        Vec::new()
    });
    for one in &compared {
        let [here, there] = one.answers;
        ensure!(here == there, "{} under valgrind: {there}, not {here}", one.engine);
    }
    if let Some(folder) = &options.plots {
        figures::write(folder, &study.points)?;
    }
    Ok(study.record(&compared))
}

impl Study {
    fn new(options: &Options) -> Self {
        let (simulated, rounds) = match options.quick {
            true => (QUICK_SIMULATED, QUICK_ROUNDS),
            false => (SIMULATED, ROUNDS),
        };
        let (caches, described) = latency::caches();
        let names: Vec<String> = caches.iter().map(Geometry::to_string).collect();
        let chains = Chain::of(&caches);
        let mut clock = Clock::default();
        clock.sample(FIRST_WINDOWS);
        Self {
            simulated,
            rounds: options.rounds.unwrap_or(rounds),
            caches,
            latencies: vec![Vec::new(); chains.len()],
            chains,
            clock,
            points: Vec::new(),
            measured: Vec::new(),
            notes: vec![format!("caches {described} (KiB/ways/block): {}", names.join(", "))],
        }
    }

    /// Simulates look-ups by an engine: in the caches of the figures, and in those of this
    /// machine. Before, every flow is looked up, the most frequent last, and as many packets.
    fn simulate(&mut self, set: Set, engine: Engine, traffic: &Traffic, tables: &Tables) {
        let flows = traffic.flows.len();
        let mut packets: Vec<Flow> = traffic.flows.iter().rev().copied().collect();
        packets.extend(traffic.packets(1, 2 * self.simulated));
        let keys = Keys::new(engine, &packets);
        let part = |range| without_keys(tables.record(&keys, range).0);
        let begin = flows + self.simulated;
        let (warm, counted) = (part(0..begin), part(begin..begin + self.simulated));
        if figures::ENGINES.contains(&engine) {
            let accesses = [warm.as_slice(), &counted];
            self.points.extend(figures::points((set, engine), accesses, self.simulated));
        }
        self.measured.push(Measured {
            set,
            engine,
            flows,
            bytes: tables.bytes(engine),
            answered: simulate(&self.caches, &warm, &counted),
            look_ups: self.simulated,
            times: Vec::new(),
        });
    }

    /// Times the look-ups of a set, and the latencies of this machine between them.
    fn measure(&mut self, set: Set, traffic: &Traffic, tables: &Tables) -> Result<()> {
        for round in 0..self.rounds as u64 {
            for place in Random::new(round).draw(Engine::ALL.len(), Engine::ALL.len()) {
                let engine = Engine::ALL[place as usize];
                let nanos = time(tables, traffic, engine, round)?;
                let mut rows = self.measured.iter_mut();
                let row = rows.find(|row| row.set == set && row.engine == engine);
                row.into_iter().for_each(|row| row.times.push(nanos));
            }
            for (chain, latencies) in self.chains.iter_mut().zip(&mut self.latencies) {
                latencies.push(chain.nanos());
            }
            self.clock.sample(WINDOWS);
        }
        Ok(())
    }

    fn record(self, compared: &[Compared]) -> Record {
        let medians: Vec<f64> =
            self.latencies.iter().map(|times| Sample::new(times.clone()).median()).collect();
        let what = "simulated misses of the first level beside cachegrind's: relative difference";
        let differences = compared.iter().map(|one| (one.difference(), title(one)));
        let bars: Vec<Bar> =
            Bar::each(what, Limit::AtMost(TOLERANCE), differences).into_iter().collect();
        let shown = figures::tables(&self.points)
            + &latency_table(&self.chains, &self.latencies)
            + &delay_table(&self.measured, &medians)
            + &cachegrind_table(compared)
            + &bar::text(&bars);
        let gigahertz = self.clock.gigahertz();
        let notes = self.notes.into_iter().chain(cache_note()).chain([
            format!(
                "{} look-ups of known flows simulated, by the reads of the tables alone, after all \
                 flows and as many look-ups that fill the caches; {} rounds of {TIMED} look-ups, \
                 level {:?}, in new orders",
                self.simulated,
                self.rounds,
                Level::fastest()
            ),
            format!("clock: {gigahertz:.2} GHz, the fastest of {} windows", self.clock.windows()),
        ]);
        let latency = |(chain, times): (&Chain, Vec<f64>)| {
            Row::new("latency", &chain.name, "chain", times).with("bytes", chain.bytes())
        };
        let rows = self.points.iter().map(Point::row);
        let rows = rows.chain(self.measured.iter().map(|one| one.row(&medians)));
        let rows = rows.chain(self.chains.iter().zip(self.latencies).map(latency));
        let rows = rows.chain(compared.iter().map(compared_row)).collect();
        let record = Record::new("cache", notes.collect(), rows, Some(gigahertz));
        Record { shown, summary: json!({ "bars": bars }), ..record }
    }
}

/// Nanoseconds of a look-up, over packets that were not looked up before.
fn time(tables: &Tables, traffic: &Traffic, engine: Engine, round: u64) -> Result<f64> {
    let part = FIRST_PART + round * Engine::ALL.len() as u64 + engine as u64;
    let keys = Keys::new(engine, &traffic.packets(part, 2 * TIMED));
    black_box(tables.look_up(&keys, 0..TIMED));
    let started = Instant::now();
    let sum = tables.look_up(&keys, TIMED..2 * TIMED);
    let nanos = started.elapsed().as_nanos() as f64 / TIMED as f64;
    let expected = tables.record(&keys, TIMED..2 * TIMED).1;
    ensure!(sum == expected, "{engine}: answers add up to {sum}, not {expected}");
    Ok(nanos)
}

impl Measured {
    /// Equation (1): the mean delay of a look-up.
    fn delay(&self, latencies: &[f64]) -> f64 {
        let delays = self.answered.0.iter().zip(latencies).map(|(&n, delay)| n as f64 * delay);
        delays.sum::<f64>() / self.look_ups as f64
    }

    /// Accesses of a look-up that each level answers.
    fn levels(&self) -> Vec<f64> {
        self.answered.0.iter().map(|&n| n as f64 / self.look_ups as f64).collect()
    }

    fn row(&self, latencies: &[f64]) -> Row {
        Row::new("look-up", self.set, self.engine.name(), self.times.clone())
            .with("flows", self.flows)
            .with("bytes_per_flow", self.bytes as f64 / self.flows as f64)
            .with("answered", self.levels())
            .with("equation_ns", self.delay(latencies))
    }
}

fn delay_table(measured: &[Measured], latencies: &[f64]) -> String {
    let line = |one: &Measured| {
        let times = Sample::new(one.times.clone());
        let answered = one.levels().into_iter().map(|n| number(Some(n))).collect::<Vec<_>>();
        let delay = one.delay(latencies);
        vec![
            one.set.to_string(),
            one.engine.to_string(),
            answered.join(" "),
            number(Some(delay)),
            number(Some(times.median())),
            range(times.spread()),
            number(Some(delay / times.median())),
        ]
    };
    let headings =
        ["set", "engine", "answered by level", "(1), ns", "measured", "10%–90%", "(1)/measured"];
    let title = "Equation (1) beside the time of a look-up";
    table(title, 3, &headings, measured.iter().map(line).collect())
}

fn latency_table(chains: &[Chain], latencies: &[Vec<f64>]) -> String {
    let line = |(chain, times): (&Chain, &Vec<f64>)| {
        let times = Sample::new(times.clone());
        let kib = (chain.bytes() / 1024).to_string();
        vec![chain.name.clone(), kib, number(Some(times.median())), range(times.spread())]
    };
    let title = "Latencies, by chains of pointers";
    let lines = chains.iter().zip(latencies).map(line).collect();
    table(title, 1, &["level", "KiB", "ns", "10%–90%"], lines)
}

/// The caches and the table of a comparison.
fn title(one: &Compared) -> String {
    format!("{}, {}", caches_name(one), one.engine)
}

fn caches_name(one: &Compared) -> String {
    one.caches.map(|cache| cache.to_string()).join(" ")
}

fn compared_row(one: &Compared) -> Row {
    Row::new("cachegrind", caches_name(one), one.engine.name(), Vec::new())
        .with("simulated", one.simulated)
        .with("cachegrind", one.cachegrind)
}

fn cachegrind_table(compared: &[Compared]) -> String {
    let line = |one: &Compared| {
        let [simulated, cachegrind] = [one.simulated, one.cachegrind];
        let mut line = vec![caches_name(one), one.engine.to_string()];
        let values = [simulated[0], cachegrind[0], simulated[1], cachegrind[1]];
        line.extend(values.map(|value| number(Some(value))));
        line
    };
    let headings = ["KiB/ways/block", "engine", "D1 here", "cachegrind", "LL here", "cachegrind"];
    let title = "Misses of a look-up, keys included, beside valgrind's simulator";
    table(title, 2, &headings, compared.iter().map(line).collect())
}

fn note(set: Set, traffic: &Traffic, tables: &Tables) -> String {
    let mib = |engine| tables.bytes(engine) as f64 / f64::from(1 << 20);
    format!(
        "{set}: {} flows to {} destinations; exact {:.1} MiB, compact {:.1} MiB; {} flows share \
         an entry of the compact table",
        traffic.flows.len(),
        traffic.destinations,
        mib(Engine::Exact),
        mib(Engine::Compact),
        tables.merged,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_delay_is_a_sum_over_levels() {
        let measured = Measured {
            set: Set::Paper,
            engine: Engine::Compact,
            flows: 10,
            bytes: 160,
            answered: Answered(vec![400, 80, 20]),
            look_ups: 100,
            times: vec![1.0, 2.0, 3.0],
        };
        // The paper's form: N/P accesses, of which M1 miss the first level and M2 of these the
        // second.
        let (accesses, m1, m2) = (5.0, 0.2, 0.2);
        let [l1, l2, memory] = [1.0, 10.0, 100.0];
        let paper = accesses * ((1.0 - m1) * l1 + m1 * (1.0 - m2) * l2 + m1 * m2 * memory);
        let delay = measured.delay(&[l1, l2, memory]);
        assert!((delay - paper).abs() < 1e-9, "{delay} {paper}");
        assert!((measured.answered.ratio(0) - m1).abs() < 1e-9);
        assert!((measured.answered.ratio(1) - m2).abs() < 1e-9);
        let row = measured.row(&[l1, l2, memory]);
        assert_eq!((row.ns, row.number("bytes_per_flow")), (Some(2.0), Some(16.0)));
    }
}
