//! Groups of sensors, and what each sensor's packets look like.

use forebay_balance::BUCKETS;
use forebay_flow::shed::{LEAST_BPS, LEAST_PPS, OnOverload};
use forebay_packet::{Annotation, LabelField, MacAddress, Rewrite, Strip};
use forebay_pipeline::stages::{
    Follow, GatewayMode, GatewayOptions, Labels, ON_OVERLOAD, OPTIONAL,
};
use forebay_pipeline::{GroupStages, units};
use toml::Spanned;

use super::error::Fault;
use super::ports::{Port, PortKind};
use super::raw::{self, Quantity, StageKey};
use super::values::{bounded, choice, names, read};

/// The most groups, sensors of a group, and the largest weight.
const MAX_GROUPS: usize = 16;
const MAX_SENSORS: usize = 256;
const MAX_WEIGHT: u64 = 1_000;

/// The fewest and most bytes that a packet may be sliced to.
const SLICES: std::ops::RangeInclusive<u64> = 64..=65_535;

/// Of how many packets of a shunted flow one may go on.
const SAMPLES: std::ops::RangeInclusive<u64> = 2..=1_000_000;

/// VLAN identifiers that a tag can have (IEEE 802.1Q: 0 and 4095 are reserved).
const VLANS: std::ops::RangeInclusive<u64> = 1..=4094;

/// Code points of differentiated services that are a mark: 0 is the usual one (RFC 2474).
const CODE_POINTS: std::ops::RangeInclusive<u64> = 1..=63;

/// What keeps packets together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Addresses, protocol and ports.
    FiveTuple,
    /// Both addresses.
    IpPair,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
}

/// What becomes of packets while no sensor of a group is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSensor {
    /// They are dropped.
    Drop,
    /// They go where they would go if all sensors were up.
    Pass,
    /// They wait at the group's gateway.
    Hold,
}

/// Sensors that share the same packets.
#[derive(Clone, Debug, PartialEq)]
pub struct SensorGroup {
    /// Its name.
    pub name: String,
    /// The filter that its packets have to pass.
    pub filter: Option<String>,
    /// What keeps packets together.
    pub key: Key,
    /// The control connections that take the flows they announce with them.
    pub follow: Follow,
    /// Its optional stages.
    pub stages: GroupStages,
    /// What becomes of them while no sensor is up.
    pub no_sensor: NoSensor,
    /// What becomes of a flow that is too big for any sensor; without it, nothing.
    pub shunt: Option<Shunt>,
    /// Who gets them.
    pub sensors: Vec<Sensor>,
}

/// Where packets of a flow go that is too big for any sensor.
#[derive(Clone, Debug, PartialEq)]
pub enum ShuntAction {
    /// They are dropped.
    Drop,
    /// One in so many goes on, the others are dropped.
    Sample(u32),
    /// They go to the sensor of this name.
    Sensor(String),
}

/// What becomes of a flow that is too big for any sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Shunt {
    /// Where its packets go.
    pub action: ShuntAction,
    /// Bytes that it may have once it was named.
    pub after: u64,
}

/// A sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensor {
    /// Its name.
    pub name: String,
    /// The number of the output that leads to it.
    pub output: usize,
    /// What its frames look like.
    pub rewrite: Rewrite,
    /// Its share is its weight over the sum of the group's.
    pub weight: u32,
    /// Packets a second that it can take, if that is known.
    pub limit_pps: Option<u64>,
    /// Bits a second that it can take, if that is known.
    pub limit_bps: Option<u64>,
    /// What is dropped when there is more for it.
    pub on_overload: OnOverload,
    /// Whether it sends hellos, and is down when it stops.
    pub hello: bool,
}

const KEYS: [(&str, Key); 4] = [
    ("5tuple", Key::FiveTuple),
    ("ip-pair", Key::IpPair),
    ("src", Key::Source),
    ("dst", Key::Destination),
];

const NO_SENSOR: [(&str, NoSensor); 3] =
    [("drop", NoSensor::Drop), ("pass", NoSensor::Pass), ("hold", NoSensor::Hold)];

