//! The activity of a broker in an interval, from the samples before and after it.

use forebay_broker::alarms::INTENDED;
use serde::Serialize;
use serde_json::Value;

/// The state of a broker at one time.
pub struct Sample {
    /// Its status.
    pub status: Value,
    /// Its sensors.
    pub sensors: Value,
    /// Its ledger.
    pub ledger: Value,
}

/// An interval.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Snapshot {
    pub version: String,
    pub uptime_s: f64,
    /// Seconds between the two samples; 0 if there is only one, and rates are unknown.
    pub interval_s: f64,
    pub workers: u64,
    pub ports: Vec<Port>,
    pub drops: Vec<Drop>,
    /// Whether the ledger closes.
    pub closes: bool,
    pub groups: Vec<GroupSnapshot>,
    /// Losses beyond the limits, in words.
    pub alarms: Vec<String>,
    /// Failed ports.
    pub failed: Vec<String>,
}

/// A port.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Port {
    pub name: String,
    /// "in" or "out".
    pub way: &'static str,
    pub packets_per_s: f64,
    pub bits_per_s: f64,
    /// Packets lost since the start, and in a second: for inputs including losses before
    /// the port.
    pub lost: u64,
    pub lost_per_s: f64,
}

/// Packets dropped in a row of the ledger.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Drop {
    pub stage: String,
    pub reason: String,
    pub packets: u64,
    pub packets_per_s: f64,
    /// Whether the drops are intended: by a filter or a rule, as a duplicate, as shunted.
    pub wanted: bool,
}

/// A group of sensors.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct GroupSnapshot {
    pub name: String,
    pub moving: u64,
    pub moves_completed: u64,
    pub moves_cancelled: u64,
    pub sensors: Vec<Sensor>,
}

/// A sensor.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Sensor {
    pub name: String,
    pub standing: String,
    pub packets_per_s: f64,
    pub target_packets_per_s: f64,
    pub bits_per_s: f64,
    pub buckets: u64,
    /// Milliseconds since its last hello, if hellos are expected.
    pub hello_ms_ago: Option<u64>,
    /// Packets that it reports as dropped.
    pub dropped: Option<u64>,
    /// Whether a switch floods it with frames for others.
    pub flooded: bool,
}

impl Snapshot {
    /// The activity from `before`, if known and of the same broker process, to `now`.
    pub fn new(before: Option<&Sample>, now: &Sample) -> Self {
        let uptime_s = real(&now.status["uptime_s"]);
        let then = before.map(|sample| (sample, real(&sample.status["uptime_s"])));
        // A restarted broker counts from zero.
        let then = then.filter(|(_, then)| *then < uptime_s);
        let before = then.map(|(sample, _)| sample);
        let rates = Rates { seconds: then.map_or(0.0, |(_, then)| uptime_s - then) };
        Self {
            version: text(&now.status["version"]),
            uptime_s,
            interval_s: rates.seconds,
            workers: whole(&now.status["workers"]),
            ports: ports(before, now, &rates),
            drops: drops(before, now, &rates),
            closes: now.ledger["closes"] == true,
            groups: groups(now),
            alarms: items(&now.status["alarms"]).iter().map(alarm).collect(),
            failed: items(&now.status["failed"]).iter().map(text).collect(),
        }
    }

    /// Packets and bits a second of all ports in that direction.
    pub fn rate(&self, way: &str) -> (f64, f64) {
        let ports = self.ports.iter().filter(|port| port.way == way);
        ports.fold((0.0, 0.0), |(packets, bits), port| {
            (packets + port.packets_per_s, bits + port.bits_per_s)
        })
    }

    /// Packets lost a second, and in total: before inputs, and by unintended drops.
    pub fn lost(&self) -> (f64, u64) {
        let drops = self.drops.iter().filter(|drop| !drop.wanted);
        drops.fold((0.0, 0), |(rate, all), drop| (rate + drop.packets_per_s, all + drop.packets))
    }
}

struct Rates {
    seconds: f64,
}

impl Rates {
    fn of(&self, before: u64, now: u64) -> f64 {
        if self.seconds <= 0.0 { 0.0 } else { now.saturating_sub(before) as f64 / self.seconds }
    }
}

fn ports(before: Option<&Sample>, now: &Sample, rates: &Rates) -> Vec<Port> {
    let mut ports = Vec::new();
    for (side, way) in [("inputs", "in"), ("outputs", "out")] {
        for port in items(&now.status[side]) {
            let earlier = before.and_then(|sample| named(&sample.status[side], &port["name"]));
            let count = |value: &Value, key: &str| whole(&value[key]);
            let rate = |key: &str| {
                rates.of(earlier.map_or(0, |earlier| count(earlier, key)), count(port, key))
            };
            let lost = |value: &Value| sum(&value["losses"]) + sum(&value["before"]);
            ports.push(Port {
                name: text(&port["name"]),
                way,
                packets_per_s: rate("packets"),
                bits_per_s: rate("bytes") * 8.0,
                lost: lost(port),
                lost_per_s: rates.of(earlier.map_or(0, lost), lost(port)),
            });
        }
    }
    ports
}

