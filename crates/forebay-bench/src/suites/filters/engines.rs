//! The engines: the floor, libpcap, other compilers of filters, the paper's two C programs,
//! and each of our back ends at each instruction-set level and with other choices than the
//! usual ones.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use forebay_codegen::c;
use forebay_codegen::code::{Backend, Isa, Options as Codegen, Scheduling};
use forebay_filter::ir::Function;
use forebay_filter::lists::{CompiledExpression, compile_expression, of_program};
use forebay_filter::{CompileError, Program, compile_whole};
use forebay_jit::cpu::{self, CpuError};
use forebay_jit::{Filter, Options, Packets};
use forebay_packet::LinkType;
use serde_json::{Map, json};

use super::packets::Engine;
use crate::failure::{Failure, Result};
use crate::peers::bpfjit::Bpfjit;
use crate::peers::c_code::CCode;
use crate::peers::libpcap::Libpcap;
use crate::peers::process::find;
use crate::peers::rte_bpf::RteBpf;
use crate::peers::touch::Touch;
use crate::rounds::{Contender, Role};
use crate::stats::Sample;

/// The engine whose answers are right.
pub const JUDGE: &str = "libpcap";

/// The engine that the summary is about.
pub const OURS: &str = "auto";

/// The level that is forced, if one is.
pub fn forced() -> Option<Isa> {
    cpu::wanted(None).ok().flatten()
}

/// The row of `pe` on the highest level that takes part.
pub fn widest_pe() -> &'static str {
    match forced() {
        Some(Isa::Scalar) => "pe-scalar",
        Some(Isa::Avx2) => "pe-avx2",
        Some(Isa::Avx512Bw) => "pe-avx512bw",
        Some(Isa::Avx512Vbmi) | None => "pe-avx512",
    }
}

/// Compilations of which the median counts, where a compilation takes microseconds.
const COMPILATIONS: usize = 11;

/// Load latencies in cycles, and prefetch distances in packets, that a sweep tries.
const LATENCIES: [u8; 8] = [1, 2, 3, 4, 7, 10, 14, 20];
const DISTANCES: [u16; 6] = [0, 8, 16, 48, 64, 96];

/// The link type of all traffic.
const LINK: LinkType = LinkType::ETHERNET;

/// A filter of all engines.
pub type Contenders = Vec<Contender<dyn Engine>>;

/// A way to compile a filter.
#[derive(Debug)]
pub struct Variant {
    name: String,
    /// An error where this machine lacks the instructions.
    options: Result<Options>,
}

impl Variant {
    fn new(
        name: impl Into<String>,
        backend: Backend,
        isa: Option<Isa>,
        change: impl FnOnce(&mut Codegen),
    ) -> Self {
        let options = Options::new(backend, isa).map(|mut options| {
            change(&mut options.codegen);
            options
        });
        Self::of(name, options)
    }

    fn of(name: impl Into<String>, options: std::result::Result<Options, CpuError>) -> Self {
        let options = options.map(|options| Options { perf_map: false, ..options });
        Self { name: name.into(), options: options.map_err(Failure::from) }
    }

    /// The choices of users, and the kernel of `pe` less scheduled. Where a lower level is forced, nothing
    /// above it takes part.
    pub fn usual() -> Vec<Self> {
        let widest = cpu::detect().max(Isa::Avx512Bw);
        let highest = forced().unwrap_or(widest);
        let usual = |name, backend, isa| Self::new(name, backend, isa, |_| ());
        let pe = |name, isa| usual(name, Backend::Pe, Some(isa));
        let scheduled = |name, scheduling| {
            Self::new(name, Backend::Pe, None, |codegen| codegen.scheduling = scheduling)
        };
        let levels = [
            ("pe-avx512", widest),
            ("pe-avx512bw", Isa::Avx512Bw),
            ("pe-avx2", Isa::Avx2),
            ("pe-scalar", Isa::Scalar),
        ];
        let levels = levels.into_iter().filter(|&(_, isa)| isa <= highest);
        let mut all = vec![usual("list", Backend::List, None)];
        all.extend(levels.map(|(name, isa)| pe(name, isa)));
        all.extend([
            scheduled("pe-unscheduled", Scheduling::None),
            scheduled("pe-list-scheduled", Scheduling::List),
            usual("ems", Backend::Ems, None),
            usual("auto", Backend::Auto, None),
            Self::of("auto-rings", Options::new(Backend::Auto, None).map(Options::for_rings)),
        ]);
        all
    }

    /// Three back ends with other load latencies and prefetch distances than the usual ones.
    pub fn swept() -> Vec<Self> {
        let mut all = Vec::new();
        for (name, backend) in [("list", Backend::List), ("pe", Backend::Pe), ("ems", Backend::Ems)]
        {
            all.push(Self::new(name, backend, None, |_| ()));
            all.extend(LATENCIES.map(|latency| {
                let name = format!("{name}-latency-{latency}");
                Self::new(name, backend, None, |codegen| codegen.load_latency = latency)
            }));
            all.extend(DISTANCES.map(|distance| {
                let name = format!("{name}-prefetch-{distance}");
                Self::new(name, backend, None, |codegen| codegen.prefetch = distance)
            }));
        }
        all
    }