/// The groups.
pub fn check(
    raw: &[Spanned<raw::GroupTable>],
    outputs: &[Port],
) -> Result<Vec<SensorGroup>, Fault> {
    if raw.is_empty() || raw.len() > MAX_GROUPS {
        let what = format!("{} groups: expected 1 to {MAX_GROUPS} [[group]]", raw.len());
        return Err(Fault::new(0..0, what));
    }
    names(raw.iter().map(|group| &group.get_ref().name), "group")?;
    raw.iter().map(|raw| group(raw, outputs)).collect()
}

fn group(group: &Spanned<raw::GroupTable>, outputs: &[Port]) -> Result<SensorGroup, Fault> {
    let raw = group.get_ref();
    let count = raw.sensor.len();
    if count == 0 || count > MAX_SENSORS {
        let name = raw.name.get_ref();
        let what = format!(
            "group `{name}` has {count} sensors: expected 1 to {MAX_SENSORS} [[group.sensor]]"
        );
        return Err(Fault::new(group.span(), what));
    }
    names(raw.sensor.iter().map(|sensor| &sensor.get_ref().name), "sensor")?;
    let key = raw.key.as_ref().map(|key| choice(key, "key", &KEYS)).transpose()?;
    let key = key.unwrap_or(Key::FiveTuple);
    let mut stages = stages(&raw.stages)?;
    let no_sensor = no_sensor(raw.no_sensor.as_ref(), &stages)?;
    let policy = stages.setting().unwrap_or_default();
    let labels = stages.setting::<Labels>();
    let sensors: Vec<Sensor> = raw
        .sensor
        .iter()
        .map(|one| sensor(one, raw, policy, labels, outputs))
        .collect::<Result<_, _>>()?;
    let mut policies = sensors.iter().map(|sensor| sensor.on_overload);
    // A policy of sensors alone takes the memory of a group's.
    if policy == OnOverload::None
        && let Some(of_one) = policies.find(|one| *one != OnOverload::None)
        && let Some(stage) = OPTIONAL.iter().find(|stage| stage.key == ON_OVERLOAD)
    {
        let added = stages.add(stage, of_one.name().into());
        added.map_err(|what| Fault::new(group.span(), what))?;
    }
    for (i, one) in sensors.iter().enumerate() {
        let address = |one: &Sensor| (one.output, one.rewrite.destination, one.rewrite.push_vlan);
        if let Some(other) = sensors[..i].iter().find(|other| address(other) == address(one)) {
            return Err(Fault::new(
                raw.sensor[i].span(),
                format!(
                    "sensor `{}` cannot be told from `{}` by their frames: expected another \
                     `mac`, `vlan` or `output`",
                    one.name, other.name
                ),
            ));
        }
    }
    weights(&sensors, &raw.sensor)?;
    let shunt = raw.shunt.as_ref().map(|raw| shunt(raw, &sensors)).transpose()?;
    Ok(SensorGroup {
        shunt,
        name: raw.name.get_ref().clone(),
        filter: raw.filter.as_ref().map(|filter| filter.get_ref().clone()),
        follow: follow(&raw.follow, key)?,
        key,
        stages,
        no_sensor,
        sensors,
    })
}

/// What becomes of packets while no sensor is up. Only a gateway that lets flows wait can hold them.
fn no_sensor(raw: Option<&raw::Text>, stages: &GroupStages) -> Result<NoSensor, Fault> {
    let Some(text) = raw else { return Ok(NoSensor::Drop) };
    let no_sensor = choice(text, "no_sensor", &NO_SENSOR)?;
    let gateway = stages.setting::<GatewayOptions>();
    let waits = gateway.is_some_and(|options| options.mode != GatewayMode::Annotate);
    if no_sensor == NoSensor::Hold && !waits {
        let what = "no_sensor `hold` without a gateway in which packets wait: expected the key \
                    `gateway` with `mode` `hold` or `prefix`";
        return Err(Fault::new(text.span(), what));
    }
    Ok(no_sensor)
}

