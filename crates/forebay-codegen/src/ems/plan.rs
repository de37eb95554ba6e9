//! From a filter to its patterns: all decisions before code generation.

use std::borrow::Cow;

use forebay_filter::ir::Function;

use super::comparison::Test;
use super::error::EmsError;
use super::graph::Graph;
use super::patterns::{Pattern, patterns};
use super::registers::free_registers;
use super::schedule::{Schedule, Scheduler};
use super::specialise::specialise;
use super::value::{Costs, value_text};
use crate::code::Options;
use crate::list::select::Key;

/// The schedule and the code patterns of a filter.
#[derive(Clone, Debug)]
pub struct EmsPlan<'f> {
    /// The filter, without block parameters.
    pub(super) function: Cow<'f, Function>,
    pub(super) graph: Graph,
    pub(super) schedule: Schedule,
    pub(super) patterns: Vec<Pattern>,
    /// Registers shared by all packets.
    pub(super) temporaries: usize,
    /// Bytes of a packet that are read, even beyond its captured length; 0 for
    /// a filter that reads only lengths.
    pub(super) reach: u32,
    /// The first byte that is read.
    pub(super) first_byte: u32,
    pub(super) reads_wire_length: bool,
}

impl<'f> EmsPlan<'f> {
    /// Plans `function` with as many packets in flight as the limit on patterns
    /// allows.
    ///
    /// # Errors
    /// Why there is no plan.
    pub fn new(function: &'f Function, options: &Options) -> Result<Self, EmsError> {
        let function = specialise(function, options.ems_patterns)?;
        let graph = Graph::new(&function)?;
        if graph.nodes.len() > options.ems_patterns {
            return Err(EmsError::Patterns(options.ems_patterns));
        }
        let costs = Costs::new(&function, options.load_latency);
        let needs = Needs::of(&function, &graph, &costs)?;
        let free = free_registers(needs.reads_wire_length);
        let most = free.saturating_sub(needs.temporaries) / 2;
        if most < 2 {
            return Err(EmsError::Registers(needs.temporaries));
        }
        let scheduler = Scheduler::new(&graph, &costs, options.load_latency);
        let found = scheduler.candidates(most).find_map(|schedule| {
            let patterns = patterns(&graph, &schedule, options.ems_patterns)?;
            Some((schedule, patterns))
        });
        let (schedule, patterns) = found.ok_or(EmsError::Patterns(options.ems_patterns))?;
        drop(costs);
        Ok(Self {
            function,
            graph,
            schedule,
            patterns,
            temporaries: needs.temporaries,
            reach: needs.reach,
            first_byte: needs.first_byte.unwrap_or(0),
            reads_wire_length: needs.reads_wire_length,
        })
    }
}

/// Requirements of a filter's values.
#[derive(Default)]
struct Needs {
    temporaries: usize,
    reach: u32,
    first_byte: Option<u32>,
    reads_wire_length: bool,
}

impl Needs {
    fn of(function: &Function, graph: &Graph, costs: &Costs<'_>) -> Result<Self, EmsError> {
        // Every packet that enters prefetches another, which takes a temporary.
        let mut this = Self { temporaries: 1, ..Self::default() };
        for node in &graph.nodes {
            if let Some(content) = node.content {
                this.add(function, costs, content.key, 0)?;
            }
            match node.test {
                Test::Pair { right, .. } => this.add(function, costs, right, 1)?,
                Test::CapturedAt { bytes } => {
                    // `lea` adds a signed displacement.
                    let index = node.content.map(|content| content.key);
                    let most = index.and_then(|key| costs.of(key)).map_or(u32::MAX, |c| c.most);
                    if most.checked_add(bytes).is_none_or(|end| i32::try_from(end).is_err()) {
                        let text = index.map(|key| value_text(function, key));
                        return Err(EmsError::Value(text.unwrap_or_default()));
                    }
                }
                Test::Member { .. } => this.temporaries = this.temporaries.max(2),
                Test::Captured { .. } | Test::Number { .. } => {}
            }
        }
        for value in graph.computed_verdicts() {
            this.add(function, costs, Key::full(function, value), 0)?;
        }
        Ok(this)
    }

    /// Adds the requirements of `key` beyond `registers`.
    fn add(
        &mut self,
        function: &Function,
        costs: &Costs<'_>,
        key: Key,
        shared: usize,
    ) -> Result<(), EmsError> {
        let cost = costs.of(key).ok_or_else(|| EmsError::Value(value_text(function, key)))?;
        self.temporaries = self.temporaries.max(cost.registers - 1 + shared);
        self.reach = self.reach.max(cost.reach);
        self.first_byte = self.first_byte.into_iter().chain(cost.first_byte).min();
        self.reads_wire_length |= cost.reads_wire_length;
        Ok(())
    }
}
