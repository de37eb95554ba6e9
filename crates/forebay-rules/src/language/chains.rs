//! Chains that jump to chains, as one list.
//!
//! A packet that comes to a jump tries the rules of the target and, if none decides,
//! those behind the jump. So a jump becomes the rules of its target, each in conjunction
//! with the jump's own conditions. `return` and `goto` leave a chain early: then what
//! comes behind the chain decides of those packets. Where the conditions of a `return`
//! have a complement that rules can state, the rest of the chain is taken in conjunction
//! with that; elsewhere the rules behind the chain are repeated for the packets that
//! return. That is exact, and can be much: it has a budget, and an error that names the
//! rule at which it is spent.

use super::error::ParseError;
use super::making::{MAX_NESTING, Making};
use crate::rule::{Action, Family, Rule};
use std::collections::HashMap;
use std::rc::Rc;

/// The most rules that may be under way at once, each repeated for packets that another
/// one let return.
const MAX_REPEATED: usize = 200;

/// What a rule does with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Verdict(Action),
    Jump(String),
    Goto(String),
    Return,
}

/// A rule of a chain.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub line: usize,
    /// What the rule is called in messages.
    pub name: String,
    /// What matches, if one of these does. The actions say nothing.
    pub alternatives: Vec<Rule>,
    /// Whether something else, of unknown outcome, must hold too.
    pub doubtful: bool,
    pub target: Target,
}

impl Step {
    /// The step, with the ranges that it keeps counted.
    pub(crate) fn kept(self, making: &mut Making) -> Result<Self, ParseError> {
        let more = |rule: &Rule| rule.ranges().saturating_sub(1);
        let ranges = self.alternatives.iter().map(more).sum::<usize>().saturating_sub(1);
        making.keep(self.line, &self.name, ranges)?;
        Ok(self)
    }
}

/// The chains of a table, read when a jump leads to them.
pub(crate) trait Chains {
    /// The rules of the chain called `name` for packets of `family`; none if there is no
    /// such chain.
    fn steps(
        &self,
        name: &str,
        family: Family,
        making: &mut Making,
    ) -> Result<Option<Vec<Step>>, ParseError>;
}

/// Adds the rules of the chain `base`, which packets enter and whose `policy` takes
/// those that come to its end.
pub(crate) fn flatten(
    chains: &dyn Chains,
    base: &str,
    family: Family,
    policy: Action,
    making: &mut Making,
) -> Result<(), ParseError> {
    let steps = chains.steps(base, family, making)?.unwrap_or_default();
    let known = HashMap::new();
    let mut walk =
        Walk { chains, family, policy, making, known, number: 0, under_way: 0, repeating: 0 };
    let path = Rc::new(Path { name: base.to_owned(), before: None, length: 1 });
    let base = Rc::new(Frame { steps: steps.into(), path, back: None, is_base: true });
    let all = Rule::any(0, family, Action::Reject);
    walk.run(&base, 0, &Condition { rule: all, doubtful: false })
}

/// The chains through which a packet came here.
struct Path {
    name: String,
    before: Option<Rc<Path>>,
    length: usize,
}

impl Path {
    fn has(&self, name: &str) -> bool {
        let mut path = Some(self);
        while let Some(here) = path {
            if here.name == name {
                return true;
            }
            path = here.before.as_deref();
        }
        false
    }
}

/// A chain that a packet is in, and where it goes behind it.
struct Frame {
    steps: Rc<[Step]>,
    path: Rc<Path>,
    /// The frame to return to, and the step behind the jump.
    back: Option<(Rc<Frame>, usize)>,
    is_base: bool,
}

/// The packets that come to a place.
#[derive(Clone)]
struct Condition {
    rule: Rule,
    /// Whether it is unknown if they do.
    doubtful: bool,
}

struct Walk<'a> {
    chains: &'a dyn Chains,
    family: Family,
    policy: Action,
    making: &'a mut Making,
    known: HashMap<String, Rc<[Step]>>,
    /// The number of the rule of the base chain that is under way, from 1.
    number: u32,
    /// Calls that are under way, and those of them that repeat rules behind a chain.
    under_way: usize,
    repeating: usize,
}