/// The optional stages.
fn stages(raw: &[StageKey]) -> Result<GroupStages, Fault> {
    let mut stages = GroupStages::default();
    for (stage, value) in raw {
        let fault = |what| Fault::new(value.span(), format!("`{}`: {what}", stage.key));
        stages.add(stage, value.get_ref().clone()).map_err(fault)?;
    }
    Ok(stages)
}

/// The control connections that are read.
fn follow(names: &[raw::Text], key: Key) -> Result<Follow, Fault> {
    let mut follow = Follow::default();
    for name in names {
        if matches!(key, Key::Source | Key::Destination) {
            let what = "`follow` with key `src` or `dst`, which part a connection's two directions: \
                        expected key `5tuple` or `ip-pair`";
            return Err(Fault::new(name.span(), what));
        }
        follow.add(name.get_ref()).map_err(|error| Fault::new(name.span(), error))?;
    }
    Ok(follow)
}

/// What a shunt says, and that it says what its action takes and no more.
fn shunt(raw: &Spanned<raw::Shunt>, sensors: &[Sensor]) -> Result<Shunt, Fault> {
    let raw::Shunt { action, after, one_in, sensor } = raw.get_ref();
    let only = |key: &str, with: &str, at: Option<std::ops::Range<usize>>| match at {
        Some(at) if action.get_ref() != with => {
            let what = format!("`{key}` without `action = \"{with}\"`");
            Err(Fault::new(at, what))
        }
        _ => Ok(()),
    };
    only("one_in", "sample", one_in.as_ref().map(Spanned::span))?;
    only("sensor", "sensor", sensor.as_ref().map(Spanned::span))?;
    let action = match (action.get_ref().as_str(), one_in, sensor) {
        ("drop", ..) => ShuntAction::Drop,
        ("sample", one_in, _) => {
            let of = bounded(one_in.as_ref(), SAMPLES, "as `one_in`")?.unwrap_or(100);
            ShuntAction::Sample(of as u32)
        }
        ("sensor", _, Some(name)) => {
            if !sensors.iter().any(|sensor| sensor.name == *name.get_ref()) {
                let what = format!("no sensor `{}` in this group", name.get_ref());
                return Err(Fault::new(name.span(), what));
            }
            ShuntAction::Sensor(name.get_ref().clone())
        }
        ("sensor", ..) => {
            let what = "action `sensor` without `sensor`: expected the name of one of the group";
            return Err(Fault::new(action.span(), what));
        }
        (other, ..) => {
            let what = format!("action `{other}`: expected one of `drop`, `sample`, `sensor`");
            return Err(Fault::new(action.span(), what));
        }
    };
    let after = read(after.as_ref(), units::size)?.unwrap_or(0);
    Ok(Shunt { action, after: after as u64 })
}

/// Each sensor must be worth a bucket.
fn weights(sensors: &[Sensor], raw: &[Spanned<raw::Sensor>]) -> Result<(), Fault> {
    let all: u64 = sensors.iter().map(|sensor| u64::from(sensor.weight)).sum();
    let least = all.div_ceil(BUCKETS as u64);
    let light = sensors.iter().position(|sensor| u64::from(sensor.weight) < least);
    let Some(light) = light else { return Ok(()) };
    let place = raw[light].get_ref().weight.as_ref();
    Err(Fault::new(
        place.map_or(raw[light].span(), Spanned::span),
        format!(
            "weight {} of sensor `{}` beside {all} in all is less than a bucket of {BUCKETS}: \
             expected at least {least}",
            sensors[light].weight, sensors[light].name
        ),
    ))
}

