//! Parses function text.
//!
//! The text is first parsed into statements. Then names are checked, constants
//! numbered first, and values created in the order of their names: a value may
//! only use those of smaller numbers. The parser resolves all names; the
//! verifier checks that the function is well-formed.

use std::collections::{BTreeMap, BTreeSet};

use super::token::{IrTextError, Token, tokens};
use crate::ir::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value,
    ValueId, Width,
};

/// Parses a function.
///
/// # Errors
/// The first position of a syntax error.
pub fn parse(text: &str) -> Result<Function, IrTextError> {
    let mut parser = Parser { tokens: tokens(text), next: 0, text: Text::default() };
    while !parser.peek().text.is_empty() {
        parser.statement()?;
    }
    if parser.text.blocks.is_empty() {
        return Err(parser.peek().expected("a block, `b0: …`"));
    }
    parser.text.function()
}

/// A value as written: a name, or a number.
type Operand<'a> = Token<'a>;

/// Parsed statements, not yet numbered.
#[derive(Default)]
struct Text<'a> {
    /// Values by the numbers of their names, with the position of their
    /// definition.
    values: BTreeMap<u32, (Token<'a>, Written<'a>)>,
    sets: Vec<Vec<u32>>,
    blocks: Vec<WrittenBlock<'a>>,
}

enum Written<'a> {
    WireLength,
    Load { width: Width, index: Option<Operand<'a>>, displacement: u32 },
    Binary { op: Arithmetic, left: Operand<'a>, right: Operand<'a> },
    Parameter { block: BlockId, position: u32 },
}

struct WrittenBlock<'a> {
    parameters: Vec<Token<'a>>,
    end: WrittenEnd<'a>,
}

struct WrittenEdge<'a> {
    target: Token<'a>,
    arguments: Vec<Operand<'a>>,
}

