//! The stages that a configuration names, in their order.

use forebay_jit::FilterSet;
use forebay_packet::{Decoder, HashKey};
use forebay_pipeline::stages::{
    ClassMembers, Classify, Expectations, Filter, LiveBalance, LiveFragments, Overrides, Rules,
    Scan, ScannedFlowsOf, SpareSensors, Steering, Timing,
};
use forebay_pipeline::{Branch, Chain, Place, Settings};

use crate::compiled::{CompiledConfig, decode_options};
use crate::config::{Config, Key, SensorGroup};
use crate::export::Exporter;
use crate::group::{LiveGroup, WorkerSteering, nanos};

/// The stages that a configuration names.
pub(super) struct Stages<'a> {
    pub(super) config: &'a Config,
    pub(super) hash_key: HashKey,
    pub(super) compiled: &'a CompiledConfig,
    pub(super) groups: &'a [LiveGroup],
    pub(super) exporter: Option<&'a Exporter>,
}

impl Stages<'_> {
    /// The stages that all packets pass.
    pub(super) fn trunk(&self) -> Chain {
        Chain::new()
            .with(Filter::optional(self.compiled.filter.clone()))
            .with(Rules::optional(self.compiled.rules.as_ref().map(|rules| rules.reader().into())))
            .with(
                Scan::optional(self.compiled.scan.clone(), self.hash_key)
                    .reporting(self.compiled.reports),
            )
    }

    fn branch(
        &self,
        group: &SensorGroup,
        steering: Box<dyn Steering>,
        settings: &Settings,
    ) -> Branch {
        let decoder = Decoder::new(decode_options(self.config, group.key));
        let mut steer = LiveBalance::new(steering, decoder, group.key == Key::FiveTuple);
        let mut chain = Chain::new()
            .with(Filter::optional(None))
            .with_optional(Place::BehindFilter, self.hash_key)
            .with(Classify::hashing(decoder, self.hash_key));
        if !group.follow.0.is_empty() {
            let options = decode_options(self.config, group.key);
            let timing = Timing::Live { idle: nanos(self.config.idle_timeout) };
            chain = chain.with(Expectations::new(group.follow.clone(), options, timing));
            steer = steer.following(group.follow.clone(), self.hash_key);
        }
        let affinity = decode_options(self.config, group.key).affinity;
        let chain = chain
            .with(LiveFragments::new(self.hash_key))
            .with(Overrides::new(decoder, affinity, self.hash_key))
            .with_optional(Place::BehindFragments, self.hash_key)
            .with(steer)
            .with_optional(Place::BehindBalance, self.hash_key);
        Branch::new(group.name.clone(), chain.configured(settings))
    }

    /// Settings for a worker's stages of each group.
    pub(super) fn group_settings(&self, worker: usize) -> Vec<Settings> {
        let compiled = &self.compiled;
        let compiled = compiled.group_filters.iter().zip(&compiled.group_classes);
        let each = compiled.zip(&self.config.groups).zip(self.groups);
        type Of<'a> =
            (((&'a Option<FilterSet>, &'a Vec<ClassMembers>), &'a SensorGroup), &'a LiveGroup);
        let scanned = ScannedFlowsOf::of(self.compiled.scan.as_deref());
        let settings = |(((filter, classes), group), live): Of<'_>| {
            let export = self.exporter.map(|exporter| exporter.setting(live, worker));
            let settings = Settings::new()
                .with(export.unwrap_or_default())
                .with(filter.clone())
                .with(group.stages.clone())
                .with(SpareSensors(live.spare()))
                .with(live.wait_for_sensor())
                .with(live.shunt(self.config))
                .with(live.shunted())
                .with(live.class_shedding(classes))
                .with(live.shedding())
                .with(scanned);
            live.overrides.settings(settings)
        };
        each.map(settings).collect()
    }

    /// A worker's stages of each group.
    pub(super) fn branches(&self, worker: usize, steering: WorkerSteering) -> Vec<Branch> {
        let each = self.config.groups.iter().zip(steering).zip(self.group_settings(worker));
        each.map(|((group, steering), settings)| self.branch(group, steering, &settings)).collect()
    }

    /// The same after a change, in which a group without steering of its own is one that
    /// there is already.
    pub(super) fn changed_branches(
        &self,
        steering: Vec<Option<Box<dyn Steering>>>,
        settings: &[Settings],
    ) -> Vec<Branch> {
        let each = self.config.groups.iter().zip(steering).zip(settings);
        each.map(|((group, steering), settings)| match steering {
            Some(steering) => self.branch(group, steering, settings),
            None => Branch::new(group.name.clone(), Chain::new()),
        })
        .collect()
    }
}
