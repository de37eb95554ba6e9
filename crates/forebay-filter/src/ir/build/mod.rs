//! Classic BPF → [`Function`].
//!
//! The registers A and X and the memory cells become values. The program is
//! walked once, from top to bottom, tracking the value of each register. A
//! region that is entered with different values in a live register gets a
//! parameter for it; as jumps go forward, all predecessors of a region are
//! known before it. Only a region that is the target of a backward jump gets a
//! parameter for every live register; parameters that always have one value are
//! removed at the end. Time and memory are proportional to the length of the
//! program, times the 18 registers at worst.
//!
//! A region is split into blocks where it may end early: before each load a
//! block tests that its bytes were captured, before each division by X one
//! tests for 0. All of them continue to one block, the last, which returns 0.
//! The blocks of a region are consecutive and in its place, so an edge is
//! backward exactly where the interpreter counts a backward jump.
//!
//! Values are folded as they are created. That alone can decide an early end: a
//! load beyond 2³² bytes is never inside the packet.

mod regions;

use crate::ir::simplify::compact::compact;
use crate::ir::simplify::fold::Folder;
use crate::ir::simplify::parameters::prune;
use crate::ir::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, Terminator, Value, ValueId,
    Width,
};
use crate::program::Program;
use crate::program::instruction::{ANCILLARY, Alu, Operand, Operation, Size, Test};
use regions::{A, REGISTERS, Region, X, cell, operation, regions};

/// Builds the function with the same result as `program` for every packet.
#[must_use]
pub fn build(program: &Program) -> Function {
    compact(&uncompacted(program))
}

/// The same with unused values, and possibly unreachable blocks: for `simplify`, which
/// removes them.
pub(crate) fn uncompacted(program: &Program) -> Function {
    let regions = regions(program.instructions());
    let mut builder = Builder::new(&regions, program.instructions().len());
    for (number, region) in regions.iter().enumerate() {
        if region.reached {
            builder.region(number, program);
        }
    }
    let looped = regions.iter().any(|region| region.looped);
    let mut function = builder.finish();
    while looped && let Some(pruned) = prune(&function) {
        function = compact(&pruned);
    }
    function
}

/// The value of each register.
type RegisterValues = [ValueId; REGISTERS];

/// Placeholder for the block that returns 0, which is numbered last.
const REJECT: BlockId = BlockId(u32::MAX);

/// The incoming edges of a region.
#[derive(Clone)]
struct Entry {
    /// The values on the first edge.
    state: Option<RegisterValues>,
    /// Registers with different values on another edge.
    differing: u32,
    /// Its first block.
    block: BlockId,
    /// The registers of its parameters.
    parameters: Vec<usize>,
}

/// An edge out of a region, to be completed when its target is known.
struct Exit {
    block: usize,
    /// The index of the edge in its block.
    position: usize,
    region: usize,
    state: RegisterValues,
}

struct Builder<'a> {
    regions: &'a [Region],
    folder: Folder,
    entries: Vec<Entry>,
    exits: Vec<Exit>,
    state: RegisterValues,
    /// The parameters of the block under construction.
    parameters: Vec<ValueId>,
}

/// A region ended before its last instruction.
struct Ended;

impl<'a> Builder<'a> {
    /// For a program of `length` instructions.
    fn new(regions: &'a [Region], length: usize) -> Self {
        let mut folder = Folder::with_capacity(length);
        let zero = folder.constant(0);
        let entry = |region: &Region| Entry {
            state: None,
            differing: if region.looped { region.live } else { 0 },
            block: REJECT,
            parameters: Vec::new(),
        };
        let mut this = Self {
            regions,
            folder,
            entries: regions.iter().map(entry).collect(),
            exits: Vec::new(),
            state: [zero; REGISTERS],
            parameters: Vec::new(),
        };
        if regions[0].looped {
            // The entry has no parameters, so a block is inserted before the
            // loop.
            this.leave(Terminator::Jump(Edge::to(REJECT)), &[0]);
        } else {
            this.entries[0].state = Some(this.state);
        }
        this
    }

    /// Builds the blocks of a region.
    fn region(&mut self, number: usize, program: &Program) {
        let region = &self.regions[number];
        self.enter(number);
        for index in region.start..region.end {
            let last = index + 1 == region.end;
            let operation = operation(program.instructions()[index]);
            if self.operation(operation, region).is_err() {
                return;
            }
            let leaves = matches!(operation, Operation::Jump(_) | Operation::Branch(..));
            if last && !leaves {
                self.leave(Terminator::Jump(Edge::to(REJECT)), &region.next);
            }
        }
    }

