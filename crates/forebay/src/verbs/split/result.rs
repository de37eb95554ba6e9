//! The result of a split, as text, JSON and a page.

use std::cmp::Reverse;
use std::io::Write as _;
use std::path::Path;

use forebay_balance::{Assignment, MOST_UNITS, UnitSummary, max_over_mean, random_imbalance};
use forebay_flow::{FlowRecord, FlowTable};
use forebay_io::{Placement, Summary, WholeFile};
use forebay_packet::flow::AddressKind;
use forebay_packet::{FlowKey, community_id};
use forebay_pipeline::{Ledger, Remarks};
use serde_json::{Value, json};

use crate::cli::{SplitArgs, SplitBalance, SplitKey};
use crate::ending::ledger_table;
use crate::failure::Failure;
use crate::input::file_failure;
use crate::naming;
use crate::report::{
    self, Balancing, Imbalance, LedgerRow, SensorLoad, SplitReport, Spread, TimeSeries, TopFlow,
    Totals,
};
use crate::series::Series;
use crate::show::{Colour, Column, Table, human, text};

/// Flows on the page.
const TOP_FLOWS: usize = 20;

/// Total flows of all random assignments that the imbalance is compared with, which limits
/// their number, within bounds.
const FLOWS_ASSIGNED: usize = 1_000_000;

/// The measures of a load in [`SplitResult::groups`].
const COUNTED: [&str; 3] = ["packets", "bytes", "flows"];

/// The data of a finished split.
pub struct SplitResult<'a> {
    pub args: &'a SplitArgs,
    pub assignment: &'a Assignment,
    /// The counts of the first reading, if there was one.
    pub counted: Option<&'a UnitSummary>,
    pub files: &'a [Summary],
    pub ledger: &'a Ledger,
    pub remarks: &'a Remarks,
    pub flows: &'a FlowTable,
    pub series: &'a Series,
    pub bytes_in: u64,
    pub error: Option<String>,
}