/// Drops by the ledger, and losses before it.
fn drops(before: Option<&Sample>, now: &Sample, rates: &Rates) -> Vec<Drop> {
    let all = |sample: &Sample| -> Vec<(String, String, u64)> {
        let rows = items(&sample.ledger["ledger"]);
        let rows = rows.iter().map(|row| (text(&row["stage"]), &row["drops"]));
        let inputs = items(&sample.status["inputs"]);
        let inputs =
            inputs.iter().map(|port| (format!("before {}", text(&port["name"])), &port["before"]));
        let mut all = Vec::new();
        for (stage, drops) in rows.chain(inputs) {
            for (reason, packets) in drops.as_object().into_iter().flatten() {
                all.push((stage.clone(), reason.clone(), whole(packets)));
            }
        }
        all
    };
    let earlier = before.map(all).unwrap_or_default();
    let counted = all(now).into_iter().filter(|(_, _, packets)| *packets > 0);
    counted
        .map(|(stage, reason, packets)| {
            let then = earlier.iter().find(|(s, r, _)| (s, r) == (&stage, &reason));
            Drop {
                packets_per_s: rates.of(then.map_or(0, |(_, _, packets)| *packets), packets),
                wanted: INTENDED.contains(&reason.as_str()),
                stage,
                reason,
                packets,
            }
        })
        .collect()
}

fn groups(now: &Sample) -> Vec<GroupSnapshot> {
    let groups = items(&now.status["groups"]).iter();
    groups
        .map(|group| {
            let of_name = |one: &&Value| one["group"] == group["name"];
            let sensors = items(&now.sensors).iter().find(of_name);
            GroupSnapshot {
                name: text(&group["name"]),
                moving: whole(&group["moving"]),
                moves_completed: whole(&group["moves"]["completed"]),
                moves_cancelled: whole(&group["moves"]["cancelled"]),
                sensors: sensors
                    .map_or(&[][..], |one| items(&one["sensors"]))
                    .iter()
                    .map(sensor)
                    .collect(),
            }
        })
        .collect()
}

fn alarm(value: &Value) -> String {
    let percent = 100.0 * real(&value["share"]);
    let (stage, reason) = (text(&value["stage"]), text(&value["reason"]));
    let device = value["device"].as_str().map_or_else(String::new, |one| format!(" at {one}"));
    format!("{stage} loses {percent:.2}%{device} ({reason}): {}", text(&value["cure"]))
}

fn sensor(value: &Value) -> Sensor {
    Sensor {
        name: text(&value["name"]),
        standing: text(&value["standing"]),
        packets_per_s: real(&value["packets_per_s"]),
        target_packets_per_s: real(&value["target_packets_per_s"]),
        bits_per_s: real(&value["bits_per_s"]),
        buckets: whole(&value["buckets"]),
        hello_ms_ago: value["hello_ms_ago"].as_u64(),
        dropped: value["dropped"].as_u64(),
        flooded: value["flooded"] == Value::Bool(true),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn named<'a>(all: &'a Value, name: &Value) -> Option<&'a Value> {
    items(all).iter().find(|one| one["name"] == *name)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn real(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn sum(counts: &Value) -> u64 {
    counts.as_object().into_iter().flatten().map(|(_, count)| whole(count)).sum()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A broker with one input, one output and `sensors` sensors that has run for
    /// `seconds` at 1,000 packets of 100 bytes a second, and lost every tenth.
    pub fn sample(seconds: u64, sensors: usize) -> Sample {
        let (packets, lost) = (1_000 * seconds, 100 * seconds);
        let sensors: Vec<Value> = (0..sensors)
            .map(|i| {
                json!({
                    "name": format!("ids-{i}"), "standing": if i == 1 { "down" } else { "up" },
                    "packets_per_s": 100.0 * i as f64, "target_packets_per_s": 150.0,
                    "bits_per_s": 80_000.0, "buckets": 21_845, "hello_ms_ago": 120,
                    "dropped": 5, "flooded": i == 2,
                })
            })
            .collect();
        Sample {
            status: json!({
                "version": "0.1.0", "uptime_s": seconds as f64, "workers": 2,
                "inputs": [{
                    "name": "tap", "packets": packets, "bytes": packets * 100,
                    "losses": { "ring_full": 0 }, "before": { "device_missed": 3 },
                }],
                "outputs": [{
                    "name": "switch", "packets": packets - lost, "bytes": packets * 90,
                    "losses": { "ring_full": lost }, "held": 0,
                }],
                "groups": [{
                    "name": "ids", "up": 2, "sensors": sensors.len(), "moving": 12,
                    "moves": { "begun": 40, "completed": 26, "cancelled": 2 },
                }],
                "alarms": [{
                    "stage": "tx switch", "reason": "ring_full", "device": "eth3",
                    "share": 0.1, "cure": "send it less",
                }],
                "failed": [],
            }),
            sensors: json!([{ "group": "ids", "sensors": sensors }]),
            ledger: json!({ "ledger": [
                { "stage": "filter", "drops": { "no_match": 7 } },
                { "stage": "group ids", "drops": { "duplicate": 5, "shunted": 3 } },
                { "stage": "tx switch", "drops": { "ring_full": lost } },
            ], "closes": true }),
        }
    }

    #[test]
    fn rates_are_differences_over_the_brokers_own_time() {
        let snapshot = Snapshot::new(Some(&sample(10, 3)), &sample(12, 3));
        assert_eq!((snapshot.interval_s, snapshot.closes), (2.0, true));
        assert_eq!(snapshot.rate("in"), (1_000.0, 800_000.0));
        assert_eq!(snapshot.rate("out"), (900.0, 720_000.0));
        assert_eq!(snapshot.lost(), (100.0, 1_203), "not what was to be dropped");
        assert_eq!((snapshot.ports[1].lost, snapshot.ports[1].lost_per_s), (1_200, 100.0));
        assert_eq!(snapshot.groups[0].sensors[2].packets_per_s, 200.0);
    }

    #[test]
    fn one_sample_and_one_of_another_run_give_no_rates() {
        for before in [None, Some(&sample(50, 3))] {
            let snapshot = Snapshot::new(before, &sample(12, 3));
            assert_eq!((snapshot.interval_s, snapshot.rate("in")), (0.0, (0.0, 0.0)));
            assert_eq!(snapshot.lost(), (0.0, 1_203));
        }
    }
}
