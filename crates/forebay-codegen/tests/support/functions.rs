//! Random functions of the intermediate representation, of more shapes than
//! classic programs give.

use forebay_filter::ir::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value,
    ValueId, Width,
};

use forebay_packet::random::Random;

/// Constants that matter somewhere.
const CONSTANTS: [u32; 20] = [
    0,
    1,
    2,
    4,
    6,
    8,
    14,
    17,
    31,
    32,
    33,
    0x7f,
    0x80,
    0xff,
    0x800,
    0x86dd,
    0xffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
];

const ARITHMETIC: [Arithmetic; 10] = [
    Arithmetic::Add,
    Arithmetic::Sub,
    Arithmetic::Mul,
    Arithmetic::Div,
    Arithmetic::Mod,
    Arithmetic::And,
    Arithmetic::Or,
    Arithmetic::Xor,
    Arithmetic::Lsh,
    Arithmetic::Rsh,
];

/// A function under construction: what each block may rely on.
pub struct Maker<'r> {
    random: &'r mut Random,
    function: Function,
    /// For each block its parameters.
    parameters: Vec<Vec<ValueId>>,
    with_loops: bool,
    /// The value last compared for equality and where that led.
    chain: Option<(ValueId, usize)>,
}

/// What is known where a block begins: values that may be computed.
#[derive(Clone, Default)]
struct Known {
    values: Vec<ValueId>,
}

impl<'r> Maker<'r> {
    /// A function of `tests` tests. Where paths merge only values without
    /// loads are relied on.
    pub fn function(random: &'r mut Random, tests: usize, with_loops: bool) -> Function {
        let mut maker = Self {
            random,
            function: Function::new(),
            parameters: Vec::new(),
            with_loops,
            chain: None,
        };
        maker.make(tests);
        maker.function
    }

    fn make(&mut self, tests: usize) {
        for _ in 0..1 + self.random.below(3) {
            let size = self.random.pick(&[1, 2, 3, 4, 5, 9, 17, 40, 300]);
            let mut set: Vec<u32> = (0..size)
                .map(|_| match self.random.below(3) {
                    0 => self.random.next() as u32,
                    1 => self.random.below(0x1_0000) as u32,
                    _ => self.random.below(0x100) as u32,
                })
                .collect();
            set.sort_unstable();
            set.dedup();
            self.function.sets.push(set);
        }
        let blocks = tests + 3;
        for block in 0..blocks {
            let count =
                if block > 0 && self.random.below(4) == 0 { self.random.below(4) } else { 0 };
            let parameters = (0..count as u32)
                .map(|position| {
                    let block = BlockId(block as u32);
                    self.function.value(Value::Parameter { block, position })
                })
                .collect();
            self.parameters.push(parameters);
        }
        let base = self.base_values();
        // What every path to a block has made safe; all paths agree on `base`
        // and the parameters, so a block entered once may rely on more.
        let mut known: Vec<Option<Known>> = vec![None; blocks];
        known[0] = Some(Known { values: base.clone() });
        for block in 0..blocks {
            let mut here = known[block].take().unwrap_or_else(|| Known { values: base.clone() });
            here.values.extend(self.parameters[block].iter().copied());
            let end = self.end(block, blocks, &mut here, &mut known, &base);
            let parameters = self.parameters[block].clone();
            self.function.blocks.push(Block { parameters, end });
        }
    }

    fn base_values(&mut self) -> Vec<ValueId> {
        let mut values = vec![self.function.value(Value::WireLength)];
        for _ in 0..4 {
            let constant = self.random.pick(&CONSTANTS);
            values.push(self.function.constant(constant));
        }
        values
    }

    /// The end of `block`; what its targets may rely on goes to `known`.
    fn end(
        &mut self,
        block: usize,
        blocks: usize,
        here: &mut Known,
        known: &mut [Option<Known>],
        base: &[ValueId],
    ) -> Terminator {
        let left = blocks - block - 1;
        if left == 0 || (block + 3 >= blocks) || self.random.below(20) == 0 {
            let value = if self.random.below(2) == 0 {
                let constant = self.random.pick(&[0, 0, 96, 262_144]);
                self.function.constant(constant)
            } else {
                self.random.pick(&here.values)
            };
            return Terminator::Return(value);
        }
        if let Some(end) = self.link(block, here, known, base) {
            return end;
        }
        for _ in 0..self.random.below(3) {
            self.add_arithmetic(here);
        }
        let (predicate, load) = self.predicate(here);
        let then_block = block + 1 + self.random.below(left.min(6) as u64) as usize;
        let else_block = self.other_target(block, blocks);
        if let Predicate::Compare { relation: Relation::Equal, left, .. } = predicate {
            self.chain = Some((left, then_block));
        }
        let mut after = here.clone();
        after.values.extend(load);
        let then = self.edge(then_block, &after);
        let otherwise = self.edge(else_block, here);
        self.rely(known, then_block, after, base);
        if else_block > block {
            self.rely(known, else_block, here.clone(), base);
        } else {
            known[else_block] = None;
        }
        if self.random.below(15) == 0 {
            return Terminator::Jump(otherwise);
        }
        Terminator::Test { predicate, then, otherwise }
    }

