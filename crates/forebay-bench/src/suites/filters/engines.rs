//! Who takes part: the floor, libpcap, the other compilers of filters, and ours.

use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_filter::Program;

use super::c_forms::{self, Form};
use super::ours::{Compiled, Subject, Variant};
use super::packets::{Engine, Packets};
use crate::BenchError;
use crate::peers::bpfjit::Bpfjit;
use crate::peers::libpcap::Libpcap;
use crate::peers::process::find;
use crate::peers::rte_bpf::RteBpf;
use crate::peers::touch::Touch;
use crate::stats::Sample;

/// The one whose answers are right.
pub const JUDGE: &str = "libpcap";

/// The one that the summary is about.
pub const OURS: &str = "auto";

/// Compilations of which the median counts, where a compilation takes microseconds.
const COMPILATIONS: usize = 11;

/// What a contender is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Gives no answers.
    Floor,
    /// Somebody else's: a wrong answer takes it out of the set.
    Peer,
    /// A wrong answer ends the benchmark.
    Ours,
}

impl Role {
    /// Compares a contender's verdicts with libpcap's.
    pub fn check(self, verdicts: &[u32], expected: &[u32]) -> Result<(), String> {
        if self == Self::Floor || verdicts == expected {
            return Ok(());
        }
        let pairs = verdicts.iter().zip(expected);
        let wrong = pairs.filter(|(verdict, expected)| verdict != expected).count();
        Err(format!("{wrong} of {} verdicts are not libpcap's", expected.len()))
    }
}

/// One that takes part, with its engine for the filter in question.
pub struct Contender {
    /// Its name in the rows.
    pub name: String,
    /// What it is there for.
    pub role: Role,
    /// Nothing where it is not installed or does not compile the filter.
    pub engine: Option<Box<dyn Engine>>,
    /// Microseconds from classic BPF to something that can be called, where anything is
    /// compiled.
    pub compile_us: Option<f64>,
    /// The back end that the code came from, where that was a choice.
    pub backend: Option<&'static str>,
    /// Why it has no part.
    pub notes: Vec<String>,
}

impl Contender {
    fn new(name: &str, role: Role) -> Self {
        let name = name.to_owned();
        Self { name, role, engine: None, compile_us: None, backend: None, notes: Vec::new() }
    }

    /// Notes a wrong answer. One of ours is an error.
    pub fn is_wrong(&mut self, complaint: &str) -> Result<(), BenchError> {
        let complaint = format!("{}, {complaint}", self.name);
        if self.role == Role::Ours {
            return Err(BenchError::WrongAnswer(complaint));
        }
        self.notes.push(complaint);
        Ok(())
    }

    /// Takes an engine as it is.
    fn with(mut self, engine: impl Engine + 'static) -> Self {
        self.engine = Some(Box::new(engine));
        self
    }

    /// Takes the engine that `make` makes, which is timed, `times` times over.
    fn compiled<E: Engine + 'static>(
        mut self,
        times: usize,
        make: impl Fn() -> Result<E, String>,
    ) -> Self {
        let mut micros = Vec::with_capacity(times);
        for _ in 0..times {
            let started = Instant::now();
            let made = make();
            micros.push(started.elapsed().as_secs_f64() * 1e6);
            match made {
                Ok(engine) => self.engine = Some(Box::new(engine)),
                Err(why) => {
                    self.notes.push(format!("{}: {why}", self.name));
                    return self;
                }
            }
        }
        self.compile_us = Some(Sample::new(micros).median());
        self
    }
}

/// What the contenders are made with.
#[derive(Debug)]
pub struct Makers {
    /// Where C is compiled.
    folder: PathBuf,
    /// Name, compiler where it is installed, and form of its text.
    compilers: Vec<(&'static str, Option<PathBuf>, Form)>,
    /// Our kinds.
    variants: Vec<Variant>,
    wanted: Vec<String>,
}

impl Makers {
    /// Looks for the compilers. `folder` takes what they make; `wanted` are the only
    /// engines to take part, unless it is empty.
    pub fn new(folder: &Path, wanted: &[String], variants: Vec<Variant>) -> Self {
        let compilers = [
            ("gcc-c", "gcc", Form::Unstructured),
            ("gcc-structured", "gcc", Form::Structured),
            ("clang-c", "clang", Form::Unstructured),
            ("clang-structured", "clang", Form::Structured),
        ];
        let compilers = compilers.map(|(name, program, form)| (name, find(program), form)).into();
        let wanted = wanted.to_vec();
        Self { folder: folder.to_owned(), compilers, variants, wanted }
    }

    /// All contenders for a filter, in the order of the rows.
    pub fn contenders(&self, subject: &Subject) -> Vec<Contender> {
        let Subject { program, function, .. } = subject;
        let plain = |name: &str, role| Contender::new(name, role);
        let mut all = vec![plain("touch", Role::Floor).with(Touch)];
        let judge = plain(JUDGE, Role::Peer);
        all.push(match Libpcap::new(program) {
            Ok(engine) => judge.with(engine),
            Err(why) => Contender { notes: vec![why], ..judge },
        });
        let mut add = |name: &str, role, make: &dyn Fn(Contender) -> Contender| {
            if self.takes_part(name) {
                all.push(make(plain(name, role)));
            }
        };
        add("bpfjit", Role::Peer, &|one| one.compiled(COMPILATIONS, || Bpfjit::new(program)));
        add("rte_bpf", Role::Peer, &|one| one.compiled(COMPILATIONS, || RteBpf::new(program)));
        for (name, compiler, form) in &self.compilers {
            let make = || {
                let compiler = compiler.as_deref().ok_or("the compiler is not installed")?;
                c_forms::compile(function, *form, compiler, &self.folder, name)
            };
            add(name, Role::Ours, &|one| one.compiled(1, make));
        }
        add("interp", Role::Ours, &|one| one.with(Interp(program.clone())));
        for variant in &self.variants {
            add(&variant.name, Role::Ours, &|one| {
                let made = one.compiled(COMPILATIONS, || Compiled::new(variant, subject));
                let backend = Compiled::new(variant, subject).ok().map(|one| one.backend());
                Contender { backend, ..made }
            });
        }
        all
    }

    fn takes_part(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)
    }
}

/// The interpreter of `forebay-filter`.
struct Interp(Program);

impl Engine for Interp {
    fn run(&mut self, packets: &Packets<'_>, verdict: &mut [u32]) {
        for (i, verdict) in verdict.iter_mut().enumerate() {
            *verdict = self.0.run(packets.bytes(i), packets.wire_len()[i]);
        }
    }
}
