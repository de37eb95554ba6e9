//! A group of sensors, live: its manager, and the sensor of each index.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_balance::balancer::BalanceSettings;
use forebay_balance::balancer::targets::Standing;
use forebay_balance::health::{self, HelloRule};
use forebay_balance::moves::{self, ForwardingTable, WorkerTable};
use forebay_balance::{
    Assignment, AssignmentError, BucketTable, Event, GroupSettings, MAX_WATCHED, SensorSettings,
};
use forebay_flow::shed::{Limit, SensorReport};
use forebay_packet::{HashKey, MacAddress};
use forebay_pipeline::stages::{
    Class, ClassConfig, ClassMembers, ClassShedding, Classes, Shedding, ShuntRule, ShuntTo,
    ShuntedFlow, Steering, WaitForSensor,
};

use crate::clock::Clock;
use crate::compiled::decode_options;
use crate::config::{Config, NoSensor, Sensor, SensorGroup, ShuntAction, digest_of};
use crate::events;
use crate::flooding::{Flooding, Turn};
use crate::hello::Hello;
use crate::kernel::Kernel;
use crate::kernel::forwarding::KernelWorker;
use crate::overload::Overloads;
use crate::overrides::FlowOverrides;
use crate::route::Route;

/// Hellos that a sensor may miss before it is down.
const MISSES: u32 = 3;

/// What a group's packets are steered by.
pub type AnyForwardingTable = Arc<dyn ForwardingTable + Send + Sync>;

/// The sides of workers.
pub type WorkerSteering = Vec<Box<dyn Steering>>;

