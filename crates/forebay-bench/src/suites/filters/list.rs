//! The time and memory that compiling a long list of hosts takes, from the expression to
//! code.

use std::time::{Duration, Instant};

use forebay_codegen::code::Backend;
use forebay_filter::libpcap::SNAP_LEN;
use forebay_jit::{Filter, FilterSet, Options};
use forebay_packet::LinkType;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::engines::OURS;
use super::expressions::{LISTED_HOSTS, host_list, listed_host};
use crate::failure::{Result, ensure};
use crate::peers::process;
use crate::record::Row;
use crate::stats::Sample;

/// Processes, of which the median counts.
const RUNS: usize = 5;

/// A process that takes longer is killed.
pub const LIMIT: Duration = Duration::from_secs(20);

/// One in this many hosts is looked up afterwards.
const CHECKED: usize = 50;

/// The measurement of one process.
#[derive(Debug, Serialize, Deserialize)]
struct Probe {
    micros: f64,
    peak_bytes: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct ListTime {
    /// Median seconds from expression to code.
    pub seconds: f64,
    /// The most memory that a process had resident, in mebibytes.
    pub max_rss_mib: f64,
}

/// Measures; none if it takes too long.
pub fn measure() -> Result<Option<ListTime>> {
    let hosts = LISTED_HOSTS[1].to_string();
    let mut probes: Vec<Probe> = Vec::new();
    for _ in 0..RUNS {
        let probe = process::probe(&["filters", "--compile-hosts", &hosts], LIMIT)?;
        let Some(probe) = probe else { return Ok(None) };
        probes.push(probe);
    }
    let peak = probes.iter().map(|probe| probe.peak_bytes).max().unwrap_or_default();
    let micros = Sample::new(probes.iter().map(|probe| probe.micros).collect()).median();
    Ok(Some(ListTime { seconds: micros / 1e6, max_rss_mib: peak as f64 / f64::from(1 << 20) }))
}

pub fn row(time: Option<&ListTime>) -> Row {
    let row = Row::new(format!("{} hosts", LISTED_HOSTS[1]), "compile", OURS, Vec::new());
    let Some(time) = time else { return row };
    let row = row.with("compile_us", time.seconds * 1e6).with("max_rss_mib", time.max_rss_mib);
    Row { n: RUNS, ..row }
}

/// Compiles a list of so many hosts, looks some up, and prints a [`Probe`].
pub fn probe(hosts: usize) -> Result<()> {
    let expression = host_list(hosts);
    let options = Options::new(Backend::Auto, None)?;
    let started = Instant::now();
    let mut set = FilterSet::new(expression, options);
    let filter = set.filter_for(LinkType::ETHERNET)?;
    filter.finish()?;
    let micros = started.elapsed().as_secs_f64() * 1e6;
    check(filter, hosts)?;
    let peak_bytes = process::own_high_water().ok_or("no memory figures")?;
    println!("{}", json!(Probe { micros, peak_bytes }));
    Ok(())
}

/// Looks up hosts that are on the list, as source and as destination, and some that are not.
fn check(filter: &Filter, hosts: usize) -> Result<()> {
    for number in (0..2 * hosts as u32).step_by(CHECKED) {
        for at in [26, 30] {
            let mut packet = [0; 34];
            packet[12..14].copy_from_slice(&[8, 0]);
            packet[14] = 0x45;
            packet[at..at + 4].copy_from_slice(&listed_host(number));
            let expected = if (number as usize) < hosts { SNAP_LEN } else { 0 };
            let verdict = filter.run(&packet, packet.len() as u32);
            ensure!(verdict == expected, "host {number}: {verdict} instead of {expected}");
        }
    }
    Ok(())
}
