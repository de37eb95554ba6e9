//! Copies small pieces of code for each value of a parameter.
//!
//! libpcap merges paths with common continuations: after loads at different
//! offsets, one chain of comparisons serves IPv4 and ARP addresses. Its block
//! has a parameter, and a back end that computes predicates before the path is
//! known would have to select between values. So the block, and those after it
//! that use the parameter, are copied for each argument, if these are few. The
//! result is a decision function over plain predicates, and the copies often
//! merge with the code before them.
//!
//! For functions without backward edges. The number of copies is bounded by the
//! size of the function. Pieces that touch each other are left to the next
//! round.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Block, BlockId, Edge, Function, Terminator, Value, ValueId};

/// The most blocks of a piece.
const PIECE: usize = 24;

/// The most distinct arguments, and so copies of a piece.
const COPIES: usize = 6;

/// The most values examined for the parameters of one block. Functions with
/// larger expressions are left unchanged.
const EXPRESSION: usize = 256;

/// Copies pieces of `function`, which has no backward edges. May leave
/// unreachable blocks. Returns whether there were any.
pub(super) fn specialise(function: &mut Function) -> bool {
    let has_parameters = |block: &Block| !block.parameters.is_empty();
    if !function.blocks.iter().any(has_parameters) {
        return false;
    }
    let Some(users) = users(function) else { return false };
    let mut pass = Pass {
        before: before(function),
        users,
        touched: vec![false; function.blocks.len()],
        places: (0..function.blocks.len() as u32).collect(),
        copies_left: function.blocks.len() / 2 + 2 * PIECE,
        function,
    };
    for index in (0..pass.touched.len()).rev() {
        if has_parameters(&pass.function.blocks[index]) {
            pass.specialise(index);
        }
    }
    pass.finish()
}

/// By block: its predecessors, one for each edge.
fn before(function: &Function) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate() {
        for edge in block.end.edges() {
            before[edge.target.0 as usize].push(index);
        }
    }
    before
}

/// By block: the blocks that use its parameters; `None` if expressions are too
/// large to determine them.
fn users(function: &Function) -> Option<Vec<Vec<usize>>> {
    let mut users = vec![Vec::new(); function.blocks.len()];
    for (index, block) in function.blocks.iter().enumerate() {
        let mut stack = Vec::new();
        match &block.end {
            Terminator::Return(value) => stack.push(*value),
            Terminator::Jump(_) => {}
            Terminator::Test { predicate, .. } => stack.extend(predicate.operands()),
        }
        stack.extend(block.end.edges().flat_map(|edge| &edge.arguments));
        let mut seen = FxHashSet::default();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            if seen.len() > EXPRESSION {
                return None;
            }
            let value = function.get(id);
            if let Value::Parameter { block: BlockId(owner), .. } = value {
                users[owner as usize].push(index);
            }
            stack.extend(value.operands());
        }
    }
    Some(users)
}

struct Pass<'a> {
    function: &'a mut Function,
    before: Vec<Vec<usize>>,
    users: Vec<Vec<usize>>,
    /// By block of the original function: whether it was copied or its edges
    /// changed.
    touched: Vec<bool>,
    /// By block, copies included: its place in the order.
    places: Vec<u32>,
    copies_left: usize,
}

