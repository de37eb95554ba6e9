//! Packets that stay in the kernel, from input to output: ports of type `xdp`.
//!
//! A program in each input's driver does what the workers do elsewhere: filter, bucket,
//! addresses, output (`forebay_bpf::programs::splitter`). Its maps are the group's table and
//! records ([`forwarding`]), so that balancing, health and moves are the same as ever. The
//! workers get by AF_XDP sockets what the program cannot decide, with the whole flow behind
//! it, and steer by the same table. [`account`] makes one ledger of both.

pub mod account;
pub mod forwarding;
pub mod ways;

use std::sync::Arc;

use forebay_balance::GroupSettings;
use forebay_bpf::flow::FlowOptions;
use forebay_bpf::link::{XdpLink, XdpMode};
use forebay_bpf::programs::losses::RedirectLosses;
use forebay_bpf::programs::splitter::{
    self, Limits, Sensor, Settings, ShuntedFlows, SplitterMaps, Traffic, UserSpace,
};
use forebay_bpf::programs::trial::Trial;
use forebay_bpf::{BpfError, Program};
use forebay_io::af_xdp::Copying;
use forebay_io::device::{self, Finding, Link, Promiscuous, Remedy};
use forebay_io::{Losses, Rx};
use forebay_packet::{HashKey, LinkType, Rewrite};
use forebay_pipeline::stages::{FlowOverride, OverrideTable};

use crate::clock::Clock;
use crate::compiled::decode_options;
use crate::config::{Config, Port, PortKind};
use crate::ports::{PortError, xdp};
use crate::report::Report;
use crate::route::Route;
use account::Snapshot;
use forwarding::KernelTable;
use ways::{SentBytes, Turn, Way};

/// The longest MTU whose frames lie in one buffer of any driver.
const ONE_BUFFER: u32 = 3000;

/// An input's program in its place.
struct Entrance {
    link: XdpLink,
    user_space: UserSpace,
}

/// The part of a broker that is in the kernel.
pub struct Kernel {
    maps: Arc<SplitterMaps>,
    forwarding: Option<Arc<KernelTable>>,
    flow: FlowOptions,
    /// Names, in the order of the configuration.
    inputs: Vec<String>,
    outputs: Vec<String>,
    group: String,
    /// Queues of each input that have sockets.
    queues: Vec<u32>,
    /// The largest MTU of an input; a device takes one tag more than its MTU.
    mtu: u32,
    entrances: Vec<Entrance>,
    promiscuous: Vec<Promiscuous>,
    /// The outputs' devices, in order, and what they lose.
    devices: Vec<Link>,
    losses: Option<RedirectLosses>,
    /// How the outputs' packets go, and the bytes that their devices took.
    ways: Vec<Way>,
    sent: Vec<SentBytes>,
    trial: Option<Trial>,
    /// How the sensors are reached, as the maps have it.
    route: Route,
    shunted: ShuntedFlows,
}

impl Kernel {
    /// The maps for what `config` names, whose devices must be there.
    ///
    /// # Errors
    /// [`PortError`]: a device that is missing, what the kernel refuses.
    pub fn create(config: &Config, hash_key: HashKey) -> Result<Self, PortError> {
        let Some(group) = config.groups.first() else {
            let what = "no group".to_owned();
            return Err(PortError::Cannot { side: "input", name: String::new(), what });
        };
        let (mut queues, mut mtu) = (Vec::new(), 0);
        for port in &config.inputs {
            let PortKind::Xdp { interface, queues: wanted, .. } = &port.kind else { continue };
            let wrong =
                |source| PortError::Device { side: "input", name: port.name.clone(), source };
            mtu = mtu.max(Link::named(interface).map_err(wrong)?.mtu);
            let all = device::receive_queues(interface).map_err(wrong)?;
            queues.push(wanted.unwrap_or(all).max(1));
        }
        let records = GroupSettings::default().records;
        let sockets: u32 = queues.iter().sum();
        let limits = Limits {
            records: u32::try_from(records.keys).unwrap_or(u32::MAX),
            keys_per_move: records.keys_per_move,
            sockets: sockets.saturating_mul(count(config.workers)),
            workers: count(config.workers),
            ..Limits::default()
        };
        let name = config.inputs.first().map_or("", |port| port.name.as_str());
        let maps = Arc::new(SplitterMaps::create(limits).map_err(failed(name))?);
        // Moves wait for it again and again: better to know at once where it cannot be done.
        maps.quiesce().map_err(failed(name))?;
        let decoding = decode_options(config, group.key);
        let flow = FlowOptions {
            affinity: decoding.affinity,
            hash_key,
            tunnels: decoding.tunnel_depth > 0,
        };
        let names = |ports: &[Port]| ports.iter().map(|port| port.name.clone()).collect();
        Ok(Self {
            shunted: ShuntedFlows::new(Arc::clone(&maps)),
            maps,
            forwarding: None,
            flow,
            inputs: names(&config.inputs),
            outputs: names(&config.outputs),
            group: group.name.clone(),
            queues,
            mtu,
            entrances: Vec::new(),
            promiscuous: Vec::new(),
            devices: Vec::new(),
            losses: None,
            ways: Vec::new(),
            sent: Vec::new(),
            trial: None,
            route: Route::default(),
        })
    }

