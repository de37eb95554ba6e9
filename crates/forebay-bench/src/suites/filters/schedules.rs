//! The loops of `pe` as the compiler describes them: how near they come to the bound of
//! what a schedule can reach, and how long they are taken to last.

use forebay_codegen::code::{Backend, Options};
use forebay_codegen::compile::compile;
use forebay_filter::ir::Function;
use forebay_jit::cpu;

/// What the text of the schedules says of a filter's loops, at the level of this
/// machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loops {
    /// Cycles that an iteration starts later than the bound (MII) allows, at most.
    pub excess_ii: u32,
    /// Cycles between the starts of two iterations, a packet, over all loops.
    pub intervals: f64,
}

/// The loops of a filter; nothing for a filter that `pe` does not take.
pub fn loops(function: &Function) -> Option<Loops> {
    let options = Options { explain: true, ..Options::new(Backend::Pe, cpu::detect()) };
    let code = compile(function, &options).ok()?;
    let excess_ii = (code.backend == Backend::Pe).then(|| greatest_excess(&code.schedule))??;
    Some(Loops { excess_ii, intervals: intervals(&code.schedule) })
}

/// The initiation intervals a packet, from the text.
fn intervals(schedule: &str) -> f64 {
    let mut packets = 1;
    let mut sum = 0.0;
    for line in schedule.lines() {
        packets =
            number_after(line, " ops, ").filter(|_| line.starts_with("loop ")).unwrap_or(packets);
        let reached = number_after(line, "  II ");
        if let Some(cycles) = reached.or_else(|| number_after(line, "an iteration takes ")) {
            sum += f64::from(cycles) / f64::from(packets);
        }
    }
    sum
}

/// The greatest excess, from the text that `--emit schedule` prints. A loop that is not
/// pipelined counts with what an iteration of it takes.
fn greatest_excess(schedule: &str) -> Option<u32> {
    let mut bound = None;
    let mut greatest = None;
    for line in schedule.lines() {
        bound = number_after(line, ", MII ").or(bound);
        let reached = number_after(line, "  II ");
        let Some(reached) = reached.or_else(|| number_after(line, "an iteration takes ")) else {
            continue;
        };
        greatest = greatest.max(Some(reached.saturating_sub(bound.take()?)));
    }
    greatest
}

fn number_after(line: &str, mark: &str) -> Option<u32> {
    let (_, rest) = line.split_once(mark)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use forebay_filter::compile_function;
    use forebay_packet::LinkType;

    use super::*;

    #[test]
    fn loops_are_found_in_the_text_of_the_schedules() {
        let text = "loop a: 9 ops, 4 packets an iteration\n  \
                    ResMII 12 (issue), RecMII 1, MII 12\n  II 12, 1 stage, kernel of 1\n\n\
                    loop b: 3 ops, 1 packet an iteration\n  ResMII 2 (load), RecMII 3, MII 3\n  \
                    not pipelined: an iteration takes 5 cycles, loads taken as 5\n";
        assert_eq!(greatest_excess(text), Some(2));
        assert!((intervals(text) - 8.0).abs() < 1e-9);
        assert_eq!(greatest_excess("list: one packet after another"), None);
    }

    #[test]
    fn a_filter_that_pe_takes_has_loops() {
        let function = compile_function("ip and tcp", LinkType::ETHERNET).unwrap();
        assert!(loops(&function).is_some_and(|loops| loops.intervals > 0.1));
    }
}
