//! `forebay rules`: ordered rule lists, checked, matched, explained, imported.

mod check;
mod explain;
mod file;
mod import;
mod naming;
mod packets;
mod tally;

use std::path::Path;

use forebay_pipeline::stages::CompiledRules;
use forebay_rules::choose::EngineName;

use crate::cli::{Cli, ListChoice, RulesArgs, RulesVerb};
use crate::failure::Failure;
use file::RuleFile;

pub fn run(cli: &Cli, args: &RulesArgs) -> Result<(), Failure> {
    match &args.verb {
        RulesVerb::Check(args) => check::run(cli, args),
        RulesVerb::Match(args) => packets::run(cli, args),
        RulesVerb::Explain(args) => explain::run(cli, args),
        RulesVerb::Import(args) => import::run(cli, args),
    }
}

/// The compiled list for `split`.
pub fn compiled_rules_of(
    cli: &Cli,
    path: &Path,
    choice: &ListChoice,
) -> Result<CompiledRules, Failure> {
    Ok(RuleFile::new(path, choice).compiled_rules(cli, EngineName::Auto)?.1)
}
