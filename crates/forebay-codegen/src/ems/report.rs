//! The schedule and the patterns as text.
//!
//! The name of a pattern is its number and, for each packet in flight, newest
//! first, the outcomes of its tests: `t` and `f`, as in the paper's list 7, `x`
//! for a packet that has entered and was not tested yet, `-` for one that is
//! done or missing. Where several histories lead to one test, the name has the
//! shortest, or the number of the test if that history is long. Patterns that
//! differ only in registers also show the register set of the newest packet.

use std::fmt::Write as _;

use forebay_filter::ir::{Function, Terminator};

use super::comparison::Content;
use super::graph::{NodeId, Target, Verdict};
use super::patterns::{End, Packet, Pattern, PatternId, Progress, Step};
use super::plan::EmsPlan;
use super::value::{text_of, value_text};

/// The most outcomes in a name.
const MAX_HISTORY: usize = 6;

/// The most characters in a line.
const WIDTH: usize = 100;

/// The name of each pattern.
pub(super) fn names(plan: &EmsPlan<'_>) -> Vec<String> {
    let histories = histories(plan);
    let progress = |progress: &Progress| match *progress {
        Progress::Done => "-".to_owned(),
        Progress::Entered => "x".to_owned(),
        Progress::At(node) => histories[node as usize].clone(),
    };
    let name = |(id, pattern): (PatternId, &Pattern)| {
        let flight = &pattern.state.flight[..plan.schedule.stages];
        let flight: Vec<String> = flight.iter().map(progress).collect();
        format!("L{id}_{}", flight.join("_"))
    };
    plan.patterns.iter().enumerate().map(name).collect()
}

/// The shortest history that leads to each node.
fn histories(plan: &EmsPlan<'_>) -> Vec<String> {
    let nodes = &plan.graph.nodes;
    let mut shortest: Vec<Option<String>> = vec![None; nodes.len()];
    if let Some(first) = shortest.first_mut() {
        *first = Some(String::new());
    }
    for (index, node) in nodes.iter().enumerate() {
        let Some(here) = shortest[index].clone() else { continue };
        for (target, outcome) in [(node.then, 't'), (node.otherwise, 'f')] {
            let Target::Node(next) = target else { continue };
            let next = &mut shortest[next as usize];
            if next.as_ref().is_none_or(|other| other.len() > here.len() + 1) {
                // Longer ones are not shown.
                let cut = &here[..here.len().min(MAX_HISTORY)];
                *next = Some(format!("{cut}{outcome}"));
            }
        }
    }
    let name = |(index, history): (usize, Option<String>)| match history {
        Some(history) if history.is_empty() => "x".to_owned(),
        Some(history) if history.len() <= MAX_HISTORY => history,
        _ => format!("n{index}"),
    };
    shortest.into_iter().enumerate().map(name).collect()
}

/// The whole report.
pub(super) fn report(plan: &EmsPlan<'_>, names: &[String], bytes: usize) -> String {
    let report = Report { function: &plan.function, plan, names };
    let mut text = String::new();
    report.head(bytes, &mut text);
    report.operations(&mut text);
    report.patterns(&mut text);
    text
}

struct Report<'a> {
    function: &'a Function,
    plan: &'a EmsPlan<'a>,
    names: &'a [String],
}

impl Report<'_> {
    fn head(&self, bytes: usize, text: &mut String) {
        let schedule = &self.plan.schedule;
        let tests = self.plan.graph.nodes.len();
        let _ = writeln!(
            text,
            "ems: II {} (MII {}), {} stages, {tests} tests, {} patterns, {bytes} bytes of code",
            schedule.ii,
            schedule.mii,
            schedule.stages,
            self.plan.patterns.len(),
        );
    }

    /// The operations on a packet by time.
    fn operations(&self, text: &mut String) {
        let schedule = &self.plan.schedule;
        text.push_str("\ncycle  slot stage\n");
        let mut lines = vec![(0, "the packet enters".to_owned())];
        if let Some(content) = self.plan.graph.content(self.plan.graph.entry) {
            lines.push((schedule.first_load, format!("load {}", self.content_text(content))));
        }
        for (index, &time) in schedule.times.iter().enumerate() {
            lines.push((time, format!("test {index}: {}", self.test_text(index as NodeId))));
        }
        // A stable sort: tests of the same time keep their order.
        lines.sort_by_key(|&(time, _)| time);
        for (time, what) in lines {
            let (slot, stage) = (time % schedule.ii, time / schedule.ii);
            push_line(text, &format!("{time:5} {slot:5} {stage:5}  {what}"));
        }
    }

    fn patterns(&self, text: &mut String) {
        for (pattern, name) in self.plan.patterns.iter().zip(self.names) {
            let _ = writeln!(text, "\n{name}, set {}:", pattern.state.newest);
            for step in &pattern.steps {
                push_line(text, &format!("    {}", self.step_text(step)));
            }
            self.end(pattern, text);
        }
    }

    fn end(&self, pattern: &Pattern, text: &mut String) {
        match pattern.end {
            End::Test { packet, node, then, otherwise } => {
                let (then, otherwise) = (&self.names[then], &self.names[otherwise]);
                let test = self.test_text(node);
                push_line(text, &format!("    {}: {test}", packet_text(packet)));
                push_line(text, &format!("    {then}, else {otherwise}"));
            }
            End::Next { some, none } => {
                let none = none.map_or("end", |none| &self.names[none]);
                match some {
                    Some(some) => {
                        let some = &self.names[some];
                        push_line(text, &format!("    next packet: {some}, none: {none}"));
                    }
                    None => push_line(text, &format!("    no packet left: {none}")),
                }
            }
        }
    }

    fn step_text(&self, step: &Step) -> String {
        match *step {
            Step::Enter(packet) => format!("{}: load its offset", packet_text(packet)),
            Step::Load(packet, load) => {
                format!("{}: load {}", packet_text(packet), self.content_text(load.content))
            }
            Step::Decide(packet, node) => {
                let verdicts = self.plan.graph.node(node).decides().unwrap_or_default();
                let test = self.test_text(node);
                format!("{}: verdict {} or {}: {test}", packet_text(packet), verdicts.0, verdicts.1)
            }
            Step::Verdict(packet, Verdict::Constant(number)) => {
                format!("{}: verdict {number}", packet_text(packet))
            }
            Step::Verdict(packet, Verdict::Computed(value)) => {
                format!("{}: verdict {}", packet_text(packet), text_of(self.function, value))
            }
        }
    }

    fn content_text(&self, content: Content) -> String {
        let value = value_text(self.function, content.key);
        match content.mask {
            u32::MAX => value,
            _ => format!("{value}, masked"),
        }
    }

    fn test_text(&self, node: NodeId) -> String {
        let text = |block| match &self.function.block(block).end {
            Terminator::Test { predicate, .. } => self.function.describe(predicate),
            Terminator::Jump(_) | Terminator::Return(_) => String::new(),
        };
        let blocks = self.plan.graph.node(node).blocks.iter();
        blocks.map(|&block| text(block)).collect::<Vec<_>>().join(" or ")
    }
}

/// A packet relative to the newest, number `i`.
fn packet_text(packet: Packet) -> String {
    match packet.stage {
        0 => "i".to_owned(),
        stage => format!("i-{stage}"),
    }
}

/// Appends `line`, cut to the width of the report.
fn push_line(text: &mut String, line: &str) {
    match line.char_indices().nth(WIDTH) {
        None => text.push_str(line),
        Some(_) => {
            text.extend(line.chars().take(WIDTH - 1));
            text.push('…');
        }
    }
    text.push('\n');
}
