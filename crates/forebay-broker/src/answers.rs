//! What a broker answers, as JSON.

use std::sync::Arc;

use forebay_balance::balancer::targets::Standing;
use forebay_balance::moves::ForwardingTable as _;
use forebay_balance::{BUCKETS, NO_SENSOR, Phase};
use forebay_export::{Origin, Row};
use forebay_flow::FlowRecord;
use forebay_flow::shed::{Limit, Shed};
use forebay_io::device::{Finding, Remedy};
use forebay_io::{Losses, Recorded};
use forebay_pipeline::stages::ClassConfig;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::export::Exported;
use crate::flooding::Flooding;
use crate::flow_list::FlowList;
use crate::group::LiveGroup;
use crate::hellos::HelloCounts;
use crate::report::Report;

/// A finding at a device, for people.
pub fn finding(finding: &Finding) -> String {
    let Finding { device, what, remedy, .. } = finding;
    match remedy {
        Remedy::Mended => format!("{device}: {what}: mended"),
        Remedy::Command(command) => format!("{device}: {what}: run `{command}`"),
        Remedy::Noted => format!("{device}: {what}"),
    }
}

/// How the broker is.
pub fn status(
    config: &Config,
    now: u64,
    groups: &[LiveGroup],
    hellos: HelloCounts,
    report: &Report,
) -> Value {
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
                "recorder": counters.recorded.as_ref().map(recorder),
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
                "moves": moves(group),
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
        "export": report.exported.as_ref().map(export),
        "hellos": {
            "heard": hellos.heard,
            "unknown": hellos.unknown,
            "malformed": hellos.malformed,
        },
        "remarks": Map::from_iter(report.remarks.named().map(|(name, n)| (name.into(), n.into()))),
        "undecoded": Map::from_iter(report.remarks.undecoded().map(|(name, n)| (name, n.into()))),
        "failed": report.failed,
        "closes": report.ledger.closes(),
    })
}

/// The files of a recorder.
fn recorder(recorded: &Recorded) -> Value {
    json!({
        "state": recorder_state(recorded),
        "file": recorded.file,
        "files": recorded.files,
        "removed_files": recorded.removed,
        "fault": recorded.fault,
    })
}

fn recorder_state(recorded: &Recorded) -> &'static str {
    match (&recorded.fault, recorded.has_stopped) {
        (_, true) => "stopped",
        (Some(_), false) => "waiting",
        (None, false) => "recording",
    }
}

/// The sensors of each group.
pub fn sensors(groups: &[LiveGroup]) -> Value {
    groups
        .iter()
        .map(|group| {
            json!({
                "group": group.config.name,
                "sensors": sensors_of(group),
                "classes": classes_of(group),
            })
        })
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
            "expected_packets_per_s": status.outlook.expected.packets,
            "expected_bits_per_s": status.outlook.expected.bits,
            "lasting_packets_per_s": status.outlook.lasting.packets,
            "lasting_bits_per_s": status.outlook.lasting.bits,
            "hello_ms_ago": heard,
            "received": status.health.last_hello().map(|hello| hello.received),
            "dropped": status.health.last_hello().map(|hello| hello.dropped),
            "frames_for_others": group.flooding(sensor).map(Flooding::frames),
            "shed": group.limit(sensor).map(shed),
            "shed_above_packets_per_s": group.limit(sensor).and_then(Limit::pps),
            "flooded": group.flooding(sensor).is_some_and(Flooding::is_on),
        }));
    }
    all
}

fn classes_of(group: &LiveGroup) -> Vec<Value> {
    let class = |(class, limit): (ClassConfig, Arc<Limit>)| {
        json!({
            "name": class.name,
            "on_overload": class.on_overload.name(),
            "limit_pps": class.rates.pps,
            "limit_bps": class.rates.bps,
            "shed": shed(&limit),
        })
    };
    group.classes().map(class).collect()
}

/// Packets that were shed, by why.
fn shed(limit: &Limit) -> Value {
    let counts = Shed::NAMES.into_iter().zip(limit.shed()).filter(|(_, packets)| *packets > 0);
    counts.map(|(name, packets)| (name.to_owned(), Value::from(packets))).collect()
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
    let forwarding = group.manager.forwarding();
    let name = |index: u16| group.sensor(index).map(|sensor| sensor.name.clone());
    let mut table = Vec::with_capacity(BUCKETS);
    for bucket in 0..=u16::MAX {
        let sensor = forwarding.entry(bucket).default_sensor();
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
    json!({
        "group": group.config.name,
        "sensors": sensors,
        "moves": moves(group),
        "moving": moving,
        "table": table,
    })
}

/// The largest open flows of a group.
pub fn flows(group: &LiveGroup, list: &FlowList) -> Value {
    let as_json = |record: &FlowRecord| {
        let sensor = record.output().and_then(|index| group.sensor(index));
        let sensor = sensor.map(|sensor| sensor.name.as_str());
        let origin = Origin { group: &group.config.name, sensor };
        forebay_export::as_json(&Row::new(record, 0, Some(origin)))
    };
    let flows: Vec<Value> = list.records.iter().map(as_json).collect();
    json!({ "group": group.config.name, "open": list.open, "flows": flows })
}

/// What became of moves.
fn moves(group: &LiveGroup) -> Value {
    let counts = group.manager.counts();
    json!({
        "begun": counts.begun,
        "completed": counts.completed,
        "cancelled": counts.cancelled,
    })
}

/// Where every packet went, and every record of a flow.
pub fn ledger(report: &Report) -> Value {
    let mut value = json!({ "ledger": report.ledger, "closes": report.ledger.closes() });
    if let Some(exported) = &report.exported {
        value["export"] = export(exported);
    }
    value
}

/// What became of records.
fn export(exported: &Exported) -> Value {
    json!({
        "path": exported.path,
        "file": exported.file,
        "files": exported.files.0,
        "removed_files": exported.files.1,
        "written": exported.written,
        "held": exported.held,
        "lost": losses(&exported.lost),
        "fault": exported.fault,
    })
}

fn losses(losses: &Losses) -> Value {
    losses.iter().map(|&(name, packets)| (name.to_owned(), Value::from(packets))).collect()
}