fn sensor(
    sensor: &Spanned<raw::Sensor>,
    group: &raw::GroupTable,
    policy: OnOverload,
    labels: Option<Labels>,
    outputs: &[Port],
) -> Result<Sensor, Fault> {
    let raw = sensor.get_ref();
    let output = match raw.output.as_ref().or(group.output.as_ref()) {
        Some(name) => {
            outputs.iter().position(|port| port.name == *name.get_ref()).ok_or_else(|| {
                let names: Vec<&str> = outputs.iter().map(|port| port.name.as_str()).collect();
                let got = name.get_ref();
                let what = format!("no output `{got}`: expected one of {}", names.join(", "));
                Fault::new(name.span(), what)
            })?
        }
        None if outputs.len() == 1 => 0,
        None => {
            let what = format!("sensor `{}` and its group without `output`", raw.name.get_ref());
            return Err(Fault::new(sensor.span(), what));
        }
    };
    let destination = read(raw.mac.as_ref(), str::parse::<MacAddress>)?;
    if let (Some(address), Some(text)) = (destination, &raw.mac)
        && address.is_group()
    {
        return Err(Fault::new(text.span(), format!("{address} is the address of a group")));
    }
    let source = match group.source_mac.as_ref().filter(|text| text.get_ref() != "keep") {
        Some(text) => read(Some(text), str::parse::<MacAddress>)?,
        None if group.source_mac.is_some() => None,
        // A switch must not learn the stations of the link as its own.
        None => destination.map(|_| own_address(group.name.get_ref())),
    };
    let hello = raw.hello.unwrap_or(false);
    if hello && matches!(outputs[output].kind, PortKind::Pcap { .. } | PortKind::Tap { .. }) {
        let (name, output) = (raw.name.get_ref(), &outputs[output].name);
        let what = format!(
            "sensor `{name}` with `hello = true` at output `{output}`, where no hello can come \
             from: expected an output of type af_packet or af_xdp"
        );
        return Err(Fault::new(sensor.span(), what));
    }
    let slice = bounded(group.slice.as_ref(), SLICES, "bytes")?.map(|slice| slice as u32);
    let push_vlan = bounded(raw.vlan.as_ref(), VLANS, "is the VLAN identifier")?;
    let push_vlan = push_vlan.map(|id| id as u16);
    let label = labels.and_then(|labels| labels.to);
    let strip = strip(&group.strip)?;
    let annotation = annotation(group.annotate.as_ref(), (label, push_vlan), &outputs[output])?;
    let rewrite = Rewrite {
        strip,
        destination,
        source,
        push_vlan,
        slice,
        label,
        annotation,
        ..Rewrite::NONE
    };
    let [limit_pps, limit_bps] = [&raw.limit_pps, &raw.limit_bps].map(|raw| quantity(raw.as_ref()));
    let (limit_pps, limit_bps) = (limit_pps?, limit_bps?);
    let has_limit = limit_pps.is_some() || limit_bps.is_some() || hello;
    let sensor = Sensor {
        name: raw.name.get_ref().clone(),
        output,
        rewrite,
        weight: bounded(raw.weight.as_ref(), 1..=MAX_WEIGHT, "as weight")?.unwrap_or(1) as u32,
        limit_pps,
        limit_bps,
        on_overload: on_overload(raw, has_limit)?.unwrap_or(if has_limit {
            policy
        } else {
            OnOverload::None
        }),
        hello,
    };
    check_limits(&sensor, raw)?;
    Ok(sensor)
}

/// How packets of suspect flows are marked: in a field that nothing else writes.
fn annotation(
    raw: Option<&Spanned<raw::Annotate>>,
    (label, push_vlan): (Option<LabelField>, Option<u16>),
    output: &Port,
) -> Result<Option<Annotation>, Fault> {
    let Some(table) = raw else { return Ok(None) };
    let raw::Annotate { dscp, vlan, comment } = table.get_ref();
    let comment = comment.as_ref().filter(|comment| *comment.get_ref());
    match (dscp, vlan, comment) {
        (Some(given), None, None) if label == Some(LabelField::Dscp) => {
            let what = "`annotate` in the field of `label`, dscp: expected `vlan`";
            Err(Fault::new(given.span(), what))
        }
        (None, Some(given), None) if push_vlan.is_some() => {
            let what = "`annotate` by VLAN with a sensor that has a `vlan`: expected `dscp`";
            Err(Fault::new(given.span(), what))
        }
        (Some(_), None, None) => {
            let code = bounded(dscp.as_ref(), CODE_POINTS, "as `dscp`")?;
            Ok(code.map(|code| Annotation::Dscp(code as u8)))
        }
        (None, None, Some(given)) if !matches!(output.kind, PortKind::Pcap { .. }) => {
            let what = format!(
                "`comment` at output `{}`, whose frames have none: expected an output of type pcap",
                output.name
            );
            Err(Fault::new(given.span(), what))
        }
        (None, None, Some(_)) => Ok(Some(Annotation::Comment)),
        (None, Some(_), None) => {
            let id = bounded(vlan.as_ref(), VLANS, "is the VLAN identifier")?;
            Ok(id.map(|id| Annotation::Vlan(id as u16)))
        }
        _ => {
            let what = "`annotate`: expected one of `dscp`, `vlan` and `comment = true`";
            Err(Fault::new(table.span(), what))
        }
    }
}

