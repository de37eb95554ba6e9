//! Which crate may use which, according to the manifests.
//!
//! Product code (`dependencies`, `build-dependencies`, per target too) may use the crates
//! that [`policy::LAYERS`] lists for its crate. Tests may use every crate earlier in the
//! list. [`policy::CONFINED`] restricts some outside crates to the crates that need them.

use toml::{Table, Value};

use super::finding::Finding;
use super::policy::{self, Layer};

/// Checks the manifest at `path`, relative to the workspace.
pub(super) fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"))
    else {
        return;
    };
    let mut find = |line, rule, advice| {
        findings.push(Finding { path: path.to_owned(), line, rule, advice });
    };
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return find(1, "parse", format!("this is not TOML: {error}")),
    };
    let Some(position) = policy::LAYERS.iter().position(|layer| layer.name == name) else {
        let advice = "this crate has no place in the order of crates: add it to LAYERS";
        return find(1, "layers", advice.to_owned());
    };
    for (section, dependency) in dependencies(&manifest) {
        let line = line_of(text, &dependency);
        let for_tests = section == "dev-dependencies";
        if let Some(advice) = layer_advice(position, &dependency, for_tests) {
            find(line, "layers", advice);
        }
        if let Some(advice) = confined_advice(name, &dependency) {
            find(line, "confined", advice);
        }
    }
}

fn layer_advice(position: usize, dependency: &str, for_tests: bool) -> Option<String> {
    let layer = &policy::LAYERS[position];
    let other = policy::LAYERS.iter().position(|layer| layer.name == dependency)?;
    let (allowed, those) = if for_tests {
        (other < position || dependency == policy::TESTKIT, names(&policy::LAYERS[..position]))
    } else {
        (layer.uses.contains(&dependency), layer.uses.join(", "))
    };
    let those = if those.is_empty() { "no crate of the workspace" } else { &those };
    let kind = if for_tests { "tests" } else { "code" };
    (!allowed).then(|| {
        let name = layer.name;
        format!("the {kind} of {name} may use {those}, not {dependency}: pass the value in from above, or move the type down")
    })
}

fn names(layers: &[Layer]) -> String {
    layers.iter().map(|layer| layer.name).collect::<Vec<_>>().join(", ")
}

fn confined_advice(name: &str, dependency: &str) -> Option<String> {
    let confined = policy::CONFINED.iter().find(|confined| confined.name == dependency)?;
    (!confined.within.contains(&name)).then(|| {
        let within = confined.within.join(" and ");
        format!("{dependency} belongs to {within} alone: {}", confined.reason)
    })
}

/// Every dependency as (section, name of the package).
fn dependencies(manifest: &Table) -> Vec<(&'static str, String)> {
    const SECTIONS: [&str; 3] = ["dependencies", "build-dependencies", "dev-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = std::iter::once(manifest)
        .chain(targets.into_iter().flat_map(Table::values).filter_map(Value::as_table));
    let mut found = Vec::new();
    for table in tables {
        for section in SECTIONS {
            let entries = table.get(section).and_then(Value::as_table);
            for (key, value) in entries.into_iter().flatten() {
                let renamed = value.get("package").and_then(Value::as_str);
                found.push((section, renamed.unwrap_or(key).to_owned()));
            }
        }
    }
    found
}

/// The first line with the dependency, for the position of a finding.
fn line_of(text: &str, dependency: &str) -> usize {
    let names = |line: &str| {
        let line = line.trim_start();
        let key = line.split(['=', '.', ' ', ']']).next().unwrap_or_default();
        key == dependency || line.contains(&format!("\"{dependency}\""))
    };
    text.lines().position(names).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_manifest(name: &str, text: &str) -> Vec<(&'static str, usize)> {
        let mut findings = Vec::new();
        check(&format!("crates/{name}/Cargo.toml"), text, &mut findings);
        findings.into_iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn crates_use_only_what_they_may_know() {
        let uses_packet = "[dependencies]\nforebay-packet.workspace = true\n";
        assert_eq!(check_manifest("forebay-io", uses_packet), []);
        let uses_filter = "[dependencies]\n\nforebay-filter.workspace = true\n";
        assert_eq!(check_manifest("forebay-io", uses_filter), [("layers", 3)]);
        assert_eq!(check_manifest("forebay-codegen", uses_filter), []);
        let upwards = "[dependencies]\nforebay-io = { workspace = true }\n";
        assert_eq!(check_manifest("forebay-packet", upwards), [("layers", 2)]);
    }

    #[test]
    fn tests_may_use_all_that_comes_earlier() {
        let tests = "[dev-dependencies]\nforebay-io.workspace = true\n";
        assert_eq!(check_manifest("forebay-jit", tests), []);
        assert_eq!(check_manifest("forebay-packet", tests), [("layers", 2)]);
    }

    #[test]
    fn renamed_and_per_target_dependencies_are_seen() {
        let renamed =
            "[dependencies]\nio = { package = \"forebay-io\", path = \"../forebay-io\" }\n";
        assert_eq!(check_manifest("forebay-filter", renamed), [("layers", 2)]);
        let target = "[target.'cfg(unix)'.dependencies]\nforebay-io.workspace = true\n";
        assert_eq!(check_manifest("forebay-filter", target), [("layers", 2)]);
    }

    #[test]
    fn outside_crates_stay_where_they_belong() {
        let pcap = "[dependencies]\npcap.workspace = true\n";
        assert_eq!(check_manifest("forebay-filter", pcap), []);
        assert_eq!(check_manifest("forebay-io", pcap), [("confined", 2)]);
        let clap = "[dependencies]\nclap = \"4\"\n";
        assert_eq!(check_manifest("forebay-balance", clap), [("confined", 2)]);
    }

    #[test]
    fn new_crates_and_broken_manifests_are_findings() {
        assert_eq!(check_manifest("forebay-new", ""), [("layers", 1)]);
        assert_eq!(check_manifest("forebay-io", "[dependencies"), [("parse", 1)]);
    }

    #[test]
    fn the_list_is_in_order() {
        for (position, layer) in policy::LAYERS.iter().enumerate() {
            for used in layer.uses {
                let other = policy::LAYERS.iter().position(|other| other.name == *used);
                assert!(other.is_some_and(|other| other < position), "{} {used}", layer.name);
            }
        }
    }
}
