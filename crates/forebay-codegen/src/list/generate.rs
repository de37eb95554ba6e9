//! Generates the code of a filter, node by node.

use forebay_filter::cancel;
use forebay_filter::ir::{Arithmetic, Function, Value, ValueId, Width};
use iced_x86::{Code, MemoryOperand, Register};

use super::allocate::{Contents, Registers};
use super::block::{Op, Work, schedule};
use super::fuse::fuse;
use super::graph::{End, Graph, NodeId, Place};
use super::output::{Output, Position};
use super::registers::{BASE, CAP_LEN, Gpr, NUMBER, OFFSET, PACKET, VERDICT, entry};
use super::select::{Condition, Key, Meaning, Test, select};
use crate::code::{Isa, Options};
use crate::emit::assembler::{Assembler, EncodeError, Label};
use crate::explain::predicate::describe;

/// Backward edges allowed for a packet besides its captured length, plus one.
const BACKWARD_EDGES: u32 = 4097;

/// Keys whose uses are counted at a node. Hand-written filters hardly have
/// more; registers are merely used less well for the rest.
const FOLLOWED: usize = 256;

/// State of the code generation for one function.
pub(crate) struct Generator<'f> {
    pub function: &'f Function,
    graph: Graph<'f>,
    pub isa: Isa,
    load_latency: u8,
    pub output: Output,
    pub assembler: &'f mut Assembler,
    pub registers: Registers,
    /// By key: one more than the index in `ops` at which it was last planned; a
    /// hint, valid only if that operation is still for this key.
    planned: Vec<u32>,
    /// By node: its comparison; [`Test::Constant`] for nodes without one.
    tests: Vec<Test>,
    /// By parameter: its slot, if code uses it.
    pub parameters: Vec<Option<MemoryOperand>>,
    /// Slots that hold arguments until all parameters can be overwritten.
    pub staging: Vec<MemoryOperand>,
    /// The number of backward edges left to the packet.
    pub counter: Option<MemoryOperand>,
    /// The slot of the end of the table of lengths on the wire, if the function reads them.
    pub wire_len: Option<MemoryOperand>,
    /// Packets ahead of which headers are prefetched, or 0.
    pub prefetch: u16,
    labels: Vec<Label>,
    next_packet: Label,
}

/// Appends the code of `function` to `assembler`.
///
/// # Errors
/// If an instruction cannot be encoded.
pub(crate) fn generate(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<Label, EncodeError> {
    let mut graph = Graph::new(function);
    let labels: Vec<Label> = graph.nodes.iter().map(|_| assembler.label()).collect();
    let next_packet = assembler.label();
    let keys = Key::count(function);
    let mut tests = tests(function, &graph);
    fuse(&mut graph, &mut tests);
    graph.keep_entered(function, |id| match tests[id as usize] {
        Test::Constant(holds) => Some(holds),
        _ => None,
    });
    let generator = Generator {
        function,
        isa: options.isa,
        load_latency: options.load_latency,
        output: Output::default(),
        registers: Registers::new(keys, &reserved(function)),
        planned: vec![0; keys],
        tests,
        parameters: vec![None; function.values().len()],
        staging: Vec::new(),
        counter: None,
        wire_len: None,
        prefetch: options.prefetch,
        labels,
        next_packet,
        graph,
        assembler,
    };
    let output = generator.run();
    output.write(assembler)
}

/// Registers that instructions of `function` use implicitly.
fn reserved(function: &Function) -> Vec<Gpr> {
    let mut reserved = Vec::new();
    for value in function.values() {
        let Value::Binary { op, right, .. } = *value else { continue };
        match op {
            Arithmetic::Div | Arithmetic::Mod => reserved.extend([Gpr::RAX, Gpr::RDX]),
            Arithmetic::Lsh | Arithmetic::Rsh if function.as_constant(right).is_none() => {
                reserved.push(Gpr::RCX);
            }
            _ => {}
        }
        if reserved.len() > 8 {
            reserved.sort_by_key(|gpr| gpr.0);
            reserved.dedup();
        }
    }
    reserved
}

/// The comparison of each node.
fn tests(function: &Function, graph: &Graph<'_>) -> Vec<Test> {
    let test = |end: &End<'_>| match *end {
        End::Test { predicate, .. } => {
            cancel::check();
            select(function, predicate)
        }
        End::Jump { .. } | End::Return(_) => Test::Constant(true),
    };
    graph.nodes.iter().map(|node| test(&node.end)).collect()
}

