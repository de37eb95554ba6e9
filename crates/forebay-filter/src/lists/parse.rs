//! The Boolean structure of an expression.
//!
//! This implements the part of libpcap's grammar (`grammar.y`) above its
//! primitives: `and` and `or`, which have equal precedence and associate to the
//! left; `not`; brackets; and qualifiers that a value without any inherits from
//! the term before it. libpcap interprets and checks the primitives. An
//! expression that libpcap might parse differently is not parsed here; libpcap
//! compiles it whole.
//!
//! Primitives depend on those before them in one respect: `vlan`, `mpls` and
//! `pppoes` shift the header offsets of all later ones, wherever they are. So
//! each leaf has its [`Leaf::context`]. `geneve` and `vxlan` shift them by
//! packet contents, and `protochain` turns libpcap's optimiser off: expressions
//! with these are not parsed here.

use super::token::{Kind, Token, tokens};

/// The deepest nesting of brackets, as the parser is recursive.
const DEPTH: usize = 200;

/// A primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf<'a> {
    /// For example `src host`, written at this term or inherited; empty for
    /// primitives of another form.
    pub qualifiers: &'a str,
    /// An address, a network, a port; or the whole of another form.
    pub value: &'a str,
    /// The number of [`Expression::moving`] leaves before it.
    pub context: usize,
}

impl Leaf<'_> {
    /// The primitive by itself.
    pub fn text(&self) -> String {
        format!("{} {}", self.qualifiers, self.value)
    }
}

/// A part of an expression. Negation is applied to the leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Leaf {
        /// Number of the leaf.
        leaf: usize,
        negated: bool,
    },
    /// A disjunction, tested in this order, up to the first that holds.
    Any(Vec<usize>),
    /// A conjunction, tested in this order, up to the first that does not hold.
    All(Vec<usize>),
}

/// A parsed expression.
#[derive(Debug, Default)]
pub(super) struct Expression<'a> {
    pub leaves: Vec<Leaf<'a>>,
    /// The leaves that shift the header offsets of those after them, in order.
    pub moving: Vec<usize>,
    /// The parts, each after its members; the whole is `root`.
    pub nodes: Vec<Node>,
    pub root: usize,
}

/// Parses `text`; `None` if only libpcap can.
pub(super) fn parse(text: &str) -> Option<Expression<'_>> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, expression: Expression::default(), depth: 0 };
    let (part, _) = parser.expression(None)?;
    parser.expression.root = part.node;
    (parser.at == parser.tokens.len()).then_some(parser.expression)
}

/// A parsed part.
#[derive(Clone, Copy)]
struct Part {
    node: usize,
    /// Whether it is a value with inherited qualifiers, or several joined:
    /// after one of them a bracket may hold nothing else.
    inherits: bool,
}

/// Qualifiers that a value may inherit; `None` where it may not.
type Qualifiers<'a> = Option<&'a str>;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    expression: Expression<'a>,
    depth: usize,
}

/// Words that begin a primitive and cannot be values; those of `HEADS` may
/// precede others.
const PROTOCOLS: [&str; 16] = [
    "link", "ether", "ppp", "slip", "fddi", "tr", "wlan", "ip", "ip6", "arp", "rarp", "tcp", "udp",
    "sctp", "icmp", "icmp6",
];
const DIRECTIONS: [&str; 2] = ["src", "dst"];
const KINDS: [&str; 5] = ["host", "net", "port", "portrange", "proto"];

/// Words whose expressions are left to libpcap.
const NOT_UNDERSTOOD: [&str; 3] = ["protochain", "geneve", "vxlan"];

