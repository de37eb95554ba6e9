//! What a configuration comes to before any device is touched: filters compiled, rule
//! lists built. All that can be wrong with a configuration's contents is found here.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_io::text::{self, Source, TextError};
use forebay_jit::{FilterError, FilterSet, Isa, Options};
use forebay_packet::{Affinity, DecodeOptions, Interface};
use forebay_pipeline::Settings;
use forebay_pipeline::stages::CompiledRules;
use forebay_rules::choose::EngineName;
use forebay_rules::language::load::{FileError, LoadError, load};

use crate::config::{Config, Key, RULE_KEYS};
use crate::memory;

/// What a configuration names and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
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

/// What the stages need.
#[derive(Clone)]
pub struct Plan {
    /// The filter of all packets.
    pub filter: Option<FilterSet>,
    /// The rules of all packets.
    pub rules: Option<CompiledRules>,
    /// What is to be told of how they were read and are matched.
    pub notices: Vec<String>,
    /// The filter of each group.
    pub group_filters: Vec<Option<FilterSet>>,
}

impl Plan {
    /// Compiles what `config` names.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn new(config: &Config, options: &CodeOptions) -> Result<Self, PlanError> {
        let of_stages: u64 = config.groups.iter().map(|group| group.stages.memory_bytes()).sum();
        memory::suffices(of_stages * config.workers as u64, u64::MAX, "")
            .map_err(PlanError::Stages)?;
        let filter = config.filter.as_deref();
        let filter = filter.map(|text| compile(text, "the broker".to_owned(), options));
        let of_group = |group: &crate::config::Group| {
            let place = || format!("group {}", group.name);
            group.filter.as_deref().map(|text| compile(text, place(), options)).transpose()
        };
        let (rules, notices) = rules(config, options)?.unzip();
        Ok(Self {
            filter: filter.transpose()?,
            rules,
            notices: notices.unwrap_or_default(),
            group_filters: config.groups.iter().map(of_group).collect::<Result<_, _>>()?,
        })
    }

    /// The same without filters, for workers whose packets have passed them.
    #[must_use]
    pub fn unfiltered(&self) -> Self {
        let group_filters = vec![None; self.group_filters.len()];
        Self { filter: None, rules: self.rules.clone(), notices: Vec::new(), group_filters }
    }

    /// Settings for the stages that all packets pass.
    #[must_use]
    pub fn trunk(&self) -> Settings {
        Settings::new().with(self.filter.clone()).with(self.rules.clone())
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

fn compile(text: &str, place: String, options: &CodeOptions) -> Result<FilterSet, PlanError> {
    let mut filter = FilterSet::new(text, options.filters.clone());
    // Live ports are Ethernet; a capture that is played in may add to it later.
    match filter.require(0, &Interface::default()) {
        Ok(()) => Ok(filter),
        Err(source) => Err(PlanError::Filter { place, source: source.into() }),
    }
}

/// The rules, and what is to be told of them.
fn rules(
    config: &Config,
    options: &CodeOptions,
) -> Result<Option<(CompiledRules, Vec<String>)>, PlanError> {
    let Some(file) = &config.rules else { return Ok(None) };
    let name = file.display().to_string();
    let refused = |error: LoadError| error.in_file(&name);
    let bytes = text::read_bytes(file, Source::Regular, "a file of rules", text::MOST_RULES)
        .map_err(|source| PlanError::Read { file: file.clone(), source })?;
    let selection = &config.rule_selection;
    let imported = load(&bytes, selection, &RULE_KEYS).map_err(refused)?;
    drop(bytes);
    let chosen = imported.choose(EngineName::Auto, options.isa).map_err(refused)?;
    let mut notices = imported.warnings(&name, selection.unsupported);
    notices.extend(chosen.notice().map(|notice| format!("{name}: {notice}")));
    let compiled_rules = CompiledRules::new(Arc::new(imported.list.list), chosen.engine);
    Ok(Some((compiled_rules.counted(config.workers), notices)))
}
