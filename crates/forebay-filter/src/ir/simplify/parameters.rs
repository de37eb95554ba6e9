//! Replaces parameters that always have the same value.
//!
//! The front end gives every loop header a parameter for each live register,
//! and removing edges makes others redundant. If all arguments of a parameter,
//! apart from itself, are one value, it is replaced by that value. This may
//! make parameters that it is passed to redundant, which are examined again
//! (Braun et al., "Simple and Efficient Construction of Static Single
//! Assignment Form", 2013, section 3.1).

use super::compact::reached;
use super::rebuild::rebuild;
use crate::ir::{Function, Value, ValueId};

/// `function` without parameters that always have the same value; `None` if
/// there are none.
pub(in crate::ir) fn prune(function: &Function) -> Option<Function> {
    let mut parameters = Parameters::of(function)?;
    let mut changed = false;
    let mut queue: Vec<ValueId> =
        function.blocks.iter().rev().flat_map(|block| &block.parameters).copied().collect();
    while let Some(parameter) = queue.pop() {
        if let Some(only) = parameters.only_argument(parameter) {
            changed = true;
            parameters.replacement[parameter.0 as usize] = only;
            let mut passed_to = std::mem::take(&mut parameters.passed_to[parameter.0 as usize]);
            queue.extend(&passed_to);
            parameters.passed_to[only.0 as usize].append(&mut passed_to);
        }
    }
    changed.then(|| rebuild(function, &parameters.replacement))
}

/// The arguments of parameters. Each list is indexed by value.
struct Parameters {
    replacement: Vec<ValueId>,
    arguments: Vec<Vec<ValueId>>,
    /// The parameters that have this parameter, or one it replaced, as an
    /// argument.
    passed_to: Vec<Vec<ValueId>>,
}

impl Parameters {
    /// `None` if there are no parameters.
    fn of(function: &Function) -> Option<Self> {
        function.blocks.iter().find(|block| !block.parameters.is_empty())?;
        let count = function.values().len();
        let mut this = Self {
            replacement: (0..count as u32).map(ValueId).collect(),
            arguments: vec![Vec::new(); count],
            passed_to: vec![Vec::new(); count],
        };
        let reached = reached(function);
        for (block, _) in function.blocks.iter().zip(&reached).filter(|(_, reached)| **reached) {
            for edge in block.end.edges() {
                let parameters = &function.block(edge.target).parameters;
                for (&parameter, &argument) in parameters.iter().zip(&edge.arguments) {
                    this.arguments[parameter.0 as usize].push(argument);
                    if matches!(function.get(argument), Value::Parameter { .. }) {
                        this.passed_to[argument.0 as usize].push(parameter);
                    }
                }
            }
        }
        Some(this)
    }

    /// The only argument of `parameter` other than itself, if there is just one
    /// and the parameter was not replaced yet.
    fn only_argument(&mut self, parameter: ValueId) -> Option<ValueId> {
        if self.replacement[parameter.0 as usize] != parameter {
            return None;
        }
        let mut only = None;
        for index in 0..self.arguments[parameter.0 as usize].len() {
            let argument = self.replaced(self.arguments[parameter.0 as usize][index]);
            if argument != parameter && only != Some(argument) {
                if only.is_some() {
                    return None;
                }
                only = Some(argument);
            }
        }
        only
    }

    /// The replacement of `value`; compresses the path to it.
    fn replaced(&mut self, mut value: ValueId) -> ValueId {
        loop {
            let next = self.replacement[value.0 as usize];
            if next == value {
                return value;
            }
            self.replacement[value.0 as usize] = self.replacement[next.0 as usize];
            value = next;
        }
    }
}
