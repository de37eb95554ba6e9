//! A filter, compiled or interpreted.

use std::sync::Arc;

use forebay_codegen::code::{Backend, Code, Isa};
use forebay_filter::Program;
use forebay_filter::ir::Function;
use forebay_filter::lists::{CompiledExpression, compile_expression};
use forebay_packet::{Batch, LinkType};

use crate::call::{Kernel, Tally};
use crate::error::{JitError, SetError};
use crate::options::Options;
use crate::packets::Packets;
use crate::perf_map::{self, Symbol};
use crate::verified::Verified;

/// A filter as machine code, or interpreted. Clones share the code; any number
/// of threads may run it at once.
#[derive(Clone, Debug)]
pub struct Filter(Arc<FilterCode>);

#[derive(Debug)]
enum FilterCode {
    Program(Program),
    Function(Function),
    Compiled { kernel: Kernel, backend: Backend, isa: Isa },
}

impl Filter {
    /// Compiles a program.
    ///
    /// # Errors
    /// If this machine lacks the level, there is no executable memory, or the
    /// `perf` map cannot be written; or as [`Verified::of_program`].
    pub fn compile(program: &Program, options: &Options) -> Result<Self, JitError> {
        if options.codegen.backend == Backend::Interp {
            return Ok(Self(Arc::new(FilterCode::Program(program.clone()))));
        }
        Self::of_function(&Verified::of_program(program)?, options)
    }

    /// Compiles an expression for packets of link type `link`.
    ///
    /// # Errors
    /// As [`Filter::compile`], or if the expression is refused.
    pub fn of_expression(
        expression: &str,
        link: LinkType,
        options: &Options,
    ) -> Result<Self, SetError> {
        Ok(match options.codegen.backend {
            // The function assembled for a long expression is shorter than its
            // program.
            Backend::Interp => Self(Arc::new(match compile_expression(expression, link)? {
                CompiledExpression::Function(function) => FilterCode::Function(function),
                CompiledExpression::Program(program) => FilterCode::Program(program),
            })),
            _ => Self::of_function(&Verified::of_expression(expression, link)?, options)?,
        })
    }

    /// Compiles a function of the intermediate representation.
    ///
    /// # Errors
    /// As [`Filter::compile`].
    pub fn of_function(function: &Verified, options: &Options) -> Result<Self, JitError> {
        if options.codegen.backend == Backend::Interp {
            return Ok(Self(Arc::new(FilterCode::Function(function.function().clone()))));
        }
        let (kernel, code) = Kernel::compile(function, &options.codegen)?;
        if options.perf_map {
            let path = perf_map::path();
            perf_map::append(&path, &symbols(&kernel, &code, &options.name))
                .map_err(|error| JitError::PerfMap { path, error })?;
        }
        Ok(Self::of_kernel(kernel, code.backend, options.codegen.isa))
    }

    /// A filter that runs `kernel`.
    #[must_use]
    pub fn of_kernel(kernel: Kernel, backend: Backend, isa: Isa) -> Self {
        Self(Arc::new(FilterCode::Compiled { kernel, backend, isa }))
    }

    /// The back end in use: the requested one, or the one that `auto` or a
    /// fall-back chose.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &*self.0 {
            FilterCode::Program(_) | FilterCode::Function(_) => Backend::Interp,
            FilterCode::Compiled { backend, .. } => *backend,
        }
    }

    /// The level of the code; `None` if the filter is interpreted.
    #[must_use]
    pub fn isa(&self) -> Option<Isa> {
        match &*self.0 {
            FilterCode::Program(_) | FilterCode::Function(_) => None,
            FilterCode::Compiled { isa, .. } => Some(*isa),
        }
    }

    /// The code with its constants; `None` if the filter is interpreted.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        match &*self.0 {
            FilterCode::Program(_) | FilterCode::Function(_) => &[],
            FilterCode::Compiled { kernel, .. } => kernel.memory().bytes(),
        }
    }

    /// The verdict on a packet with captured bytes `packet` and length
    /// `wire_len` on the wire: the number of bytes to keep, 0 to drop it.
    #[must_use]
    #[inline]
    pub fn run(&self, packet: &[u8], wire_len: u32) -> u32 {
        match &*self.0 {
            FilterCode::Compiled { kernel, .. } => kernel.one(packet, wire_len),
            FilterCode::Program(program) => program.run(packet, wire_len),
            FilterCode::Function(function) => function.run(packet, wire_len),
        }
    }

    /// Writes the verdicts on all of `packets`, any number of them.
    ///
    /// # Panics
    /// If the numbers of verdicts and packets differ.
    pub fn run_batch(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        assert_eq!(packets.len(), verdict.len(), "a verdict for each packet");
        match &*self.0 {
            FilterCode::Compiled { kernel, .. } => kernel.run(packets, verdict),
            FilterCode::Program(_) | FilterCode::Function(_) => {
                for (i, verdict) in verdict.iter_mut().enumerate() {
                    *verdict = self.run(packets.packet(i), packets.wire_len(i));
                }
                Tally { list: packets.len() as u64, ..Tally::default() }
            }
        }
    }

    /// Writes the verdict on each packet of `batch` to `batch.verdict`, also
    /// for packets that were dropped. Drops none.
    pub fn run_packets(&self, batch: &mut Batch) -> Tally {
        let mut verdict = std::mem::take(&mut batch.verdict);
        verdict.resize(batch.len(), 0);
        let tally = self.run_batch(&Packets::of_batch(batch), &mut verdict);
        batch.verdict = verdict;
        tally
    }
}

/// The symbols of the code: each from its entry to the next one, or to the
/// constants.
fn symbols(kernel: &Kernel, code: &Code, name: &str) -> Vec<Symbol> {
    let start = kernel.memory().bytes().as_ptr() as usize;
    let mut entries = vec![(code.each, Backend::List)];
    entries.extend(code.batch.map(|batch| (batch.entry, code.backend)));
    entries.sort_unstable_by_key(|&(entry, _)| entry);
    let ends = entries.iter().skip(1).map(|&(entry, _)| entry).chain([code.constants_at]);
    let symbol = |(&(entry, backend), end): (&(usize, Backend), usize)| Symbol {
        addresses: start + entry..start + end,
        name: format!("forebay {backend}: {name}"),
    };
    entries.iter().zip(ends).map(symbol).collect()
}
