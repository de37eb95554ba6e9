//! The literals or rules that packets are scanned for: compiled of a configuration, and counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_io::text::{self, Source};
use forebay_pipeline::stages::{CompiledScan, Passed, ScanOptions, ScanRules};
use forebay_scan::rules::{RuleError, RuleSet, Variables};
use forebay_scan::{CacheUse, LiteralSet, SetCache};
use serde_json::{Value, json};

use crate::compiled::{ConfigCompileError, decode_options};
use crate::config::{Config, Key, ScanSubject};
use crate::group::nanos;
use crate::memory;
use crate::metrics::{Kind, Page};

/// The most rules with errors that are reported one by one.
const MOST_REPORTED: usize = 100;

/// What is scanned for, and notices about how it was read.
#[derive(Default)]
pub(crate) struct BuiltScan {
    pub scan: Option<Arc<CompiledScan>>,
    pub notices: Vec<String>,
}

/// Compiles the literals or rules of a configuration. If they are those in force, the result is,
/// too, with its counters.
pub(crate) fn compile(
    config: &Config,
    in_force: Option<&Arc<CompiledScan>>,
) -> Result<BuiltScan, ConfigCompileError> {
    let Some(scan) = &config.scan else { return Ok(BuiltScan::default()) };
    let decode = decode_options(config, Key::FiveTuple);
    let options = ScanOptions { decode, idle: nanos(config.idle_timeout), ..scan.options };
    let in_force = in_force.filter(|scan| *scan.options() == options);
    match &scan.subject {
        ScanSubject::Literals { file, nocase } => {
            let (scan, notices) = of_literals(config, file, *nocase, options, in_force)?;
            Ok(BuiltScan { scan: Some(scan), notices })
        }
        ScanSubject::Rules { files, variables } => {
            let (set, mut notices) = read_rules(files, variables)?;
            let (scan, of_cache) = of_rules(config, files, set, options, in_force)?;
            notices.extend(of_cache);
            Ok(BuiltScan { scan: Some(scan), notices })
        }
    }
}

fn refused(file: &Path, what: impl std::fmt::Display) -> ConfigCompileError {
    ConfigCompileError::Scan(format!("{}: {what}", file.display()))
}

fn of_literals(
    config: &Config,
    file: &Path,
    nocase: bool,
    options: ScanOptions,
    in_force: Option<&Arc<CompiledScan>>,
) -> Result<(Arc<CompiledScan>, Vec<String>), ConfigCompileError> {
    let text = text::read(file, Source::Regular, "a file of literals", text::MOST_LITERALS)
        .map_err(|error| refused(file, error))?;
    let literals =
        LiteralSet::from_hex_lines(&text, nocase).map_err(|error| refused(file, error))?;
    drop(text);
    if literals.is_empty() {
        return Err(refused(file, "no literals: expected at least one"));
    }
    if let Some(same) = in_force
        && same.rules().is_none()
        && *same.literals() == literals
    {
        return Ok((Arc::clone(same), Vec::new()));
    }
    suffices(config, &literals, &options).map_err(|why| refused(file, why))?;
    let compiled = CompiledScan::new(literals, options, cache(config));
    compiled.map(shared).map_err(|error| refused(file, error))
}

/// The cache of compiled sets, if there is one.
fn cache(config: &Config) -> Option<&SetCache> {
    config.scan.as_ref()?.cache.as_ref()
}

/// What was compiled, and notices about the cache.
fn shared(compiled: CompiledScan) -> (Arc<CompiledScan>, Vec<String>) {
    let notices = compiled.cache_errors().iter().map(ToString::to_string).collect();
    (Arc::new(compiled), notices)
}

/// Whether there is memory for the flows of all workers.
fn suffices(config: &Config, literals: &LiteralSet, options: &ScanOptions) -> Result<(), String> {
    let longest = literals.literals().iter().map(|literal| literal.bytes.len()).max();
    let bytes = CompiledScan::memory_bytes(options, literals.len(), longest.unwrap_or(0));
    memory::suffices(bytes * config.workers as u64, u64::MAX, "")
}

