//! Our compiler: each back end at each instruction-set level, and with other choices
//! than the usual ones.

use forebay_codegen::code::{Backend, Isa, Scheduling};
use forebay_filter::ir::Function;
use forebay_filter::lists::{Form, compile_form, of_program};
use forebay_filter::{CompileError, Program, compile_whole};
use forebay_jit::{Filter, Options, cpu};
use forebay_packet::LinkType;

use super::packets::{Engine, Packets};

/// Load latencies that a sweep tries, in cycles.
const LATENCIES: [u8; 8] = [1, 2, 3, 4, 7, 10, 14, 20];

/// Prefetch distances that a sweep tries, in packets.
const DISTANCES: [u16; 6] = [0, 8, 16, 48, 64, 96];

/// The link type of all traffic.
const LINK: LinkType = LinkType::ETHERNET;

/// One way to compile a filter.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in the rows.
    pub name: String,
    backend: Backend,
    /// The best that the machine has where nothing is given.
    isa: Option<Isa>,
    scheduling: Option<Scheduling>,
    load_latency: Option<u8>,
    prefetch: Option<u16>,
}

impl Variant {
    fn new(name: impl Into<String>, backend: Backend, isa: Option<Isa>) -> Self {
        let (scheduling, load_latency, prefetch) = (None, None, None);
        Self { name: name.into(), backend, isa, scheduling, load_latency, prefetch }
    }

    /// What users can choose from, and the kernel of `pe` less scheduled than it is.
    pub fn usual() -> Vec<Self> {
        let widest = cpu::detect().max(Isa::Avx512Bw);
        let pe = |name, isa| Self::new(name, Backend::Pe, Some(isa));
        vec![
            Self::new("list", Backend::List, None),
            pe("pe-avx512", widest),
            pe("pe-avx512bw", Isa::Avx512Bw),
            pe("pe-avx2", Isa::Avx2),
            pe("pe-scalar", Isa::Scalar),
            Self {
                scheduling: Some(Scheduling::None),
                ..Self::new("pe-unscheduled", Backend::Pe, None)
            },
            Self {
                scheduling: Some(Scheduling::List),
                ..Self::new("pe-list-scheduled", Backend::Pe, None)
            },
            Self::new("ems", Backend::Ems, None),
            Self::new("auto", Backend::Auto, None),
        ]
    }

    /// What `list`, `pe` and `ems` do with other load latencies and prefetch distances
    /// than the usual ones.
    pub fn swept() -> Vec<Self> {
        let mut all = Vec::new();
        let kinds = [("list", Backend::List), ("pe", Backend::Pe), ("ems", Backend::Ems)];
        for (name, backend) in kinds {
            all.push(Self::new(name, backend, None));
            all.extend(LATENCIES.map(|latency| Self {
                load_latency: Some(latency),
                ..Self::new(format!("{name}-latency-{latency}"), backend, None)
            }));
            all.extend(DISTANCES.map(|distance| Self {
                prefetch: Some(distance),
                ..Self::new(format!("{name}-prefetch-{distance}"), backend, None)
            }));
        }
        all
    }

    fn options(&self) -> Result<Options, String> {
        let mut options =
            Options::new(self.backend, self.isa).map_err(|error| error.to_string())?;
        let codegen = &mut options.codegen;
        codegen.scheduling = self.scheduling.unwrap_or(codegen.scheduling);
        codegen.load_latency = self.load_latency.unwrap_or(codegen.load_latency);
        codegen.prefetch = self.prefetch.unwrap_or(codegen.prefetch);
        options.perf_map = false;
        Ok(options)
    }
}

/// A filter that is measured.
#[derive(Debug)]
pub struct Subject {
    /// What it selects.
    pub expression: String,
    /// What libpcap makes of it.
    pub program: Program,
    /// What our front end makes of it.
    pub function: Function,
    /// Whether our front end takes it apart, and does not ask libpcap for the whole.
    pub is_long: bool,
}

impl Subject {
    /// The filter of an expression.
    pub fn new(expression: &str) -> Result<Self, CompileError> {
        let form = compile_form(expression, LINK)?;
        let is_long = matches!(form, Form::Function(_));
        let (program, function) = match form {
            Form::Function(function) => (compile_whole(expression, LINK)?, function),
            Form::Program(program) => {
                let function = of_program(&program);
                (program, function)
            }
        };
        Ok(Self { expression: expression.to_owned(), program, function, is_long })
    }
}

/// A filter as our compiler makes it.
#[derive(Debug)]
pub struct Compiled(Filter);

impl Compiled {
    /// Compiles libpcap's program, or a long expression as users' are: without libpcap's.
    pub fn new(variant: &Variant, subject: &Subject) -> Result<Self, String> {
        let options = variant.options()?;
        let made = if subject.is_long {
            Filter::of_expression(&subject.expression, LINK, &options)
                .map_err(|error| error.to_string())
        } else {
            Filter::compile(&subject.program, &options).map_err(|error| error.to_string())
        };
        made.map(Self)
    }

    /// The back end that the code came from.
    pub fn backend(&self) -> &'static str {
        self.0.backend().name()
    }
}

impl Engine for Compiled {
    fn run(&mut self, packets: &Packets<'_>, verdict: &mut [u32]) {
        self.0.run_batch(packets.described(), verdict);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn variants_have_names_of_their_own() {
        for all in [Variant::usual(), Variant::swept()] {
            let names: HashSet<_> = all.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names.len(), all.len());
        }
    }
}