impl Walk<'_> {
    /// Adds what becomes of packets of `condition` from step `at` of a chain on, as far
    /// as the chain decides.
    fn run(
        &mut self,
        frame: &Rc<Frame>,
        at: usize,
        condition: &Condition,
    ) -> Result<(), ParseError> {
        let mut condition = condition.clone();
        for (index, step) in frame.steps.iter().enumerate().skip(at) {
            if frame.is_base && self.repeating == 0 {
                self.number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            }
            let is_last = index + 1 == frame.steps.len();
            let returns = step.target == Target::Return;
            if returns && is_last {
                break;
            }
            if returns && step.doubtful && step.alternatives.iter().any(Rule::is_any) {
                // Whether the rest is tried is as unknown as the condition.
                condition.doubtful = true;
                continue;
            }
            let taken = self.alternatives(step, &condition)?;
            let covers = |both: &Condition| !step.doubtful && both.rule.has_fields(&condition.rule);
            let takes_all = taken.iter().any(covers);
            if returns && takes_all {
                break;
            }
            let rest = match &step.alternatives[..] {
                [only] if returns && !step.doubtful => only.complement(),
                _ => None,
            };
            match rest.as_deref() {
                Some([]) => break,
                Some([rest]) => match condition.rule.and(rest) {
                    Some(rule) => condition.rule = rule,
                    None => break,
                },
                Some(rest) => return self.rest(frame, index + 1, rest, &condition),
                None => {
                    for both in &taken {
                        self.take(frame, index, is_last || takes_all, both)?;
                    }
                    if takes_all && !matches!(step.target, Target::Jump(_)) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rest of a chain for packets that did not return.
    fn rest(
        &mut self,
        frame: &Rc<Frame>,
        at: usize,
        rest: &[Rule],
        condition: &Condition,
    ) -> Result<(), ParseError> {
        let step = &frame.steps[at - 1];
        self.enter(step)?;
        for part in rest {
            self.making.work(step.line, &step.name, condition.rule.ranges())?;
            if let Some(rule) = condition.rule.and(part) {
                self.run(frame, at, &Condition { rule, doubtful: condition.doubtful })?;
            }
        }
        self.under_way -= 1;
        Ok(())
    }

    /// The packets of `condition` that a step's conditions admit.
    fn alternatives(
        &mut self,
        step: &Step,
        condition: &Condition,
    ) -> Result<Vec<Condition>, ParseError> {
        let mut all = Vec::new();
        for rule in &step.alternatives {
            self.making.work(step.line, &step.name, condition.rule.ranges())?;
            if let Some(rule) = condition.rule.and(rule) {
                all.push(Condition { rule, doubtful: condition.doubtful || step.doubtful });
            }
        }
        Ok(all)
    }

    /// Does a step that decides or jumps, with the packets of `condition`. `falls`
    /// if those that come to the end of where it jumps to go on where this chain does.
    fn take(
        &mut self,
        frame: &Rc<Frame>,
        index: usize,
        falls: bool,
        condition: &Condition,
    ) -> Result<(), ParseError> {
        let step = &frame.steps[index];
        match &step.target {
            Target::Verdict(action) => self.add(step.line, *action, condition),
            Target::Jump(name) => {
                let back = Some((frame.clone(), index + 1));
                self.call(frame, step, name, back, condition)
            }
            Target::Goto(name) => {
                self.call(frame, step, name, frame.back.clone(), condition)?;
                if falls { Ok(()) } else { self.resume(frame, step, condition) }
            }
            Target::Return => self.resume(frame, step, condition),
        }
    }

    fn call(
        &mut self,
        frame: &Rc<Frame>,
        step: &Step,
        name: &str,
        back: Option<(Rc<Frame>, usize)>,
        condition: &Condition,
    ) -> Result<(), ParseError> {
        if frame.path.has(name) {
            let expected = "a chain that does not lead back to itself";
            return Err(ParseError::at(step.line, name, expected));
        }
        if frame.path.length == MAX_NESTING {
            let expected = format!("chains at most {MAX_NESTING} deep");
            return Err(ParseError::at(step.line, name, expected));
        }
        let steps = match self.known.get(name) {
            Some(steps) => steps.clone(),
            None => {
                let steps = self.chains.steps(name, self.family, self.making)?;
                let expected = "a target that decides, or a chain of the table";
                let steps = steps.ok_or_else(|| ParseError::at(step.line, name, expected))?;
                let steps: Rc<[Step]> = steps.into();
                self.known.insert(name.to_owned(), steps.clone());
                steps
            }
        };
        let length = frame.path.length + 1;
        let path = Path { name: name.to_owned(), before: Some(frame.path.clone()), length };
        let called = Rc::new(Frame { steps, path: Rc::new(path), back, is_base: false });
        self.enter(step)?;
        self.run(&called, 0, condition)?;
        self.under_way -= 1;
        Ok(())
    }

    /// Adds what becomes of packets of `condition` that leave a chain before its end.
    fn resume(
        &mut self,
        left: &Rc<Frame>,
        step: &Step,
        condition: &Condition,
    ) -> Result<(), ParseError> {
        self.enter(step)?;
        self.repeating += 1;
        let mut back = left.back.clone();
        while let Some((frame, at)) = back {
            self.run(&frame, at, condition)?;
            back = frame.back.clone();
        }
        self.repeating -= 1;
        self.under_way -= 1;
        self.add(step.line, self.policy, condition)
    }

    fn enter(&mut self, step: &Step) -> Result<(), ParseError> {
        self.under_way += 1;
        if self.under_way > MAX_REPEATED {
            let expected = format!("chains of which at most {MAX_REPEATED} are in force at once");
            return Err(ParseError::at(step.line, &step.name, expected));
        }
        Ok(())
    }

    fn add(
        &mut self,
        line: usize,
        action: Action,
        condition: &Condition,
    ) -> Result<(), ParseError> {
        let rule = Rule { number: self.number, action, ..condition.rule.clone() };
        self.making.add(line, rule, condition.doubtful)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::language::catalogue::Unsupported;
    use crate::rule::{PortTest, ProtocolTest, TransportTest};
    use crate::sets::{ProtocolSet, RangeSet};
    use proptest::prelude::*;

    /// Chains by number; jumps lead to higher numbers only.
    struct Program(Vec<Vec<Step>>);

    impl Chains for Program {
        fn steps(
            &self,
            name: &str,
            _: Family,
            _: &mut Making,
        ) -> Result<Option<Vec<Step>>, ParseError> {
            Ok(name.parse().ok().and_then(|number: usize| self.0.get(number).cloned()))
        }
    }

    impl Program {
        /// What becomes of a packet, as a machine with a stack finds out. `holds` says
        /// which doubtful conditions are met.
        fn decide(&self, key: &Key, policy: Action, holds: &dyn Fn(usize) -> bool) -> Action {
            let mut stack = Vec::new();
            let (mut chain, mut at) = (0, 0);
            loop {
                let Some(step) = self.0[chain].get(at) else {
                    match stack.pop() {
                        Some(back) => (chain, at) = back,
                        None => return policy,
                    }
                    continue;
                };
                at += 1;
                let matches = step.alternatives.iter().any(|rule| rule.matches(key))
                    && (!step.doubtful || holds(step.line));
                if !matches {
                    continue;
                }
                match &step.target {
                    Target::Verdict(action) => return *action,
                    Target::Return => at = usize::MAX,
                    Target::Jump(name) => {
                        stack.push((chain, at));
                        (chain, at) = (name.parse().unwrap(), 0);
                    }
                    Target::Goto(name) => (chain, at) = (name.parse().unwrap(), 0),
                }
            }
        }
    }

    type DrawnStep = ((u8, u8, u8, u8), (u8, u8, bool));

    /// Rules over four addresses, two protocols and four ports.
    fn rule((source, destination, protocol, port): (u8, u8, u8, u8)) -> Rule {
        let mut rule = Rule::any(1, Family::Ipv4, Action::Reject);
        if source < 3 {
            rule.source = RangeSet::range(0..=source.into()).unwrap();
        }
        if destination < 3 {
            rule.destination = RangeSet::one(destination.into());
        }
        let test = |number| ProtocolTest::Only(TransportTest::of(ProtocolSet::one(number)));
        match protocol {
            0 => rule.protocol = test(6),
            1 => rule.protocol = test(17),
            _ => {}
        }
        if port < 3 && protocol < 2 {
            rule.destination_ports = PortTest::In(RangeSet::range(0..=port.into()).unwrap());
        }
        rule
    }

    fn program(drawn: &[Vec<DrawnStep>], with_doubt: bool) -> Program {
        let mut line = 0;
        let chain = |(number, steps): (usize, &Vec<DrawnStep>)| {
            let step = |&(fields, (target, to, doubtful)): &DrawnStep| {
                line += 1;
                let to = number + 1 + usize::from(to);
                let name = (to % drawn.len()).to_string();
                let target = match target % 6 {
                    0 => Target::Verdict(Action::Pass),
                    1 => Target::Verdict(Action::Reject),
                    2 | 3 => Target::Return,
                    _ if to >= drawn.len() => Target::Verdict(Action::Pass),
                    4 => Target::Jump(name),
                    _ => Target::Goto(name),
                };
                let doubtful = doubtful && with_doubt;
                let alternatives = vec![rule(fields)];
                Step { line, name: String::new(), alternatives, doubtful, target }
            };
            steps.iter().map(step).collect()
        };
        Program(drawn.iter().enumerate().map(chain).collect())
    }

    fn keys() -> impl Iterator<Item = Key> {
        let fields = (0..4).flat_map(|source| (0..4).map(move |destination| (source, destination)));
        fields.flat_map(|(source, destination)| {
            let of = move |protocol, ports| Key {
                family: Family::Ipv4,
                source,
                destination,
                protocol: Some(protocol),
                ports,
                tcp_flags: None,
                icmp: None,
            };
            let ports = (0..4).map(move |port| of(6, Some((9, port))));
            ports.chain([of(6, None), of(17, Some((9, 1))), of(47, None)])
        })
    }

    fn imported(program: &Program, policy: Action, unsupported: Unsupported) -> crate::RuleList {
        let mut making = Making::new(unsupported);
        flatten(program, "0", Family::Ipv4, policy, &mut making).unwrap();
        making.finish(String::new(), policy).list.list
    }

    fn drawn() -> impl Strategy<Value = Vec<Vec<DrawnStep>>> {
        let step = ((0..5_u8, 0..5_u8, 0..4_u8, 0..5_u8), (any::<u8>(), 0..3_u8, any::<bool>()));
        prop::collection::vec(prop::collection::vec(step, 0..5), 1..5)
    }

    proptest! {
        #[test]
        fn a_list_of_chains_decides_as_the_chains_do(drawn in drawn(), passes in any::<bool>()) {
            let policy = if passes { Action::Pass } else { Action::Reject };
            let program = program(&drawn, false);
            let list = imported(&program, policy, Unsupported::Refuse);
            for key in keys() {
                let expected = program.decide(&key, policy, &|_| true);
                prop_assert_eq!(list.decide(&key).action, expected, "{}\n{}", key, list);
            }
        }

        #[test]
        fn what_is_in_doubt_errs_on_the_side_that_was_asked_for(
            drawn in drawn(), passes in any::<bool>(), met in any::<u64>(),
        ) {
            let policy = if passes { Action::Pass } else { Action::Reject };
            let program = program(&drawn, true);
            for (way, wanted) in [(Unsupported::Pass, Action::Pass), (Unsupported::Reject, Action::Reject)] {
                let list = imported(&program, policy, way);
                for key in keys() {
                    if program.decide(&key, policy, &|line| met >> (line % 64) & 1 != 0) == wanted {
                        prop_assert_eq!(list.decide(&key).action, wanted, "{}\n{}", key, list);
                    }
                }
            }
        }
    }
}