enum WrittenEnd<'a> {
    Test { predicate: WrittenPredicate<'a>, then: WrittenEdge<'a>, otherwise: WrittenEdge<'a> },
    Jump(WrittenEdge<'a>),
    Return(Operand<'a>),
}

enum WrittenPredicate<'a> {
    Captured { index: Option<Operand<'a>>, bytes: u32 },
    Compare { relation: Relation, left: Operand<'a>, right: Operand<'a> },
    Member { value: Operand<'a>, set: Token<'a> },
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    text: Text<'a>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        // The last token marks the end of the text and is never consumed.
        self.tokens[self.next]
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
        token
    }

    /// Consumes the next token if it is `text`.
    fn takes(&mut self, text: &str) -> bool {
        let is = self.peek().text == text;
        if is {
            self.take();
        }
        is
    }

    fn require(&mut self, text: &str) -> Result<(), IrTextError> {
        if self.takes(text) { Ok(()) } else { Err(self.peek().expected(format!("`{text}`"))) }
    }

    fn number(&mut self) -> Result<u32, IrTextError> {
        let token = self.take();
        token.number().ok_or_else(|| token.expected("a number up to 4294967295"))
    }

    fn operand(&mut self) -> Result<Operand<'a>, IrTextError> {
        let token = self.take();
        if token.number().is_some() || token.name('v').is_some() {
            Ok(token)
        } else {
            Err(token.expected("a value, `v0`, or a number"))
        }
    }

    fn statement(&mut self) -> Result<(), IrTextError> {
        let token = self.take();
        if let Some(number) = token.name('v') {
            self.require("=")?;
            let value = self.value()?;
            self.define(number, token, value)
        } else if token.name('s') == Some(self.text.sets.len() as u32) {
            self.set()
        } else if token.name('b') == Some(self.text.blocks.len() as u32) {
            self.block()
        } else {
            let (set, block) = (self.text.sets.len(), self.text.blocks.len());
            Err(token.expected(format!(
                "a value, `v0 = …`, or the next set or block, s{set} or b{block}"
            )))
        }
    }

    fn define(
        &mut self,
        number: u32,
        token: Token<'a>,
        value: Written<'a>,
    ) -> Result<(), IrTextError> {
        match self.text.values.insert(number, (token, value)) {
            None => Ok(()),
            Some(_) => Err(token.expected("a value not defined before")),
        }
    }

    fn value(&mut self) -> Result<Written<'a>, IrTextError> {
        let width = match self.peek().text {
            "length" => {
                self.take();
                return Ok(Written::WireLength);
            }
            "byte" => Width::Byte,
            "half" => Width::Half,
            "word" => Width::Word,
            _ => return self.binary(),
        };
        self.take();
        self.require("[")?;
        let (index, displacement) = self.place()?;
        self.require("]")?;
        Ok(Written::Load { width, index, displacement })
    }

    /// `12`, `v3` or `v3 + 12`.
    fn place(&mut self) -> Result<(Option<Operand<'a>>, u32), IrTextError> {
        let first = self.operand()?;
        if self.takes("+") {
            return Ok((Some(first), self.number()?));
        }
        Ok(match first.number() {
            Some(displacement) => (None, displacement),
            None => (Some(first), 0),
        })
    }

    fn binary(&mut self) -> Result<Written<'a>, IrTextError> {
        let Ok(left) = self.operand() else {
            let token = self.tokens[self.next.saturating_sub(1)];
            return Err(token.expected("`length`, a load or an operation"));
        };
        let sign = self.take();
        let op = match sign.text {
            "+" => Arithmetic::Add,
            "-" => Arithmetic::Sub,
            "*" => Arithmetic::Mul,
            "/" => Arithmetic::Div,
            "%" => Arithmetic::Mod,
            "&" => Arithmetic::And,
            "|" => Arithmetic::Or,
            "^" => Arithmetic::Xor,
            "<<" => Arithmetic::Lsh,
            ">>" => Arithmetic::Rsh,
            _ => return Err(sign.expected("an operation")),
        };
        Ok(Written::Binary { op, left, right: self.operand()? })
    }

    fn set(&mut self) -> Result<(), IrTextError> {
        self.require("=")?;
        self.require("{")?;
        let mut constants = vec![self.number()?];
        while self.takes(",") {
            constants.push(self.number()?);
        }
        self.require("}")?;
        self.text.sets.push(constants);
        Ok(())
    }

    fn block(&mut self) -> Result<(), IrTextError> {
        let block = BlockId(self.text.blocks.len() as u32);
        let parameters = self.list()?;
        for (position, &token) in parameters.iter().enumerate() {
            let Some(number) = token.name('v') else {
                return Err(token.expected("a parameter, `v0`"));
            };
            let position = position as u32;
            self.define(number, token, Written::Parameter { block, position })?;
        }
        self.require(":")?;
        let token = self.take();
        let end = match token.text {
            "return" => WrittenEnd::Return(self.operand()?),
            "jump" => WrittenEnd::Jump(self.edge()?),
            "if" => {
                let predicate = self.predicate()?;
                self.require("then")?;
                let then = self.edge()?;
                self.require("else")?;
                WrittenEnd::Test { predicate, then, otherwise: self.edge()? }
            }
            _ => return Err(token.expected("`if`, `jump` or `return`")),
        };
        self.text.blocks.push(WrittenBlock { parameters, end });
        Ok(())
    }

    /// `(v0, 0x10)`, or empty.
    fn list(&mut self) -> Result<Vec<Operand<'a>>, IrTextError> {
        let mut values = Vec::new();
        if self.takes("(") {
            values.push(self.operand()?);
            while self.takes(",") {
                values.push(self.operand()?);
            }
            self.require(")")?;
        }
        Ok(values)
    }

    fn edge(&mut self) -> Result<WrittenEdge<'a>, IrTextError> {
        let target = self.take();
        if target.name('b').is_none() {
            return Err(target.expected("a block, `b0`"));
        }
        Ok(WrittenEdge { target, arguments: self.list()? })
    }

    fn predicate(&mut self) -> Result<WrittenPredicate<'a>, IrTextError> {
        if self.takes("captured") {
            self.require(">=")?;
            let first = self.operand()?;
            if self.takes("+") {
                let bytes = self.number()?;
                return Ok(WrittenPredicate::Captured { index: Some(first), bytes });
            }
            return match first.number() {
                Some(bytes) => Ok(WrittenPredicate::Captured { index: None, bytes }),
                None => Err(self.peek().expected("`+` and a number of bytes")),
            };
        }
        let left = self.operand()?;
        let sign = self.take();
        let relation = match sign.text {
            "==" => Relation::Equal,
            ">" => Relation::Greater,
            ">=" => Relation::GreaterOrEqual,
            "&" => Relation::AnyBit,
            "in" => {
                let set = self.take();
                return match set.name('s') {
                    Some(_) => Ok(WrittenPredicate::Member { value: left, set }),
                    None => Err(set.expected("a set, `s0`")),
                };
            }
            _ => return Err(sign.expected("`==`, `>`, `>=`, `&` or `in`")),
        };
        let right = self.operand()?;
        if relation == Relation::AnyBit {
            self.require("!=")?;
            self.require("0")?;
        }
        Ok(WrittenPredicate::Compare { relation, left, right })
    }
}

