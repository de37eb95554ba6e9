//! What payloads are scanned for, and how.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use forebay_pipeline::stages::{GatewayMode, GatewayOptions, ScanMode, ScanOptions, ScanSelection};
use forebay_pipeline::units;
use forebay_scan::reassembly::Limits;
use forebay_scan::rules::{Variables, addresses};
use forebay_scan::{Engine, SetCache};
use toml::{Spanned, Value};

use super::error::Fault;
use super::groups::SensorGroup;
use super::ports::Port;
use super::raw;
use super::values::{bounded, choice, read};

/// Keys of a group.
const SELECTION: &str = "scan";
const GATEWAY: &str = "gateway";

/// The most flows of a worker.
const MOST_FLOWS: u64 = 1 << 26;

/// The least and the most memory for reassembly.
const LEAST_MEMORY: usize = 1 << 20;
const MOST_MEMORY: usize = 64 << 30;

/// The most files of rules.
const MOST_FILES: usize = 64;

/// What is scanned for.
#[derive(Clone, Debug, PartialEq)]
pub enum ScanSubject {
    /// Literals.
    Literals {
        /// The file.
        file: PathBuf,
        /// ASCII letters match in both cases.
        nocase: bool,
    },
    /// Rules of intrusion detection systems.
    Rules {
        /// The files.
        files: Vec<PathBuf>,
        /// Variables of the rules, without `$`, with their values.
        variables: Vec<(String, String)>,
    },
}

/// The table `[scan]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanConfig {
    /// What is scanned for.
    pub subject: ScanSubject,
    /// How packets are scanned. Which headers are decoded, and when a flow ends, is as for all
    /// flows.
    pub options: ScanOptions,
    /// Compiled sets are kept here.
    pub cache: Option<SetCache>,
}

/// The table, if there is one, which a group needs that selects by it.
pub fn check(
    scan: Option<&Spanned<raw::Scan>>,
    raw_groups: &[Spanned<raw::GroupTable>],
    groups: &[SensorGroup],
) -> Result<Option<ScanConfig>, Fault> {
    let Some(scan) = scan else {
        for (raw, group) in raw_groups.iter().zip(groups) {
            let selection = group.stages.setting::<ScanSelection>();
            let selects = selection.is_some_and(|one| one != ScanSelection::All);
            if let (true, Some(value)) = (selects, key_of(raw, SELECTION)) {
                let what = "`scan` without anything to scan for: expected a table [scan]";
                return Err(Fault::new(value.span(), what));
            }
            if let Some(annotate) = &raw.get_ref().annotate {
                let what = "`annotate` without anything to scan for: expected a table [scan]";
                return Err(Fault::new(annotate.span(), what));
            }
            let gateway = group.stages.setting::<GatewayOptions>();
            let holds = gateway.is_some_and(|options| options.mode != GatewayMode::Annotate);
            if let (true, Some(value)) = (holds, key_of(raw, GATEWAY)) {
                let what = "`gateway` without anything to scan for: expected a table [scan]";
                return Err(Fault::new(value.span(), what));
            }
        }
        return Ok(None);
    };
    let raw = scan.get_ref();
    let subject = subject(scan)?;
    let modes = ScanMode::ALL.map(|mode| (mode.name(), mode));
    let engines = Engine::ALL.map(|engine| (engine.name(), engine));
    let mode = raw.mode.as_ref().map(|text| choice(text, "mode", &modes)).transpose()?;
    let engine = raw.engine.as_ref().map(|text| choice(text, "engine", &engines)).transpose()?;
    raw_groups.iter().zip(groups).try_for_each(|(raw, group)| gateway(raw, group, mode))?;
    let usual = ScanOptions::new(mode.unwrap_or(ScanMode::Stream), engine.unwrap_or_default());
    let flows = bounded(raw.max_flows.as_ref(), 1..=MOST_FLOWS, "as `max_flows`")?;
    let memory = read(raw.memory.as_ref(), |text| {
        let bytes = units::size(text).map_err(|error| error.to_string())?;
        match bytes {
            LEAST_MEMORY..=MOST_MEMORY => Ok(bytes),
            _ => Err(format!("`{text}`: expected 1MiB to 64GiB")),
        }
    })?;
    let mut options = usual;
    options.flows = flows.map_or(usual.flows, |flows| flows as usize);
    if let Some(memory) = memory {
        options.reassembly = Limits::of(memory);
    }
    if let (Some(cache), Engine::Oracle) = (&raw.cache, options.engine) {
        let what = "`cache` with engine `oracle`, whose sets are not kept: expected `simd`";
        return Err(Fault::new(cache.span(), what));
    }
    let cache = raw.cache.as_ref().map(|folder| SetCache::new(PathBuf::from(folder.get_ref())));
    Ok(Some(ScanConfig { subject, options, cache }))
}

