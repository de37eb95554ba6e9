//! Back end `pe`: predicated execution over the packets of a batch.
//!
//! The paper (Yamashita and Tsuru, "Software Pipelining for Packet Filters",
//! section 4) if-converts the filter, so that the loop over the packets has no
//! branches left, and software-pipelines that loop. Itanium has 64 predicate
//! registers of one bit; an AVX-512 machine has seven of 64. So the loop is
//! split in two, and each half has bits of many packets in a register:
//!
//! 1. The **extraction** loop loads the headers of one, two or four packets
//!    into a vector, shuffles the bytes that predicates look at into a lane for
//!    each, and compares all lanes with their constants at once. What comes out
//!    is the packet's *signature*: a bit for each predicate, set where it does
//!    not hold.
//! 2. The **decision** loop takes the signatures of 32 packets as the lanes of
//!    a vector. Each test of the decision function is one test of a vector
//!    against a constant, itself under the opmask of what comes after it: a
//!    predicated instruction that sets a predicate, as `(p6) cmp.eq` does.
//!
//! A filter's loads at offsets that depend on the packet are made at the usual
//! offset, that of an IP header without options. The decision loop notes the
//! packets for which this was wrong, and `list` code gives these their verdict.
//!
//! | module | does |
//! |---|---|
//! | `straighten` | block parameters away, by copies |
//! | [`atom`] | which predicates of the IR are fit for it |
//! | [`decision`] | the decision function over them |
//! | [`layout`] | where in the signature each lies |
//! | `extract`, `extract_avx2` | the extraction loop |
//! | [`algebra`] | the decision function as operations on masks |
//! | `decide`, `decide_avx2` | the decision loop |
//! | `lanes` | both in one loop, 16 packets an iteration, for few bytes or arithmetic |
//! | `columns` | the bytes of 16 packets that `lanes` compares |
//! | `packets` | where packets lie |
//! | `scalar` | both in one loop, a packet an iteration, in plain registers |

pub mod algebra;
pub mod atom;
mod columns;
mod constants;
mod decide;
mod decide_avx2;
pub mod decision;
mod extract;
mod extract_avx2;
mod lanes;
pub mod layout;
mod packets;
mod scalar;
mod straighten;
mod wide;

use std::borrow::Cow;
use std::rc::Rc;

use forebay_filter::ir::Function;

use crate::code::{Isa, Options};
use crate::emit::pool::Pool;
use crate::mir::LoopBody;
use columns::Columns;
use decision::Decision;
use layout::Layout;
use straighten::straighten;

/// The greatest length that lanes of 16 bits tell from greater ones.
const MAX_LENGTH: u32 = 0xfffe;

/// Why a filter has no predicated form; `list` takes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuited {
    /// It has loops or block parameters.
    #[error("control flow that does not end in a Boolean function")]
    ControlFlow,
    /// It has more than one way to accept, or returns what it computed.
    #[error("it returns more than one number besides 0")]
    Returns,
    /// A predicate is none that a lane can hold.
    #[error("predicate '{0}' does not fit a lane")]
    Predicate(String),
    /// A set of so many constants that no hash function was found for.
    #[error("no hash table was found for its set of {0} constants")]
    Set(usize),
    /// More predicates than signatures have room for.
    #[error("its predicates take {0} signatures of 16 bits or more, and at most {max} fit", max = layout::MAX_PLANES)]
    TooLarge(usize),
}

/// The loops of a filter, and what they ask of their caller.
#[derive(Clone, Debug)]
pub struct Loops {
    /// One after another.
    pub bodies: Vec<LoopBody>,
    /// Packets a group.
    pub lanes: usize,
    /// Bytes from a packet's start that are read, whatever was captured.
    pub reach: usize,
    /// Bytes of scratch memory.
    pub scratch: usize,
    /// Whether packets may be left to `list`.
    pub leaves: bool,
}

/// A predicated form of a filter that has not been made yet.
#[derive(Clone, Debug)]
pub struct Form<'a> {
    filter: Rc<(Cow<'a, Function>, Decision)>,
    shape: Shape,
    /// In 1/64 of a cycle a packet.
    work: u32,
}

/// The kinds of loops there are.
#[derive(Clone, Debug)]
enum Shape {
    /// Both in one loop, in plain registers.
    Scalar,
    /// Extraction and decision.
    Signatures(Layout),
    /// Both in one loop, in lanes of 32 bits.
    Lanes(Columns),
}

/// The predicated forms of `function` at the level of `options`, that with the
/// least work first. Loops of the first may turn out to need more registers
/// than there are.
///
/// # Errors
/// Why it has none.
pub fn forms<'a>(function: &'a Function, options: &Options) -> Result<Vec<Form<'a>>, Unsuited> {
    let function = match straighten(function) {
        Some(straight) => Cow::Owned(straight),
        None => Cow::Borrowed(function),
    };
    let decision = Decision::new(&function, options.explain)?;
    let mut shapes = Vec::new();
    if options.isa == Isa::Scalar {
        shapes.push((0, Shape::Scalar));
    } else {
        if options.isa >= Isa::Avx512Bw
            && let Some(columns) = Columns::choose(&function, &decision)
        {
            shapes.push((columns.work(options), Shape::Lanes(columns)));
        }
        match choose(&function, &decision, options) {
            Ok(layout) => {
                let work = layout.work(options) + decision_work(&decision);
                shapes.push((work, Shape::Signatures(layout)));
            }
            Err(unsuited) if shapes.is_empty() => return Err(unsuited),
            Err(_) => {}
        }
        shapes.sort_by_key(|(work, _)| *work);
    }
    let filter = Rc::new((function, decision));
    let form = |(work, shape)| Form { filter: Rc::clone(&filter), shape, work };
    Ok(shapes.into_iter().map(form).collect())
}

impl Form<'_> {
    /// Cycles a packet that its loops are estimated to take.
    #[must_use]
    pub fn cycles(&self) -> f64 {
        f64::from(self.work) / 64.0
    }

    /// Makes the loops.
    ///
    /// # Errors
    /// When they cannot be made after all.
    pub fn loops(&self, options: &Options, pool: &mut Pool) -> Result<Loops, Unsuited> {
        let (function, decision) = &*self.filter;
        match &self.shape {
            Shape::Scalar => scalar::select(function, decision, options),
            Shape::Signatures(layout) => signatures(function, decision, layout, options, pool),
            Shape::Lanes(columns) => {
                let body = lanes::body(function, decision, columns, options, pool)?;
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

/// An estimate of the decision loop's work a packet, in 1/64 of a cycle: two
/// for each test and a dozen besides, and what it costs to begin another loop.
fn decision_work(decision: &Decision) -> u32 {
    let tests: usize = decision.nodes.iter().map(|node| node.literals.len()).sum();
    2 * tests as u32 + 12 + 12
}

/// The two loops that go by signatures.
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