impl Generator<'_> {
    fn run(mut self) -> Output {
        self.enter();
        let entered = (0, self.output.position());
        let mut ranges: Vec<(Position, Position)> = vec![(0, 0); self.graph.nodes.len()];
        let mut inherited: Vec<Contents> = vec![Contents::default(); self.graph.nodes.len()];
        let next = self.next_in_layout();
        let (trees, places) = self.graph.trees();
        for (at, &id) in trees.iter().enumerate() {
            cancel::check();
            let parent = self.graph.node(id).parent;
            if parent.is_none() {
                self.begin_tree(places[id as usize], &trees[at..], &places);
            }
            let contents = match (parent, self.graph.node(id).block) {
                (Some(parent), _) => inherited[parent as usize],
                (None, Some(block)) => self.arrivals(block),
                (None, None) => Contents::default(),
            };
            self.registers.begin_node(places[id as usize], contents);
            let start = self.output.position();
            self.output.bind(self.labels[id as usize]);
            if self.assembler.explains() {
                self.output.note(self.title(id));
                for &id in self.graph.fused.get(&id).map_or(&[][..], Vec::as_slice) {
                    self.output.note(self.title(id));
                }
            }
            if let (None, Some(block)) = (parent, self.graph.node(id).block) {
                self.keep_arrivals(block);
            }
            self.node(id, next[id as usize]);
            ranges[id as usize] = (start, self.output.position());
            inherited[id as usize] = self.registers.contents();
        }
        let order: Vec<(Position, Position)> = std::iter::once(entered)
            .chain(self.graph.layout.iter().map(|&id| ranges[id as usize]))
            .collect();
        self.output.arrange(&order);
        self.output
    }

    /// By node: the node whose code follows.
    fn next_in_layout(&self) -> Vec<Option<NodeId>> {
        let mut next = vec![None; self.graph.nodes.len()];
        for pair in self.graph.layout.windows(2) {
            next[pair[0] as usize] = Some(pair[1]);
        }
        next
    }

    /// Counts the uses of keys in the tree at the front of `nodes`, whose root
    /// is at `root`.
    fn begin_tree(&mut self, root: Place, nodes: &[NodeId], places: &[Place]) {
        self.registers.begin_tree();
        let mut pending = Vec::new();
        for &id in nodes {
            cancel::check();
            let position = places[id as usize].position;
            if !root.has(position) {
                break;
            }
            pending.clear();
            self.each_key_of(id, |key| pending.push(key));
            let mut followed = 0;
            while let Some(key) = pending.pop() {
                let before = self.registers.add_use(key, position);
                let is_at_hand = before.is_some_and(|before| {
                    before.into_iter().any(|at| places[nodes_at(nodes, root, at)].has(position))
                });
                followed += 1;
                if !is_at_hand && followed < FOLLOWED {
                    let work = self.work(key);
                    pending.extend(self.sources(key, work).into_iter().flatten());
                }
            }
        }
    }

    /// Calls `each` for the keys that node `id` reads.
    fn each_key_of(&self, id: NodeId, mut each: impl FnMut(Key)) {
        match self.graph.node(id).end {
            End::Test { .. } => self.tests[id as usize].keys().for_each(each),
            End::Jump { edge, .. } => {
                let values = edge.arguments.iter().copied();
                let values = values.filter(|&value| self.function.as_constant(value).is_none());
                values.for_each(|value| each(Key::full(self.function, value)));
            }
            End::Return(value) if self.function.as_constant(value).is_none() => {
                each(Key::full(self.function, value));
            }
            End::Return(_) => {}
        }
    }

    /// The code at the start of a call, and at the start of a packet.
    fn enter(&mut self) {
        let values = self.function.values();
        let loads = values.iter().any(|value| matches!(value, Value::Load { .. }));
        if loads {
            self.end_of_table(OFFSET, entry::OFFSET);
        }
        self.end_of_table(CAP_LEN, CAP_LEN);
        self.end_of_table(VERDICT, VERDICT);
        if values.contains(&Value::WireLength) {
            let slot = self.output.slot(8);
            self.end_of_table(entry::WIRE_LEN, entry::WIRE_LEN);
            self.output.mr(Code::Mov_rm64_r64, slot, entry::WIRE_LEN.r64());
            self.wire_len = Some(slot);
        }
        self.output.rr(Code::Mov_r64_rm64, NUMBER.r64(), entry::COUNT.r64());
        self.output.r(Code::Neg_rm64, NUMBER.r64());
        let ahead = self.first_byte().filter(|_| self.prefetch > 0);
        if let Some(first_byte) = ahead {
            self.prefetch_first(first_byte);
        }
        self.output.note("each packet".to_owned());
        self.output.bind(self.next_packet);
        if let Some(first_byte) = ahead {
            self.prefetch_later(first_byte);
        }
        if loads {
            self.output.rm(Code::Mov_r32_rm32, PACKET.r32(), element(OFFSET.r64()));
            self.output.rr(Code::Add_r64_rm64, PACKET.r64(), BASE.r64());
        }
        if self.graph.has_backward_edges {
            self.set_counter();
        }
        if self.graph.layout.is_empty() {
            self.give_constant(0);
        }
    }

    /// The end of a table that is an argument.
    fn end_of_table(&mut self, to: Gpr, start: Gpr) {
        let count = entry::COUNT.r64();
        let end = MemoryOperand::with_base_index_scale(start.r64(), count, 4);
        self.output.rm(Code::Lea_r64_m, to.r64(), end);
    }

    /// Initialises the counter of backward edges.
    fn set_counter(&mut self) {
        let counter = self.output.slot(8);
        self.counter = Some(counter);
        let gpr = self.registers.take(&[], &mut self.output);
        self.output.rm(Code::Mov_r32_rm32, gpr.r32(), element(CAP_LEN.r64()));
        self.output.ri(Code::Add_rm64_imm32, gpr.r64(), BACKWARD_EDGES);
        self.output.mr(Code::Mov_rm64_r64, counter, gpr.r64());
    }

    /// The text that describes a node in listings.
    fn title(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        match (node.block, node.end) {
            (Some(block), End::Test { predicate, .. }) => {
                format!("b{}: {}", block.0, describe(self.function, predicate))
            }
            (Some(block), End::Return(_)) => format!("b{}: verdict", block.0),
            (Some(block), End::Jump { edge, .. }) => {
                format!("b{}: on to b{}", block.0, edge.target.0)
            }
            (None, End::Jump { edge, .. }) => format!("edge to b{}", edge.target.0),
            (None, _) => String::new(),
        }
    }

    fn node(&mut self, id: NodeId, next: Option<NodeId>) {
        match self.graph.node(id).end {
            End::Test { then, otherwise, .. } => {
                let alias = |id: NodeId| self.graph.alias[id as usize];
                let (then, otherwise) = (alias(then), alias(otherwise));
                self.test(id, then, otherwise, next);
            }
            End::Jump { target, edge, backward } => {
                self.pass(edge.target, &edge.arguments);
                if backward {
                    self.count_backward_edge();
                }
                self.go(self.graph.alias[target as usize], next);
            }
            End::Return(value) => self.give(value),
        }
    }

    /// Jumps to `target`, unless it follows.
    fn go(&mut self, target: NodeId, next: Option<NodeId>) {
        if next != Some(target) {
            self.output.jump(Code::Jmp_rel32_64, self.labels[target as usize]);
        }
    }

    fn test(&mut self, id: NodeId, then: NodeId, otherwise: NodeId, next: Option<NodeId>) {
        let test = self.tests[id as usize];
        if let Test::Constant(holds) = test {
            return self.go(if holds { then } else { otherwise }, next);
        }
        let condition = self.flags(test);
        if let Some((holds, fails)) = self.graph.either_constant(self.function, then, otherwise) {
            return self.give_either(condition, holds, fails);
        }
        if next == Some(then) {
            self.branch(condition.negated(), otherwise);
        } else {
            self.branch(condition, then);
            self.go(otherwise, next);
        }
    }

    fn branch(&mut self, condition: Condition, target: NodeId) {
        self.output.jump(condition.jump(), self.labels[target as usize]);
    }

    /// Ends the packet with verdict `holds` if the flags meet `condition`, else
    /// with `fails`. Uses no branch, since nothing depends on the verdict.
    fn give_either(&mut self, condition: Condition, holds: u32, fails: u32) {
        let verdict = self.registers.take(&[], &mut self.output);
        let other = self.registers.take(&[verdict], &mut self.output);
        self.output.ri(Code::Mov_r32_imm32, verdict.r32(), fails);
        self.output.ri(Code::Mov_r32_imm32, other.r32(), holds);
        self.output.rr(condition.conditional_move(), verdict.r32(), other.r32());
        self.output.mr(Code::Mov_rm32_r32, element(VERDICT.r64()), verdict.r32());
        self.end_packet();
    }

    /// Ends the packet with verdict `value`.
    fn give(&mut self, value: ValueId) {
        if let Some(constant) = self.function.as_constant(value) {
            return self.give_constant(constant);
        }
        let key = Key::full(self.function, value);
        self.compute(&[key]);
        let gpr = self.registers.read(key, &[], &mut self.output);
        self.registers.consumed(key);
        self.output.mr(Code::Mov_rm32_r32, element(VERDICT.r64()), gpr.r32());
        self.end_packet();
    }

    /// Ends the packet with a constant verdict.
    pub(super) fn give_constant(&mut self, verdict: u32) {
        self.output.mi(Code::Mov_rm32_imm32, element(VERDICT.r64()), verdict as i32);
        self.end_packet();
    }

    fn end_packet(&mut self) {
        self.output.r(Code::Inc_rm64, NUMBER.r64());
        self.output.jump(Code::Jne_rel32_64, self.next_packet);
        self.output.leave();
    }

    /// Computes `keys` and records one reader of each.
    pub(crate) fn compute(&mut self, keys: &[Key]) {
        let mut ops = Vec::new();
        keys.iter().for_each(|&key| self.require(key, &mut ops));
        for key in
            keys.iter().copied().chain(ops.iter().flat_map(|op| op.sources.into_iter().flatten()))
        {
            self.registers.expect(key);
        }
        schedule(&mut ops, self.load_latency);
        ops.iter().for_each(|op| self.operation(op));
    }

    /// Appends the operations that compute `key` to `ops`, operands first.
    fn require(&mut self, key: Key, ops: &mut Vec<Op>) {
        let mut pending = vec![key];
        while let Some(&key) = pending.last() {
            if self.is_at_hand(key, ops) {
                pending.pop();
                continue;
            }
            let work = self.work(key);
            let sources = self.sources(key, work);
            let before = pending.len();
            for source in sources.into_iter().flatten() {
                if !self.is_at_hand(source, ops) {
                    pending.push(source);
                }
            }
            if pending.len() == before {
                pending.pop();
                self.planned[key.index()] = ops.len() as u32 + 1;
                ops.push(Op { key, work, sources });
            }
        }
    }

    /// Whether `key` is in a register or computed by `ops`.
    fn is_at_hand(&self, key: Key, ops: &[Op]) -> bool {
        let planned = self.planned[key.index()] as usize;
        planned > 0 && ops.get(planned - 1).is_some_and(|op| op.key == key)
            || self.registers.find(key).is_some()
    }

    /// The method of computing `key` if it is not available.
    fn work(&self, key: Key) -> Work {
        let value = match key.meaning() {
            Meaning::Length => return Work::Length,
            Meaning::Raw(_) => return Work::Load,
            Meaning::Full(value) => value,
        };
        match self.function.get(value) {
            Value::Constant(_) => Work::Constant,
            Value::WireLength => Work::WireLength,
            Value::Parameter { .. } => Work::Slot,
            Value::Load { width: Width::Word, .. }
                if self.isa >= Isa::Avx2 && self.registers.find(Key::raw(value)).is_none() =>
            {
                Work::LoadReversed
            }
            Value::Load { .. } => Work::Reverse,
            Value::Binary { .. } => Work::Binary,
        }
    }

    /// The keys that computing `key` that way reads from registers.
    fn sources(&self, key: Key, work: Work) -> [Option<Key>; 2] {
        let (Meaning::Raw(value) | Meaning::Full(value)) = key.meaning() else {
            return [None, None];
        };
        let index =
            |index: Option<ValueId>| [index.map(|index| Key::full(self.function, index)), None];
        match (work, self.function.get(value)) {
            (Work::Load | Work::LoadReversed, Value::Load { index: by, .. }) => index(by),
            (Work::Reverse, _) => [Some(Key::raw(value)), None],
            (Work::Binary, Value::Binary { op, left, right }) => self.operands(op, left, right),
            _ => [None, None],
        }
    }
}

/// The node at `position` in the tree at the front of `nodes`.
fn nodes_at(nodes: &[NodeId], root: Place, position: u32) -> usize {
    nodes[(position - root.position) as usize] as usize
}

/// The packet's element of a table.
pub(crate) fn element(table: Register) -> MemoryOperand {
    MemoryOperand::with_base_index_scale(table, NUMBER.r64(), 4)
}
