//! Joins the programs of primitives to the function of the whole expression.

use forebay_packet::cancel;

use super::group::{FALSE, three_valued};
use super::order::{Item, Step, order};
use super::parse::{Expression, Node};
use super::primitives::{Compiled, Primitive};
use crate::ir::Function;
use crate::ir::join::{Joiner, Label};
use crate::libpcap::SNAP_LEN;

/// Whether the path through a function may depend on the number of captured
/// bytes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lengths {
    /// It may.
    Tested,
    /// No: it becomes a program, which can only end if bytes are missing.
    Reject,
}

/// An expression being assembled.
pub(super) struct Join<'a> {
    parsed: &'a Expression<'a>,
    compiled: &'a Compiled,
    lengths: Lengths,
    joiner: Joiner,
    rejected: Label,
}

/// A stack of remaining work.
enum Work {
    /// Test a part.
    Node {
        node: usize,
        holds: Label,
        fails: Label,
    },
    /// Test one step of a run.
    Step {
        step: Step,
        holds: Label,
        fails: Label,
    },
    Place(Label),
}

impl<'a> Join<'a> {
    pub(super) fn new(
        parsed: &'a Expression<'a>,
        compiled: &'a Compiled,
        lengths: Lengths,
    ) -> Self {
        let mut joiner = Joiner::default();
        let rejected = joiner.label();
        Self { parsed, compiled, lengths, joiner, rejected }
    }

    /// The function; `None` if some program does not have libpcap's form.
    pub(super) fn function(mut self) -> Option<Function> {
        let accepted = self.joiner.label();
        for prelude in &self.compiled.preludes {
            let next = self.joiner.label();
            let rejected = self.rejected;
            let after = |result| Some(if result == SNAP_LEN { next } else { rejected });
            self.joiner.append(prelude, after)?;
            self.joiner.place(next);
        }
        let node = self.parsed.root;
        let mut work = vec![Work::Node { node, holds: accepted, fails: self.rejected }];
        while let Some(next) = work.pop() {
            cancel::check();
            match next {
                Work::Place(label) => self.joiner.place(label),
                Work::Node { node, holds, fails } => self.node(node, holds, fails, &mut work)?,
                Work::Step { step: Step::Part(node), holds, fails } => {
                    work.push(Work::Node { node, holds, fails });
                }
                Work::Step { step: Step::Shape(function), holds, fails } => {
                    self.append(&function, holds, fails)?;
                }
                Work::Step { step: Step::Primitive(leaf), holds, fails } => {
                    self.primitive(leaf, holds, fails)?;
                }
                Work::Step { step: Step::First { leaf, captured }, holds, fails } => {
                    if self.lengths == Lengths::Tested {
                        self.joiner.captured(captured, fails);
                    }
                    self.primitive(leaf, holds, fails)?;
                }
            }
        }
        self.joiner.place(accepted);
        self.joiner.ret(SNAP_LEN);
        self.joiner.place(self.rejected);
        self.joiner.ret(0);
        self.joiner.finish()
    }

    fn node(
        &mut self,
        node: usize,
        holds: Label,
        fails: Label,
        work: &mut Vec<Work>,
    ) -> Option<()> {
        let (members, any) = match &self.parsed.nodes[node] {
            &Node::Leaf { leaf, negated: false } => return self.primitive(leaf, holds, fails),
            &Node::Leaf { leaf, negated: true } => return self.primitive(leaf, fails, holds),
            Node::Any(members) => (members, true),
            Node::All(members) => (members, false),
        };
        let items: Vec<_> = members.iter().map(|&member| self.item(member, any)).collect();
        let steps = order(&items);
        let last = steps.len() - 1;
        let mut behind = Vec::with_capacity(2 * steps.len());
        for (index, step) in steps.into_iter().enumerate() {
            let next = if index < last { Some(self.joiner.label()) } else { None };
            let (holds, fails) = match (next, any) {
                (Some(next), true) => (holds, next),
                (Some(next), false) => (next, fails),
                (None, _) => (holds, fails),
            };
            // In a negated run, the primitive that decides matches.
            let (holds, fails) = match step {
                Step::Part(_) => (holds, fails),
                _ if any => (holds, fails),
                _ => (fails, holds),
            };
            behind.push(Work::Step { step, holds, fails });
            behind.extend(next.map(Work::Place));
        }
        work.extend(behind.into_iter().rev());
        Some(())
    }

    /// A member of a run: a disjunction if `any`, else a conjunction.
    fn item(&self, node: usize, any: bool) -> Item<'a> {
        let Node::Leaf { leaf, negated } = self.parsed.nodes[node] else {
            return Item::Part(node);
        };
        if negated == any {
            return Item::Part(node);
        }
        let Primitive { number, ref program, shape } = self.compiled.primitives[leaf];
        Item::Primitive { number, leaf, program, shape }
    }

    fn primitive(&mut self, leaf: usize, holds: Label, fails: Label) -> Option<()> {
        let function = three_valued(&self.compiled.primitives[leaf].program)?;
        self.append(&function, holds, fails)
    }

    fn append(&mut self, part: &Function, holds: Label, fails: Label) -> Option<()> {
        let rejected = self.rejected;
        self.joiner.append(part, |result| match result {
            SNAP_LEN => Some(holds),
            FALSE => Some(fails),
            0 => Some(rejected),
            _ => None,
        })
    }
}
