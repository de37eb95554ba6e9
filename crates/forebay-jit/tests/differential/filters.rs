//! Filters compiled in every way there is.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

use forebay_filter::{Program, compile};
use forebay_jit::{Backend, Filter, Isa, Options, Packets, Tally, cpu};
use forebay_packet::LinkType;

use crate::support::corpus::expressions;

/// A way to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    pub backend: Backend,
    pub isa: Isa,
    /// As for the packets of rings: all code for batches prefetches.
    pub rings: bool,
    /// The form of `pe`'s loops.
    pub form: usize,
}

impl Way {
    pub fn options(self) -> Options {
        let mut options = Options::new(self.backend, Some(self.isa)).unwrap();
        options.codegen.pe_form = self.form;
        if self.rings { options.for_rings() } else { options }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rings = if self.rings { " and rings" } else { "" };
        write!(f, "{} for {}{rings}", self.backend, self.isa)?;
        if self.form > 0 { write!(f, ", form {}", self.form) } else { Ok(()) }
    }
}

/// Every back end at every level that this machine has, `auto` and `pe` for rings, which prefetch, and
/// the forms of `pe` that are not taken by themselves.
pub fn ways() -> Vec<Way> {
    let highest = cpu::detect();
    if highest < Isa::Avx512Vbmi {
        eprintln!("skipped: levels above {highest}, which this machine lacks");
    }
    let levels = || Isa::ALL.into_iter().filter(move |&isa| isa <= highest);
    let backends = Backend::ALL.into_iter().map(|backend| (backend, false, 0));
    backends
        .chain([(Backend::Auto, true, 0), (Backend::Pe, true, 0)])
        .chain([(Backend::Pe, false, 1), (Backend::Pe, false, 2)])
        .flat_map(|(backend, rings, form)| {
            levels().map(move |isa| Way { backend, isa, rings, form })
        })
        .filter(|way| way.form == 0 || way.isa > Isa::Scalar)
        .collect()
}

/// A filter to try: what it must do, and each way to do it.
pub struct Case {
    pub name: String,
    pub program: Program,
    pub filters: Vec<(Way, Filter)>,
}

impl Case {
    pub fn new(name: &str, program: Program, ways: &[Way]) -> Self {
        let compiled = |&way: &Way| {
            let options = way.options();
            let filter = Filter::compile(&program, &options);
            let filter = filter.unwrap_or_else(|error| panic!("{name} by {way}: {error}"));
            filter.finish().unwrap();
            (way, filter)
        };
        let filters = ways.iter().map(compiled).collect();
        Self { name: name.to_owned(), program, filters }
    }

    /// What the interpreter gives for each of `packets`.
    pub fn truth(&self, packets: &Packets<'_>) -> Vec<u32> {
        let verdict = |i| self.program.run(packets.packet(i), packets.wire_len(i));
        (0..packets.len()).map(verdict).collect()
    }

    /// Runs every filter over `packets` and compares with `truth`.
    pub fn check(&self, packets: &Packets<'_>, truth: &[u32]) -> Tally {
        self.check_in(packets, truth, &mut vec![0; packets.len()])
    }

    /// The same with `verdict` as the place of the verdicts.
    pub fn check_in(&self, packets: &Packets<'_>, truth: &[u32], verdict: &mut [u32]) -> Tally {
        let mut tally = Tally::default();
        for (way, filter) in &self.filters {
            tally += check(&self.name, *way, filter, packets, truth, verdict);
        }
        tally
    }
}

/// Runs one filter over `packets`, whose verdicts go to `verdict`, and compares
/// with `truth`.
pub fn check(
    name: &str,
    way: Way,
    filter: &Filter,
    packets: &Packets<'_>,
    truth: &[u32],
    verdict: &mut [u32],
) -> Tally {
    // No filter returns this.
    verdict.fill(0xdead_beef);
    let tally = filter.run_batch(packets, verdict);
    if let Some(i) = (0..truth.len()).find(|&i| verdict[i] != truth[i]) {
        panic!(
            "{way} gives {} where {} is right, for packet {i} of {} at {}, {} bytes on the wire: \
             {:02x?}\n{name}",
            verdict[i],
            truth[i],
            packets.len(),
            packets.tables()[0][i],
            packets.wire_len(i),
            packets.packet(i)
        );
    }
    tally
}

/// The expressions of the test data, compiled in every way.
pub fn cases(data: &Path) -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let ways = ways();
        let case = |expression: &String| {
            let program = compile(expression, LinkType::ETHERNET).unwrap();
            Case::new(expression, program, &ways)
        };
        let cases: Vec<_> = expressions(data).iter().map(case).collect();
        assert!(cases.len() > 100);
        cases
    })
}