    /// Compiles libpcap's program, or a long expression as for users, without libpcap.
    fn compile(&self, subject: &Subject) -> Result<Filter> {
        let options = self.options.as_ref().map_err(Failure::clone)?;
        if subject.is_long {
            return Ok(Filter::of_expression(&subject.expression, LINK, options)?);
        }
        Ok(Filter::compile(&subject.program, options)?)
    }
}

/// A filter that is measured.
#[derive(Debug)]
pub struct Subject {
    expression: String,
    /// libpcap's program.
    pub program: Program,
    /// The form of our front end.
    pub function: Function,
    /// Whether our front end compiles lists in the expression without libpcap.
    is_long: bool,
}

impl Subject {
    pub fn new(expression: &str) -> Result<Self, CompileError> {
        let compiled = compile_expression(expression, LINK)?;
        let is_long = matches!(compiled, CompiledExpression::Function(_));
        let (program, function) = match compiled {
            CompiledExpression::Function(function) => (compile_whole(expression, LINK)?, function),
            CompiledExpression::Program(program) => {
                let function = of_program(&program);
                (program, function)
            }
        };
        Ok(Self { expression: expression.to_owned(), program, function, is_long })
    }
}

/// What contenders are made with.
#[derive(Debug)]
pub struct Makers {
    /// Where C is compiled.
    pub folder: PathBuf,
    pub variants: Vec<Variant>,
    /// The only engines to take part, unless this is empty.
    pub wanted: Vec<String>,
}

impl Makers {
    /// All contenders for a filter, in the order of the rows.
    pub fn contenders(&self, subject: &Subject) -> Contenders {
        type CForm = fn(&Function) -> String;
        let Subject { program, function, .. } = subject;
        let mut all: Contenders = vec![
            Contender::new("touch", Role::Floor, Ok(Box::new(Touch))),
            Contender::new(JUDGE, Role::Peer, boxed(Libpcap::new(program))),
        ];
        let takes_part =
            |name: &str| self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name);
        let mut compiled = |name: &str, role, times, make: &dyn Fn() -> Result<_>| {
            if takes_part(name) {
                let key = ("compile_us", 1.0);
                all.push(Contender::timed((name, role), times, key, || Ok((make()?, Map::new()))));
            }
        };
        compiled("bpfjit", Role::Peer, COMPILATIONS, &|| boxed(Bpfjit::new(program)));
        compiled("rte_bpf", Role::Peer, COMPILATIONS, &|| boxed(RteBpf::new(program)));
        let c_forms: [(_, _, CForm); 4] = [
            ("gcc-c", "gcc", c::unstructured),
            ("gcc-structured", "gcc", c::structured),
            ("clang-c", "clang", c::unstructured),
            ("clang-structured", "clang", c::structured),
        ];
        for (name, compiler, form) in c_forms {
            compiled(name, Role::Ours, 1, &|| {
                let compiler = find(compiler).ok_or("the compiler is not installed")?;
                boxed(CCode::compile(&compiler, &form(function), &self.folder, name))
            });
        }
        if takes_part("interp") {
            let interpreter = Interpreter(program.clone());
            all.push(Contender::new("interp", Role::Ours, Ok(Box::new(interpreter))));
        }
        for variant in self.variants.iter().filter(|variant| takes_part(&variant.name)) {
            let named = (variant.name.as_str(), Role::Ours);
            let mut first = Vec::new();
            let made = Contender::timed(named, COMPILATIONS, ("compile_us", 1.0), || {
                let started = Instant::now();
                let filter = variant.compile(subject)?;
                black_box(filter.run(&[0; 60], 60));
                first.push(started.elapsed().as_secs_f64() * 1e6);
                filter.finish()?;
                let backend = json!(filter.backend().name());
                let more = [("backend".to_owned(), backend)].into_iter().collect();
                Ok((Box::new(filter) as Box<dyn Engine>, more))
            });
            all.push(made.with("first_verdict_us", Sample::new(first).median()));
        }
        all
    }
}

fn boxed<E: Engine + 'static>(made: Result<E>) -> Result<Box<dyn Engine>> {
    made.map(|engine| Box::new(engine) as Box<dyn Engine>)
}

impl Engine for Filter {
    fn run(&mut self, packets: &Packets<'_>, _first: usize, verdict: &mut [u32]) {
        self.run_batch(packets, verdict);
    }
}

/// The interpreter of `forebay-filter`.
struct Interpreter(Program);

impl Engine for Interpreter {
    fn run(&mut self, packets: &Packets<'_>, _first: usize, verdict: &mut [u32]) {
        for (i, verdict) in verdict.iter_mut().enumerate() {
            *verdict = self.0.run(packets.packet(i), packets.wire_len(i));
        }
    }
}
