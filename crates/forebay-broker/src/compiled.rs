//! What a configuration comes to before any device is touched: filters compiled, rule
//! lists built. All that can be wrong with a configuration's contents is found here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_io::text::{self, Source, TextError};
use forebay_jit::{FilterError, FilterSet, Isa, Options};
use forebay_packet::{Affinity, DecodeOptions, Interface};
use forebay_pipeline::Settings;
use forebay_pipeline::stages::{
    ClassConfig, ClassMembers, CompiledRules, CompiledScan, GatewayOptions, MembersText,
    RuleSource, ScanReports,
};
use forebay_rules::choose::EngineName;
use forebay_rules::language::Imported;
use forebay_rules::language::load::{FileError, LoadError, Selection, load};
use forebay_rules::live::{Difference, Live};

use crate::config::{Config, Key, NoSensor, RULE_KEYS, SensorGroup};
use crate::group::classes_of;
use crate::{memory, scanning};

/// The most rules inserted, removed or moved for which a reload changes the list in force.
const MOST_CHANGES: usize = 256;

/// What a configuration names and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigCompileError {
    /// A filter.
    #[error("filter of {place}: {source}")]
    Filter {
        /// "the broker", or a group.
        place: String,
        /// What is wrong with it.
        source: Box<FilterError>,
    },
    /// A file of rules cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: TextError,
    },
    /// A file of rules cannot be used.
    #[error("{0}")]
    Rules(#[from] FileError),
    /// Literals or rules that are scanned for cannot be used.
    #[error("{0}")]
    Scan(String),
    /// There is no memory for the optional stages of the groups.
    #[error("optional stages of the groups: {0}")]
    Stages(String),
}

/// How code is to be made.
#[derive(Clone, Debug)]
pub struct CodeOptions {
    /// For filters.
    pub filters: Options,
    /// For rule lists.
    pub isa: Isa,
}

/// What the workers use now, and may go on to use after a change.
#[derive(Clone, Default)]
pub struct InUse {
    /// The rules.
    pub rules: Option<Arc<Live>>,
    /// What payloads are scanned for.
    pub scan: Option<Arc<CompiledScan>>,
}

/// What the stages need.
pub struct CompiledConfig {
    /// The filter of all packets.
    pub filter: Option<FilterSet>,
    /// The rules of all packets.
    pub rules: Option<Arc<Live>>,
    /// The changes to make first, if the rules are those in force.
    pub difference: Option<Difference>,
    /// What payloads are scanned for.
    pub scan: Option<Arc<CompiledScan>>,
    /// Notices about how they were read and are matched.
    pub notices: Vec<String>,
    /// Whether a group has a gateway.
    pub reports: ScanReports,
    /// The filter of each group.
    pub group_filters: Vec<Option<FilterSet>>,
    /// The packets of the classes of each group.
    pub group_classes: Vec<Vec<ClassMembers>>,
}

impl CompiledConfig {
    /// Compiles what `config` names. If its rules differ little from those `in_use`, the result has
    /// the changes of these; equal literals and rules to scan for stay as they are.
    ///
    /// # Errors
    /// [`ConfigCompileError`]
    pub fn new(
        config: &Config,
        options: &CodeOptions,
        in_use: &InUse,
    ) -> Result<Self, ConfigCompileError> {
        let of_group = |group: &SensorGroup| {
            let of_export = config.export.as_ref().map_or(0, |export| export.memory_bytes(group));
            let gateway = group.stages.setting::<GatewayOptions>();
            let of_gateway = gateway.map_or(0, |_| GatewayOptions::bytes_of_flow());
            let flows = config.scan.as_ref().map_or(0, |scan| scan.options.flows as u64);
            let waits = gateway.filter(|_| group.no_sensor == NoSensor::Hold);
            let of_backlog = waits.map_or(0, |options| options.bytes_of_backlog());
            group.stages.memory_bytes() + of_export + of_gateway * flows + of_backlog
        };
        let of_groups: u64 = config.groups.iter().map(of_group).sum();
        let of_writer = config.export.as_ref().map_or(0, |export| export.writer_bytes());
        memory::suffices(of_groups * config.workers as u64 + of_writer, u64::MAX, "")
            .map_err(ConfigCompileError::Stages)?;
        let filter = config.filter.as_deref();
        // The first filter waits for what rings hold; the others find it in the cache. Where the groups'
        // filters are the first, all of them prefetch.
        let first = options.filters.clone().for_rings();
        let later = options.filters.clone().for_cached();
        let is_first = filter.is_none() && config.rules.is_none() && config.scan.is_none();
        let of_groups = if is_first { &first } else { &later };
        let filter = filter.map(|text| compile(text, "the broker".to_owned(), &first));
        let of_group = |group: &SensorGroup| {
            let place = || format!("group {}", group.name);
            group.filter.as_deref().map(|text| compile(text, place(), of_groups)).transpose()
        };
        let built = rules(config, options, in_use.rules.as_ref())?.unwrap_or_default();
        let scanned = scanning::compile(config, in_use.scan.as_ref())?;
        let mut notices = [built.notices, scanned.notices].concat();
        let mut classes = |group: &SensorGroup| -> Result<Vec<_>, _> {
            let mut members = |class| members(&group.name, class, options, &mut notices);
            classes_of(group).iter().map(&mut members).collect()
        };
        let group_classes = config.groups.iter().map(&mut classes).collect::<Result<_, _>>()?;
        Ok(Self {
            group_classes,
            reports: ScanReports(config.has_gateway()),
            filter: filter.transpose()?,
            rules: built.rules,
            difference: built.difference,
            scan: scanned.scan,
            notices,
            group_filters: config.groups.iter().map(of_group).collect::<Result<_, _>>()?,
        })
    }

