//! Fuses tests of one value.
//!
//! `tcp or udp or sctp` tests one byte for three numbers, one block each, and
//! `portrange` two bytes for two bounds. The branch predictor cannot predict
//! which of the tests decides, but their combined outcome is often predictable:
//! the blocks become one test, whose parts are combined without branches. The
//! intermediate representation turns more than a few constants into a set.

use super::graph::{End, Graph, NodeId};
use super::select::{Action, Condition, Few, Key, Test};
use forebay_filter::cancel;

/// Fuses chains of tests in which each test is entered only from the one
/// before.
pub(super) fn fuse(graph: &mut Graph<'_>, tests: &mut [Test]) {
    let mut fuser = Fuser { fused: vec![None; graph.nodes.len()], graph, tests };
    for id in fuser.graph.layout.clone() {
        cancel::check();
        if fuser.fused[id as usize].is_none() && !fuser.join_equal(id) {
            fuser.join_bounds(id);
        }
    }
    fuser.finish();
}

struct Fuser<'g, 'f> {
    graph: &'g mut Graph<'f>,
    tests: &'g mut [Test],
    /// By node: the node that its test was merged into.
    fused: Vec<Option<NodeId>>,
}

impl Fuser<'_, '_> {
    /// Merges `head` and the tests that follow if it fails into one test for a
    /// few constants, provided that they have the same successor when they
    /// hold.
    fn join_equal(&mut self, head: NodeId) -> bool {
        let Some((key, mut few)) = single(self.tests[head as usize]) else { return false };
        while let End::Test { then, otherwise, .. } = self.graph.node(head).end {
            let End::Test { then: next_then, otherwise: rest, .. } = self.graph.node(otherwise).end
            else {
                break;
            };
            let Some((next_key, constant)) = single(self.tests[otherwise as usize]) else { break };
            let fits = self.is_same(then, next_then)
                && self.is_only_from(otherwise, head)
                && next_key == key;
            if !fits || !few.add(&constant) {
                break;
            }
            self.join(head, otherwise, then, rest);
        }
        let count = few.constants().len();
        if count > 1 {
            self.tests[head as usize] = Test::Few { key, few };
            self.adopt(head, count as u32);
        }
        count > 1
    }

    /// Merges `head`, a test for a lower bound, and the test for an upper bound
    /// that follows it, into one test for a range.
    fn join_bounds(&mut self, head: NodeId) {
        let End::Test { then: inner, otherwise: outside, .. } = self.graph.node(head).end else {
            return;
        };
        let End::Test { then: above, otherwise: inside, .. } = self.graph.node(inner).end else {
            return;
        };
        let (Some((key, least)), Some((inner_key, end))) =
            (at_least(self.tests[head as usize]), at_least(self.tests[inner as usize]))
        else {
            return;
        };
        let fits = self.is_same(outside, above)
            && self.is_only_from(inner, head)
            && inner_key == key
            && least < end;
        if fits {
            self.join(head, inner, inside, outside);
            self.tests[head as usize] = Test::Immediate {
                key,
                mask: u32::MAX,
                minus: least,
                action: Action::Compare,
                immediate: end - least,
                condition: Condition::Below,
                field: None,
            };
        }
    }

    fn is_same(&self, one: NodeId, other: NodeId) -> bool {
        self.graph.alias[one as usize] == self.graph.alias[other as usize]
    }

    /// Whether `id` is entered only from `head` and the tests merged into it.
    fn is_only_from(&self, id: NodeId, head: NodeId) -> bool {
        self.graph
            .node(id)
            .parent
            .is_some_and(|parent| parent == head || self.fused[parent as usize] == Some(head))
    }

    /// Merges node `id` into `head`, which gets new successors.
    fn join(&mut self, head: NodeId, id: NodeId, then: NodeId, otherwise: NodeId) {
        self.fused[id as usize] = Some(head);
        self.graph.fused.entry(head).or_default().push(id);
        if let End::Test { predicate, .. } = self.graph.node(head).end {
            self.graph.nodes[head as usize].end = End::Test { predicate, then, otherwise };
        }
    }

    /// Makes the successor of `head` its child, if its only incoming edges are
    /// the `count` that were merged.
    fn adopt(&mut self, head: NodeId, count: u32) {
        let End::Test { then, .. } = self.graph.node(head).end else { return };
        let entered = self.graph.entered.get(then as usize).copied();
        if entered == Some(count) && self.graph.alias[then as usize] == then {
            self.graph.nodes[then as usize].parent = Some(head);
        }
    }

    /// Removes merged nodes from the graph.
    fn finish(self) {
        if self.fused.iter().all(Option::is_none) {
            return;
        }
        for node in &mut self.graph.nodes {
            if let Some(head) = node.parent.and_then(|parent| self.fused[parent as usize]) {
                node.parent = Some(head);
            }
        }
        self.graph.layout.retain(|&id| self.fused[id as usize].is_none());
    }
}

/// The value and the constant of an equality test.
fn single(test: Test) -> Option<(Key, Few)> {
    match test {
        Test::Immediate {
            key,
            mask: u32::MAX,
            action: Action::Compare,
            immediate,
            condition: Condition::Equal,
            ..
        } => Some((key, Few::one(immediate))),
        _ => None,
    }
}

