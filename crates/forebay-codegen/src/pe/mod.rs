//! Back end `pe`: predicated execution over the packets of a batch.
//!
//! The paper (Yamashita and Tsuru, "Software Pipelining for Packet Filters",
//! section 4) if-converts the filter, so that the loop over the packets has no
//! branches, and software-pipelines that loop. Itanium has 64 predicate
//! registers of one bit; an AVX-512 machine has seven of 64. So the loop is
//! split in two, and each half has bits of many packets in a register:
//!
//! 1. The **extraction** loop loads the headers of one, two or four packets
//!    into a vector, shuffles the bytes of each predicate into a lane, and
//!    compares all lanes with their constants at once. The result is the
//!    packet's *signature*: a bit for each predicate, set where it does not
//!    hold.
//! 2. The **decision** loop takes the signatures of 32 packets as the lanes of
//!    a vector. Each test of the decision function is one test of a vector
//!    against a constant, under the opmask of the nodes after it: a predicated
//!    instruction that sets a predicate, as `(p6) cmp.eq` does.
//!
//! Loads behind an IP header use the usual offset, that of a
//! header without options. The decision loop records the packets for which
//! this was wrong, and `list` code computes their verdicts.
//!
//! | module | does |
//! |---|---|
//! | `straighten` | removes block parameters by copying blocks |
//! | [`atom`] | predicates of the IR that lanes can evaluate |
//! | `shape` | values that are fields, shifted and masked |
//! | [`decision`] | the decision function over them |
//! | [`layout`] | their places in the signature |
//! | `extract`, `extract_avx2` | the extraction loop |
//! | [`algebra`] | the decision function as operations on masks |
//! | `decide`, `decide_avx2` | the decision loop |
//! | `lanes` | both in one loop, 16 or 8 packets an iteration, for few bytes or arithmetic |
//! | `groups` | the tests of its nodes |
//! | `columns`, `windows` | the bytes of the packets that `lanes` compares, and how they are loaded |
//! | `gather` | bytes at an offset that is computed for each packet |
//! | `vectors` | the operations that both need, of AVX-512 (`wide`) and AVX2 (`narrow`) |
//! | `sharing` | tests that two paths share |
//! | `packets` | offsets and addresses of packets |
//! | `scalar` | both in one loop, a packet an iteration, in general registers |

pub mod algebra;
pub mod atom;
mod columns;
mod constants;
mod decide;
mod decide_avx2;
pub mod decision;
mod elements;
mod extract;
mod extract_avx2;
mod gather;
mod groups;
mod lanes;
pub mod layout;
mod loops;
mod narrow;
mod packets;
mod scalar;
mod shape;
mod sharing;
mod straighten;
mod vectors;
mod wide;
mod windows;

use std::borrow::Cow;
use std::rc::Rc;

use forebay_filter::ir::Function;

use crate::code::{Isa, Options};
use crate::emit::pool::Pool;
use columns::Columns;
use decision::Decision;
use layout::Layout;
pub use loops::{Loops, Unsuited};
use straighten::straighten;

/// The greatest length that saturated 16-bit lanes distinguish from greater
/// ones.
const MAX_LENGTH: u32 = 0xfffe;

/// A predicated form of a filter, before its loops are generated.
#[derive(Clone, Debug)]
pub struct PredicatedForm<'a> {
    function: Rc<Cow<'a, Function>>,
    decision: Rc<Decision>,
    shape: Shape,
    /// In 1/64 of a cycle a packet.
    work: u32,
}

/// The kinds of loops.
#[derive(Clone, Debug)]
enum Shape {
    /// One loop in general registers.
    Scalar,
    /// Two loops: extraction and decision.
    Signatures(Layout),
    /// One loop in lanes of 32 bits, and how many of its constants are in registers.
    Lanes(Columns, usize),
}