/// Other words that begin a primitive.
const STARTS: &str = "igmp igrp pim vrrp carp radio ah esp atalk aarp decnet lat sca moprc mopdl \
    iso esis es-is isis is-is l1 l2 iih lsp snp csnp psnp clnp stp ipx netbeui gateway type \
    subtype direction dir address1 addr1 address2 addr2 address3 addr3 address4 addr4 ra ta less \
    greater byte broadcast multicast len length inbound outbound ifindex vlan mpls pppoed pppoes \
    lane llc metac bcc oam oamf4 oamf4ec oamf4sc sc ilmic vpi vci connectmsg metaconnect on \
    ifname rset ruleset rnr rulenum srnr subrulenum reason action fisu lssu lsu msu hfisu hlssu \
    hmsu sio opc dpc sls hsio hopc hdpc hsls mask icmptype icmpcode icmp6type icmp6code tcpflags";

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    fn take_one_of(&mut self, words: &[&str]) -> bool {
        let is = matches!(self.peek(), Some(Kind::Word(word)) if words.contains(&word));
        self.at += usize::from(is);
        is
    }

    /// The text of the tokens from number `from` up to the next one.
    fn text_from(&self, from: usize) -> &'a str {
        match (self.tokens.get(from), self.tokens[..self.at].last()) {
            (Some(first), Some(last)) if from < self.at => &self.text[first.start..last.end],
            _ => "",
        }
    }

    fn push(&mut self, node: Node) -> usize {
        self.expression.nodes.push(node);
        self.expression.nodes.len() - 1
    }

    /// Parts joined by `and` and `or`, up to a closing bracket or the end.
    fn expression(&mut self, inherited: Qualifiers<'a>) -> Option<(Part, Qualifiers<'a>)> {
        let starts_with_bracket = self.peek() == Some(Kind::Open);
        let (mut part, mut qualifiers) = self.element(inherited)?;
        loop {
            let any = match self.peek() {
                Some(Kind::Or) => true,
                Some(Kind::And) => false,
                _ => return Some((part, qualifiers)),
            };
            self.at += 1;
            let (next, left) = self.element(qualifiers)?;
            // In libpcap's grammar a bracket of values begins with a value.
            if part.inherits && (starts_with_bracket || !next.inherits) {
                return None;
            }
            part.node = self.join(any, part.node, next.node);
            qualifiers = left;
        }
    }

    /// The disjunction of `first` and `second` if `any`, else their
    /// conjunction.
    fn join(&mut self, any: bool, first: usize, second: usize) -> usize {
        let mut members = self.members(any, first);
        members.extend(self.members(any, second));
        self.push(if any { Node::Any(members) } else { Node::All(members) })
    }

    /// The members of a node of the same kind, taken from it; or the node
    /// itself.
    fn members(&mut self, any: bool, node: usize) -> Vec<usize> {
        match &mut self.expression.nodes[node] {
            Node::Any(members) if any => std::mem::take(members),
            Node::All(members) if !any => std::mem::take(members),
            _ => vec![node],
        }
    }

    /// A term or a value, perhaps negated, and the qualifiers to be inherited
    /// from it.
    fn element(&mut self, inherited: Qualifiers<'a>) -> Option<(Part, Qualifiers<'a>)> {
        let mut negated = false;
        while self.peek() == Some(Kind::Not) {
            negated = !negated;
            self.at += 1;
        }
        let (part, left) = self.positive(inherited)?;
        if negated {
            self.negate(part.node);
        }
        Some((part, left))
    }

    /// Negates a part by De Morgan's laws, which keep the order of tests.
    fn negate(&mut self, node: usize) {
        let mut stack = vec![node];
        while let Some(node) = stack.pop() {
            let negated = match &mut self.expression.nodes[node] {
                Node::Leaf { negated, .. } => {
                    *negated = !*negated;
                    continue;
                }
                Node::Any(members) => Node::All(std::mem::take(members)),
                Node::All(members) => Node::Any(std::mem::take(members)),
            };
            if let Node::Any(members) | Node::All(members) = &negated {
                stack.extend(members);
            }
            self.expression.nodes[node] = negated;
        }
    }

    fn positive(&mut self, inherited: Qualifiers<'a>) -> Option<(Part, Qualifiers<'a>)> {
        if self.peek() == Some(Kind::Open) && !self.is_arithmetic() {
            let part = self.bracket(inherited)?;
            return Some((part, inherited));
        }
        let start = self.at;
        if let Some(qualifiers) = self.qualifiers() {
            return self.values(qualifiers, false);
        }
        self.at = start;
        match (inherited, self.peek()?) {
            (Some(qualifiers), Kind::Word(word)) if !is_start(word) && !self.is_operand() => {
                self.values(qualifiers, true)
            }
            _ => Some((self.other()?, None)),
        }
    }

    /// `( … )`.
    fn bracket(&mut self, inherited: Qualifiers<'a>) -> Option<Part> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        self.at += 1;
        let (part, _) = self.expression(inherited)?;
        if self.peek() != Some(Kind::Close) {
            return None;
        }
        self.at += 1;
        self.depth -= 1;
        Some(part)
    }

    /// Consumes a protocol, a direction and a kind, each if present, and
    /// returns their text. `None` without a direction or a kind.
    fn qualifiers(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.take_one_of(&PROTOCOLS);
        let direction = self.take_one_of(&DIRECTIONS);
        if direction && matches!(self.peek(), Some(Kind::And | Kind::Or)) {
            self.at += 1;
            if !self.take_one_of(&DIRECTIONS) {
                return None;
            }
        }
        let kind = self.take_one_of(&KINDS);
        (direction || kind).then(|| self.text_from(start))
    }

    /// What follows qualifiers: a value, or values in brackets.
    fn values(&mut self, qualifiers: &'a str, inherits: bool) -> Option<(Part, Qualifiers<'a>)> {
        let inherited = Some(qualifiers);
        let part = match self.peek()? {
            Kind::Not | Kind::Open => self.element(inherited)?.0,
            Kind::Word(word) if !is_start(word) => {
                let start = self.at;
                self.value(word)?;
                let value = self.text_from(start);
                Part { node: self.leaf(qualifiers, value), inherits: true }
            }
            _ => return None,
        };
        part.inherits.then_some((Part { inherits, ..part }, inherited))
    }

    /// Consumes a value that begins with `word`.
    fn value(&mut self, word: &str) -> Option<()> {
        self.at += 1;
        let is_address = word.contains(['.', ':']);
        match self.peek() {
            Some(Kind::Operator("/")) if is_address => self.at += 2,
            Some(Kind::Word("mask")) if is_address => self.at += 2,
            _ => {}
        }
        let after = self.tokens.get(self.at - 1).map(|token| token.kind);
        let ends = matches!(self.peek(), None | Some(Kind::And | Kind::Or | Kind::Close));
        (ends && matches!(after, Some(Kind::Word(_)))).then_some(())
    }

    fn leaf(&mut self, qualifiers: &'a str, value: &'a str) -> usize {
        let context = self.expression.moving.len();
        self.expression.leaves.push(Leaf { qualifiers, value, context });
        let leaf = self.expression.leaves.len() - 1;
        self.push(Node::Leaf { leaf, negated: false })
    }

    /// A primitive of another form: all up to the start of the next part.
    fn other(&mut self) -> Option<Part> {
        let start = self.at;
        let mut open = 0_usize;
        while let Some(kind) = self.peek() {
            match kind {
                Kind::Open => open += 1,
                Kind::Close if open == 0 => break,
                Kind::Close => open -= 1,
                Kind::And | Kind::Or | Kind::Not if open == 0 => break,
                Kind::Word(word) if NOT_UNDERSTOOD.contains(&word) => return None,
                _ => {}
            }
            self.at += 1;
        }
        let text = self.text_from(start);
        if text.is_empty() || open > 0 {
            return None;
        }
        let node = self.leaf("", text);
        if let Kind::Word("vlan" | "mpls" | "pppoes") = self.tokens[start].kind {
            self.expression.moving.push(self.expression.leaves.len() - 1);
        }
        Some(Part { node, inherits: false })
    }

    /// Whether the next word is an operand of arithmetic.
    fn is_operand(&self) -> bool {
        let Some(Kind::Word(word)) = self.peek() else { return false };
        let next = self.tokens.get(self.at + 1).map(|token| token.kind);
        let is_prefix = next == Some(Kind::Operator("/")) && word.contains(['.', ':']);
        !is_prefix && matches!(next, Some(Kind::Operator(_)))
    }

    /// Whether the next bracket is part of arithmetic: its value is used in a
    /// computation or comparison.
    fn is_arithmetic(&self) -> bool {
        let mut open = 0;
        for (index, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.kind {
                Kind::Open => open += 1,
                Kind::Close => open -= 1,
                Kind::And | Kind::Or | Kind::Not => return false,
                _ => {}
            }
            if open == 0 {
                let next = self.tokens.get(index + 1).map(|token| token.kind);
                return matches!(next, Some(Kind::Operator(_)));
            }
        }
        false
    }
}

