//! Every promise of SPECIFICATION.md names the test that proves it.
//!
//! A promise is a row of a table whose head has `test` as its last column. That cell has a
//! crate and the path of a test function in it, both in backticks; several such pairs are
//! separated by `;`. This rule checks that the test exists; the test run shows whether it
//! passes.

use super::finding::Finding;
use super::source::{Kind, SourceFile};

/// The file that holds the promises.
pub(super) const FILE: &str = "SPECIFICATION.md";

/// Checks the promises in `text`.
pub(super) fn check(
    path: &str,
    text: &str,
    sources: &[SourceFile<'_>],
    findings: &mut Vec<Finding>,
) {
    let mut in_table = false;
    for (number, line) in text.lines().enumerate() {
        let Some(cell) = last_cell(line) else {
            in_table = false;
            continue;
        };
        if !in_table {
            in_table = cell == "test";
            continue;
        }
        if cell.trim_matches(':').starts_with("--") {
            continue;
        }
        for named in cell.split(';') {
            if let Some(advice) = advice(named, sources) {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: number + 1,
                    rule: "promise",
                    advice,
                });
            }
        }
    }
}

/// The text of a table row's last cell.
fn last_cell(line: &str) -> Option<&str> {
    let row = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(row.rsplit('|').next().unwrap_or(row).trim())
}

/// The problem with the test that a cell names.
fn advice(named: &str, sources: &[SourceFile<'_>]) -> Option<String> {
    let quoted: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
    let [name, test] = quoted[..] else {
        return Some(format!("`{}`: name the crate and its test, each in backticks", named.trim()));
    };
    let folder = if name == "xtask" { "xtask/".to_owned() } else { format!("crates/{name}/") };
    let function = test.rsplit("::").next().unwrap_or(test);
    let exists = sources
        .iter()
        .filter(|source| source.path.starts_with(&folder))
        .any(|source| has_test(source, function));
    (!exists).then(|| {
        format!("{name} has no test `{function}`: a promise without a test does not belong here")
    })
}

/// Whether the file defines a function of that name in test code.
fn has_test(source: &SourceFile<'_>, name: &str) -> bool {
    source.tokens.windows(2).any(|pair| {
        pair[0].kind == Kind::Ident("fn".to_owned())
            && pair[1].is(name)
            && source.is_test(pair[1].range.start)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(specification: &str) -> Vec<usize> {
        let code = "fn product() {}\n#[cfg(test)]\nmod tests { #[test] fn it_holds() {} }\n";
        let source = SourceFile::parse("crates/forebay-io/src/a.rs", code).ok().unwrap();
        let mut findings = Vec::new();
        check(FILE, specification, &[source], &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    fn table(cell: &str) -> String {
        format!("# Promises\n\n| promise | test |\n|---|---|\n| It is so | {cell} |\n")
    }

    #[test]
    fn a_named_test_must_exist_in_its_crate() {
        assert_eq!(lines_found(&table("`forebay-io` `a::tests::it_holds`")), []);
        assert_eq!(lines_found(&table("`forebay-io` `a::tests::it_does_not`")), [5]);
        assert_eq!(lines_found(&table("`forebay-gen` `a::tests::it_holds`")), [5]);
        assert_eq!(lines_found(&table("`forebay-io` `a::product`")), [5]);
        assert_eq!(lines_found(&table("`forebay-io` `it_holds`; `forebay-io` `gone`")), [5]);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        assert_eq!(lines_found(&table("")), [5]);
        assert_eq!(lines_found(&table("soon")), [5]);
    }

    #[test]
    fn other_tables_are_left_alone() {
        assert_eq!(lines_found("| term | meaning |\n|---|---|\n| flow | packets |\n"), []);
    }
}