impl Pass<'_> {
    /// Copies the piece that starts at a block with parameters, if it is small.
    fn specialise(&mut self, first: usize) {
        let Some(piece) = self.piece(first) else { return };
        let target = BlockId(first as u32);
        let mut lists: Vec<Vec<ValueId>> = Vec::new();
        for &block in &self.before[first] {
            for edge in self.function.blocks[block].end.edges() {
                if edge.target == target && !lists.contains(&edge.arguments) {
                    lists.push(edge.arguments.clone());
                }
            }
            if lists.len() > COPIES {
                return;
            }
        }
        if lists.len() * piece.len() > self.copies_left {
            return;
        }
        self.copies_left -= lists.len() * piece.len();
        let mut copies = FxHashMap::default();
        for list in lists {
            let copy = BlockId(self.function.blocks.len() as u32);
            self.copy(&piece, &list);
            copies.insert(list, copy);
        }
        for &block in &self.before[first] {
            self.touched[block] = true;
            for edge in self.function.blocks[block].end.edges_mut() {
                if edge.target == target
                    && let Some(copy) = copies.get(&edge.arguments)
                {
                    *edge = Edge::to(*copy);
                }
            }
        }
        for block in piece {
            self.touched[block] = true;
        }
    }

    /// `first` and the blocks on the paths from it to those that use its
    /// parameters, ascending. `None` if they are too many, have other
    /// predecessors, have parameters of their own or were touched before.
    fn piece(&self, first: usize) -> Option<Vec<usize>> {
        let last = *self.users[first].iter().max()?;
        if self.touched[first] || self.before[first].iter().any(|&block| self.touched[block]) {
            return None;
        }
        // Blocks, in order, that are entered only from the piece.
        let mut inside = vec![first];
        let mut next: std::collections::BTreeSet<usize> = self.after(first).collect();
        while let Some(block) = next.pop_first().filter(|&block| block <= last) {
            if self.before[block].iter().all(|before| inside.contains(before)) {
                inside.push(block);
                next.extend(self.after(block));
            }
            if inside.len() > PIECE {
                return None;
            }
        }
        if !self.users[first].iter().all(|user| inside.contains(user)) {
            return None;
        }
        // Of these, the ones on a path to a user.
        let mut needed: Vec<usize> = Vec::new();
        for &block in inside.iter().rev() {
            let leads = self.after(block).any(|after| needed.contains(&after));
            if leads || self.users[first].contains(&block) {
                needed.push(block);
            }
        }
        if !needed.contains(&first) {
            return None;
        }
        let others = needed.iter().filter(|&&block| block != first);
        let plain = |&block: &usize| {
            !self.touched[block] && self.function.blocks[block].parameters.is_empty()
        };
        if !others.copied().all(|block| plain(&block)) {
            return None;
        }
        needed.reverse();
        Some(needed)
    }

    fn after(&self, block: usize) -> impl Iterator<Item = usize> {
        self.function.blocks[block].end.edges().map(|edge| edge.target.0 as usize)
    }

    /// Adds a copy of `piece` with `arguments` for the parameters of its first
    /// block.
    fn copy(&mut self, piece: &[usize], arguments: &[ValueId]) {
        let start = self.function.blocks.len() as u32;
        let numbers: FxHashMap<_, _> =
            piece.iter().zip(start..).map(|(&old, new)| (old, BlockId(new))).collect();
        let parameters = self.function.blocks[piece[0]].parameters.iter();
        let mut values: FxHashMap<_, _> =
            parameters.copied().zip(arguments.iter().copied()).collect();
        for &old in piece {
            let mut end = self.function.blocks[old].end.clone();
            for edge in end.edges_mut() {
                if let Some(new) = numbers.get(&(edge.target.0 as usize)) {
                    edge.target = *new;
                }
                for value in &mut edge.arguments {
                    *value = self.replaced(*value, &mut values);
                }
            }
            match &mut end {
                Terminator::Return(value) => *value = self.replaced(*value, &mut values),
                Terminator::Jump(_) => {}
                Terminator::Test { predicate, .. } => {
                    *predicate = predicate.with_operands(|value| self.replaced(value, &mut values));
                }
            }
            self.function.blocks.push(Block { parameters: Vec::new(), end });
            self.places.push(old as u32);
        }
    }

    /// The value `id` with `values` replaced. The recursion is bounded by
    /// [`EXPRESSION`].
    fn replaced(&mut self, id: ValueId, values: &mut FxHashMap<ValueId, ValueId>) -> ValueId {
        if let Some(&known) = values.get(&id) {
            return known;
        }
        let value = self.function.get(id);
        let value = value.with_operands(|operand| self.replaced(operand, values));
        let new = self.function.value(value);
        values.insert(id, new);
        new
    }

    /// Moves the copies to the places of their originals.
    /// Returns whether there are any.
    fn finish(self) -> bool {
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.sort_by_key(|&block| self.places[block as usize]);
        let mut numbers = vec![BlockId(0); order.len()];
        for (new, &old) in order.iter().enumerate() {
            numbers[old as usize] = BlockId(new as u32);
        }
        if !order.is_sorted() {
            *self.function = reordered(self.function, &order, &numbers);
        }
        self.touched.len() < order.len()
    }
}

/// `function` with its blocks in `order`; `numbers` maps old blocks to new
/// numbers.
fn reordered(function: &Function, order: &[u32], numbers: &[BlockId]) -> Function {
    let mut new = Function::new();
    new.sets.clone_from(&function.sets);
    for &value in function.values() {
        // Operands keep their numbers, as all values do.
        new.value(match value {
            Value::Parameter { block, position } => {
                Value::Parameter { block: numbers[block.0 as usize], position }
            }
            other => other,
        });
    }
    for &old in order {
        let mut block = function.blocks[old as usize].clone();
        for edge in block.end.edges_mut() {
            edge.target = numbers[edge.target.0 as usize];
        }
        new.blocks.push(block);
    }
    new
}