/// Whether a word begins a primitive and is no value.
fn is_start(word: &str) -> bool {
    PROTOCOLS.contains(&word)
        || DIRECTIONS.contains(&word)
        || KINDS.contains(&word)
        || NOT_UNDERSTOOD.contains(&word)
        || STARTS.split_ascii_whitespace().any(|start| start == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The structure, in words: leaves with all their qualifiers.
    fn shown(text: &str) -> Option<String> {
        fn node(parsed: &Expression, number: usize) -> String {
            let all = |members: &[usize], op: &str| {
                let members: Vec<_> = members.iter().map(|&one| node(parsed, one)).collect();
                format!("({})", members.join(op))
            };
            match &parsed.nodes[number] {
                Node::Leaf { leaf, negated } => {
                    let text = parsed.leaves[*leaf].text();
                    format!("{}{}", if *negated { "not " } else { "" }, text.trim())
                }
                Node::Any(members) => all(members, " or "),
                Node::All(members) => all(members, " and "),
            }
        }
        let parsed = parse(text)?;
        Some(node(&parsed, parsed.root))
    }

    #[test]
    fn values_have_their_qualifiers_or_inherit_them() {
        for (text, expected) in [
            ("host 1.2.3.4", "host 1.2.3.4"),
            (
                " src host a.b or\n5.6.7.8||dst net 10.0.0.0/8 || 11.0.0.0/8 ",
                "(src host a.b or src host 5.6.7.8 or dst net 10.0.0.0/8 or dst net 11.0.0.0/8)",
            ),
            (
                "((tcp src or dst port 80 or http))",
                "(tcp src or dst port 80 or tcp src or dst port http)",
            ),
            ("src 1.2.3.4 or dst ::1", "(src 1.2.3.4 or dst ::1)"),
            ("port (80 or not 443)", "(port 80 or not port 443)"),
            ("host not 1.2.3.4", "not host 1.2.3.4"),
            ("host a and (port 80 or 81) or b", "((host a and (port 80 or port 81)) or host b)"),
            ("net 10.0.0.0 mask 255.0.0.0 or tcp", "(net 10.0.0.0 mask 255.0.0.0 or tcp)"),
            ("ip proto \\tcp or 17", "(ip proto \\tcp or ip proto 17)"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn and_and_or_bind_alike_and_not_goes_to_the_leaves() {
        for (text, expected) in [
            ("ip or tcp and udp or arp", "(((ip or tcp) and udp) or arp)"),
            ("not (ip or not tcp and udp)", "((not ip and tcp) or not udp)"),
            ("!ip && ! ! arp", "(not ip and arp)"),
            ("ip or (tcp or udp) or arp", "(ip or tcp or udp or arp)"),
            (
                "tcp[13] & 2 != 0 or (ip[0] & 0xf) + 1 > 5 and len<9",
                "((tcp[13] & 2 != 0 or (ip[0] & 0xf) + 1 > 5) and len<9)",
            ),
            ("port 80 or 5 = 5", "(port 80 or 5 = 5)"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_moves_the_rest_is_the_context_of_all_behind_it() {
        let parsed = parse("ip or (vlan 5 and tcp) or mpls and udp").unwrap();
        let moving: Vec<_> = parsed.moving.iter().map(|&leaf| parsed.leaves[leaf].value).collect();
        assert_eq!(moving, ["vlan 5", "mpls"]);
        let contexts: Vec<_> = parsed.leaves.iter().map(|leaf| leaf.context).collect();
        assert_eq!(contexts, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn what_may_mean_something_else_is_not_understood() {
        for text in [
            "",
            "or",
            "host",
            "host 1.2.3.4 or",
            "host (1.2.3.4 or tcp)",
            "host ((1.2.3.4) or 1.2.3.5)",
            "(host 1.2.3.4",
            "host 1.2.3.4)",
            "host host 1.2.3.4",
            "port tcp",
            "net 10/8",
            "host 1.2.3.4 or ip protochain 6",
            "geneve and ip",
            "vxlan or ip",
            "ip a:b",
            "host 1.2.3.4\u{a0}or host 1.2.3.5",
        ] {
            assert_eq!(shown(text), None, "{text:?}");
        }
        let deep = |depth| format!("{}ip{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&deep(DEPTH)).is_some() && parse(&deep(DEPTH + 1)).is_none());
        assert!(parse(&format!("{}ip", "not ".repeat(100_000))).is_some());
    }
}