    /// Another test of the value that was compared last, which leads to the
    /// same place.
    fn link(
        &mut self,
        block: usize,
        here: &Known,
        known: &mut [Option<Known>],
        base: &[ValueId],
    ) -> Option<Terminator> {
        let (value, then_block) = self.chain.filter(|&(value, then_block)| {
            then_block > block + 1 && here.values.contains(&value)
        })?;
        if self.random.below(4) == 0 {
            return None;
        }
        let right = self.random.below(20) as u32;
        let right = self.function.constant(right);
        let predicate = Predicate::Compare { relation: Relation::Equal, left: value, right };
        let then = self.edge(then_block, here);
        let otherwise = self.edge(block + 1, here);
        self.rely(known, then_block, here.clone(), base);
        self.rely(known, block + 1, here.clone(), base);
        Some(Terminator::Test { predicate, then, otherwise })
    }

    fn other_target(&mut self, block: usize, blocks: usize) -> usize {
        if self.with_loops && self.random.below(6) == 0 {
            return 1 + self.random.below(block as u64 + 1) as usize;
        }
        let left = (blocks - block - 1) as u64;
        block + 1 + self.random.below(left.min(12)) as usize
    }

    /// A block entered a second time may rely on `base` alone.
    fn rely(&mut self, known: &mut [Option<Known>], block: usize, what: Known, base: &[ValueId]) {
        known[block] = match known[block] {
            None if !self.with_loops => Some(what),
            _ => Some(Known { values: base.to_vec() }),
        };
    }

    fn edge(&mut self, block: usize, known: &Known) -> Edge {
        let arguments =
            (0..self.parameters[block].len()).map(|_| self.random.pick(&known.values)).collect();
        Edge { target: BlockId(block as u32), arguments }
    }

    fn add_arithmetic(&mut self, known: &mut Known) {
        let op = self.random.pick(&ARITHMETIC);
        let left = self.random.pick(&known.values);
        let right = match op {
            // The divisor is a number other than 0 here; tests of it are in
            // the programs.
            Arithmetic::Div | Arithmetic::Mod => {
                let divisor = self.random.pick(&CONSTANTS).max(1);
                self.function.constant(divisor)
            }
            _ => self.random.pick(&known.values),
        };
        let value = self.function.value(Value::Binary { op, left, right });
        known.values.push(value);
    }

    /// A predicate, and the load that may be done where it holds.
    fn predicate(&mut self, known: &Known) -> (Predicate, Option<ValueId>) {
        let value = self.random.pick(&known.values);
        match self.random.below(8) {
            0..=3 => {
                let width = self.random.pick(&[Width::Byte, Width::Half, Width::Word]);
                let index = (self.random.below(3) == 0).then_some(value);
                let displacement = match self.random.below(12) {
                    0 => 0xffff_fff0,
                    _ => self.random.below(48) as u32,
                };
                let bytes = displacement.wrapping_add(width.bytes());
                let bytes = bytes.max(displacement);
                let load = self.function.value(Value::Load { width, index, displacement });
                (Predicate::Captured { index, bytes }, Some(load))
            }
            4 => {
                let set = SetId(self.random.below(self.function.sets.len() as u64) as u32);
                (Predicate::Member { value, set }, None)
            }
            _ => {
                let relation = self.random.pick(&[
                    Relation::Equal,
                    Relation::Greater,
                    Relation::GreaterOrEqual,
                    Relation::AnyBit,
                ]);
                let constant = self.random.pick(&CONSTANTS);
                let constant = self.function.constant(constant);
                let other = self.random.pick(&known.values);
                let (left, right) = match self.random.below(4) {
                    0 => (value, other),
                    1 => (constant, value),
                    _ => (value, constant),
                };
                (Predicate::Compare { relation, left, right }, None)
            }
        }
    }
}