    /// The group's table, for records that stay for `hold` nanoseconds, and that many
    /// workers. Its buckets have no sensors yet.
    pub fn forwarding(
        &mut self,
        workers: usize,
        settings: &GroupSettings,
        clock: Clock,
    ) -> Arc<KernelTable> {
        let hold = forebay_balance::Group::<Arc<KernelTable>>::hold(settings);
        let maps = Arc::clone(&self.maps);
        let forwarding = KernelTable::new(maps, workers, hold, settings.records.keys, clock);
        let forwarding = Arc::new(forwarding);
        self.forwarding = Some(Arc::clone(&forwarding));
        forwarding
    }

    /// Says that all keys of a bucket go to a sensor.
    pub fn settle(&self, bucket: u16, sensor: u16) {
        self.maps.set_entry(bucket, sensor.into());
    }

    /// The least MTU of an output.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Has frames go out by a device; the outputs are opened in order.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open_output(&mut self, port: &Port, link: Link) -> Result<(), PortError> {
        let slot = count(self.devices.len());
        self.maps.devices().set(slot, link.index).map_err(failed(&port.name))?;
        self.devices.push(link);
        self.ways.push(Way::default());
        self.sent.push(SentBytes::default());
        Ok(())
    }

    /// Counts from now on what the outputs' devices lose behind the programs; returns where
    /// that cannot be done.
    pub fn watch_losses(&mut self) -> Vec<Finding> {
        let slots = (0..).zip(&self.devices).map(|(slot, link)| (slot, link.index));
        let error = match RedirectLosses::watch(&self.maps, &slots.collect::<Vec<_>>()) {
            Ok(losses) => {
                self.losses = Some(losses);
                // Without it, devices are tried with packets.
                self.trial = Trial::load(&self.maps, self.multi_buffer()).ok();
                return Vec::new();
            }
            Err(error) => error,
        };
        let untold = |link: &Link| Finding {
            device: link.name.clone(),
            check: "redirect-losses",
            what: format!(
                "what it does not take of redirected frames is not counted, and its packets are \
                 redirected whether or not it takes them: {error}"
            ),
            remedy: Remedy::Noted,
        };
        self.devices.iter().map(untold).collect()
    }

    /// Whether programs take frames of several buffers: if one input needs it, all do. The
    /// kernel refuses programs that differ in this over one device map.
    fn multi_buffer(&self) -> bool {
        self.mtu > ONE_BUFFER
    }

    /// Receives all packets of a device from now on; the inputs are opened in order. Gives
    /// receivers by worker for those that the kernel does not decide.
    ///
    /// # Errors
    /// [`PortError`]
    pub fn open_input(
        &mut self,
        config: &Config,
        port: &Port,
        link: &Link,
    ) -> Result<Vec<Vec<Box<dyn Rx>>>, PortError> {
        let number = self.entrances.len();
        let workers = count(config.workers);
        let queues = self.queues.get(number).copied().unwrap_or(1);
        let first = self.queues.iter().take(number).sum::<u32>() * workers;
        let sockets = xdp::Sockets {
            device: &link.name,
            queues,
            workers,
            frames: xdp::frames(port.ring / queues as usize),
            multi_buffer: xdp::takes_several_frames(link.mtu),
            // Frames that a driver has put into sockets' memory cost the kernel a copy to
            // redirect, and nearly all are redirected.
            copying: Copying::Copy,
        };
        let receivers = xdp::open_sockets(port, &sockets, |slot, socket| {
            self.maps.sockets().set(first + slot, &socket).map_err(std::io::Error::other)
        })?;
        if let PortKind::Xdp { promiscuous: true, .. } = port.kind {
            let wrong =
                |source| PortError::Device { side: "input", name: port.name.clone(), source };
            self.promiscuous.push(Promiscuous::join(link).map_err(wrong)?);
        }
        let user_space = UserSpace::Sockets { first, queues, per_queue: workers };
        let program = self.program(config, number, user_space)?;
        let link =
            XdpLink::attach(&program, link.index, XdpMode::Any).map_err(failed(&port.name))?;
        self.entrances.push(Entrance { link, user_space });
        Ok(receivers)
    }

    /// The program of an input.
    fn program(
        &self,
        config: &Config,
        number: usize,
        user_space: UserSpace,
    ) -> Result<Program, PortError> {
        let name = self.inputs.get(number).map_or("", String::as_str);
        let compile = |text: Option<&String>| {
            let compiled = text.map(|text| forebay_filter::compile(text, LinkType::ETHERNET));
            compiled.transpose().map_err(|error| PortError::Cannot {
                side: "input",
                name: name.to_owned(),
                what: error.to_string(),
            })
        };
        let settings = Settings {
            filter: compile(config.filter.as_ref())?,
            group_filter: compile(config.groups.first().and_then(|group| group.filter.as_ref()))?,
            input: count(number),
            flow: self.flow,
            idle_timeout: config.idle_timeout,
            user_space,
            multi_buffer: self.multi_buffer(),
        };
        splitter::load(&self.maps, &settings).map_err(failed(name))
    }

    /// Programs for other settings, in the order of the inputs. Nothing has changed yet.
    ///
    /// # Errors
    /// [`PortError`]
    pub fn prepare(&self, config: &Config) -> Result<Vec<Program>, PortError> {
        let each = self.entrances.iter().enumerate();
        each.map(|(number, sender)| self.program(config, number, sender.user_space)).collect()
    }

    /// Puts programs in the places of those before, each between two frames. Inputs whose
    /// device is gone have none any more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn replace(&self, programs: &[Program]) -> Result<(), BpfError> {
        let mut each = self.entrances.iter().zip(programs);
        each.try_for_each(|(sender, program)| sender.link.replace(program).map(drop))
    }

    /// Writes the sensors of the group into the maps: the route to each, and those that packets
    /// are spread over while none is up.
    ///
    /// # Errors
    /// The kernel's.
    pub fn follow(&mut self, route: Route, spare: &[u16]) -> Result<(), BpfError> {
        let of = |route: &Route, sensor: usize| {
            let output = *route.outputs.get(sensor)?;
            let rewrite = &route.rewrites.of(u16::try_from(sensor).ok()?).rewrite;
            Some(entry(count(output), rewrite))
        };
        let changed = |&sensor: &usize| of(&route, sensor) != of(&self.route, sensor);
        let changed: Vec<usize> = (0..route.outputs.len()).filter(changed).collect();
        if !changed.is_empty() {
            // Runs of programs that began before the last change have then ended.
            self.maps.quiesce()?;
        }
        for sensor in changed {
            let number = u16::try_from(sensor).unwrap_or(u16::MAX);
            self.maps.set_sensor(number, of(&route, sensor))?;
        }
        self.route = route;
        self.maps.set_spare(spare);
        Ok(())
    }

    /// Shunts the flows that are to be shunted by hand, and no others; `clock` is that of their
    /// expiries.
    ///
    /// # Errors
    /// The kernel's.
    pub fn shunt(&mut self, flows: &OverrideTable, clock: Clock) -> Result<(), BpfError> {
        let shunted =
            flows.entries().iter().filter(|entry| entry.flow.action == FlowOverride::Shunt);
        let shunted = shunted.map(|entry| (entry.hash, clock.monotonic(entry.flow.until())));
        self.shunted.set(&shunted.collect::<Vec<_>>())
    }

    /// What was dropped of the flow with a hash, which is shunted by hand.
    #[must_use]
    pub fn shunted(&self, hash: u64) -> Traffic {
        self.shunted.dropped(hash)
    }

    /// Follows what the outputs' devices refuse: gives the outputs, by their numbers, whose
    /// packets go another way from now on.
    pub fn follow_refusals(&mut self, now: u64) -> Vec<(usize, Turn)> {
        let Some(losses) = &self.losses else { return Vec::new() };
        let mut turned = Vec::new();
        let each = self.ways.iter_mut().zip(&mut self.sent).zip(&self.devices);
        for (slot, ((way, sent), link)) in (0..).zip(each) {
            let lost = losses.lost(slot);
            sent.note(self.maps.redirected(slot), lost.iter().map(|(_, frames)| frames).sum());
            let refused = lost.iter().find(|(name, _)| *name == "refused").map_or(0, |one| one.1);
            let takes = || {
                let trial = self.trial.as_ref()?;
                trial.takes(&self.maps, losses, link.index, link.mtu).ok().flatten()
            };
            if let Some(turn) = way.follow(now, refused, takes) {
                self.maps.set_by_workers(slot, way.is_by_workers());
                turned.push((slot as usize, turn));
            }
        }
        turned
    }

    /// Whether the workers send the packets of the output of that name.
    #[must_use]
    pub fn is_by_workers(&self, output: &str) -> bool {
        let named = self.outputs.iter().zip(&self.ways).find(|(name, _)| *name == output);
        named.is_some_and(|(_, way)| way.is_by_workers())
    }

    /// Takes the programs off their devices, and waits until none runs any more.
    pub fn detach(&mut self) {
        self.entrances.clear();
        // It could be done at the start; and if not, a few packets are still on the way.
        let _ = self.maps.quiesce();
    }

    /// The account of the workers, and of the kernel with them.
    #[must_use]
    pub fn account(&self, workers: Report) -> Report {
        let slots = || 0..count(self.outputs.len());
        let lost = slots().map(|slot| self.losses.as_ref().map(|losses| losses.lost(slot)));
        let lost = lost.map(|lost| lost.map_or(Vec::new(), Vec::from)).collect();
        let received = (0..count(self.inputs.len())).map(|input| self.maps.received(input));
        let redirected = slots().map(|slot| self.maps.redirected(slot));
        let (redirected, outcomes): (Vec<Traffic>, _) =
            (redirected.collect(), self.maps.outcomes());
        let lost: Vec<Losses> = lost;
        let sent = self.sent.iter().zip(redirected.iter().zip(&lost));
        let sent_bytes = sent.map(|(sent, (traffic, lost))| {
            let mut until_now = *sent;
            until_now.note(*traffic, lost.iter().map(|(_, frames)| frames).sum())
        });
        let sent_bytes = sent_bytes.collect();
        let received = received.collect();
        let snapshot = Snapshot { received, redirected, sent_bytes, lost, outcomes };
        let mut report =
            account::merge(workers, &self.inputs, &self.outputs, &self.group, &snapshot);
        let failure = self.forwarding.as_ref().and_then(|forwarding| forwarding.failure());
        report.failed.extend(failure.map(|what| format!("kernel: {what}")));
        report
    }
}

/// How frames reach a sensor, for the program.
fn entry(device: u32, rewrite: &Rewrite) -> Sensor {
    Sensor {
        device,
        destination: rewrite.destination.map(|address| address.0),
        source: rewrite.source.map(|address| address.0),
        tag: rewrite.push_vlan,
    }
}

/// A number of things of which a configuration allows few.
fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn failed(name: &str) -> impl Fn(BpfError) -> PortError {
    let name = name.to_owned();
    move |source| PortError::Program { name: name.clone(), source }
}
