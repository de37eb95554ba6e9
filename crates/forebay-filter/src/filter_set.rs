//! One filter over packets of several interfaces.
//!
//! The same expression means different programs on different link types, so a
//! capture with several interfaces needs one program for each type. A
//! [`FilterSet`] compiles them as the types come up. Its clones share the
//! programs compiled so far.

use forebay_packet::{Batch, Interface, LinkType};

use crate::compile::{CompileError, compile};
use crate::program::Program;

/// A filter for packets of any interface.
#[derive(Clone, Debug)]
pub struct FilterSet {
    source: Source,
    /// One entry a link type; captures have few.
    programs: Vec<(LinkType, Program)>,
}

#[derive(Clone, Debug)]
enum Source {
    Expression(String),
    Program(Program),
}

/// An expression that does not compile for an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter for {}: {error}", self.place())]
pub struct FilterError {
    /// Number of the interface in its capture, from 0.
    pub interface: usize,
    /// Its name, where the capture gives one.
    pub name: Option<String>,
    /// Its link type.
    pub link: LinkType,
    /// What is wrong.
    pub error: CompileError,
}

impl FilterError {
    fn place(&self) -> String {
        let Self { interface, name, link, .. } = self;
        match name {
            Some(name) => format!("interface {interface} ({name}, {link})"),
            None => format!("interface {interface} ({link})"),
        }
    }
}

impl FilterSet {
    /// The filter of a pcap expression. Nothing is compiled yet.
    #[must_use]
    pub fn new(expression: impl Into<String>) -> Self {
        Self { source: Source::Expression(expression.into()), programs: Vec::new() }
    }

    /// The filter that runs `program` on packets of every link type.
    #[must_use]
    pub fn of_program(program: Program) -> Self {
        Self { source: Source::Program(program), programs: Vec::new() }
    }

    /// The program for packets of link type `link`.
    ///
    /// # Errors
    /// What keeps the expression from being compiled for this link type.
    pub fn program_for(&mut self, link: LinkType) -> Result<&Program, CompileError> {
        let expression = match &self.source {
            Source::Program(program) => return Ok(program),
            Source::Expression(expression) => expression,
        };
        let index = match self.programs.iter().position(|(known, _)| *known == link) {
            Some(index) => index,
            None => {
                self.programs.push((link, compile(expression, link)?));
                self.programs.len() - 1
            }
        };
        Ok(&self.programs[index].1)
    }

    /// Compiles for all of `interfaces`, so that a filter that fails for one
    /// of them fails before the first packet.
    ///
    /// # Errors
    /// The first interface whose link type has no program.
    pub fn prepare(&mut self, interfaces: &[Interface]) -> Result<(), FilterError> {
        for (index, interface) in interfaces.iter().enumerate() {
            self.program_of(index, interface)?;
        }
        Ok(())
    }

    /// The program for packets of interface number `index`.
    ///
    /// # Errors
    /// As [`FilterSet::program_for`], naming the interface.
    pub fn program_of(
        &mut self,
        index: usize,
        interface: &Interface,
    ) -> Result<&Program, FilterError> {
        let link = interface.link;
        self.program_for(link).map_err(|error| FilterError {
            interface: index,
            name: interface.name.clone(),
            link,
            error,
        })
    }

    /// Runs each live packet of `batch` through the program of its interface
    /// and notes what it returns in `batch.verdict`, with 0 for packets no
    /// longer alive. Drops none.
    ///
    /// # Errors
    /// An interface of a live packet whose link type has no program; the
    /// verdicts are then of no meaning.
    pub fn run_batch(&mut self, batch: &mut Batch) -> Result<(), FilterError> {
        let mut verdict = std::mem::take(&mut batch.verdict);
        verdict.clear();
        verdict.resize(batch.len(), 0);
        // Looked up again only where the interface changes; clones are cheap.
        let mut current: Option<(u16, Program)> = None;
        for i in batch.live().iter() {
            let id = batch.interface_id(i);
            let program = match current.take() {
                Some(known) if known.0 == id => current.insert(known),
                _ => {
                    let program = self.program_of(usize::from(id), batch.interface(i))?;
                    current.insert((id, program.clone()))
                }
            };
            verdict[i] = program.1.run(batch.packet(i), batch.wire_len(i));
        }
        batch.verdict = verdict;
        Ok(())
    }
}