/// The predicated forms of `function` at the level of `options`, least work
/// first. The loops of the first may turn out to need too many registers.
///
/// # Errors
/// Why there is none.
pub fn forms<'a>(
    function: &'a Function,
    options: &Options,
) -> Result<Vec<PredicatedForm<'a>>, Unsuited> {
    let function = match straighten(function) {
        Some(straight) => Cow::Owned(straight),
        None => Cow::Borrowed(function),
    };
    let decision = Rc::new(Decision::new(&function, options.explain)?);
    let function = Rc::new(function);
    let form = |work: u32, decision: &Rc<Decision>, shape: Shape| PredicatedForm {
        function: Rc::clone(&function),
        decision: Rc::clone(decision),
        shape,
        work,
    };
    if options.isa == Isa::Scalar {
        return Ok(vec![form(0, &decision, Shape::Scalar)]);
    }
    let mut forms = Vec::new();
    if let Some((columns, decision)) = columns(&function, &decision, options) {
        let work = columns.work(options);
        let lanes =
            |&constants: &usize| form(work, &decision, Shape::Lanes(columns.clone(), constants));
        forms.extend(columns.constants().iter().map(lanes));
    }
    match choose(&function, &decision, options) {
        Ok(layout) => {
            let more = if options.isa == Isa::Avx2 { SIGNATURES_OF_AVX2 } else { 0 };
            let work = layout.work(options) + decision_work(&decision) + more;
            forms.push(form(work, &decision, Shape::Signatures(layout)));
        }
        Err(unsuited) if forms.is_empty() => return Err(unsuited),
        Err(_) => {}
    }
    forms.sort_by_key(|form| form.work);
    Ok(forms)
}

/// The columns of a filter that suits lanes, and its decision function for them.
fn columns(
    function: &Function,
    decision: &Rc<Decision>,
    options: &Options,
) -> Option<(Columns, Rc<Decision>)> {
    let choose = |decision: &Decision| Columns::choose(function, decision, options.isa);
    let cost = |decision: &Decision| Some(choose(decision)?.work(options));
    let shared = sharing::shared(function, decision, cost).map(|shared| {
        // With opmasks few masks are kept.
        if options.isa >= Isa::Avx512Bw { shared } else { sharing::side_by_side(shared) }
    });
    let decision = shared.map_or_else(|| Rc::clone(decision), Rc::new);
    Some((choose(&decision)?, decision))
}

impl PredicatedForm<'_> {
    /// Estimated cycles a packet of its loops.
    #[must_use]
    pub fn cycles(&self) -> f64 {
        f64::from(self.work) / 64.0
    }

    /// Generates the loops.
    ///
    /// # Errors
    /// If they cannot be generated after all.
    pub fn loops(&self, options: &Options, pool: &mut Pool) -> Result<Loops, Unsuited> {
        let (function, decision) = (&**self.function, &*self.decision);
        match &self.shape {
            Shape::Scalar => scalar::select(function, decision, options),
            Shape::Signatures(layout) => signatures(function, decision, layout, options, pool),
            Shape::Lanes(columns, constants) => {
                let body = lanes::body(function, decision, columns, *constants, options, pool)?;
                let lanes = body.step as usize;
                Ok(Loops {
                    bodies: vec![body],
                    lanes,
                    reach: columns.reach(),
                    scratch: 0,
                    leaves: !decision.leaves.is_empty(),
                })
            }
        }
    }
}

fn choose(function: &Function, decision: &Decision, options: &Options) -> Result<Layout, Unsuited> {
    decision.lengths_fit(MAX_LENGTH)?;
    Layout::choose(function, decision, options)
}

/// Estimated work a packet of the decision loop, in 1/64 of a cycle: two for
/// each test and a dozen besides, and the cost of starting another loop.
fn decision_work(decision: &Decision) -> u32 {
    let tests: usize = decision.nodes.iter().map(|node| node.literals.len()).sum();
    2 * tests as u32 + 12 + 12
}

/// What AVX2 takes for signatures beyond the other estimates, in 1/64 of a cycle
/// a packet: decisions about 8 or 16 packets, not 32. Measured on a Zen 4 core.
const SIGNATURES_OF_AVX2: u32 = 84;

/// The extraction and decision loops.
fn signatures(
    function: &Function,
    decision: &Decision,
    layout: &Layout,
    options: &Options,
    pool: &mut Pool,
) -> Result<Loops, Unsuited> {
    let extraction = extract::body(function, layout, options, pool)?;
    let decide = if options.isa >= Isa::Avx512Bw {
        decide::body(decision, layout, pool)
    } else {
        decide_avx2::body(decision, layout, pool)
    };
    let lanes = decide.step as usize;
    Ok(Loops {
        bodies: vec![extraction, decide],
        lanes,
        reach: layout.reach(),
        scratch: layout.scratch(),
        leaves: !decision.leaves.is_empty(),
    })
}