/// The value of a group's key of an optional stage.
fn key_of<'a>(group: &'a Spanned<raw::GroupTable>, key: &str) -> Option<&'a Spanned<Value>> {
    let stages = &group.get_ref().stages;
    stages.iter().find(|(stage, _)| stage.key == key).map(|(_, value)| value)
}

/// Whether no gateway has packets wait that an application answers which is in their way.
pub fn check_inline(
    raw_groups: &[Spanned<raw::GroupTable>],
    groups: &[SensorGroup],
    inputs: &[Port],
) -> Result<(), Fault> {
    let Some(input) = inputs.iter().find(|input| input.to.is_some()) else { return Ok(()) };
    for (raw, group) in raw_groups.iter().zip(groups) {
        let options = group.stages.setting::<GatewayOptions>();
        let waits = options.filter(|options| options.mode != GatewayMode::Annotate);
        if let (Some(options), Some(value)) = (waits, key_of(raw, GATEWAY)) {
            let what = format!(
                "`gateway` with `mode` `{}` and an application that sends (`to` of the input `{}`): a \
                 connection whose SYN waits is never answered; expected `mode` `annotate`",
                options.mode.name(),
                input.name,
            );
            return Err(Fault::new(value.span(), what));
        }
    }
    Ok(())
}

/// Whether a gateway that withholds flows is told of all of them, and where they end.
fn gateway(
    raw: &Spanned<raw::GroupTable>,
    group: &SensorGroup,
    mode: Option<ScanMode>,
) -> Result<(), Fault> {
    let (Some(options), Some(value)) =
        (group.stages.setting::<GatewayOptions>(), key_of(raw, GATEWAY))
    else {
        return Ok(());
    };
    if options.mode == GatewayMode::Annotate {
        return Ok(());
    }
    let fault = |what: &str| {
        let name = options.mode.name();
        Err(Fault::new(value.span(), format!("`gateway` of mode `{name}` {what}")))
    };
    if mode == Some(ScanMode::Packet) {
        return fault(
            "where [scan] has mode `packet`, which sees no end of a flow: expected `stream`",
        );
    }
    match group.stages.setting::<ScanSelection>() {
        None | Some(ScanSelection::All) => Ok(()),
        Some(selection) => fault(&format!(
            "with `scan = \"{}\"`, which leaves it parts of flows: expected `all`",
            selection.name()
        )),
    }
}

