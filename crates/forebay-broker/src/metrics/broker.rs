//! What the page of metrics shows of a broker.

use forebay_balance::SensorStatus;
use forebay_balance::balancer::targets::Standing;
use forebay_flow::shed::Shed;
use forebay_io::Recorded;
use forebay_pipeline::stages::CompiledScan;
use forebay_rules::live::Live;

use super::{Kind, Page};
use crate::alarms::Alarms;
use crate::config::Sensor;
use crate::group::LiveGroup;
use crate::hellos::HelloCounts;
use crate::links::Links;
use crate::report::Report;
use crate::{rule_counts, scanning};

/// What the page shows.
pub struct Shown<'a> {
    /// The groups of sensors.
    pub groups: &'a [LiveGroup],
    /// What was heard of them.
    pub hellos: HelloCounts,
    /// Where packets went.
    pub report: &'a Report,
    /// Losses beyond what is allowed.
    pub alarms: &'a Alarms,
    /// Which ports' links work.
    pub links: &'a Links,
    /// The rules in force.
    pub rules: Option<&'a Live>,
    /// What packets are scanned for.
    pub scan: Option<&'a CompiledScan>,
}

/// The page of metrics.
pub fn page(shown: &Shown<'_>) -> String {
    let &Shown { groups, hellos, report, alarms, links, rules, scan } = shown;
    let mut page = Page::default();
    page.metric("forebay_packets_total", Kind::Counter, "Packets into and out of a stage.");
    for row in &report.ledger.rows {
        for (way, packets) in [("in", row.input), ("out", row.output)] {
            page.sample(
                "forebay_packets_total",
                &[("stage", &row.stage), ("direction", way)],
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
    page.metric(
        "forebay_remarks_total",
        Kind::Counter,
        "What stages noticed of packets and flows that they passed on.",
    );
    for (remark, count) in report.remarks.named() {
        page.sample("forebay_remarks_total", &[("remark", remark)], count as f64);
    }
    page.metric(
        "forebay_undecoded_total",
        Kind::Counter,
        "Packets without a flow's ports, by the header that is not decoded.",
    );
    for (header, packets) in report.remarks.undecoded() {
        page.sample("forebay_undecoded_total", &[("header", &header)], packets as f64);
    }
    page.metric("forebay_port_bytes_total", Kind::Counter, "Bytes received and sent.");
    for (name, counters) in &report.inputs {
        let labels = [("port", name.as_str()), ("direction", "in")];
        page.sample("forebay_port_bytes_total", &labels, counters.bytes as f64);
    }
    for (name, counters) in &report.outputs {
        let labels = [("port", name.as_str()), ("direction", "out")];
        page.sample("forebay_port_bytes_total", &labels, counters.bytes as f64);
    }
    losses(&mut page, alarms);
    ports_up(&mut page, report, links);
    recorders(&mut page, report);
    export(&mut page, report);
    sensors(&mut page, groups);
    classes(&mut page, groups);
    rejected(&mut page, hellos);
    moves(&mut page, groups);
    flows_by_hand(&mut page, groups);
    if let Some(rules) = rules {
        rules.look(|list| rule_counts::metrics(list, &mut page));
    }
    if let Some(scan) = scan {
        scanning::metrics(scan, &mut page);
    }
    page.metric("forebay_failed_ports", Kind::Gauge, "Ports that are of no further use.");
    page.sample("forebay_failed_ports", &[], report.failed.len() as f64);
    page.finish()
}

/// For each counter of losses the share of the last window, and whether that is an alarm.
fn losses(page: &mut Page, alarms: &Alarms) {
    let share = ("forebay_loss_share", "Packets lost of those that came in the alarm's window.");
    let alarm = ("forebay_loss_alarm", "Whether more is lost than is allowed.");
    for (i, (name, help)) in [share, alarm].into_iter().enumerate() {
        page.metric(name, Kind::Gauge, help);
        for watched in alarms.watched() {
            let raised = if watched.raised.is_some() { 1.0 } else { 0.0 };
            let value = if i == 0 { watched.loss().share() } else { raised };
            let counter = &watched.counter;
            page.sample(name, &[("stage", &counter.stage), ("reason", counter.reason)], value);
        }
    }
}

fn ports_up(page: &mut Page, report: &Report, links: &Links) {
    let name = "forebay_port_up";
    page.metric(name, Kind::Gauge, "Whether the link of a port works.");
    let inputs = report.inputs.iter().map(|(name, _)| (name, "input", "in"));
    let outputs = report.outputs.iter().map(|(name, _)| (name, "output", "out"));
    for (port, side, way) in inputs.chain(outputs) {
        let up = if links.is_up(side, port) { 1.0 } else { 0.0 };
        page.sample(name, &[("port", port), ("direction", way)], up);
    }
}

/// Recorders: whether they write, and their files.
fn recorders(page: &mut Page, report: &Report) {
    type Value = fn(&Recorded) -> u64;
    let metrics: [(&str, Kind, &str, Value); 3] = [
        (
            "forebay_recorder_failing",
            Kind::Gauge,
            "Whether a recorder cannot write, so that packets are lost.",
            |recorded| u64::from(recorded.fault.is_some()),
        ),
        (
            "forebay_recorder_files_total",
            Kind::Counter,
            "Files that a recorder has begun.",
            |recorded| recorded.files,
        ),
        (
            "forebay_recorder_removed_files_total",
            Kind::Counter,
            "Files that a recorder has removed for newer ones.",
            |recorded| recorded.removed,
        ),
    ];
    for (name, kind, help, value) in metrics {
        page.metric(name, kind, help);
        for (port, counters) in &report.outputs {
            if let Some(recorded) = &counters.recorded {
                page.sample(name, &[("port", port.as_str())], value(recorded) as f64);
            }
        }
    }
}

/// The export of records.
fn export(page: &mut Page, report: &Report) {
    let Some(exported) = &report.exported else { return };
    let name = "forebay_export_records_total";
    page.metric(
        name,
        Kind::Counter,
        "Records of flows that are in files, or that a stream has passed on.",
    );
    page.sample(name, &[], exported.written as f64);
    let name = "forebay_export_held_records";
    page.metric(name, Kind::Gauge, "Records of flows that are not written yet.");
    page.sample(name, &[], exported.held as f64);
    let name = "forebay_export_lost_records_total";
    page.metric(name, Kind::Counter, "Records of flows that were lost, by reason.");
    for &(reason, records) in &exported.lost {
        page.sample(name, &[("reason", reason)], records as f64);
    }
    let name = "forebay_export_failing";
    page.metric(name, Kind::Gauge, "Whether records cannot be written, so that they are lost.");
    page.sample(name, &[], if exported.fault.is_some() { 1.0 } else { 0.0 });
}

/// A number of a sensor; nothing where it is not known.
struct SensorMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&LiveGroup, &Sensor, &SensorStatus) -> Option<f64>,
}

const SENSOR_METRICS: [SensorMetric; 8] = [
    SensorMetric {
        name: "forebay_sensor_up",
        kind: Kind::Gauge,
        help: "Whether a sensor takes new flows.",
        value: |_, _, status| Some(if status.standing == Standing::Up { 1.0 } else { 0.0 }),
    },
    SensorMetric {
        name: "forebay_sensor_buckets",
        kind: Kind::Gauge,
        help: "Buckets whose new flows go to a sensor.",
        value: |_, _, status| Some(f64::from(status.held.buckets)),
    },
    SensorMetric {
        name: "forebay_sensor_packets_per_second",
        kind: Kind::Gauge,
        help: "A sensor's load in the last interval.",
        value: |_, _, status| Some(status.outlook.measured.packets),
    },
    SensorMetric {
        name: "forebay_sensor_bits_per_second",
        kind: Kind::Gauge,
        help: "A sensor's load in the last interval.",
        value: |_, _, status| Some(status.outlook.measured.bits),
    },
    SensorMetric {
        name: "forebay_sensor_received_packets_total",
        kind: Kind::Counter,
        help: "Packets that a sensor's interface received, by its hellos.",
        value: |_, _, status| status.health.last_hello().map(|hello| hello.received as f64),
    },
    SensorMetric {
        name: "forebay_sensor_dropped_packets_total",
        kind: Kind::Counter,
        help: "Packets that a sensor dropped, by its hellos.",
        value: |_, _, status| status.health.last_hello().map(|hello| hello.dropped as f64),
    },
    SensorMetric {
        name: "forebay_sensor_frames_for_others_total",
        kind: Kind::Counter,
        help: "Frames for other stations that reached a sensor, by its hellos.",
        value: |group, sensor, _| group.flooding(sensor).map(|one| one.frames() as f64),
    },
    SensorMetric {
        name: "forebay_sensor_shed_packets_total",
        kind: Kind::Counter,
        help: "Packets that were shed as a sensor cannot take them.",
        value: |group, sensor, _| {
            group.limit(sensor).map(|one| one.shed().iter().sum::<u64>() as f64)
        },
    },
];

fn sensors(page: &mut Page, groups: &[LiveGroup]) {
    let statuses: Vec<_> = groups.iter().map(|group| group.manager.sensors()).collect();
    for metric in &SENSOR_METRICS {
        page.metric(metric.name, metric.kind, metric.help);
        for (group, present) in groups.iter().zip(&statuses) {
            for (index, sensor) in group.indices() {
                let Some(Some(status)) = present.get(usize::from(index)) else { continue };
                let Some(value) = (metric.value)(group, sensor, status) else { continue };
                let labels = [("group", group.config.name.as_str()), ("sensor", &sensor.name)];
                page.sample(metric.name, &labels, value);
            }
        }
    }
}

fn classes(page: &mut Page, groups: &[LiveGroup]) {
    let name = "forebay_class_shed_packets_total";
    page.metric(name, Kind::Counter, "Packets of a class that were shed beyond its limit.");
    for group in groups {
        for (class, limit) in group.classes() {
            for (reason, packets) in Shed::NAMES.into_iter().zip(limit.shed()) {
                let labels = [
                    ("group", group.config.name.as_str()),
                    ("class", &class.name),
                    ("reason", reason),
                ];
                page.sample(name, &labels, packets as f64);
            }
        }
    }
}

fn rejected(page: &mut Page, hellos: HelloCounts) {
    let name = "forebay_rejected_hellos_total";
    page.metric(name, Kind::Counter, "Frames like hellos that count for no sensor.");
    for (reason, frames) in [("unknown", hellos.unknown), ("malformed", hellos.malformed)] {
        page.sample(name, &[("reason", reason)], frames as f64);
    }
}

fn flows_by_hand(page: &mut Page, groups: &[LiveGroup]) {
    let name = "forebay_flows_by_hand";
    page.metric(name, Kind::Gauge, "Flows that are shunted or passed by hand, or searched for.");
    for group in groups {
        let [shunted, passed, searched] = group.overrides.counts(group.manager.now());
        let counts = [("shunted", shunted), ("passed", passed), ("searched", searched)];
        for (state, count) in counts {
            let labels = [("group", group.config.name.as_str()), ("state", state)];
            page.sample(name, &labels, count as f64);
        }
    }
}

fn moves(page: &mut Page, groups: &[LiveGroup]) {
    page.metric("forebay_moves_total", Kind::Counter, "Moves of buckets, by outcome.");
    for group in groups {
        let counts = group.manager.counts();
        let outcomes = [
            ("begun", counts.begun),
            ("completed", counts.completed),
            ("cancelled", counts.cancelled),
        ];
        for (outcome, moves) in outcomes {
            let labels = [("group", group.config.name.as_str()), ("outcome", outcome)];
            page.sample("forebay_moves_total", &labels, moves as f64);
        }
    }
}
