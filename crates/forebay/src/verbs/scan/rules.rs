//! The rules of `--rules`: their files, and the matches of their literals as matches of rules.

use std::io::Write as _;
use std::path::Path;

use forebay_io::text::{self, Source};
use forebay_packet::decode::Decoded;
use forebay_packet::{Batch, Decoder};
use forebay_scan::Match;
use forebay_scan::rules::{Endpoint, Owner, RuleError, RuleLiterals, RuleSet, Variables};

use super::tally::{Kind, Subjects};
use crate::cli::ScanArgs;
use crate::failure::Failure;
use crate::input::file_name;
use crate::show::text::visible;

/// Rules, their literals and their errors.
pub(super) struct Rules {
    pub(super) set: RuleSet,
    pub(super) literals: RuleLiterals,
    pub(super) errors: Vec<RuleError>,
}

impl Rules {
    /// Reads the files, and reports each error on standard error.
    ///
    /// # Errors
    /// If a file cannot be read, or there are too many literals.
    pub(super) fn read(args: &ScanArgs) -> Result<Self, Failure> {
        let mut variables = Variables::new();
        for (name, value) in &args.variables {
            variables.set(name, value);
        }
        let mut set = RuleSet::with_variables(variables);
        let mut errors = Vec::new();
        for path in &args.rules {
            read_file(path, &mut set, &mut errors)?;
        }
        let mut standard_error = std::io::stderr().lock();
        for error in &errors {
            // A failure to write to standard error cannot be reported.
            let _ = writeln!(standard_error, "{}", visible(&error.to_string()));
        }
        let file = args.rules.first().map_or_else(String::new, |path| file_name(path));
        let literals = set.literals().map_err(|source| Failure::Literals { file, source })?;
        Ok(Self { set, literals, errors })
    }

    /// The rules whose literals were found in a packet that may meet their header, each once, as
    /// matches of rules in place of literals.
    pub(super) fn of_packet(
        &self,
        decoder: &Decoder,
        batch: &Batch,
        i: usize,
        found: &[Match],
    ) -> Vec<Match> {
        if found.is_empty() {
            return Vec::new();
        }
        // Of what is in tunnels, sensors inspect the packets around it, too.
        let link = batch.interface(i).link;
        let packets: Vec<Decoded> =
            decoder.by_depth().map(|decoder| decoder.decode(link, batch.packet(i))).collect();
        let admits = |rule: u32| {
            packets.iter().any(|packet| {
                ends(packet).is_none_or(|(a, b)| {
                    self.set.rules()[rule as usize].admits_flow(packet.key.protocol, a, b)
                })
            })
        };
        let mut rules: Vec<Match> = found
            .iter()
            .flat_map(|hit| self.literals.owners(hit.literal))
            .filter_map(|owner| match *owner {
                Owner::Rule(rule) if admits(rule) => Some(Match { text: 0, literal: rule }),
                _ => None,
            })
            .collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

fn read_file(path: &Path, set: &mut RuleSet, errors: &mut Vec<RuleError>) -> Result<(), Failure> {
    let file = file_name(path);
    match text::read_bytes(path, Source::Any, "a file of rules", text::MOST_RULES) {
        Ok(bytes) => {
            set.parse(&file, &bytes, errors);
            Ok(())
        }
        Err(source) => Err(Failure::Text { file, source }),
    }
}

/// Source and destination of a packet, if it is IP.
pub(super) fn ends(packet: &Decoded) -> Option<(Endpoint, Endpoint)> {
    packet.key.ip_ends(packet.reversed).map(|[source, destination]| (source, destination))
}

impl Subjects for RuleSet {
    fn kind(&self) -> Kind {
        Kind { one: "sid", many: "sids", heading: "sid", text: "rule", all: "rules" }
    }

    fn len(&self) -> usize {
        self.rules().len()
    }

    fn number(&self, index: usize) -> usize {
        self.rules()[index].sid as usize
    }

    fn text(&self, index: usize) -> String {
        self.rules()[index].message.clone()
    }
}