    /// Sets the registers to their values at the start of a region, with a
    /// parameter for each live register that differs between edges.
    fn enter(&mut self, number: usize) {
        let block = BlockId(self.folder.function.blocks.len() as u32);
        let zero = self.folder.constant(0);
        let entry = &mut self.entries[number];
        entry.block = block;
        self.state = entry.state.unwrap_or([zero; REGISTERS]);
        let differing = entry.differing & self.regions[number].live;
        for register in (0..REGISTERS).filter(|register| differing & 1 << register != 0) {
            let position = entry.parameters.len() as u32;
            let parameter = self.folder.value(Value::Parameter { block, position });
            entry.parameters.push(register);
            self.parameters.push(parameter);
            self.state[register] = parameter;
        }
    }

    fn push(&mut self, end: Terminator) {
        let parameters = std::mem::take(&mut self.parameters);
        self.folder.function.blocks.push(Block { parameters, end });
    }

    /// Ends the region with edges to the regions `next`.
    fn leave(&mut self, end: Terminator, next: &[usize]) {
        let block = self.folder.function.blocks.len();
        self.push(end);
        for (position, &region) in next.iter().enumerate() {
            let entry = &mut self.entries[region];
            match &entry.state {
                None => entry.state = Some(self.state),
                Some(known) => {
                    for (register, value) in self.state.iter().enumerate() {
                        entry.differing |= u32::from(*value != known[register]) << register;
                    }
                }
            }
            self.exits.push(Exit { block, position, region, state: self.state });
        }
    }

    fn operation(&mut self, operation: Operation, region: &Region) -> Result<(), Ended> {
        match operation {
            Operation::LoadAbsolute(_, ANCILLARY..) => return Err(self.reject()),
            Operation::LoadAbsolute(size, at) => self.state[A] = self.load(size, None, at)?,
            Operation::LoadIndirect(size, at) => {
                self.state[A] = self.load(size, Some(self.state[X]), at)?;
            }
            Operation::LoadLength => self.state[A] = self.folder.value(Value::WireLength),
            Operation::LoadImmediate(k) => self.state[A] = self.folder.constant(k),
            Operation::LoadMemory(number) => self.state[A] = self.state[cell(number)],
            Operation::LoadXLength => self.state[X] = self.folder.value(Value::WireLength),
            Operation::LoadXImmediate(k) => self.state[X] = self.folder.constant(k),
            Operation::LoadXMemory(number) => self.state[X] = self.state[cell(number)],
            Operation::LoadXHeader(at) => {
                let byte = self.load(Size::Byte, None, at)?;
                let nibble = self.by_constant(Arithmetic::And, byte, 0xf);
                self.state[X] = self.by_constant(Arithmetic::Lsh, nibble, 2);
            }
            Operation::Store(number) => self.state[cell(number)] = self.state[A],
            Operation::StoreX(number) => self.state[cell(number)] = self.state[X],
            Operation::Arithmetic(alu, operand) => {
                let right = self.operand(operand);
                if matches!(alu, Alu::Div | Alu::Mod) {
                    self.not_zero(right)?;
                }
                self.state[A] = self.folder.binary(arithmetic(alu), self.state[A], right);
            }
            Operation::Negate => {
                let zero = self.folder.constant(0);
                self.state[A] = self.folder.binary(Arithmetic::Sub, zero, self.state[A]);
            }
            Operation::Jump(_) => {
                self.leave(Terminator::Jump(Edge::to(REJECT)), &region.next);
            }
            Operation::Branch(test, operand, ..) => self.branch(test, operand, &region.next),
            Operation::ReturnConstant(k) => {
                let value = self.folder.constant(k);
                self.push(Terminator::Return(value));
                return Err(Ended);
            }
            Operation::ReturnA => {
                self.push(Terminator::Return(self.state[A]));
                return Err(Ended);
            }
            Operation::MoveAToX => self.state[X] = self.state[A],
            Operation::MoveXToA => self.state[A] = self.state[X],
        }
        Ok(())
    }

    fn operand(&mut self, operand: Operand) -> ValueId {
        match operand {
            Operand::K(k) => self.folder.constant(k),
            Operand::X => self.state[X],
        }
    }