impl Text<'_> {
    fn function(self) -> Result<Function, IrTextError> {
        let mut maker = Maker { function: Function::new(), constants: 0, text: &self };
        maker.number_constants();
        maker.number_values()?;
        maker.function.sets.clone_from(&self.sets);
        for block in &self.blocks {
            let block = maker.block(block)?;
            maker.function.blocks.push(block);
        }
        Ok(maker.function)
    }

    fn operands(&self) -> impl Iterator<Item = Operand<'_>> {
        let values = self.values.values().flat_map(|(_, value)| match value {
            Written::Load { index, .. } => [*index, None],
            Written::Binary { left, right, .. } => [Some(*left), Some(*right)],
            Written::WireLength | Written::Parameter { .. } => [None, None],
        });
        let blocks = self.blocks.iter().flat_map(|block| {
            let (first, edges) = match &block.end {
                WrittenEnd::Return(value) => ([Some(*value), None], [None, None]),
                WrittenEnd::Jump(edge) => ([None, None], [Some(edge), None]),
                WrittenEnd::Test { predicate, then, otherwise } => {
                    let operands = match predicate {
                        WrittenPredicate::Captured { index, .. } => [*index, None],
                        WrittenPredicate::Compare { left, right, .. } => {
                            [Some(*left), Some(*right)]
                        }
                        WrittenPredicate::Member { value, .. } => [Some(*value), None],
                    };
                    (operands, [Some(then), Some(otherwise)])
                }
            };
            let arguments = edges.into_iter().flatten().flat_map(|edge| edge.arguments.iter());
            first.into_iter().flatten().chain(arguments.copied())
        });
        values.flatten().chain(blocks)
    }
}

/// Creates the function from the statements.
struct Maker<'a> {
    function: Function,
    /// The number of constants; they come first.
    constants: u32,
    text: &'a Text<'a>,
}

impl Maker<'_> {
    fn number_constants(&mut self) {
        let constants: BTreeSet<u32> = self.text.operands().filter_map(Token::number).collect();
        for constant in constants {
            self.function.constant(constant);
            self.constants += 1;
        }
    }

    fn number_values(&mut self) -> Result<(), IrTextError> {
        for (next, (&number, (token, written))) in self.text.values.iter().enumerate() {
            if number as usize != next {
                return Err(token.expected(format!("a definition of v{next} as well")));
            }
            let value = match *written {
                Written::WireLength => Value::WireLength,
                Written::Parameter { block, position } => Value::Parameter { block, position },
                Written::Load { width, index, displacement } => {
                    let index = index.map(|index| self.operand(index)).transpose()?;
                    Value::Load { width, index, displacement }
                }
                Written::Binary { op, left, right } => {
                    Value::Binary { op, left: self.operand(left)?, right: self.operand(right)? }
                }
            };
            let id = self.function.value(value);
            if id.0 != self.constants + number {
                let same = id.0.saturating_sub(self.constants);
                return Err(token.expected(format!("a value other than that of v{same}")));
            }
        }
        Ok(())
    }

    /// The value of an operand, which must have been created.
    fn operand(&mut self, token: Operand) -> Result<ValueId, IrTextError> {
        if let Some(constant) = token.number() {
            return Ok(self.function.constant(constant));
        }
        let id = token.name('v').and_then(|number| number.checked_add(self.constants));
        match id {
            Some(id) if (id as usize) < self.function.values().len() => Ok(ValueId(id)),
            _ => {
                Err(token.expected("a value that is defined, with a smaller number than its user"))
            }
        }
    }

    fn operands(&mut self, tokens: &[Operand]) -> Result<Vec<ValueId>, IrTextError> {
        tokens.iter().map(|&token| self.operand(token)).collect()
    }

    fn block(&mut self, block: &WrittenBlock) -> Result<Block, IrTextError> {
        let end = match &block.end {
            WrittenEnd::Return(value) => Terminator::Return(self.operand(*value)?),
            WrittenEnd::Jump(edge) => Terminator::Jump(self.edge(edge)?),
            WrittenEnd::Test { predicate, then, otherwise } => Terminator::Test {
                predicate: self.predicate(predicate)?,
                then: self.edge(then)?,
                otherwise: self.edge(otherwise)?,
            },
        };
        Ok(Block { parameters: self.operands(&block.parameters)?, end })
    }

    fn edge(&mut self, edge: &WrittenEdge) -> Result<Edge, IrTextError> {
        let target = edge.target.name('b').unwrap_or(u32::MAX);
        if target as usize >= self.text.blocks.len() {
            return Err(edge.target.expected("a block that is there"));
        }
        Ok(Edge { target: BlockId(target), arguments: self.operands(&edge.arguments)? })
    }

    fn predicate(&mut self, predicate: &WrittenPredicate) -> Result<Predicate, IrTextError> {
        Ok(match *predicate {
            WrittenPredicate::Captured { index, bytes } => {
                let index = index.map(|index| self.operand(index)).transpose()?;
                Predicate::Captured { index, bytes }
            }
            WrittenPredicate::Compare { relation, left, right } => Predicate::Compare {
                relation,
                left: self.operand(left)?,
                right: self.operand(right)?,
            },
            WrittenPredicate::Member { value, set } => {
                let number = set.name('s').unwrap_or(u32::MAX);
                if number as usize >= self.text.sets.len() {
                    return Err(set.expected("a set that is there"));
                }
                Predicate::Member { value: self.operand(value)?, set: SetId(number) }
            }
        })
    }
}