impl SplitResult<'_> {
    /// Computes the report.
    pub fn evaluate(&self) -> SplitReport {
        let sensors = self.sensors();
        let input = self.args.read.display().to_string();
        SplitReport {
            title: format!("{input} over {} sensors", sensors.len()),
            inputs: vec![input],
            options: self.options(),
            generator: format!("forebay {}", env!("CARGO_PKG_VERSION")),
            start_ns: self.series.start(),
            end_ns: self.series.end(),
            totals: Totals {
                packets_in: self.ledger.input(),
                packets_out: self.ledger.output(),
                bytes_in: self.bytes_in,
                bytes_out: sensors.iter().map(|sensor| sensor.bytes).sum(),
                flows: self.flows.open() as u64,
            },
            balance: Balancing {
                by: self.by(),
                units: self.counted.map(|counted| counted.units),
                largest_unit: self.counted.map(|counted| counted.largest),
                in_buckets: self.counted.map(|counted| counted.in_buckets),
            },
            imbalance: self.imbalance(&sensors),
            sensors,
            series: TimeSeries {
                width_ns: self.series.width(),
                packets: self.series.packets(),
                bytes: self.series.bytes(),
            },
            top_flows: self.top_flows(),
            ledger: self.ledger.rows.iter().map(ledger_row).collect(),
            notes: self.notes(),
            error: self.error.clone(),
        }
    }

    /// The balanced measure.
    fn by(&self) -> &'static str {
        match self.args.balance {
            SplitBalance::Hash => "hash",
            SplitBalance::Packets => "packets",
            SplitBalance::Bytes => "bytes",
        }
    }

    fn options(&self) -> Vec<(String, String)> {
        let args = self.args;
        let mut options = Vec::new();
        let mut add = |name: &str, value: String| options.push((name.to_owned(), value));
        if let Some(filter) = &args.filter {
            add("filter", filter.clone());
        }
        if let Some(rules) = &args.rules {
            add("rules", rules.display().to_string());
        }
        if let Some(list) = &args.choice.list {
            add("list", list.clone());
        }
        let key = match args.key {
            SplitKey::FiveTuple => "5tuple",
            SplitKey::IpPair => "ip-pair",
            SplitKey::Src => "src",
            SplitKey::Dst => "dst",
        };
        add("key", key.to_owned());
        add("balance", self.by().to_owned());
        if !args.follow.is_empty() {
            add("follow", args.follow.join(", "));
        }
        add("tunnel depth", args.flow.tunnel_depth.to_string());
        if args.flow.vlan_in_key {
            add("VLANs in key", "yes".to_owned());
        }
        if args.flow.tunnel_in_key {
            add("tunnels in key", "yes".to_owned());
        }
        options
    }

    fn sensors(&self) -> Vec<SensorLoad> {
        let mut flows = vec![0; self.files.len()];
        for record in self.flows.records() {
            let [there, back] = record.outputs();
            for output in there.into_iter().chain(back.filter(|_| back != there)) {
                flows[usize::from(output)] += 1;
            }
        }
        let weights = self.weights();
        let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        let bytes: Vec<u64> = self.series.bytes().iter().map(|row| row.iter().sum()).collect();
        let all_packets: u64 = self.files.iter().map(|file| file.packets).sum();
        let all_bytes: u64 = bytes.iter().sum();
        let each = self.files.iter().zip(&weights).zip(&flows).zip(&bytes);
        (0..)
            .zip(each)
            .map(|(i, (((file, &weight), &flows), &bytes))| {
                let share = f64::from(weight) / total;
                let of_share =
                    |load: u64, all: u64| (all > 0).then(|| load as f64 / (all as f64 * share));
                SensorLoad {
                    name: format!("sensor {i}"),
                    file: file.path.display().to_string(),
                    weight: f64::from(weight),
                    packets: file.packets,
                    bytes,
                    flows,
                    share_target: share,
                    packets_of_share: of_share(file.packets, all_packets),
                    bytes_of_share: of_share(bytes, all_bytes),
                }
            })
            .collect()
    }

    fn weights(&self) -> Vec<u32> {
        self.assignment.sensors().iter().map(|sensor| sensor.weight).collect()
    }

    /// The imbalance of the split, and that of random assignments of the same flows.
    fn imbalance(&self, sensors: &[SensorLoad]) -> Imbalance {
        let groups = self.groups();
        let trials = (FLOWS_ASSIGNED / groups.len().max(1)).clamp(5, 101) as u64;
        let weights = self.weights();
        let largest_share = sensors.iter().map(|sensor| sensor.share_target).fold(0.0, f64::max);
        let by_chance = random_imbalance(&groups, self.assignment, trials);
        let spread = |measured: fn(&SensorLoad) -> u64, unit: usize| {
            let loads: Vec<u64> = sensors.iter().map(measured).collect();
            let random = &by_chance[unit];
            let sum: f64 = random.iter().sum();
            // The counted units stayed together, except a flow that is followed from some
            // packet on: it counts as one here.
            let counted = self.counted.filter(|_| COUNTED[unit] == self.by());
            let largest = match counted {
                Some(counted) => Some(counted.largest),
                None if self.args.follow.is_empty() => groups.iter().map(|group| group[unit]).max(),
                None => None,
            };
            let all = loads.iter().sum::<u64>() as f64;
            let bound = |largest: u64| (largest as f64 / (all * largest_share)).max(1.0);
            Spread {
                measured: max_over_mean(&loads, &weights),
                expected: (!random.is_empty()).then(|| sum / random.len() as f64),
                expected_p95: random.get(random.len() * 95 / 100).copied(),
                bound: largest.filter(|_| all > 0.0).map(bound),
            }
        };
        Imbalance {
            packets: spread(|sensor| sensor.packets, 0),
            bytes: spread(|sensor| sensor.bytes, 1),
            flows: spread(|sensor| sensor.flows, 2),
        }
    }

    /// Packets, bytes and flows of each group that must stay together.
    fn groups(&self) -> Vec<[u64; 3]> {
        // Sorting takes less memory than a map with as many keys.
        let mut groups: Vec<(FlowKey, [u64; 3])> = Vec::new();
        let mut add = |key: FlowKey, packets: u64, bytes: u64| {
            groups.push((key, [packets, bytes, 1]));
        };
        for record in self.addressed() {
            let (packets, bytes) = (record.total_packets(), record.total_bytes());
            match self.args.key {
                // ICMP is keyed by its addresses, whatever its type.
                SplitKey::FiveTuple if is_icmp(&record.key) => {
                    add(record.key.without_ports(), packets, bytes);
                }
                SplitKey::FiveTuple => add(record.key, packets, bytes),
                SplitKey::IpPair => add(record.key.address_pair(), packets, bytes),
                SplitKey::Src | SplitKey::Dst => {
                    for (direction, counts) in record.directions().iter().enumerate() {
                        let reversed = record.a_is_high() == (direction == 0);
                        let by_source = self.args.key == SplitKey::Src;
                        let end = record.key.source(reversed == by_source);
                        if counts.packets > 0 {
                            add(end, counts.packets, counts.bytes);
                        }
                    }
                }
            }
        }
        groups.sort_unstable_by_key(|(key, _)| *key);
        groups.dedup_by(|(key, load), (group, sum)| {
            let same = key == group;
            if same {
                sum.iter_mut().zip(load).for_each(|(sum, load)| *sum += *load);
            }
            same
        });
        let mut groups: Vec<[u64; 3]> = groups.into_iter().map(|(_, sum)| sum).collect();
        // The random assignments must not depend on the flows' addresses.
        groups.sort_unstable();
        groups
    }

    /// The flows with addresses. Packets without addresses have one record, which is no
    /// flow: they need not stay together.
    fn addressed(&self) -> impl Iterator<Item = &FlowRecord> {
        self.flows.records().filter(|record| record.key.kind != AddressKind::Opaque)
    }

    fn top_flows(&self) -> Vec<TopFlow> {
        let mut records: Vec<&FlowRecord> = self.addressed().collect();
        records.sort_by_key(|record| Reverse((record.total_bytes(), record.key)));
        let shown = |record: &&FlowRecord| {
            let (a, b) = naming::ends(&record.key, record.a_is_high());
            TopFlow {
                community_id: community_id(&record.key, 0),
                proto: naming::protocol(&record.key),
                protocol: naming::protocol(&record.key),
                ends: naming::ends_json(["a", "b"], &record.key, record.a_is_high()),
                a,
                b,
                packets: record.total_packets(),
                bytes: record.total_bytes(),
                sensor: usize::from(record.output().unwrap_or(0)),
                first_ns: record.first(),
                last_ns: record.last(),
            }
        };
        records.iter().take(TOP_FLOWS).map(shown).collect()
    }

    fn notes(&self) -> Vec<String> {
        let unrecorded = match self.flows.unrecorded_packets() {
            0 => None,
            packets => Some(format!(
                "{} packets of flows beyond the first {}; they were split like all others, but \
                 are not in what is said of flows",
                human::count(packets),
                human::count(self.flows.open() as u64),
            )),
        };
        let remarks = self.remarks.named().filter(|(_, packets)| *packets > 0).filter_map(
            |(name, packets)| {
                let packets = human::count(packets);
                Some(match name {
                    "unknown_link_type" => format!(
                        "{packets} packets of link types that are not decoded; \
                         they went by a hash of their leading bytes"
                    ),
                    "not_ip" => format!(
                        "{packets} packets without IP; they went by their MAC addresses or, \
                         where there are none, by a hash of their leading bytes"
                    ),
                    "headers_cut" => format!(
                        "{packets} packets whose ports were not captured; \
                         they went by their IP addresses and protocol"
                    ),
                    "data_flows_followed" => {
                        format!("{packets} data flows went with the connection that announced them")
                    }
                    "data_flows_elsewhere" => format!(
                        "{packets} announcements of data flows at another address than the \
                         sender's; they were not followed"
                    ),
                    "data_flows_refused" => format!(
                        "{packets} announcements of data flows were not followed, as too many \
                         were expected"
                    ),
                    "fragments_without_first" => format!(
                        "{packets} fragments whose first fragment did not come in time; they went \
                         by their IP addresses or after an earlier datagram of their name, \
                         and are exempt from whole flows"
                    ),
                    _ => return None,
                })
            },
        );
        let in_buckets = self.counted.filter(|counted| counted.in_buckets > 0).map(|counted| {
            format!(
                "{} {} of small units went by hash bucket, as there are more than {} units",
                human::count(counted.in_buckets),
                self.by(),
                human::count(MOST_UNITS as u64),
            )
        });
        remarks.chain(naming::undecoded(self.remarks)).chain(unrecorded).chain(in_buckets).collect()
    }

    /// The result as readable text.
    pub fn as_text(&self, shown: &SplitReport, colour: Colour, width: Option<usize>) -> String {
        let mut table = Table::new(vec![
            Column::left("sensor"),
            Column::right("packets"),
            Column::right("share"),
            Column::right("fair"),
            Column::right("load"),
            Column::right("bytes"),
            Column::right("flows"),
            Column::left("file"),
        ]);
        let by_bytes = self.args.balance == SplitBalance::Bytes;
        for sensor in &shown.sensors {
            let of_share = if by_bytes { sensor.bytes_of_share } else { sensor.packets_of_share };
            let of_share = of_share.unwrap_or(0.0);
            table.row([
                sensor.name.clone(),
                human::count(sensor.packets),
                human::percent(of_share * sensor.share_target),
                human::percent(sensor.share_target),
                human::ratio(of_share),
                human::bytes(sensor.bytes),
                human::count(sensor.flows),
                sensor.file.clone(),
            ]);
        }
        let mut text = table.render(width, colour);
        text.push('\n');
        for (name, spread) in [
            ("packets", shown.imbalance.packets),
            ("bytes", shown.imbalance.bytes),
            ("flows", shown.imbalance.flows),
        ] {
            if let Spread { measured: Some(measured), expected: Some(expected), bound, .. } = spread
            {
                text.push_str(&format!(
                    "{name:>8}: max/mean {}, random assignment of these flows {}, bound by the \
                     largest {}\n",
                    human::ratio(measured),
                    human::ratio(expected),
                    bound.map_or_else(|| human::UNKNOWN.to_owned(), human::ratio),
                ));
            }
        }
        text.push('\n');
        for note in &shown.notes {
            text.push_str(&format!("note: {}\n", text::visible(note)));
        }
        text.push_str(&ledger_table(self.ledger, colour, width));
        text
    }
}

