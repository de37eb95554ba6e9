//! A filter, compiled or interpreted.

use std::borrow::Cow;
use std::sync::Arc;

use forebay_codegen::code::{Backend, Code, Isa};
use forebay_filter::Program;
use forebay_filter::ir::Function;
use forebay_filter::lists::{CompiledExpression, compile_expression};
use forebay_packet::{Batch, LinkType};

use crate::call::{Kernel, Tally};
use crate::error::{JitError, SetError};
use crate::loops::Loops;
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
    Compiled {
        kernel: Kernel,
        backend: Backend,
        isa: Isa,
        /// None if `kernel` is all the code there is to be.
        loops: Option<Box<Loops>>,
    },
}

impl Filter {
    /// Compiles a program. With back end `auto`, code for batches is left to
    /// the first large call, or to [`Filter::finish`].
    ///
    /// # Errors
    /// If this machine lacks the level, there is no executable memory, or the
    /// `perf` map cannot be written; or as [`Verified::of_program`]. With `auto`,
    /// [`Filter::finish`] returns the errors of code for batches.
    pub fn compile(program: &Program, options: &Options) -> Result<Self, JitError> {
        if options.codegen.backend == Backend::Interp {
            return Ok(Self(Arc::new(FilterCode::Program(program.clone()))));
        }
        Self::of_verified(Cow::Owned(Verified::of_program(program)?), options)
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
            _ => {
                let function = Verified::of_expression(expression, link)?;
                Self::of_verified(Cow::Owned(function), options)?
            }
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
        Self::of_verified(Cow::Borrowed(function), options)
    }

    fn of_verified(function: Cow<'_, Verified>, options: &Options) -> Result<Self, JitError> {
        let isa = options.codegen.isa;
        let mut first = options.clone();
        let is_auto = first.codegen.backend == Backend::Auto;
        if is_auto {
            first.codegen.backend = Backend::List;
            // Code for a few packets.
            first.codegen.prefetch = 0;
        }
        let Compiled { kernel, backend, mapped } = compile(&function, &first)?;
        mapped?;
        let loops = is_auto.then(|| Box::new(Loops::new(function.into_owned(), options.clone())));
        Ok(Self(Arc::new(FilterCode::Compiled { kernel, backend, isa, loops })))
    }

    /// A filter that runs `kernel`.
    #[must_use]
    pub fn of_kernel(kernel: Kernel, backend: Backend, isa: Isa) -> Self {
        Self(Arc::new(FilterCode::Compiled { kernel, backend, isa, loops: None }))
    }

    /// Compiles what [`Filter::compile`] left to the first call that needs it,
    /// for callers that are not to be delayed then. Does nothing the second
    /// time.
    ///
    /// # Errors
    /// If that fails, or failed before. The filter can be used all the same, but
    /// is slower for batches, or has no entry for their code in the `perf` map.
    pub fn finish(&self) -> Result<(), JitError> {
        self.loops().map_or(Ok(()), Loops::finish)
    }

    fn loops(&self) -> Option<&Loops> {
        match &*self.0 {
            FilterCode::Compiled { loops, .. } => loops.as_deref(),
            FilterCode::Program(_) | FilterCode::Function(_) => None,
        }
    }

    /// The back end in use for batches: the requested one, or the one that
    /// `auto` or a fall-back chose; `list` until `auto` has compiled its code.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match &*self.0 {
            FilterCode::Program(_) | FilterCode::Function(_) => Backend::Interp,
            FilterCode::Compiled { backend, loops, .. } => {
                loops.as_deref().and_then(Loops::backend).unwrap_or(*backend)
            }
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

