//! A file of rules, named by the options.

use std::io::{self, Write as _};
use std::path::Path;

use forebay_io::text::{self, Source};
use forebay_pipeline::stages::CompiledRules;
use forebay_rules::choose::{Chosen, EngineName};
use forebay_rules::language::Imported;
use forebay_rules::language::load::{LoadError, load, load_all};

use crate::cli::{Cli, ListChoice};
use crate::failure::Failure;
use crate::input::file_name;

/// A file of rules, in any language.
pub(super) struct RuleFile<'a> {
    /// Its name in messages.
    pub(super) name: String,
    path: &'a Path,
    choice: &'a ListChoice,
}

impl<'a> RuleFile<'a> {
    pub(super) fn new(path: &'a Path, choice: &'a ListChoice) -> Self {
        Self { name: file_name(path), path, choice }
    }

    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        text::read_bytes(self.path, Source::Any, "a file of rules", text::MOST_RULES)
            .map_err(|source| Failure::Text { file: self.name.clone(), source })
    }

    /// The list selected by the options.
    pub(super) fn list(&self, cli: &Cli) -> Result<Imported, Failure> {
        let list = load(&self.bytes()?, &self.choice.selection(), &ListChoice::NAMES);
        let list = list.map_err(|error| self.refusal(error))?;
        self.warn(cli, &list);
        Ok(list)
    }

    /// The lists selected by the options, or all.
    pub(super) fn lists(&self, cli: &Cli) -> Result<Vec<Imported>, Failure> {
        let lists = load_all(&self.bytes()?, &self.choice.selection(), &ListChoice::NAMES);
        let lists = lists.map_err(|error| self.refusal(error))?;
        lists.iter().for_each(|list| self.warn(cli, list));
        Ok(lists)
    }

    fn warn(&self, cli: &Cli, list: &Imported) {
        if !cli.quiet {
            for warning in list.warnings(&self.name, self.choice.unsupported) {
                // A failure to write to standard error cannot be reported.
                let _ = writeln!(io::stderr(), "warning: {warning}");
            }
        }
    }

    fn refusal(&self, error: LoadError) -> Failure {
        Failure::Rules(error.in_file(&self.name))
    }

    /// The compiled form of a list of the file.
    pub(super) fn choose(
        &self,
        cli: &Cli,
        list: &Imported,
        engine: EngineName,
    ) -> Result<Chosen, Failure> {
        let isa = forebay_jit::cpu::choose(cli.isa.map(Into::into))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        list.choose(engine, isa).map_err(|error| self.refusal(error))
    }

    /// The compiled list selected by the options, and its name.
    pub(super) fn compiled_rules(
        &self,
        cli: &Cli,
        engine: EngineName,
    ) -> Result<(Option<String>, CompiledRules), Failure> {
        let list = self.list(cli)?;
        let chosen = self.choose(cli, &list, engine)?;
        if cli.verbose > 0 && !cli.quiet {
            // A failure to write to standard error cannot be reported.
            let _ = writeln!(io::stderr(), "{}: {chosen}", self.name);
        }
        let name = list.list.given_name().map(str::to_owned);
        Ok((name, CompiledRules::new(list.list.list.into(), chosen.engine)))
    }
}
