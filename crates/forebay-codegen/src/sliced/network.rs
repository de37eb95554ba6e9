//! A Boolean network of lookup tables, built without redundancy.
//!
//! A node is any Boolean function of two or three signals, given by its truth
//! table, as in the logic blocks of an FPGA. Nodes are shared by structure
//! (hash-consed), so tests that are a common prefix of several rules are made
//! once. To increase sharing, nodes are in canonical form: inputs ascend, the
//! node depends on all of them, none is complemented, and it is 0 where all are
//! 0. The complement of a node is a property of the [`Signal`] that refers to
//! it and costs nothing: the table of the reading node absorbs it.

use std::ops::Not;

use forebay_filter::cancel;
use rustc_hash::FxHashMap;

/// Truth tables of each variable. Bit `4a + 2b + c` is the value for inputs
/// `a`, `b` and `c`, the order of `vpternlog`'s immediate.
const VARIABLES: [u8; 3] = [0xf0, 0xcc, 0xaa];

/// By variable: the distance in a table of values that differ only in it.
const DISTANCES: [u32; 3] = [4, 2, 1];

/// The most inputs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Two, as in most instruction sets.
    Two,
    /// Three: AVX-512's `vpternlog`.
    Three,
}

/// An input, a node or a constant, or its complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(u32);

impl Signal {
    /// Never set.
    pub const FALSE: Self = Self(0);
    /// Always set.
    pub const TRUE: Self = Self(1);

    fn of(number: u32) -> Self {
        Self(number << 1)
    }

    /// The number of the input or node; 0 for constants.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0 >> 1
    }

    /// Whether it is the complement.
    #[must_use]
    pub fn inverted(self) -> bool {
        self.0 & 1 != 0
    }
}

impl Not for Signal {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// A function of two or three inputs or nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The numbers of its inputs, ascending; the last is 0 if there are two.
    inputs: [u32; 3],
    /// Bit `4a + 2b + c` is its value; with two inputs `c` makes no difference.
    table: u8,
}

impl Node {
    /// The numbers of its two or three inputs.
    #[must_use]
    pub fn inputs(&self) -> &[u32] {
        if self.inputs[2] == 0 { &self.inputs[..2] } else { &self.inputs }
    }

    /// Its truth table.
    #[must_use]
    pub fn table(&self) -> u8 {
        self.table
    }
}

/// Inputs and nodes. Number 0 is the constant 0, then come the inputs, then the
/// nodes, each after its inputs.
#[derive(Clone, Debug)]
pub struct Network {
    arity: Arity,
    inputs: u32,
    nodes: Vec<Node>,
    known: FxHashMap<Node, u32>,
}

impl Network {
    /// A network of `inputs` inputs and no node.
    #[must_use]
    pub fn new(inputs: u32, arity: Arity) -> Self {
        Self { arity, inputs, nodes: Vec::new(), known: FxHashMap::default() }
    }

    /// The most inputs of a node.
    #[must_use]
    pub fn arity(&self) -> Arity {
        self.arity
    }

    /// The inputs there are.
    #[must_use]
    pub fn inputs(&self) -> u32 {
        self.inputs
    }

    /// The nodes; the first has the number [`Network::inputs`] + 1.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Input number `input`, from 0.
    ///
    /// # Panics
    /// If there are too few inputs.
    #[must_use]
    pub fn input(&self, input: u32) -> Signal {
        assert!(input < self.inputs, "input {input} of {}", self.inputs);
        Signal::of(input + 1)
    }

    /// `a & b`.
    pub fn and(&mut self, a: Signal, b: Signal) -> Signal {
        self.node([a, b, Signal::TRUE], VARIABLES[0] & VARIABLES[1])
    }

    /// `a | b`.
    pub fn or(&mut self, a: Signal, b: Signal) -> Signal {
        !self.and(!a, !b)
    }

    /// `then` where `test` is set, `otherwise` elsewhere.
    pub fn choose(&mut self, test: Signal, then: Signal, otherwise: Signal) -> Signal {
        let [a, b, c] = VARIABLES;
        self.node([test, then, otherwise], (a & b) | (!a & c))
    }