    /// The code in use for batches, with its constants; empty if the filter is
    /// interpreted.
    #[must_use]
    pub fn code(&self) -> &[u8] {
        match &*self.0 {
            FilterCode::Program(_) | FilterCode::Function(_) => &[],
            FilterCode::Compiled { kernel, loops, .. } => {
                loops.as_deref().and_then(Loops::compiled).unwrap_or(kernel).memory().bytes()
            }
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
    #[inline]
    pub fn run_batch(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        match &*self.0 {
            FilterCode::Compiled { kernel, loops: None, .. } => kernel.run(packets, verdict),
            // Inlined, as a call takes about as long as a filter of one packet.
            FilterCode::Compiled { kernel, loops: Some(loops), .. } => {
                if packets.len() < loops.least() {
                    kernel.list(packets, verdict)
                } else {
                    loops.kernel().unwrap_or(kernel).run(packets, verdict)
                }
            }
            FilterCode::Program(_) | FilterCode::Function(_) => self.interpret(packets, verdict),
        }
    }

    /// Not inlined, so that compiled code does not have its stack frame.
    #[inline(never)]
    fn interpret(&self, packets: &Packets<'_>, verdict: &mut [u32]) -> Tally {
        assert_eq!(packets.len(), verdict.len(), "a verdict for each packet");
        for (i, verdict) in verdict.iter_mut().enumerate() {
            *verdict = self.run(packets.packet(i), packets.wire_len(i));
        }
        Tally { list: packets.len() as u64, ..Tally::default() }
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

/// Code, and the back end that made it.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) kernel: Kernel,
    pub(crate) backend: Backend,
    /// Whether the map for `perf` has its entries, if there is to be one.
    pub(crate) mapped: Result<(), JitError>,
}

/// Compiles a function, with an entry for each part of it in the map for
/// `perf` if there is to be one.
pub(crate) fn compile(function: &Verified, options: &Options) -> Result<Compiled, JitError> {
    let (kernel, code) = Kernel::compile(function, &options.codegen)?;
    let mut mapped = Ok(());
    if options.perf_map {
        let path = perf_map::path();
        mapped = perf_map::append(&path, &symbols(&kernel, &code, &options.name))
            .map_err(|error| JitError::PerfMap { path, error });
    }
    Ok(Compiled { kernel, backend: code.backend, mapped })
}

/// The symbols of the code: each from its entry to the next one, or to the
/// constants.
fn symbols(kernel: &Kernel, code: &Code, name: &str) -> Vec<Symbol> {
    let start = kernel.memory().bytes().as_ptr() as usize;
    let mut entries = vec![(code.each, Backend::List)];
    let batch = code.batch.iter().flat_map(|batch| [Some(batch.entry), batch.resident]);
    entries.extend(batch.flatten().map(|entry| (entry, code.backend)));
    entries.sort_unstable_by_key(|&(entry, _)| entry);
    let ends = entries.iter().skip(1).map(|&(entry, _)| entry).chain([code.constants_at]);
    let symbol = |(&(entry, backend), end): (&(usize, Backend), usize)| Symbol {
        addresses: start + entry..start + end,
        name: format!("forebay {backend}: {name}"),
    };
    entries.iter().zip(ends).map(symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_where_packets_are_decides_which_code_there_is() {
        let function =
            Verified::of_expression("not (tcp port 22 or udp port 53 or icmp)", LinkType::ETHERNET);
        let function = function.unwrap();
        let unknown = Options::new(Backend::Auto, None).unwrap();
        let options = [unknown.clone(), unknown.clone().for_rings(), unknown.clone().for_cached()];
        let [unknown, rings, cached] = options.map(|options| {
            let (kernel, code) = Kernel::compile(&function, &options.codegen).unwrap();
            // An entry for `list` and one for each form, one behind the other.
            let symbols = symbols(&kernel, &code, "it");
            let ends = symbols.windows(2).all(|two| two[0].addresses.end == two[1].addresses.start);
            assert!(ends);
            (symbols.len(), code.constants_at)
        });
        assert_eq!([unknown.0, rings.0, cached.0], [3, 2, 2]);
        assert!(unknown.1 > rings.1 && rings.1 > cached.1, "{unknown:?} {rings:?} {cached:?}");
    }

    #[test]
    fn a_filter_whose_loops_cannot_be_compiled_stays_with_its_list_and_says_why() {
        let options = |backend| Options::new(backend, None).unwrap();
        let function = Verified::of_expression("ip", LinkType::ETHERNET).unwrap();
        let list = compile(&function, &options(Backend::List)).unwrap();
        let Compiled { kernel, backend, .. } = list;
        // The code generator refuses this back end.
        let loops = Some(Box::new(Loops::new(function, options(Backend::Interp))));
        let isa = options(Backend::List).codegen.isa;
        let filter = Filter(Arc::new(FilterCode::Compiled { kernel, backend, isa, loops }));

        let memory = [[0_u8; 12].as_slice(), &[8, 0], &[0; 50]].concat();
        let (offset, length) = ([0; 256], [64; 256]);
        let packets = Packets::new(&memory, &offset, &length, &length).unwrap();
        for _ in 0..2 {
            let mut verdict = [0; 256];
            let tally = filter.run_batch(&packets, &mut verdict);
            assert_eq!(tally, Tally { list: 256, ..Tally::default() });
            assert!(verdict.iter().all(|&verdict| verdict > 0));
            assert_eq!(filter.backend(), Backend::List);
            assert!(!filter.code().is_empty());
            assert!(matches!(filter.finish(), Err(JitError::Code(_))));
        }
    }
}
