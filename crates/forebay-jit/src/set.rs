//! One filter for packets of several interfaces.
//!
//! An expression gives different programs for different link types, so a
//! capture with several interfaces needs one filter for each type. A
//! [`FilterSet`] compiles them when a type first occurs. Its clones share the
//! code compiled so far.
//!
//! Consecutive packets of a batch with the same link type go through their
//! filter together. If the capture has one link type, which the list of
//! interfaces shows, that is the whole batch.

use forebay_filter::Program;
use forebay_packet::{Batch, Interface, LinkType};

use crate::call::Tally;
use crate::error::SetError;
use crate::filter::Filter;
use crate::options::Options;
use crate::packets::Packets;

/// A filter for packets of any interface.
#[derive(Clone, Debug)]
pub struct FilterSet {
    source: Source,
    options: Options,
    /// One entry for each link type; captures have few.
    filters: Vec<(LinkType, Filter)>,
    tally: Tally,
}

#[derive(Clone, Debug)]
enum Source {
    Expression(String),
    Program(Program),
}

/// Why an interface has no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter for {}: {error}", self.place())]
pub struct FilterError {
    /// Number of the interface in its capture, from 0.
    pub interface: usize,
    /// Its name, where the capture gives one.
    pub name: Option<String>,
    /// Its link type.
    pub link: LinkType,
    /// The reason.
    pub error: SetError,
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
    /// A filter for a pcap expression. Nothing is compiled yet.
    #[must_use]
    pub fn new(expression: impl Into<String>, options: Options) -> Self {
        Self::of(Source::Expression(expression.into()), options)
    }

    /// A filter that runs `program` on packets of every link type. Nothing is
    /// compiled yet.
    #[must_use]
    pub fn of_program(program: Program, options: Options) -> Self {
        Self::of(Source::Program(program), options)
    }

    fn of(source: Source, options: Options) -> Self {
        Self { source, options, filters: Vec::new(), tally: Tally::default() }
    }

    /// The filter for packets of link type `link`.
    ///
    /// # Errors
    /// If it cannot be compiled for this link type.
    pub fn filter_for(&mut self, link: LinkType) -> Result<&Filter, SetError> {
        let index = match self.filters.iter().position(|(known, _)| *known == link) {
            Some(index) => index,
            None => {
                let filter = match self.compile(link) {
                    // An expression that accepts no packet is a valid filter,
                    // though libpcap reports an error.
                    Err(SetError::Expression(error)) if error.rejects_all() => {
                        Filter::compile(&Program::of_nothing(), &self.options)?
                    }
                    filter => filter?,
                };
                self.filters.push((link, filter));
                self.filters.len() - 1
            }
        };
        Ok(&self.filters[index].1)
    }

    fn compile(&self, link: LinkType) -> Result<Filter, SetError> {
        let expression = match (&self.source, self.filters.first()) {
            // A given program is the same for every link type.
            (Source::Program(_), Some((_, filter))) => return Ok(filter.clone()),
            (Source::Program(program), None) => {
                return Ok(Filter::compile(program, &self.options)?);
            }
            (Source::Expression(expression), _) => expression,
        };
        let options = Options { name: format!("{expression} on {link}"), ..self.options.clone() };
        Filter::of_expression(expression, link, &options)
    }

    /// Compiles the filter for interface number `index`, from which packets are
    /// to be selected, with code for batches: see [`Filter::finish`]. To be called
    /// before the first packet.
    ///
    /// # Errors
    /// As [`FilterSet::filter_of`] and [`Filter::finish`], and if the expression
    /// accepts no packet of the interface.
    pub fn require(&mut self, index: usize, interface: &Interface) -> Result<(), FilterError> {
        let link = interface.link;
        if !self.filters.iter().any(|(known, _)| *known == link) {
            let filter = self.compile(link).map_err(|error| wrong(index, interface, error))?;
            self.filters.push((link, filter));
        }
        let finished = self.filter_of(index, interface)?.finish();
        finished.map_err(|error| wrong(index, interface, error.into()))
    }

    /// Compiles the filter for all of `interfaces`. Returns an error for each
    /// interface for which the expression is invalid; it matters only if
    /// packets of that interface occur.
    ///
    /// # Errors
    /// If the expression is invalid for all of them, and for Ethernet: the
    /// error of the first. Any other failure.
    pub fn prepare(&mut self, interfaces: &[Interface]) -> Result<Vec<FilterError>, FilterError> {
        let mut wrong = Vec::new();
        for (index, interface) in interfaces.iter().enumerate() {
            match self.filter_of(index, interface).map(drop) {
                Ok(()) => {}
                Err(error) if matches!(error.error, SetError::Expression(_)) => wrong.push(error),
                Err(error) => return Err(error),
            }
        }
        let is_wrong = !wrong.is_empty()
            && wrong.len() == interfaces.len()
            && self.filter_for(LinkType::ETHERNET).is_err();
        if is_wrong { Err(wrong.swap_remove(0)) } else { Ok(wrong) }
    }

    /// The filter for packets of interface number `index`.
    ///
    /// # Errors
    /// As [`FilterSet::filter_for`], with the interface.
    pub fn filter_of(
        &mut self,
        index: usize,
        interface: &Interface,
    ) -> Result<&Filter, FilterError> {
        self.filter_for(interface.link).map_err(|error| wrong(index, interface, error))
    }

    /// Runs each live packet of `batch` through the filter of its interface and
    /// writes the result to `batch.verdict`, 0 for packets that were dropped.
    /// Drops none.
    ///
    /// # Errors
    /// If the link type of a live packet's interface has no filter; the
    /// verdicts are then invalid.
    pub fn run_batch(&mut self, batch: &mut Batch) -> Result<(), FilterError> {
        let mut verdict = std::mem::take(&mut batch.verdict);
        verdict.clear();
        verdict.resize(batch.len(), 0);
        let outcome = self.judge(batch, &mut verdict);
        batch.verdict = verdict;
        outcome
    }

    fn judge(&mut self, batch: &Batch, verdict: &mut [u32]) -> Result<(), FilterError> {
        let packets = Packets::of_batch(batch);
        let live = batch.live();
        let one_link = batch
            .interfaces()
            .windows(2)
            .all(|neighbours| neighbours[0].link == neighbours[1].link);
        let mut rest = live.iter();
        let mut first = rest.next();
        while let Some(start) = first {
            let id = batch.interface_id(start);
            let link = batch.interface(start).link;
            // Dropped packets in between are included: they do not end a run of
            // packets.
            first = if one_link { None } else { rest.find(|&i| batch.interface(i).link != link) };
            let run = start..first.unwrap_or(packets.len());
            let filter = self.filter_of(usize::from(id), batch.interface(start))?;
            let tally = filter.run_batch(&packets.slice(run.clone()), &mut verdict[run]);
            self.tally += tally;
        }
        if live.count() < batch.len() {
            for (i, verdict) in verdict.iter_mut().enumerate() {
                if !live.contains(i) {
                    *verdict = 0;
                }
            }
        }
        Ok(())
    }

    /// The number of packets by path, over all batches, possibly including
    /// packets that were dropped before.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }
}

fn wrong(index: usize, interface: &Interface, error: SetError) -> FilterError {
    FilterError { interface: index, name: interface.name.clone(), link: interface.link, error }
}