    /// The conjunction of `signals`. Conjunctions with a common prefix share
    /// nodes.
    pub fn all(&mut self, signals: impl IntoIterator<Item = Signal>) -> Signal {
        let mut signals = signals.into_iter().filter(|&signal| signal != Signal::TRUE);
        let mut all = signals.next().unwrap_or(Signal::TRUE);
        while let Some(second) = signals.next() {
            all = self.all_of_three(all, second, signals.next().unwrap_or(Signal::TRUE));
        }
        all
    }

    /// The disjunction of `signals`.
    pub fn any(&mut self, signals: impl IntoIterator<Item = Signal>) -> Signal {
        !self.all(signals.into_iter().map(|signal| !signal))
    }

    pub(super) fn all_of_three(&mut self, a: Signal, b: Signal, c: Signal) -> Signal {
        self.node([a, b, c], VARIABLES[0] & VARIABLES[1] & VARIABLES[2])
    }

    /// The node with this table over `signals`, or the simpler signal it
    /// equals.
    pub fn node(&mut self, signals: [Signal; 3], table: u8) -> Signal {
        let (inputs, table) = canonical(signals, table);
        let inverted = table & 1 != 0;
        let table = if inverted { !table } else { table };
        let signal = match inputs {
            [0, ..] => Signal::FALSE,
            [only, 0, _] => Signal::of(only),
            [a, b, c] if c != 0 && self.arity == Arity::Two => self.of_two_inputs([a, b, c], table),
            _ => Signal::of(self.shared(Node { inputs, table })),
        };
        if inverted { !signal } else { signal }
    }

    fn shared(&mut self, node: Node) -> u32 {
        cancel::check();
        let next = self.inputs + 1 + self.nodes.len() as u32;
        let number = *self.known.entry(node).or_insert(next);
        if number == next {
            self.nodes.push(node);
        }
        number
    }

    /// A function of three inputs as nodes of two: splits by the variable for
    /// which one half of the table is the simplest.
    fn of_two_inputs(&mut self, inputs: [u32; 3], table: u8) -> Signal {
        let simplicity = |variable: &usize| {
            let [low, high] = halves(table, *variable);
            let constant = |half| half == 0 || half == u8::MAX;
            match (constant(low), constant(high)) {
                (true, _) | (_, true) => 2,
                _ if low == !high => 1,
                _ => 0,
            }
        };
        let variable = (0..3).max_by_key(simplicity).unwrap_or(0);
        let [low, high] = halves(table, variable);
        let signals = inputs.map(Signal::of);
        let test = signals[variable];
        let [otherwise, then] = [low, high].map(|half| self.node(signals, half));
        match (otherwise, then) {
            (Signal::FALSE, then) => self.and(test, then),
            (Signal::TRUE, then) => self.or(!test, then),
            (otherwise, Signal::FALSE) => self.and(!test, otherwise),
            (otherwise, Signal::TRUE) => self.or(test, otherwise),
            (otherwise, then) if otherwise == !then => {
                let [a, b, _] = VARIABLES;
                self.node([test, otherwise, Signal::FALSE], a ^ b)
            }
            (otherwise, then) => {
                let then = self.and(test, then);
                let otherwise = self.and(!test, otherwise);
                self.or(then, otherwise)
            }
        }
    }

    /// The inputs that `signals` depend on.
    #[must_use]
    pub fn used(&self, signals: &[Signal]) -> Vec<bool> {
        let inputs = self.inputs as usize;
        let mut used = vec![false; 1 + inputs + self.nodes.len()];
        for signal in signals {
            used[signal.number() as usize] = true;
        }
        for (index, node) in self.nodes.iter().enumerate().rev() {
            if used[1 + inputs + index] {
                for &input in node.inputs() {
                    used[input as usize] = true;
                }
            }
        }
        used[1..=inputs].to_vec()
    }

    /// Evaluates `signals` for 64 packets whose inputs are `inputs`, a word
    /// each. Slow: the reference for generated code.
    ///
    /// # Panics
    /// If there are fewer words than inputs.
    #[must_use]
    pub fn evaluate(&self, inputs: &[u64], signals: &[Signal]) -> Vec<u64> {
        assert_eq!(inputs.len(), self.inputs as usize, "a word for each input");
        let mut values = Vec::with_capacity(1 + inputs.len() + self.nodes.len());
        values.push(0);
        values.extend_from_slice(inputs);
        for node in &self.nodes {
            let [a, b, c] = node.inputs.map(|number| values[number as usize]);
            let rows = (0..8_u8).filter(|row| node.table >> row & 1 != 0).map(|row| {
                let of = |bit: u8, value: u64| if row & bit != 0 { value } else { !value };
                of(4, a) & of(2, b) & of(1, c)
            });
            values.push(rows.fold(0, |all, row| all | row));
        }
        let value = |signal: &Signal| {
            let value = values[signal.number() as usize];
            if signal.inverted() { !value } else { value }
        };
        signals.iter().map(value).collect()
    }
}