fn is_icmp(key: &FlowKey) -> bool {
    matches!((key.kind, key.protocol), (AddressKind::Ipv4 | AddressKind::Ipv6, 1 | 58))
}

fn ledger_row(row: &forebay_pipeline::LedgerRow) -> LedgerRow {
    LedgerRow {
        stage: row.stage.to_string(),
        in_: row.input,
        copies: row.copies,
        injected: row.injected,
        out: row.output,
        drops: row.drops.iter().map(|drop| (drop.name.to_owned(), drop.packets)).collect(),
        held: row.held,
        closes: row.closes(),
    }
}

/// The result as JSON: the page's data without its series, with the ledger under its
/// documented name.
pub fn as_json(shown: &SplitReport, remarks: &Remarks) -> Value {
    json!({
        "undecoded": naming::undecoded_json(remarks),
        "input": shown.inputs,
        "totals": shown.totals,
        "sensors": shown.sensors,
        "balance": shown.balance,
        "imbalance": shown.imbalance,
        "top_flows": shown.top_flows,
        "notes": shown.notes,
        "ledger": shown.ledger,
        "closes": shown.ledger.iter().all(|row| row.closes),
        "error": shown.error,
    })
}

/// Writes the page; it gets its name when it is complete.
pub fn write_report(path: &Path, shown: &SplitReport) -> Result<(), Failure> {
    let write = || {
        let mut page = Vec::new();
        report::write_html(shown, &mut page)?;
        let mut file = WholeFile::create(path, Placement::Hidden)?;
        file.write_all(&page)?;
        file.finish(path)
    };
    write().map_err(|source| file_failure("write", path, source))
}