    /// The same without filters, for workers whose packets have passed them.
    #[must_use]
    pub fn unfiltered(self) -> Self {
        let group_filters = vec![None; self.group_filters.len()];
        let group_classes = vec![Vec::new(); group_filters.len()];
        Self { filter: None, notices: Vec::new(), group_filters, group_classes, ..self }
    }

    /// Settings for the stages that all packets pass.
    #[must_use]
    pub fn trunk(&self) -> Settings {
        let rules = self.rules.as_ref().map(|rules| RuleSource::Live(rules.reader()));
        Settings::new()
            .with(self.filter.clone())
            .with(rules)
            .with(self.scan.clone())
            .with(self.reports)
    }
}

/// How the packets of a group are decoded.
#[must_use]
pub fn decode_options(config: &Config, key: Key) -> DecodeOptions {
    DecodeOptions {
        affinity: match key {
            Key::FiveTuple => Affinity::FiveTuple,
            Key::IpPair => Affinity::IpPair,
            Key::Source => Affinity::Source,
            Key::Destination => Affinity::Destination,
        },
        vlan_in_key: config.vlan_in_key,
        tunnel_in_key: false,
        tunnel_depth: config.tunnel_depth,
    }
}

fn compile(text: &str, place: String, options: &Options) -> Result<FilterSet, ConfigCompileError> {
    let mut filter = FilterSet::new(text, options.clone());
    // Live ports are Ethernet; a capture that is played in may add to it later.
    match filter.require(0, &Interface::default()) {
        Ok(()) => Ok(filter),
        Err(source) => Err(ConfigCompileError::Filter { place, source: source.into() }),
    }
}

/// What selects the packets of a class.
fn members(
    group: &str,
    class: &ClassConfig,
    options: &CodeOptions,
    notices: &mut Vec<String>,
) -> Result<ClassMembers, ConfigCompileError> {
    let place = format!("class {} of group {group}", class.name);
    match &class.members {
        MembersText::Filter(text) => {
            compile(text, place, &options.filters).map(ClassMembers::Filter)
        }
        MembersText::Rules(file, selection) => {
            let (name, imported) = list_of(file, &format!("{place}: "), selection)?;
            let chosen = imported.choose(EngineName::Auto, options.isa);
            let engine = chosen.map_err(|error| error.in_file(&name))?.engine;
            notices.extend(imported.warnings(&name, selection.unsupported));
            Ok(ClassMembers::Rules(CompiledRules::new(imported.list.list.into(), engine)))
        }
    }
}

/// The rule list of a file, and the file's name in messages.
fn list_of(
    file: &Path,
    place: &str,
    selection: &Selection,
) -> Result<(String, Imported), ConfigCompileError> {
    let name = format!("{place}{}", file.display());
    let bytes = text::read_bytes(file, Source::Regular, "a file of rules", text::MOST_RULES)
        .map_err(|source| ConfigCompileError::Read { file: file.to_owned(), source })?;
    let imported = load(&bytes, selection, &RULE_KEYS).map_err(|error| error.in_file(&name))?;
    Ok((name, imported))
}

/// Rules, and notices about them.
#[derive(Default)]
struct BuiltRules {
    rules: Option<Arc<Live>>,
    difference: Option<Difference>,
    notices: Vec<String>,
}

fn rules(
    config: &Config,
    options: &CodeOptions,
    in_force: Option<&Arc<Live>>,
) -> Result<Option<BuiltRules>, ConfigCompileError> {
    let Some(file) = &config.rules else { return Ok(None) };
    let selection = &config.rule_selection;
    let (name, mut imported) = list_of(file, "", selection)?;
    let refused = |error: LoadError| error.in_file(&name);
    let mut notices = imported.warnings(&name, selection.unsupported);
    let list = std::mem::take(&mut imported.list.list);
    if let Some(live) = in_force
        && let Some(difference) = live.difference(&list, MOST_CHANGES)
    {
        let (rules, difference) = (Some(Arc::clone(live)), Some(difference));
        return Ok(Some(BuiltRules { rules, difference, notices }));
    }
    let most = config.reload_memory;
    let watch = Box::new(move || memory::watch(most, memory::KEY));
    let built = Live::automatic(list, options.isa, config.workers, watch);
    let (live, notice) = built.map_err(|(error, index)| refused(imported.refusal(error, index)))?;
    notices.extend(notice.map(|notice| format!("{name}: {notice}")));
    Ok(Some(BuiltRules { rules: Some(live.into()), difference: None, notices }))
}