/// The rules of files, and notices about those that are left out.
fn read_rules(
    files: &[PathBuf],
    variables: &[(String, String)],
) -> Result<(RuleSet, Vec<String>), ConfigCompileError> {
    let mut values = Variables::new();
    variables.iter().for_each(|(name, value)| values.set(name, value));
    let (mut set, mut errors) = (RuleSet::with_variables(values), Vec::new());
    for file in files {
        let bytes = text::read_bytes(file, Source::Regular, "a file of rules", text::MOST_RULES)
            .map_err(|error| refused(file, error))?;
        set.parse(&file.display().to_string(), &bytes, &mut errors);
    }
    let mut notices: Vec<String> =
        errors.iter().take(MOST_REPORTED).map(RuleError::to_string).collect();
    let beyond = set.refused() - notices.len();
    if beyond > 0 {
        notices.push(format!("{beyond} further rules with errors"));
    }
    if set.refused() > 0 {
        notices.push(format!(
            "rules with errors that are not scanned for: {}; flows on which they fire can be clean",
            set.refused()
        ));
    }
    Ok((set, notices))
}

fn of_rules(
    config: &Config,
    files: &[PathBuf],
    set: RuleSet,
    options: ScanOptions,
    in_force: Option<&Arc<CompiledScan>>,
) -> Result<(Arc<CompiledScan>, Vec<String>), ConfigCompileError> {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let refused = |what: String| ConfigCompileError::Scan(format!("{}: {what}", names.join(", ")));
    if set.rules().is_empty() {
        return Err(refused("no rules: expected at least one".to_owned()));
    }
    if let Some(same) = in_force
        && same.rules().is_some_and(|rules| rules.set().has_same_rules(&set))
    {
        return Ok((Arc::clone(same), Vec::new()));
    }
    let rules = ScanRules::new(set).map_err(|error| refused(error.to_string()))?;
    suffices(config, rules.literals().set(), &options).map_err(&refused)?;
    let compiled = CompiledScan::of_rules(rules, options, cache(config));
    compiled.map(shared).map_err(|error| refused(error.to_string()))
}

/// What is scanned for, and what was found.
pub(crate) fn answer(scan: Option<&Arc<CompiledScan>>) -> Result<Value, String> {
    let scan = scan.ok_or("packets are not scanned: there is no table [scan]")?;
    let hits = scan.hits().read();
    let mut answer = json!({
        "mode": scan.options().mode.name(),
        "engine": scan.options().engine.name(),
        "literals": scan.literals().len(),
        "cache": scan.cache().map(CacheUse::name),
        "others": hits.others,
    });
    let members = match scan.rules() {
        Some(rules) => rule_members(rules, &hits.literals),
        None => {
            json!({ "hits": hits.literals.iter().map(|hit| literal(scan, hit)).collect::<Vec<_>>() })
        }
    };
    if let (Value::Object(answer), Value::Object(members)) = (&mut answer, members) {
        answer.extend(members);
    }
    Ok(answer)
}

fn literal(scan: &CompiledScan, &(index, packets): &(u32, u64)) -> Value {
    let literal = &scan.literals().literals()[index as usize];
    json!({
        "literal": literal.to_string(),
        "nocase": literal.nocase,
        "number": index,
        "packets": packets,
    })
}

/// What rules there are and what they passed, as JSON: as `forebay ctl scan` has it.
#[must_use]
pub fn rule_members(rules: &ScanRules, literals: &[(u32, u64)]) -> Value {
    let set = rules.set();
    let rule = |index: u32, passed: Passed| {
        let rule = &set.rules()[index as usize];
        json!({
            "sid": rule.sid, "gid": rule.gid, "message": rule.message,
            "packets": passed.packets, "flows": passed.flows,
        })
    };
    let hits: Vec<Value> = rules
        .hits(literals)
        .into_iter()
        .map(|hit| rule(hit.rule, Passed { packets: hit.packets, flows: hit.flows }))
        .collect();
    let triggers: Vec<Value> = rules
        .hazards()
        .into_iter()
        .map(|(hazard, literals, passed)| {
            json!({
                "hazard": hazard.name(), "literals": literals,
                "packets": passed.packets, "flows": passed.flows,
            })
        })
        .collect();
    let causes: Vec<Value> = rules
        .causes()
        .into_iter()
        .map(|(cause, rules, passed)| {
            json!({
                "cause": cause.name(), "rules": rules, "reason": cause.reason(),
                "packets": passed.packets, "flows": passed.flows,
            })
        })
        .collect();
    let forwarded: Vec<Value> =
        rules.forwarded().into_iter().map(|(index, passed)| rule(index, passed)).collect();
    json!({
        "rules": set.rules().len(),
        "filterable": set.filterable().count(),
        "refused": set.refused(),
        "tests": rules.forward().longest(),
        "hits": hits,
        "triggers": triggers,
        "causes": causes,
        "always_forward": forwarded,
    })
}

