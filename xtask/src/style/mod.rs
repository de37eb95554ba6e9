//! House rules on source text that neither rustfmt nor clippy checks.
//!
//! A rule is here if a reviewer would otherwise have to catch violations by eye: an
//! `unsafe` block outside the few audited files, a crate that begins to use one below or
//! beside it that it must not, a file that is too long. Each finding has its position and
//! what to do instead.
//!
//! The tables of the rules are in [`policy`]; the checks are:
//!
//! | rule | checks |
//! |---|---|
//! | `parse` | every Rust file parses |
//! | `module-docs` | every Rust file opens with `//!` |
//! | `file-length`, `function-length` | limits of [`policy::FILE_LINES`] and [`policy::FUNCTION_LINES`] |
//! | `unsafe-place`, `unsafe-reason`, `unsafe-lint` | `unsafe` only in listed files, each with its SAFETY comment, and crates that refuse the rest |
//! | `banned` | no unfinished code, debugging aids, stray printing or unexplained `unwrap` |
//! | `work-mark` | no marks of unfinished work in comments |
//! | `allow-reason`, `ignored-test` | lints are silenced with a reason, tests never |
//! | `layers`, `confined` | crates depend only on those they may use |
//! | `promise` | each promise in SPECIFICATION.md names a test that exists |
//! | `machine-path` | no path of one machine in any text file |
//!
//! Rust is parsed by `proc-macro2` and `syn`, not matched by patterns: strings and comments
//! that mention a banned name are not findings, and code inside a macro call is still
//! checked, because the rules on names work on tokens.

mod finding;
mod layers;
pub mod policy;
mod promises;
mod rules;
mod source;
mod tree;
mod unsafety;

use std::collections::BTreeSet;
use std::path::Path;

pub use finding::{Error, Finding};
use source::SourceFile;

/// Checks every file of the workspace at `root`; findings are sorted by position.
///
/// # Errors
/// [`Error`] if a file cannot be read, or there is nothing to check.
pub fn check(root: &Path) -> Result<Vec<Finding>, Error> {
    let texts = tree::read(root)?;
    let mut findings = Vec::new();
    let mut sources = Vec::new();
    for (path, text) in &texts {
        tree::check_paths(path, text, &mut findings);
        if path.ends_with(".rs") {
            match SourceFile::parse(path, text) {
                Ok(source) => sources.push(source),
                Err(finding) => findings.push(finding),
            }
        } else if path.ends_with("Cargo.toml") {
            layers::check(path, text, &mut findings);
        }
    }
    if sources.is_empty() {
        return Err(Error::Nothing(root.to_path_buf()));
    }
    let test_files: BTreeSet<String> =
        sources.iter().flat_map(SourceFile::test_module_files).collect();
    for source in &mut sources {
        source.note_test_files(&test_files);
        check_source(source, &mut findings);
    }
    if let Some((path, text)) = texts.iter().find(|(path, _)| path == promises::FILE) {
        promises::check(path, text, &sources, &mut findings);
    }
    findings.sort();
    findings.dedup();
    Ok(findings)
}

fn check_source(source: &SourceFile, findings: &mut Vec<Finding>) {
    rules::check(source, findings);
    unsafety::check(source, findings);
}

/// The findings of the per-file rules on one snippet, for the rules' own tests.
#[cfg(test)]
fn check_snippet(path: &str, text: &str) -> Vec<(&'static str, usize)> {
    let mut findings = Vec::new();
    match SourceFile::parse(path, text) {
        Ok(source) => check_source(&source, &mut findings),
        Err(finding) => findings.push(finding),
    }
    findings.sort_by_key(|finding| finding.line);
    findings.into_iter().map(|finding| (finding.rule, finding.line)).collect()
}
