//! What a configuration comes to before any device is touched: filters compiled, rule
//! lists built. All that can be wrong with a configuration's contents is found here.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_io::text::{self, Source, TextError};
use forebay_jit::{FilterError, FilterSet, Isa, Options};
use forebay_packet::{Affinity, DecodeOptions, Interface};
use forebay_pipeline::Settings;
use forebay_pipeline::stages::Ruling;
use forebay_rules::RuleList;
use forebay_rules::choose::EngineName;
use forebay_rules::language::yamaha::{self, Document};

use crate::config::{Config, Key};
use crate::group::nanos;

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
    /// A file of rules is not one.
    #[error("{file}:{}: found {}, expected {}", source.line, source.found, source.expected)]
    Rules {
        /// The file.
        file: PathBuf,
        /// The line and what is wrong with it.
        source: forebay_rules::ParseError,
    },
    /// A file has not the list that is asked for, or several.
    #[error("{file}: {what}")]
    List {
        /// The file.
        file: PathBuf,
        /// What is there and what was expected.
        what: String,
    },
    /// A list that no engine takes.
    #[error("{file}{}: {source}", line.map_or_else(String::new, |line| format!(":{line}")))]
    Engine {
        /// The file.
        file: PathBuf,
        /// The line of the rule that is the reason, where one is.
        line: Option<usize>,
        /// Why.
        source: forebay_rules::choose::EngineError,
    },
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
    pub rules: Option<Ruling>,
    /// What is to be told of how they are matched.
    pub notices: Vec<String>,
    /// The filter of each group.
    pub group_filters: Vec<Option<FilterSet>>,
    /// For how many nanoseconds a packet that comes again is a copy, of each group.
    pub duplicates: Vec<Option<u64>>,
}

impl Plan {
    /// Compiles what `config` names.
    ///
    /// # Errors
    /// [`PlanError`]
    pub fn new(config: &Config, options: &CodeOptions) -> Result<Self, PlanError> {
        let filter = config.filter.as_deref();
        let filter = filter.map(|text| compile(text, "the broker".to_owned(), options));
        let of_group = |group: &crate::config::Group| {
            let place = || format!("group {}", group.name);
            group.filter.as_deref().map(|text| compile(text, place(), options)).transpose()
        };
        let (rules, notice) = rules(config, options)?.unzip();
        Ok(Self {
            filter: filter.transpose()?,
            rules,
            notices: notice.flatten().into_iter().collect(),
            group_filters: config.groups.iter().map(of_group).collect::<Result<_, _>>()?,
            duplicates: config.groups.iter().map(|group| group.duplicates.map(nanos)).collect(),
        })
    }

    /// The same without filters, for workers whose packets have passed them.
    #[must_use]
    pub fn unfiltered(&self) -> Self {
        let group_filters = vec![None; self.group_filters.len()];
        let duplicates = vec![None; self.duplicates.len()];
        Self {
            filter: None,
            rules: self.rules.clone(),
            notices: Vec::new(),
            group_filters,
            duplicates,
        }
    }

    /// Settings for the stages that all packets pass.
    #[must_use]
    pub fn trunk(&self) -> Settings {
        Settings {
            filter: Some(self.filter.clone()),
            rules: Some(self.rules.clone()),
            ..Settings::default()
        }
    }

    /// Settings for the stages of each group.
    #[must_use]
    pub fn groups(&self) -> Vec<Settings> {
        let settings = |(filter, duplicates): (&Option<FilterSet>, &Option<u64>)| Settings {
            filter: Some(filter.clone()),
            duplicates: Some(*duplicates),
            ..Settings::default()
        };
        self.group_filters.iter().zip(&self.duplicates).map(settings).collect()
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

/// The rules, and what is to be told of how they are matched.
fn rules(
    config: &Config,
    options: &CodeOptions,
) -> Result<Option<(Ruling, Option<String>)>, PlanError> {
    let Some(file) = &config.rules else { return Ok(None) };
    let text = text::read(file, Source::Regular, "a file of rules", text::MOST_RULES)
        .map_err(|source| PlanError::Read { file: file.clone(), source })?;
    let document =
        yamaha::parse(&text).map_err(|source| PlanError::Rules { file: file.clone(), source })?;
    let list = choose(&document, config.rule_list.as_deref())
        .map_err(|what| PlanError::List { file: file.clone(), what })?;
    let chosen = EngineName::Auto.choose(&list, options.isa).map_err(|source| {
        let rule = source.rule();
        let line = rule.and_then(|(family, number)| document.line_of(family, number));
        PlanError::Engine { file: file.clone(), line, source }
    })?;
    let notice = chosen.notice().map(|notice| format!("{}: {notice}", file.display()));
    Ok(Some((Ruling::new(Arc::new(list), chosen.engine), notice)))
}

/// The list of that name, or the only one: all rules, where the file names none.
fn choose(document: &Document, name: Option<&str>) -> Result<RuleList, String> {
    let names: Vec<&str> = document.names().collect();
    let named = |name: &str| document.list(name);
    match (name, names.as_slice()) {
        (Some(name), _) => named(name).ok_or_else(|| match names.as_slice() {
            [] => format!("no list `{name}`: the file names none, so that all its rules are one"),
            there => format!("no list `{name}`: expected one of {}", there.join(", ")),
        }),
        (None, []) => Ok(document.ascending()),
        (None, [only]) => named(only).ok_or_else(|| format!("no list `{only}`")),
        (None, several) => {
            let names = several.join(", ");
            Err(format!("several lists: expected `rule_list` to name one of {names}"))
        }
    }
}