    fn by_constant(&mut self, op: Arithmetic, left: ValueId, constant: u32) -> ValueId {
        let right = self.folder.constant(constant);
        self.folder.binary(op, left, right)
    }

    fn branch(&mut self, test: Test, operand: Operand, next: &[usize]) {
        let right = self.operand(operand);
        let relation = match test {
            Test::Eq => Relation::Equal,
            Test::Gt => Relation::Greater,
            Test::Ge => Relation::GreaterOrEqual,
            Test::Set => Relation::AnyBit,
        };
        if let &[then, otherwise] = next
            && then == otherwise
        {
            self.leave(Terminator::Jump(Edge::to(REJECT)), &[then]);
            return;
        }
        let predicate = Predicate::Compare { relation, left: self.state[A], right };
        let (then, otherwise) = (Edge::to(REJECT), Edge::to(REJECT));
        self.leave(Terminator::Test { predicate, then, otherwise }, next);
    }

    /// The value of a load, after a block that ends the run unless the bytes
    /// were captured.
    fn load(&mut self, size: Size, index: Option<ValueId>, at: u32) -> Result<ValueId, Ended> {
        let width = match size {
            Size::Byte => Width::Byte,
            Size::Half => Width::Half,
            Size::Word => Width::Word,
        };
        let place = match index {
            None => Some((None, at)),
            Some(index) => self.folder.index(index, at),
        };
        let bytes = |displacement: u32| displacement.checked_add(width.bytes());
        let Some((index, displacement)) = place else {
            return Err(self.reject());
        };
        let Some(bytes) = bytes(displacement) else {
            return Err(self.reject());
        };
        self.require(Predicate::Captured { index, bytes }, true);
        Ok(self.folder.value(Value::Load { width, index, displacement }))
    }

    /// Adds a block that ends the run if `divisor` is 0, unless it cannot be 0.
    fn not_zero(&mut self, divisor: ValueId) -> Result<(), Ended> {
        let bounds = self.folder.bounds(divisor);
        if bounds.high == 0 {
            return Err(self.reject());
        }
        if bounds.low == 0 {
            let right = self.folder.constant(0);
            let relation = Relation::Equal;
            self.require(Predicate::Compare { relation, left: divisor, right }, false);
        }
        Ok(())
    }

    /// Adds a block that ends the run unless `predicate` has the outcome
    /// `holds`.
    fn require(&mut self, predicate: Predicate, holds: bool) {
        let next = Edge::to(BlockId(self.folder.function.blocks.len() as u32 + 1));
        let (then, otherwise) =
            if holds { (next, Edge::to(REJECT)) } else { (Edge::to(REJECT), next) };
        self.push(Terminator::Test { predicate, then, otherwise });
    }

    fn reject(&mut self) -> Ended {
        self.push(Terminator::Jump(Edge::to(REJECT)));
        Ended
    }

    /// Completes the edges and adds the rejecting block.
    fn finish(mut self) -> Function {
        let zero = self.folder.constant(0);
        let mut function = self.folder.function;
        for Exit { block, position, region, state } in self.exits {
            let entry = &self.entries[region];
            let arguments = entry.parameters.iter().map(|&register| state[register]).collect();
            if let Some(edge) = function.blocks[block].end.edges_mut().nth(position) {
                *edge = Edge { target: entry.block, arguments };
            }
        }
        let reject = BlockId(function.blocks.len() as u32);
        for edge in function.blocks.iter_mut().flat_map(|block| block.end.edges_mut()) {
            if edge.target == REJECT {
                edge.target = reject;
            }
        }
        function.blocks.push(Block { parameters: Vec::new(), end: Terminator::Return(zero) });
        function
    }
}

fn arithmetic(alu: Alu) -> Arithmetic {
    match alu {
        Alu::Add => Arithmetic::Add,
        Alu::Sub => Arithmetic::Sub,
        Alu::Mul => Arithmetic::Mul,
        Alu::Div => Arithmetic::Div,
        Alu::Mod => Arithmetic::Mod,
        Alu::And => Arithmetic::And,
        Alu::Or => Arithmetic::Or,
        Alu::Xor => Arithmetic::Xor,
        Alu::Lsh => Arithmetic::Lsh,
        Alu::Rsh => Arithmetic::Rsh,
    }
}
