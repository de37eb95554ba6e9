//! What a broker answers: as JSON, and as metrics.

use forebay_balance::balancer::targets::Standing;
use forebay_balance::moves::Plane as _;
use forebay_balance::{BUCKETS, NO_SENSOR, Phase};
use forebay_io::Losses;
use forebay_io::device::{Finding, State};
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::group::LiveGroup;
use crate::metrics::{Kind, Page};
use crate::report::Report;

/// A finding at a device, for people.
pub fn finding(finding: &Finding) -> String {
    let Finding { device, what, state, .. } = finding;
    match state {
        State::Mended => format!("{device}: {what}: mended"),
        State::Command(command) => format!("{device}: {what}: run `{command}`"),
        State::Noted => format!("{device}: {what}"),
    }
}

/// How the broker is.
pub fn status(config: &Config, now: u64, groups: &[LiveGroup], report: &Report) -> Value {
    let inputs: Vec<Value> = report
        .inputs
        .iter()
        .map(|(name, counters)| {
            json!({
                "name": name,
                "packets": counters.packets,
                "bytes": counters.bytes,
                "losses": losses(&counters.losses),
                "before": losses(&counters.before),
            })
        })
        .collect();
    let outputs: Vec<Value> = report
        .outputs
        .iter()
        .map(|(name, counters)| {
            json!({
                "name": name,
                "packets": counters.packets,
                "bytes": counters.bytes,
                "losses": losses(&counters.losses),
                "held": counters.held,
            })
        })
        .collect();
    let groups: Vec<Value> = groups
        .iter()
        .map(|group| {
            let sensors = group.manager.sensors();
            let up = sensors.iter().flatten().filter(|one| one.standing == Standing::Up).count();
            json!({
                "name": group.config.name,
                "sensors": sensors.iter().flatten().count(),
                "up": up,
                "moving": group.manager.moves().count(),
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": now as f64 / 1e9,
        "workers": config.workers,
        "inputs": inputs,
        "outputs": outputs,
        "groups": groups,
        "remarks": losses(&report.remarks),
        "failed": report.failed,
        "closes": report.ledger.closes(),
    })
}

/// The sensors of each group.
pub fn sensors(groups: &[LiveGroup]) -> Value {
    groups
        .iter()
        .map(|group| json!({ "group": group.config.name, "sensors": sensors_of(group) }))
        .collect()
}

fn sensors_of(group: &LiveGroup) -> Vec<Value> {
    let present = group.manager.sensors();
    let now = group.manager.now();
    let mut all = Vec::new();
    for (index, sensor) in group.indices() {
        let Some(Some(status)) = present.get(usize::from(index)) else { continue };
        let heard = sensor.hello.then(|| now.saturating_sub(status.health.heard_at()) / 1_000_000);
        all.push(json!({
            "name": sensor.name,
            "standing": standing_name(status.standing),
            "weight": sensor.weight,
            "buckets": status.held.buckets,
            "buckets_coming": status.held.arriving,
            "flows_kept": status.held.keys,
            "packets_per_s": status.outlook.measured.packets,
            "bits_per_s": status.outlook.measured.bits,
            "target_packets_per_s": status.outlook.target.packets,
            "target_bits_per_s": status.outlook.target.bits,
            "hello_ms_ago": heard,
            "dropped": status.health.last_hello().map(|hello| hello.dropped),
        }));
    }
    all
}

fn standing_name(standing: Standing) -> &'static str {
    match standing {
        Standing::Up => "up",
        Standing::Draining => "draining",
        Standing::Down => "down",
    }
}

/// The bucket table of a group.
pub fn buckets(group: &LiveGroup) -> Value {
    let plane = group.manager.plane();
    let name = |index: u16| group.sensor(index).map(|sensor| sensor.name.clone());
    let mut table = Vec::with_capacity(BUCKETS);
    for bucket in 0..=u16::MAX {
        let sensor = plane.entry(bucket).default_sensor();
        table.push(if sensor == NO_SENSOR { Value::Null } else { sensor.into() });
    }
    let moving: Vec<Value> = group
        .manager
        .moves()
        .map(|(bucket, entry)| {
            let phase = match entry.phase() {
                Phase::Settled => "settled",
                Phase::Learning => "learning",
                Phase::Turning => "turning",
                Phase::Moving => "moving",
                Phase::Cancelled => "cancelled",
            };
            json!({
                "bucket": bucket,
                "from": name(entry.from()),
                "to": name(entry.destination()),
                "phase": phase,
            })
        })
        .collect();
    let sensors: Map<String, Value> =
        group.indices().map(|(index, one)| (index.to_string(), one.name.clone().into())).collect();
    let counts = group.manager.counts();
    json!({
        "group": group.config.name,
        "sensors": sensors,
        "moves": {
            "begun": counts.begun,
            "completed": counts.completed,
            "cancelled": counts.cancelled,
        },
        "moving": moving,
        "table": table,
    })
}

/// Where every packet went.
pub fn ledger(report: &Report) -> Value {
    json!({ "ledger": report.ledger, "closes": report.ledger.closes() })
}

fn losses(losses: &Losses) -> Value {
    losses.iter().map(|&(name, packets)| (name.to_owned(), Value::from(packets))).collect()
}

/// The page of metrics.
pub fn metrics(groups: &[LiveGroup], report: &Report) -> String {
    let mut page = Page::default();
    page.metric("forebay_packets_total", Kind::Counter, "Packets into and out of a stage.");
    for row in &report.ledger.rows {
        for (way, packets) in [("in", row.input), ("out", row.output)] {
            page.sample(
                "forebay_packets_total",
                &[("stage", &row.stage), ("way", way)],
                packets as f64,
            );
        }
    }
    page.metric("forebay_dropped_packets_total", Kind::Counter, "Packets dropped, by reason.");
    for row in &report.ledger.rows {
        for drop in &row.drops {
            let labels = [("stage", row.stage.as_ref()), ("reason", drop.name)];
            page.sample("forebay_dropped_packets_total", &labels, drop.packets as f64);
        }
    }
    page.metric("forebay_held_packets", Kind::Gauge, "Packets in a stage or in a ring.");
    for row in &report.ledger.rows {
        page.sample("forebay_held_packets", &[("stage", &row.stage)], row.held as f64);
    }
    page.metric(
        "forebay_lost_before_total",
        Kind::Counter,
        "Packets lost before they reached an input, as far as the device tells.",
    );
    for (name, counters) in &report.inputs {
        for &(reason, packets) in &counters.before {
            let labels = [("input", name.as_str()), ("reason", reason)];
            page.sample("forebay_lost_before_total", &labels, packets as f64);
        }
    }
    page.metric("forebay_port_bytes_total", Kind::Counter, "Bytes received and sent.");
    for (name, counters) in &report.inputs {
        let labels = [("port", name.as_str()), ("way", "in")];
        page.sample("forebay_port_bytes_total", &labels, counters.bytes as f64);
    }
    for (name, counters) in &report.outputs {
        let labels = [("port", name.as_str()), ("way", "out")];
        page.sample("forebay_port_bytes_total", &labels, counters.bytes as f64);
    }
    sensor_metrics(&mut page, groups);
    page.metric("forebay_failed_ports", Kind::Gauge, "Ports that are of no further use.");
    page.sample("forebay_failed_ports", &[], report.failed.len() as f64);
    page.finish()
}

fn sensor_metrics(page: &mut Page, groups: &[LiveGroup]) {
    let mut samples: Vec<(&str, String, String, f64)> = Vec::new();
    for group in groups {
        let present = group.manager.sensors();
        for (index, sensor) in group.indices() {
            let Some(Some(status)) = present.get(usize::from(index)) else { continue };
            let up = if status.standing == Standing::Up { 1.0 } else { 0.0 };
            let values = [
                ("forebay_sensor_up", up),
                ("forebay_sensor_buckets", f64::from(status.held.buckets)),
                ("forebay_sensor_packets_per_second", status.outlook.measured.packets),
                ("forebay_sensor_bits_per_second", status.outlook.measured.bits),
            ];
            let of = |(name, value)| (name, group.config.name.clone(), sensor.name.clone(), value);
            samples.extend(values.map(of));
        }
    }
    let names = [
        ("forebay_sensor_up", "Whether a sensor takes new flows."),
        ("forebay_sensor_buckets", "Buckets whose new flows go to a sensor."),
        ("forebay_sensor_packets_per_second", "A sensor's load in the last interval."),
        ("forebay_sensor_bits_per_second", "A sensor's load in the last interval."),
    ];
    for (name, help) in names {
        page.metric(name, Kind::Gauge, help);
        for (_, group, sensor, value) in samples.iter().filter(|sample| sample.0 == name) {
            page.sample(name, &[("group", group), ("sensor", sensor)], *value);
        }
    }
    let counts: Vec<_> =
        groups.iter().map(|group| (&group.config.name, group.manager.counts())).collect();
    page.metric("forebay_moves_total", Kind::Counter, "Moves of buckets, by outcome.");
    for (group, counts) in &counts {
        let outcomes = [
            ("begun", counts.begun),
            ("completed", counts.completed),
            ("cancelled", counts.cancelled),
        ];
        for (outcome, moves) in outcomes {
            let labels = [("group", group.as_str()), ("outcome", outcome)];
            page.sample("forebay_moves_total", &labels, moves as f64);
        }
    }
}
