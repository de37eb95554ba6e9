//! A broker whose ports are open: its parts, and how they are opened.

use std::path::{Path, PathBuf};
use std::sync::mpsc;

use forebay_io::device::Finding;
use forebay_packet::HashKey;
use forebay_pipeline::Fork;

use super::edits::Edits;
use super::error::BrokerError;
use super::flow_lists::FlowLists;
use super::preparation::Reloads;
use super::stages::Stages;
use crate::alarms::Alarms;
use crate::clock::Clock;
use crate::compiled::{CodeOptions, CompiledConfig, InUse};
use crate::config::{Config, SensorGroup};
use crate::cures::Cures;
use crate::export::Exporter;
use crate::group::{LiveGroup, WorkerSteering};
use crate::hellos::Hellos;
use crate::kernel::Kernel;
use crate::links::Links;
use crate::notify::Notifier;
use crate::ports::{Attached, Ports};
use crate::route::Route;
use crate::worker::Worker;

/// A broker whose ports are open.
pub struct Broker {
    pub(super) path: PathBuf,
    pub(super) config: Config,
    pub(super) options: CodeOptions,
    pub(super) clock: Clock,
    pub(super) hash_key: HashKey,
    pub(super) groups: Vec<LiveGroup>,
    pub(super) workers: Vec<Worker>,
    pub(super) findings: Vec<Finding>,
    pub(super) hellos: Hellos,
    pub(super) links: Links,
    pub(super) notifier: Notifier,
    /// What recorders say.
    pub(super) recorders: mpsc::Receiver<String>,
    /// Kept, as they are gone when dropped.
    pub(super) programs: Vec<Attached>,
    /// What the kernel does by itself, if anything.
    pub(super) kernel: Option<Kernel>,
    /// What writes records of flows, if they are exported.
    pub(super) exporter: Option<Exporter>,
    pub(super) alarms: Alarms,
    pub(super) cures: Cures,
    pub(super) reloads: Reloads,
    /// The rules and literals in force, which workers count by.
    pub(super) in_use: InUse,
    pub(super) edits: Edits,
    pub(super) flow_lists: FlowLists,
}

impl Broker {
    /// Opens the ports of `config`, which was read from `path`.
    ///
    /// # Errors
    /// [`BrokerError`]: the first thing that is not as it has to be.
    pub fn open(
        path: &Path,
        config: Config,
        compiled: CompiledConfig,
        options: CodeOptions,
    ) -> Result<Self, BrokerError> {
        let clock = Clock::default();
        let hash_key = drawn_key()?;
        let mut kernel =
            if config.is_in_kernel() { Some(Kernel::create(&config, hash_key)?) } else { None };
        let mut groups = Vec::new();
        // By worker, then by group.
        let mut steering: Vec<WorkerSteering> = Vec::new();
        steering.resize_with(config.workers, Vec::new);
        for group in &config.groups {
            let (live, workers) = open_group(group, &config, hash_key, clock, kernel.as_mut())?;
            groups.push(live);
            steering.iter_mut().zip(workers).for_each(|(all, one)| all.push(one));
        }
        let ports = Ports::open(&config, &hash_key, kernel.as_mut())?;
        let routes: Vec<Route> = groups.iter().map(LiveGroup::route).collect();
        let compiled = if kernel.is_some() { compiled.unfiltered() } else { compiled };
        let exporter = config.export.as_ref().map(Exporter::new);
        let stages = Stages {
            config: &config,
            hash_key,
            compiled: &compiled,
            groups: &groups,
            exporter: exporter.as_ref(),
        };
        let mut workers = Vec::new();
        for (worker, (steering, ports)) in steering.into_iter().zip(ports.workers).enumerate() {
            let fork = Fork::new(stages.branches(worker, steering));
            workers.push(Worker::new(
                ports.inputs,
                stages.trunk(),
                fork,
                routes.clone(),
                ports.outputs,
                clock,
                config.busy_poll,
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            hellos: Hellos::open(&config)?,
            links: Links::open(&config)?,
            cures: Cures::open(&config),
            alarms: Alarms::default(),
            notifier: Notifier::from_environment().map_err(BrokerError::Notify)?,
            config,
            options,
            clock,
            hash_key,
            groups,
            workers,
            findings: ports.findings,
            exporter,
            recorders: ports.notices,
            programs: ports.programs,
            kernel,
            reloads: Reloads::default(),
            in_use: InUse { rules: compiled.rules, scan: compiled.scan },
            edits: Edits::default(),
            flow_lists: FlowLists::default(),
        })
    }
}

/// Opens a group, and the side of it that each worker has.
pub(super) fn open_group(
    group: &SensorGroup,
    config: &Config,
    hash_key: HashKey,
    clock: Clock,
    kernel: Option<&mut Kernel>,
) -> Result<(LiveGroup, WorkerSteering), BrokerError> {
    let opened = match kernel {
        Some(kernel) => LiveGroup::in_kernel(group, config, hash_key, clock, kernel),
        None => LiveGroup::new(group, config, hash_key, clock.now()),
    };
    opened.map_err(|source| BrokerError::Sensors { group: group.name.clone(), source })
}

/// A key that cannot be guessed, so that traffic cannot be aimed at one sensor.
fn drawn_key() -> std::io::Result<HashKey> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    let [low, high] = [0, 8].map(|at| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    });
    Ok(HashKey([low, high]))
}