/// Literals or rules, and the keys that belong to them.
fn subject(scan: &Spanned<raw::Scan>) -> Result<ScanSubject, Fault> {
    let raw::Scan { literals, rules, variables, nocase, mode, .. } = scan.get_ref();
    let files = match (literals, rules) {
        (Some(file), None) => {
            if let Some(value) = variables.values().next() {
                let what = "`variables` without `rules`: literals have none";
                return Err(Fault::new(value.span(), what));
            }
            return Ok(ScanSubject::Literals {
                file: PathBuf::from(file.get_ref()),
                nocase: nocase.as_ref().is_some_and(|nocase| *nocase.get_ref()),
            });
        }
        (None, Some(files)) => files,
        (None, None) => {
            let what = "[scan] without anything to scan for: expected `literals` or `rules`";
            return Err(Fault::new(scan.span(), what));
        }
        (Some(_), Some(rules)) => {
            let what = "`rules` besides `literals`: expected one of them";
            return Err(Fault::new(rules.span(), what));
        }
    };
    if let Some(nocase) = nocase {
        let what = "`nocase` with `rules`, which say it of each content: expected none";
        return Err(Fault::new(nocase.span(), what));
    }
    if let Some(mode) = mode.as_ref().filter(|mode| mode.get_ref() == ScanMode::Packet.name()) {
        let what = "mode `packet` with `rules`, which are about streams: expected `stream`";
        return Err(Fault::new(mode.span(), what));
    }
    let names = match files.get_ref() {
        raw::Files::One(file) => std::slice::from_ref(file),
        raw::Files::Several(files) => files,
    };
    if !(1..=MOST_FILES).contains(&names.len()) {
        let what = format!("{} files of `rules`: expected 1 to {MOST_FILES}", names.len());
        return Err(Fault::new(files.span(), what));
    }
    check_variables(variables)?;
    Ok(ScanSubject::Rules {
        files: names.iter().map(PathBuf::from).collect(),
        variables: variables
            .iter()
            .map(|(name, value)| (name.clone(), value.get_ref().clone()))
            .collect(),
    })
}

/// Whether variables are called and valued as rules have them.
fn check_variables(variables: &BTreeMap<String, raw::Text>) -> Result<(), Fault> {
    let mut known = Variables::new();
    variables.iter().for_each(|(name, value)| known.set(name, value.get_ref()));
    for (name, value) in variables {
        let text = value.get_ref();
        let is_name =
            !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        if !is_name {
            let what = format!(
                "variable `{name}`: expected a name of letters, digits and `_`, without `$`"
            );
            return Err(Fault::new(value.span(), what));
        }
        let reference = format!("${name}");
        if addresses::parse::<IpAddr>(&reference, 0, &known).is_err()
            && addresses::parse::<u16>(&reference, 0, &known).is_err()
        {
            let what = format!(
                "variable `{name}` is `{text}`: expected addresses or ports as rules have them, \
                 like `[10.0.0.0/8,!10.1.0.0/16]`"
            );
            return Err(Fault::new(value.span(), what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn a_gateway_sees_all_of_each_flow() {
        let parse = |scan: &str, group: &str| {
            let text = format!(
                "{scan}[[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
                 [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
                 [[group]]\nname = \"g\"\n{group}\nsensor = [{{ name = \"s\" }}]\n"
            );
            Config::parse("run.toml", &text).map_err(|error| error.to_string())
        };
        let scan = "[scan]\nliterals = \"l\"\n";
        let hold = "gateway = { mode = \"hold\" }";
        assert!(parse(scan, hold).unwrap().has_gateway());
        assert!(parse(scan, "gateway = {}\nscan = \"hits\"").is_ok());
        assert!(!parse(scan, "").unwrap().has_gateway());
        assert!(parse("", "gateway = {}").is_ok());
        for (scan, group, expected) in [
            ("", hold, "run.toml:11:11: `gateway` without anything to scan for"),
            (
                scan,
                &format!("{hold}\nscan = \"hits\"") as &str,
                "13:11: `gateway` of mode `hold` with",
            ),
            (
                "[scan]\nliterals = \"l\"\nmode = \"packet\"\n",
                hold,
                "where [scan] has mode `packet`",
            ),
            (scan, "gateway = { mode = \"drop\" }", "`mode` `drop`: expected one of `annotate`"),
            (scan, "gateway = true", "expected a table with some of `mode`"),
            (scan, "gateway = { memory = \"1KiB\" }", "`memory` of 1024 bytes: expected 1MiB"),
            (scan, "gateway = { flow_memory = \"1GiB\" }", "expected at most `memory`"),
            (scan, "gateway = { wait = \"soon\" }", "`wait`: "),
            (scan, "gateway = { prefix = \"1KiB\" }", "`prefix` with mode `annotate`"),
        ] {
            let error = parse(scan, group).unwrap_err();
            assert!(error.contains(expected), "{error} {expected}");
        }
    }
}