/// The table's values where `variable` is 0 and where it is 1, each as a table
/// that does not depend on it.
fn halves(table: u8, variable: usize) -> [u8; 2] {
    let (set, distance) = (VARIABLES[variable], DISTANCES[variable]);
    let (low, high) = (table & !set, table & set);
    [low | low << distance, high | high >> distance]
}

/// The same function of the uncomplemented inputs that it depends on,
/// ascending, padded with 0.
fn canonical(signals: [Signal; 3], mut table: u8) -> ([u32; 3], u8) {
    for (variable, &signal) in signals.iter().enumerate() {
        let [low, high] = halves(table, variable);
        let set = VARIABLES[variable];
        table = match (signal.number(), signal.inverted()) {
            (0, inverted) => {
                if inverted {
                    high
                } else {
                    low
                }
            }
            (_, true) => (high & !set) | (low & set),
            (_, false) => table,
        };
    }
    let mut inputs = signals.map(Signal::number);
    for variable in 1..3 {
        if let Some(same) = (0..variable).find(|&other| inputs[other] == inputs[variable]) {
            let set = VARIABLES[same];
            let [low, high] = halves(table, variable);
            table = (low & !set) | (high & set);
        }
    }
    for (variable, input) in inputs.iter_mut().enumerate() {
        let [low, high] = halves(table, variable);
        if low == high {
            *input = 0;
        }
    }
    let mut order = [0, 1, 2];
    order.sort_by_key(|&variable| match inputs[variable] {
        0 => u32::MAX,
        number => number,
    });
    let mut ordered = 0;
    for row in 0..8_usize {
        let values = [row >> 2 & 1, row >> 1 & 1, row & 1];
        let mut from = 0;
        for (value, &variable) in values.iter().zip(&order) {
            from |= value << (2 - variable);
        }
        ordered |= (table >> from & 1) << row;
    }
    (order.map(|variable| inputs[variable]), ordered)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INPUTS: [u64; 3] = [0xf0, 0xcc, 0xaa];

    fn signal(network: &Network, choice: u8) -> Signal {
        let signal = match choice / 2 {
            3 => Signal::FALSE,
            input => network.input(input.into()),
        };
        if choice % 2 == 1 { !signal } else { signal }
    }

    proptest! {
        #[test]
        fn a_node_is_its_table(
            choices in prop::array::uniform3(0_u8..8),
            table: u8,
            two: bool,
        ) {
            let mut network = Network::new(3, if two { Arity::Two } else { Arity::Three });
            let signals = choices.map(|choice| signal(&network, choice));
            let node = network.node(signals, table);
            let [a, b, c] = signals.map(|signal| network.evaluate(&INPUTS, &[signal])[0] as u8);
            let expected = (0..8_u8).fold(0, |value, row| {
                let at = (a >> row & 1) << 2 | (b >> row & 1) << 1 | (c >> row & 1);
                value | (table >> at & 1) << row
            });
            prop_assert_eq!(network.evaluate(&INPUTS, &[node])[0] as u8, expected);
            for node in network.nodes() {
                prop_assert!(node.table() & 1 == 0 && node.inputs().is_sorted());
                prop_assert!(!two || node.inputs().len() == 2);
            }
        }
    }

    #[test]
    fn equal_functions_are_one_node() {
        let mut network = Network::new(3, Arity::Three);
        let [a, b, c] = [0, 1, 2].map(|input| network.input(input));
        let one = network.all([a, !b, c]);
        let other = network.all([c, a, !b]);
        assert_eq!(one, other);
        let negation = network.any([!c, b, !a]);
        assert_eq!(negation, !one);
        assert_eq!(network.nodes().len(), 1);
        assert_eq!(network.all([]), Signal::TRUE);
        assert_eq!(network.and(a, !a), Signal::FALSE);
        assert_eq!(network.choose(a, b, b), b);
    }
}