/// The value and the constant of a test for a lower bound.
fn at_least(test: Test) -> Option<(Key, u32)> {
    let Test::Immediate {
        key, mask: u32::MAX, action: Action::Compare, immediate, condition, ..
    } = test
    else {
        return None;
    };
    match condition {
        Condition::AboveOrEqual => Some((key, immediate)),
        Condition::Above => immediate.checked_add(1).map(|least| (key, least)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use forebay_filter::ir::{
        Block, BlockId, Edge, Function, Predicate, Relation, Terminator, Value, Width,
    };

    use super::super::select::select;
    use super::*;

    /// Tests a half word for at least 1000 and at least `end`; block 2 returns 1
    /// and block 3 returns 0.
    fn bounds(end: u32, above: u32) -> Function {
        let mut function = Function::new();
        let load = Value::Load { width: Width::Half, index: None, displacement: 34 };
        let left = function.value(load);
        for (least, then, otherwise) in [(1000, 1, 3), (end, above, 2)] {
            let right = function.constant(least);
            let relation = Relation::GreaterOrEqual;
            let predicate = Predicate::Compare { relation, left, right };
            let (then, otherwise) = (Edge::to(BlockId(then)), Edge::to(BlockId(otherwise)));
            let end = Terminator::Test { predicate, then, otherwise };
            function.blocks.push(Block { parameters: Vec::new(), end });
        }
        for constant in [1, 0] {
            let end = Terminator::Return(function.constant(constant));
            function.blocks.push(Block { parameters: Vec::new(), end });
        }
        function
    }

    #[test]
    fn two_bounds_become_a_range() {
        let function = bounds(3001, 3);
        let (graph, tests) = fused_graph(&function);
        assert_eq!(graph.layout, [0, 2, 3]);
        assert!(
            matches!(
                tests[0],
                Test::Immediate {
                    minus: 1000,
                    immediate: 2001,
                    condition: Condition::Below,
                    field: None,
                    ..
                }
            ),
            "{:?}",
            tests[0]
        );
        assert!(matches!(graph.node(0).end, End::Test { then: 2, otherwise: 3, .. }));
    }

    #[test]
    fn bounds_that_lead_elsewhere_or_cross_stay_two_tests() {
        for (end, above) in [(3001, 2), (1000, 3)] {
            let function = bounds(end, above);
            assert_eq!(fused_graph(&function).0.layout, [0, 1, 2, 3]);
        }
    }

    /// A chain of blocks that compare the byte at each displacement with a
    /// constant; if equal, they go to `then`, otherwise to the next. The last two
    /// blocks return 0 and 1.
    fn chain(links: &[(u32, u32, u32)]) -> Function {
        let mut function = Function::new();
        for (at, &(displacement, constant, then)) in links.iter().enumerate() {
            let load = Value::Load { width: Width::Byte, index: None, displacement };
            let left = function.value(load);
            let right = function.constant(constant);
            let predicate = Predicate::Compare { relation: Relation::Equal, left, right };
            let then = Edge::to(BlockId(then));
            let otherwise = Edge::to(BlockId(at as u32 + 1));
            let end = Terminator::Test { predicate, then, otherwise };
            function.blocks.push(Block { parameters: Vec::new(), end });
        }
        for constant in [0, 1] {
            let end = Terminator::Return(function.constant(constant));
            function.blocks.push(Block { parameters: Vec::new(), end });
        }
        function
    }

    fn fused_graph(function: &Function) -> (Graph<'_>, Vec<Test>) {
        let mut graph = Graph::new(function);
        let mut tests: Vec<Test> = graph
            .nodes
            .iter()
            .map(|node| match node.end {
                End::Test { predicate, .. } => select(function, predicate),
                _ => Test::Constant(true),
            })
            .collect();
        fuse(&mut graph, &mut tests);
        (graph, tests)
    }

    /// The layout after fusing, the constants of the first test, and the parent
    /// of the last node.
    fn fused(function: &Function) -> (Vec<NodeId>, Vec<u32>, Option<NodeId>) {
        let (graph, tests) = fused_graph(function);
        let constants = match tests[0] {
            Test::Few { few, .. } => few.constants().to_vec(),
            _ => Vec::new(),
        };
        let last = graph.nodes.last().and_then(|node| node.parent);
        (graph.layout, constants, last)
    }

    #[test]
    fn tests_of_one_value_become_one_and_lead_to_a_child() {
        let function = chain(&[(9, 6, 5), (9, 17, 5), (9, 132, 5), (12, 1, 4)]);
        assert_eq!(fused(&function), (vec![0, 3, 4, 5], vec![6, 17, 132], Some(0)));
    }

    #[test]
    fn a_fourth_test_and_another_value_stand_alone() {
        let function = chain(&[(9, 6, 5), (9, 17, 5), (9, 132, 5), (9, 1, 5)]);
        assert_eq!(fused(&function), (vec![0, 3, 4, 5], vec![6, 17, 132], None));
        let function = chain(&[(9, 6, 3), (12, 17, 3)]);
        assert_eq!(fused(&function), (vec![0, 1, 2, 3], vec![], None));
    }

    #[test]
    fn what_another_test_leads_to_is_no_child() {
        let function = chain(&[(9, 6, 4), (9, 17, 4), (12, 1, 4)]);
        assert_eq!(fused(&function), (vec![0, 2, 3, 4], vec![6, 17], None));
    }
}