/// The counters of the literals or rules.
pub(crate) fn metrics(scan: &CompiledScan, page: &mut Page) {
    let hits = scan.hits().read();
    if let Some(rules) = scan.rules() {
        return rule_metrics(rules, &hits.literals, page);
    }
    const NAME: &str = "forebay_scan_literal_packets_total";
    page.metric(NAME, Kind::Counter, "Packets that a literal was found in.");
    for (index, packets) in hits.literals {
        let text = scan.literals().literals()[index as usize].to_string();
        let number = index.to_string();
        page.sample(NAME, &[("number", &number), ("literal", &text)], packets as f64);
    }
    page.sample(NAME, &[("number", "others")], hits.others as f64);
}

/// The counters of rules, triggers and causes.
fn rule_metrics(rules: &ScanRules, literals: &[(u32, u64)], page: &mut Page) {
    let hits = rules.hits(literals);
    let packets = "Packets that a literal of a rule was found in.";
    let flows = "Flows that became suspect by a literal of a rule.";
    for (name, help, is_flows) in [
        ("forebay_scan_rule_packets_total", packets, false),
        ("forebay_scan_rule_flows_total", flows, true),
    ] {
        page.metric(name, Kind::Counter, help);
        for hit in &hits {
            let rule = &rules.set().rules()[hit.rule as usize];
            let (gid, sid) = (rule.gid.to_string(), rule.sid.to_string());
            // Of rules with equal numbers each has a place of its own.
            let number = hit.rule.to_string();
            let labels =
                [("sid", &*sid), ("gid", &gid), ("rule", &number), ("message", &rule.message)];
            page.sample(name, &labels, if is_flows { hit.flows } else { hit.packets } as f64);
        }
    }
    for (name, help, is_flows) in [
        ("forebay_scan_passed_packets_total", "Packets that passed by themselves.", false),
        ("forebay_scan_passed_flows_total", "Flows that became suspect.", true),
    ] {
        page.metric(name, Kind::Counter, help);
        let value = |passed: Passed| if is_flows { passed.flows } else { passed.packets } as f64;
        for (hazard, _, passed) in rules.hazards() {
            page.sample(name, &[("trigger", hazard.name())], value(passed));
        }
        for (cause, _, passed) in rules.causes() {
            page.sample(name, &[("cause", cause.name())], value(passed));
        }
    }
    page.metric("forebay_scan_rules", Kind::Gauge, "Rules that are scanned for, and left out.");
    let (all, out) = (rules.set().rules().len(), rules.set().refused());
    page.sample("forebay_scan_rules", &[("state", "scanned")], all as f64);
    page.sample("forebay_scan_rules", &[("state", "refused")], out as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(file: &str, rest: &str) -> Config {
        scanning(&format!("literals = \"{file}\"\n{rest}")).unwrap()
    }

    /// A configuration with this in its table [scan].
    fn scanning(scan: &str) -> Result<Config, String> {
        let text = format!(
            "[scan]\n{scan}\
             [[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
             [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
             [[group]]\nname = \"g\"\nscan = \"hits\"\nsensor = [{{ name = \"s\" }}]\n"
        );
        Config::parse("run.toml", &text).map_err(|error| error.to_string())
    }

    fn compiled(config: &Config, in_force: Option<&Arc<CompiledScan>>) -> Arc<CompiledScan> {
        compile(config, in_force).unwrap().scan.unwrap()
    }

    fn refusal(config: &Config) -> String {
        compile(config, None).err().unwrap().to_string()
    }

    #[test]
    fn compiled_sets_are_kept_and_errors_of_the_cache_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("literals");
        std::fs::write(&path, "616263\n").unwrap();
        let at = |cache: &std::path::Path| {
            let rest = format!("cache = \"{}\"\n", cache.display());
            compile(&config(path.to_str().unwrap(), &rest), None).unwrap()
        };
        let cache = folder.path().join("cache");
        std::fs::create_dir(&cache).unwrap();
        for expected in ["written", "read"] {
            let built = at(&cache);
            assert_eq!(built.notices, Vec::<String>::new());
            assert_eq!(answer(built.scan.as_ref()).unwrap()["cache"], expected);
        }
        let built = at(&path);
        let notice = format!("cache {}: ", path.display());
        assert!(built.notices.last().unwrap().starts_with(&notice), "{:?}", built.notices);
        assert_eq!(answer(built.scan.as_ref()).unwrap()["cache"], "unwritten");
    }

    #[test]
    fn equal_literals_stay_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("literals");
        let file = path.to_str().unwrap();
        std::fs::write(&path, "# two\n616263\n64\n").unwrap();
        let first = compiled(&config(file, ""), None);
        let same = compiled(&config(file, ""), Some(&first));
        assert!(Arc::ptr_eq(&first, &same));
        let other = compiled(&config(file, "nocase = true\n"), Some(&first));
        assert!(!Arc::ptr_eq(&first, &other));
        let shown = answer(Some(&other)).unwrap();
        assert_eq!((&shown["literals"], &shown["mode"]), (&json!(2), &json!("stream")));

        std::fs::write(&path, "6162\n6\n").unwrap();
        let error = refusal(&config(file, ""));
        assert!(error.contains("line 2: expected pairs of hexadecimal digits"), "{error}");
        std::fs::write(&path, "").unwrap();
        let error = refusal(&config(file, ""));
        assert!(error.contains("expected at least one"), "{error}");
    }

    #[test]
    fn groups_mark_packets_in_a_field_of_their_own() {
        let parse = |scan: &str, group: &str, sensor: &str| {
            let text = format!(
                "{scan}[[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
                 [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
                 [[group]]\nname = \"g\"\n{group}\nsensor = [{{ name = \"s\"{sensor} }}]\n"
            );
            Config::parse("run.toml", &text).map_err(|error| error.to_string())
        };
        let scan = "[scan]\nliterals = \"l\"\n";
        let config = parse(scan, "annotate = { dscp = 46 }", "").unwrap();
        let marked = config.groups[0].sensors[0].rewrite.annotated();
        assert_eq!((marked.dscp, marked.push_vlan), (Some(46), None));
        let config = parse(scan, "annotate = { vlan = 7 }", "").unwrap();
        assert_eq!(config.groups[0].sensors[0].rewrite.annotated().push_vlan, Some(7));
        for (group, sensor, expected) in [
            ("annotate = { dscp = 64 }", "", "13:21: 64 as `dscp`: expected 1 to 63"),
            ("annotate = { dscp = 0 }", "", "13:21: 0 as `dscp`: expected 1 to 63"),
            ("annotate = { vlan = 4095 }", "", "13:21: 4095 is the VLAN identifier"),
            ("annotate = {}", "", "13:12: `annotate`: expected one of `dscp`, `vlan` and"),
            ("annotate = { dscp = 1, vlan = 1 }", "", "expected one of `dscp`, `vlan`"),
            ("annotate = { comment = false }", "", "expected one of `dscp`, `vlan`"),
            ("annotate = { comment = true }", "", "13:24: `comment` at output `o`, whose frames"),
            ("annotate = { color = 1 }", "", "run.toml:13:14: unknown field `color`"),
            ("annotate = { vlan = 1 }", ", vlan = 2", "13:21: `annotate` by VLAN with a sensor"),
            (
                "label = { from = \"flows\", to = \"dscp\" }\nannotate = { dscp = 1 }",
                "",
                "14:21: `annotate` in the field of `label`",
            ),
        ] {
            let error = parse(scan, group, sensor).unwrap_err();
            assert!(error.contains(expected), "{error} {expected}");
        }
        let error = parse("", "annotate = { dscp = 46 }", "").unwrap_err();
        assert!(error.contains("11:12: `annotate` without anything to scan for"), "{error}");
    }

    #[test]
    fn groups_that_select_need_the_table() {
        let text = "[[input]]\nname = \"i\"\ntype = \"af_packet\"\ninterface = \"i\"\n\
                    [[output]]\nname = \"o\"\ntype = \"af_packet\"\ninterface = \"o\"\n\
                    [[group]]\nname = \"g\"\nscan = \"hits\"\nsensor = [{ name = \"s\" }]\n";
        let error = Config::parse("run.toml", text).unwrap_err().to_string();
        assert!(
            error.contains("run.toml:11:8") && error.contains("expected a table [scan]"),
            "{error}"
        );
        let all = text.replace("hits", "all");
        Config::parse("run.toml", &all).unwrap();
        assert!(answer(None).is_err());
    }

    #[test]
    fn rules_or_literals_are_given_and_what_belongs_to_them() {
        let rules = "rules = [\"a\", \"b\"]\nvariables = { HOME_NET = \"[10.0.0.0/8]\" }\n";
        assert!(scanning(rules).is_ok() && scanning("rules = \"a\"\n").is_ok());
        for (scan, expected) in [
            ("", "run.toml:1:1: [scan] without anything"),
            ("literals = \"a\"\nrules = \"b\"\n", "run.toml:3:9: `rules` besides `literals`"),
            ("rules = []\n", "run.toml:2:9: 0 files of `rules`: expected 1 to 64"),
            ("rules = 5\n", "run.toml:2:9: expected a file, or a list of files"),
            ("rules = \"a\"\nmode = \"packet\"\n", "run.toml:3:8: mode `packet` with `rules`"),
            ("rules = \"a\"\nnocase = true\n", "run.toml:3:10: `nocase` with `rules`"),
            (
                "rules = \"a\"\nvariables = { HOME_NET = \"10.0.0\" }\n",
                "run.toml:3:26: variable `HOME_NET` is `10.0.0`: expected addresses or ports",
            ),
            ("rules = \"a\"\nvariables = { A = \"[$A]\" }\n", "variable `A`"),
            ("rules = \"a\"\nvariables = { \"$A\" = \"any\" }\n", "without `$`"),
            ("literals = \"a\"\nvariables = { A = \"any\" }\n", "run.toml:3:19: `variables`"),
            (
                "literals = \"a\"\nengine = \"oracle\"\ncache = \"c\"\n",
                "run.toml:4:9: `cache` with engine `oracle`",
            ),
        ] {
            let error = scanning(scan).unwrap_err();
            assert!(error.contains(expected), "{error} {expected}");
        }
    }

    #[test]
    fn equal_rules_stay_in_force_and_those_with_errors_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        let config = scanning(&format!(
            "rules = \"{}\"\nvariables = {{ HOME = \"10.0.0.0/8\" }}\n",
            path.display()
        ));
        let config = config.unwrap();
        let rules = "alert tcp any any -> $HOME any (msg:\"one\"; content:\"evil\"; sid:7;)\n\
                     alert icmp any any -> any any (sid:8;)\n\
                     alert tcp any any -> any (sid:9;)\n";
        std::fs::write(&path, rules).unwrap();
        let built = compile(&config, None).unwrap();
        let place = format!("{}:3:26: expected", path.display());
        assert!(built.notices[0].starts_with(&place), "{:?}", built.notices);
        assert!(built.notices[1].contains("not scanned for: 1;"), "{:?}", built.notices);
        let first = built.scan.unwrap();
        let shown = answer(Some(&first)).unwrap();
        assert_eq!((&shown["rules"], &shown["refused"]), (&json!(2), &json!(1)));
        assert_eq!((&shown["filterable"], &shown["tests"]), (&json!(1), &json!(1)));
        assert_eq!(shown["causes"][0]["cause"], "no_content");
        let mut page = Page::default();
        metrics(&first, &mut page);
        let page = page.finish();
        assert!(page.contains("forebay_scan_rules{state=\"refused\"} 1"), "{page}");

        // Elsewhere in the file they are the same rules.
        std::fs::write(&path, format!("# moved\n{rules}")).unwrap();
        assert!(Arc::ptr_eq(&first, &compiled(&config, Some(&first))));
        std::fs::write(&path, rules.replace("evil", "vile")).unwrap();
        assert!(!Arc::ptr_eq(&first, &compiled(&config, Some(&first))));
        std::fs::write(&path, "nothing\n".repeat(200)).unwrap();
        assert!(refusal(&config).contains("no rules: expected at least one"));
        std::fs::write(&path, format!("{}{rules}", "nothing\n".repeat(200))).unwrap();
        let notices = compile(&config, None).unwrap().notices;
        assert_eq!(notices.len(), MOST_REPORTED + 2);
        assert_eq!(notices[MOST_REPORTED], "101 further rules with errors");
    }
}