/// The sensor's own policy, if it has one. It needs a limit.
fn on_overload(raw: &raw::Sensor, has_limit: bool) -> Result<Option<OnOverload>, Fault> {
    let Some(text) = &raw.on_overload else { return Ok(None) };
    let policies = OnOverload::ALL.map(|policy| (policy.name(), policy));
    let policy = choice(text, ON_OVERLOAD, &policies)?;
    if policy != OnOverload::None && !has_limit {
        let what = format!(
            "{ON_OVERLOAD} `{}` without a limit: expected `limit_pps`, `limit_bps` or \
             `hello = true`",
            policy.name()
        );
        return Err(Fault::new(text.span(), what));
    }
    Ok(Some(policy))
}

/// With a policy, limits have room for some packets.
fn check_limits(sensor: &Sensor, raw: &raw::Sensor) -> Result<(), Fault> {
    if sensor.on_overload == OnOverload::None {
        return Ok(());
    }
    let least = |limit: Option<u64>, given: Option<&Spanned<Quantity>>, least, key, unit| match (
        limit, given,
    ) {
        (Some(limit), Some(given)) if limit < least => {
            let what = format!("`{key}` {limit} with {ON_OVERLOAD}: expected at least {unit}");
            Err(Fault::new(given.span(), what))
        }
        _ => Ok(()),
    };
    least(sensor.limit_pps, raw.limit_pps.as_ref(), LEAST_PPS, "limit_pps", "1k")?;
    least(sensor.limit_bps, raw.limit_bps.as_ref(), LEAST_BPS, "limit_bps", "1M")
}

/// Which headers are taken off.
fn strip(names: &[raw::Text]) -> Result<Strip, Fault> {
    let mut strip = Strip::NONE;
    for name in names {
        let flag = match name.get_ref().as_str() {
            "vlan" => &mut strip.vlan,
            "mpls" => &mut strip.mpls,
            "vxlan" => &mut strip.vxlan,
            "gre" => &mut strip.gre,
            "erspan" => &mut strip.erspan,
            other => {
                let what = format!(
                    "strip `{other}`: expected some of `vlan`, `mpls`, `vxlan`, `gre`, `erspan`"
                );
                return Err(Fault::new(name.span(), what));
            }
        };
        *flag = true;
    }
    Ok(strip)
}

/// A number for a name, the same in every run (FNV-1a: Fowler, Noll, Vo).
pub(crate) fn digest_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A locally administered address, the same in every run for the name of a group.
fn own_address(name: &str) -> MacAddress {
    let digest = digest_of(name);
    let [a, b, c, d, e, ..] = digest.to_be_bytes();
    MacAddress([0x02, a, b, c, d, e])
}

fn quantity(quantity: Option<&Spanned<Quantity>>) -> Result<Option<u64>, Fault> {
    let Some(given) = quantity else { return Ok(None) };
    let text = match given.get_ref() {
        Quantity::Number(number) => number.to_string(),
        Quantity::Text(text) => text.clone(),
    };
    units::rate(&text).map(Some).map_err(|error| Fault::new(given.span(), error))
}
