//! Violations of the rules.

/// A violation of a rule, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IrError {
    /// There is no block.
    #[error("a function needs at least one block")]
    NoBlock,
    /// The entry has parameters.
    #[error("b0: the entry must have no parameters")]
    EntryParameters,
    /// An edge leads to a block that does not exist.
    #[error("b{block}: no block b{target} to go to")]
    NoSuchBlock {
        /// The source of the edge.
        block: u32,
        /// Its target.
        target: u32,
    },
    /// A block names a value that does not exist.
    #[error("b{block}: no value number {value}")]
    NoSuchValue {
        /// The block.
        block: u32,
        /// The value's number.
        value: u32,
    },
    /// A block names a set that does not exist.
    #[error("b{block}: no set s{set}")]
    NoSuchSet {
        /// The block.
        block: u32,
        /// The set.
        set: u32,
    },
    /// An operand does not precede the value computed from it.
    #[error("value number {value}: its operand, number {operand}, must come before it")]
    OperandOrder {
        /// The value's number.
        value: u32,
        /// The operand's number.
        operand: u32,
    },
    /// A block's parameter is another value.
    #[error("b{block}: parameter {position} must be the value that says so")]
    Parameter {
        /// The block.
        block: u32,
        /// The parameter's position, from 0.
        position: usize,
    },
    /// A parameter is not among those of its block.
    #[error("value number {value}: its block, b{block}, has no parameter {position}")]
    StrayParameter {
        /// The value's number.
        value: u32,
        /// The block it names.
        block: u32,
        /// The position it names.
        position: u32,
    },
    /// An edge passes too few or too many arguments.
    #[error("b{block}: the edge to b{target} must pass {expected} values, not {found}")]
    Arguments {
        /// The source of the edge.
        block: u32,
        /// Its target.
        target: u32,
        /// Parameters of the target.
        expected: usize,
        /// Arguments of the edge.
        found: usize,
    },
    /// A block is unreachable.
    #[error("b{block}: no way leads here")]
    Unreached {
        /// The block.
        block: u32,
    },
    /// A parameter is used where it may have no value.
    #[error("b{block}: {value} has no value on some way here, which avoids b{owner}")]
    NotDominated {
        /// The block of the use.
        block: u32,
        /// The parameter's name.
        value: String,
        /// The parameter's block.
        owner: u32,
    },
    /// A load is used where its bytes may be missing.
    #[error("b{block}: {value}, {load}, is used without a test that its bytes were captured")]
    Unguarded {
        /// The block of the use.
        block: u32,
        /// The load's name.
        value: String,
        /// The text of the load.
        load: String,
    },
    /// A quotient or remainder is used where the divisor may be 0.
    #[error("b{block}: {value} is used without a test that {divisor} is not 0")]
    Divisor {
        /// The block of the use.
        block: u32,
        /// The name of the quotient or remainder.
        value: String,
        /// The name of the divisor.
        divisor: String,
    },
    /// A set is empty, unordered or repeats a constant.
    #[error("s{set}: the constants must ascend, without repetition, and be at least one")]
    Set {
        /// The set.
        set: usize,
    },
    /// A set is unused.
    #[error("s{set}: no test uses it")]
    UnusedSet {
        /// The set.
        set: usize,
    },
}