/// Why a group cannot be.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// Its sensors.
    #[error(transparent)]
    Sensors(#[from] AssignmentError),
    /// The kernel refuses what workers need.
    #[error(transparent)]
    Kernel(#[from] forebay_bpf::BpfError),
}

/// A group that is running.
pub struct LiveGroup {
    /// How it is configured.
    pub config: SensorGroup,
    /// What moves its buckets.
    pub manager: forebay_balance::Group<AnyForwardingTable>,
    /// The sensor behind each index, also of those that are gone: their packets may still be
    /// on the way.
    sensors: Vec<Sensor>,
    /// What sensors get that is for others, by their names.
    flooding: HashMap<String, Flooding>,
    /// Flows that were named as too big for any sensor.
    shunted: Vec<ShuntedFlow>,
    /// Flows that are handled by hand.
    pub(crate) overrides: FlowOverrides,
    /// The limits of sensors beyond which packets are shed.
    overloads: Overloads,
    /// Those of classes.
    class_overloads: Overloads,
}

impl LiveGroup {
    /// A group at the time `now`, and its side of that many workers.
    ///
    /// # Errors
    /// When the sensors' weights leave one of them nothing.
    pub fn new(
        group: &SensorGroup,
        config: &Config,
        hash_key: HashKey,
        now: u64,
    ) -> Result<(Self, WorkerSteering), GroupError> {
        let settings = group_settings(config);
        let (sensors, assignment) = assign(group, config)?;
        let hold = forebay_balance::Group::<AnyForwardingTable>::hold(&settings);
        let table = BucketTable::new(&assignment);
        let forwarding = Arc::new(WorkerTable::new(table, config.workers, hold, settings.records));
        let worker =
            |i| -> Box<dyn Steering> { Box::new(moves::Worker::new(Arc::clone(&forwarding), i)) };
        let workers = (0..config.workers).map(worker).collect();
        let overrides = FlowOverrides::new(decode_options(config, group.key), hash_key, false);
        Ok((Self::on(forwarding, group, settings, &sensors, overrides, now), workers))
    }

    /// The same for a group whose packets the kernel steers.
    ///
    /// # Errors
    /// As [`LiveGroup::new`], and the kernel's.
    pub fn in_kernel(
        group: &SensorGroup,
        config: &Config,
        hash_key: HashKey,
        clock: Clock,
        kernel: &mut Kernel,
    ) -> Result<(Self, WorkerSteering), GroupError> {
        let settings = group_settings(config);
        let (sensors, assignment) = assign(group, config)?;
        (0..=u16::MAX)
            .for_each(|bucket| kernel.settle(bucket, assignment.sensor_of_bucket(bucket)));
        let forwarding = kernel.forwarding(config.workers, &settings, clock);
        let worker = |i| -> Result<Box<dyn Steering>, GroupError> {
            Ok(Box::new(KernelWorker::new(&forwarding, i)?))
        };
        let workers = (0..config.workers).map(worker).collect::<Result<_, _>>()?;
        let overrides = FlowOverrides::new(decode_options(config, group.key), hash_key, true);
        let live = Self::on(forwarding, group, settings, &sensors, overrides, clock.now());
        kernel.follow(live.route(), &live.spare())?;
        Ok((live, workers))
    }

    fn on(
        forwarding: AnyForwardingTable,
        group: &SensorGroup,
        settings: GroupSettings,
        sensors: &[SensorSettings],
        overrides: FlowOverrides,
        now: u64,
    ) -> Self {
        let manager = forebay_balance::Group::on(forwarding, settings, sensors, now);
        let (config, sensors) = (group.clone(), group.sensors.clone());
        let (flooding, shunted) = (HashMap::new(), Vec::new());
        let overloads = Overloads::of(&sensors);
        let class_overloads = Overloads::of(&classes_of(group));
        Self { config, manager, sensors, flooding, shunted, overloads, class_overloads, overrides }
    }

    /// The way to the sensor behind each index.
    #[must_use]
    pub fn route(&self) -> Route {
        Route {
            outputs: self.sensors.iter().map(|sensor| sensor.output).collect(),
            rewrites: self.sensors.iter().map(|sensor| sensor.rewrite).collect(),
        }
    }

    /// The sensors that packets are spread over while none is up.
    #[must_use]
    pub fn spare(&self) -> Vec<u16> {
        match self.config.no_sensor {
            NoSensor::Drop | NoSensor::Hold => Vec::new(),
            NoSensor::Pass => {
                let stays = |name: &String| self.config.sensors.iter().any(|one| one.name == *name);
                let staying = self.indices().filter(|(_, sensor)| stays(&sensor.name));
                staying.map(|(index, _)| index).collect()
            }
        }
    }

    /// Whether a gateway has packets wait while no sensor is up.
    #[must_use]
    pub fn wait_for_sensor(&self) -> WaitForSensor {
        let holds = self.config.no_sensor == NoSensor::Hold;
        WaitForSensor(holds.then(|| self.manager.is_without_sensor()))
    }

    /// What becomes of flows that are too big. Where a sensor gets them, only while it is up.
    #[must_use]
    pub fn shunt(&self, config: &Config) -> Option<ShuntRule> {
        let shunt = self.config.shunt.as_ref()?;
        let to = match &shunt.action {
            ShuntAction::Drop => ShuntTo::Nowhere,
            ShuntAction::Sample(of) => ShuntTo::Sample(*of),
            ShuntAction::Sensor(name) => {
                let (index, _) = self.indices().find(|(_, sensor)| sensor.name == *name)?;
                let status = self.manager.sensors().into_iter().nth(usize::from(index));
                status.flatten().filter(|status| status.standing != Standing::Down)?;
                ShuntTo::Sensor(index)
            }
        };
        Some(ShuntRule { to, after: shunt.after, idle: nanos(config.idle_timeout) })
    }

    /// The flows that were named as too big last.
    #[must_use]
    pub fn shunted(&self) -> Vec<ShuntedFlow> {
        self.shunted.clone()
    }

    /// What is shed for each index.
    #[must_use]
    pub fn shedding(&self) -> Shedding {
        self.overloads.shedding(&self.sensors)
    }

    /// The limit of a sensor beyond which packets are shed, if it has one.
    #[must_use]
    pub fn limit(&self, sensor: &Sensor) -> Option<&Limit> {
        self.overloads.limit(&sensor.name).map(|limit| &**limit)
    }

    /// The classes, with the limits beyond which packets are shed.
    pub fn classes(&self) -> impl Iterator<Item = (ClassConfig, Arc<Limit>)> {
        let limited = |class: ClassConfig| {
            let limit = Arc::clone(self.class_overloads.limit(&class.name)?);
            Some((class, limit))
        };
        classes_of(&self.config).into_iter().filter_map(limited)
    }

    /// What is shed of each class, of which `members` are the packets.
    #[must_use]
    pub fn class_shedding(&self, members: &[ClassMembers]) -> ClassShedding {
        let class = |((class, limit), members): ((ClassConfig, _), &ClassMembers)| Class {
            members: members.clone(),
            on_overload: class.on_overload,
            limit,
        };
        ClassShedding(self.classes().zip(members).map(class).collect())
    }

    /// Notes what has happened; returns whether workers must be informed.
    pub fn follow(&mut self, event: &Event) -> bool {
        if self.config.shunt.is_none() {
            return false;
        }
        if let Event::Oversize { oversize, key: Some(key) } = event {
            let number = self.shunted.last().map_or(0, |last| last.number) + 1;
            self.shunted.push(ShuntedFlow { number, bucket: oversize.bucket, key: *key });
            let known = self.shunted.len().saturating_sub(MAX_WATCHED);
            self.shunted.drain(..known);
            return true;
        }
        matches!(event, Event::Standing { .. } | Event::Died { .. })
    }

    /// The sensor behind an index.
    #[must_use]
    pub fn sensor(&self, index: u16) -> Option<&Sensor> {
        self.sensors.get(usize::from(index))
    }

    /// The indices of sensors that take part, with their names.
    pub fn indices(&self) -> impl Iterator<Item = (u16, &Sensor)> {
        let present = self.manager.sensors();
        let named = (0_u16..).zip(&self.sensors);
        named.filter(move |(index, _)| matches!(present.get(usize::from(*index)), Some(Some(_))))
    }

    /// Whether the group can become like that.
    ///
    /// # Errors
    /// [`AssignmentError`]: why not.
    pub fn can_become(&self, group: &SensorGroup, config: &Config) -> Result<(), AssignmentError> {
        self.manager.can_take(&all_settings(&self.with_those_of(group), config))
    }

    /// Takes sensors in that are new, besides those there are: the first half of a change.
    /// They get nothing before the second, [`LiveGroup::dismiss`], by when workers have to
    /// know the [`LiveGroup::route`].
    ///
    /// # Errors
    /// As [`LiveGroup::can_become`], and nothing has changed.
    pub fn admit(&mut self, group: &SensorGroup, config: &Config) -> Result<(), AssignmentError> {
        let all = self.with_those_of(group);
        let places = self.manager.admit(&all_settings(&all, config))?;
        self.note_places(&all, &places);
        self.class_overloads.update(&classes_of(group));
        self.config = group.clone();
        Ok(())
    }

    /// The sensors of `group`, and those there are besides.
    fn with_those_of(&self, group: &SensorGroup) -> Vec<Sensor> {
        let mut all: Vec<Sensor> = group.sensors.clone();
        let staying = self.indices().map(|(_, sensor)| sensor);
        let leaving: Vec<Sensor> =
            staying.filter(|old| !all.iter().any(|new| new.name == old.name)).cloned().collect();
        all.extend(leaving);
        all
    }

    /// Lets sensors go that are not in `group`: the second half.
    ///
    /// # Errors
    /// As [`LiveGroup::admit`].
    pub fn dismiss(&mut self, group: &SensorGroup, config: &Config) -> Result<(), AssignmentError> {
        self.manager.configure(group_settings(config));
        let places = self.manager.set_sensors(&all_settings(&group.sensors, config))?;
        self.note_places(&group.sensors, &places);
        self.flooding.retain(|name, _| group.sensors.iter().any(|sensor| sensor.name == *name));
        Ok(())
    }

    /// Notes the sensor of each index.
    fn note_places(&mut self, sensors: &[Sensor], places: &[u16]) {
        for (sensor, &place) in sensors.iter().zip(places) {
            let place = usize::from(place);
            while self.sensors.len() <= place {
                self.sensors.push(sensor.clone());
            }
            self.sensors[place] = sensor.clone();
        }
        // Then those that leave, at places that may still have flows, as long as no sensor has
        // their names again.
        self.overloads.update(sensors.iter().chain(&self.sensors));
    }

    /// The sensors that a hello which came in at an output is about. One that is told
    /// from others by its address has to have that; any other has to give its name, unless
    /// it is the only one there. Whatever names are given have to be right.
    #[must_use]
    pub fn speakers(&self, output: usize, hello: &Hello) -> Vec<u16> {
        if !hello.group.is_empty() && hello.group != self.config.name {
            return Vec::new();
        }
        let there: Vec<(u16, &Sensor)> =
            self.indices().filter(|(_, sensor)| sensor.output == output).collect();
        let is_meant = |sensor: &Sensor| {
            let is_named = sensor.name == hello.name;
            let is_known = match sensor.rewrite.destination {
                Some(address) => address == hello.from,
                None => is_named || there.len() == 1,
            };
            sensor.hello && is_known && (is_named || hello.name.is_empty())
        };
        there.iter().filter(|(_, sensor)| is_meant(sensor)).map(|&(index, _)| index).collect()
    }

    /// A sensor has sent a hello. Returns whether a flood has begun or ended there.
    pub fn hello(&mut self, index: u16, hello: &Hello, now: u64) -> Option<Turn> {
        let interval = u64::try_from(hello.interval.as_nanos()).unwrap_or(u64::MAX);
        let (received, dropped) = (hello.received, hello.dropped);
        self.manager.hello(index, now, health::Hello { interval, received, dropped });
        let sensor = self.sensors.get(usize::from(index))?;
        let at = now.saturating_sub(u64::from(hello.age_ms) * 1_000_000);
        self.overloads.hello(sensor, SensorReport { at, received, dropped });
        // Without an address of its own, everything that a sensor gets is for others.
        sensor.rewrite.destination?;
        let name = sensor.name.clone();
        self.flooding.entry(name).or_default().note(now, hello.strays)
    }

    /// What a sensor gets that is for others, if it reports that.
    #[must_use]
    pub fn flooding(&self, sensor: &Sensor) -> Option<&Flooding> {
        self.flooding.get(&sensor.name)
    }

    /// Passes on which outputs' links work, for sensors that have an output to themselves.
    pub fn follow_links(&mut self, works: impl Fn(usize) -> bool) {
        let places: Vec<(u16, usize)> =
            self.indices().map(|(index, sensor)| (index, sensor.output)).collect();
        for &(index, output) in &places {
            let is_alone = places.iter().filter(|(_, other)| *other == output).count() == 1;
            self.manager.link(index, !is_alone || works(output));
        }
    }

    /// What has happened, for people.
    #[must_use]
    pub fn tell(&self, event: &Event) -> String {
        let name = |index: u16| self.sensor(index).map_or("?", |sensor| sensor.name.as_str());
        let what = events::in_words(event, name);
        format!("group {}: {what}", self.config.name)
    }
}

/// The classes of a group.
pub(crate) fn classes_of(group: &SensorGroup) -> Vec<ClassConfig> {
    group.stages.setting::<Classes>().unwrap_or_default().0
}

/// The sensors of a group, and the buckets that each starts with.
fn assign(
    group: &SensorGroup,
    config: &Config,
) -> Result<(Vec<SensorSettings>, Assignment), AssignmentError> {
    let sensors = all_settings(&group.sensors, config);
    let ids: Vec<_> = sensors.iter().map(SensorSettings::share).collect();
    let assignment = Assignment::new(&ids)?;
    Ok((sensors, assignment))
}

fn all_settings(sensors: &[Sensor], config: &Config) -> Vec<SensorSettings> {
    sensors.iter().map(|sensor| settings_of(sensor, config)).collect()
}

/// How hellos are expected: one that promises to come is believed up to the time-out.
fn hello_rule(config: &Config) -> HelloRule {
    let timeout = nanos(config.hello_timeout);
    let interval = (timeout / u64::from(MISSES)).max(1);
    HelloRule { interval, longest: interval, misses: MISSES, ..HelloRule::default() }
}

fn settings_of(sensor: &Sensor, config: &Config) -> SensorSettings {
    SensorSettings {
        id: digest_of(&sensor.name),
        weight: sensor.weight,
        max_packets: sensor.limit_pps.map(|limit| limit as f64),
        max_bits: sensor.limit_bps.map(|limit| limit as f64),
        hello: sensor.hello.then(|| hello_rule(config)),
    }
}

fn group_settings(config: &Config) -> GroupSettings {
    GroupSettings {
        idle_timeout: nanos(config.idle_timeout),
        interval: nanos(config.interval),
        balance: BalanceSettings { emergency: config.emergency, ..BalanceSettings::default() },
        ..GroupSettings::default()
    }
}

/// Nanoseconds of a duration.
pub fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The commands that give a switch a lasting entry for each sensor (bridge(8)).
#[must_use]
pub fn static_entries(group: &SensorGroup) -> Vec<String> {
    let address = |sensor: &Sensor| -> Option<(String, MacAddress)> {
        Some((sensor.name.clone(), sensor.rewrite.destination?))
    };
    let addresses = group.sensors.iter().filter_map(address);
    addresses
        .map(|(name, mac)| format!("bridge fdb replace {mac} dev PORT_OF_{name} master static"))
        .collect()
}

#[cfg(test)]
mod tests {
    use forebay_balance::balancer::Oversize;
    use forebay_balance::balancer::load::{Dimension, Load};
    use forebay_packet::FlowKey;

    use super::*;

    #[test]
    fn of_the_flows_that_are_shunted_the_oldest_is_forgotten() {
        let text = "[[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
                    [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
                    [[group]]\nname = \"g\"\nsensor = [{ name = \"s\" }]\n\
                    [group.shunt]\naction = \"drop\"\n";
        let config = Config::parse("run.toml", text).unwrap();
        let (mut group, _workers) =
            LiveGroup::new(&config.groups[0], &config, HashKey::OFFLINE, 0).unwrap();
        for flow in 1..=20 {
            let oversize = Oversize {
                bucket: flow,
                load: Load::default(),
                dimension: Dimension::Bits,
                most: 1.0,
            };
            let key = FlowKey { low: flow.into(), ..FlowKey::default() };
            assert!(group.follow(&Event::Oversize { oversize, key: Some(key) }));
        }
        let shunted: Vec<_> = group.shunted().iter().map(|one| (one.number, one.bucket)).collect();
        assert_eq!(shunted, (5..=20).map(|flow| (flow.into(), flow)).collect::<Vec<_>>());
    }
}
