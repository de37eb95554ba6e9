//! The loops of `pe` as the compiler describes them.

use forebay_codegen::code::{Backend, Options};
use forebay_codegen::compile::compile;
use forebay_filter::ir::Function;
use forebay_jit::cpu;

/// The loops of a filter, at the instruction-set level of this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loops {
    /// Cycles that an iteration starts later than the bound (MII) allows, at most.
    pub excess_ii: u32,
    /// Initiation intervals in cycles a packet, over all loops.
    pub intervals: f64,
}

impl Loops {
    /// The loops of a filter; none for a filter that `pe` does not take.
    pub fn of(function: &Function) -> Option<Self> {
        let options = Options { explain: true, ..Options::new(Backend::Pe, cpu::detect()) };
        let code = compile(function, &options).ok()?;
        (code.backend == Backend::Pe).then(|| Self::read(&code.schedule))?
    }

    /// Reads the text of `--emit schedule`. A loop that is not pipelined counts with the
    /// cycles of an iteration.
    fn read(schedule: &str) -> Option<Self> {
        let (mut bound, mut greatest, mut packets, mut intervals) = (None, None, 1, 0.0);
        for line in schedule.lines() {
            bound = number_after(line, ", MII ").or(bound);
            let of_loop = number_after(line, " ops, ").filter(|_| line.starts_with("loop "));
            packets = of_loop.unwrap_or(packets);
            let reached = number_after(line, "  II ");
            if let Some(cycles) = reached.or_else(|| number_after(line, "an iteration takes ")) {
                intervals += f64::from(cycles) / f64::from(packets);
                greatest = greatest.max(Some(cycles.saturating_sub(bound.take()?)));
            }
        }
        Some(Self { excess_ii: greatest?, intervals })
    }
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
    fn loops_are_read_from_the_text_of_the_schedules() {
        let text = "loop a: 9 ops, 4 packets an iteration\n  \
                    ResMII 12 (issue), RecMII 1, MII 12\n  II 12, 1 stage, kernel of 1\n\n\
                    loop b: 3 ops, 1 packet an iteration\n  ResMII 2 (load), RecMII 3, MII 3\n  \
                    not pipelined: an iteration takes 5 cycles, loads taken as 5\n";
        assert_eq!(Loops::read(text), Some(Loops { excess_ii: 2, intervals: 8.0 }));
        assert_eq!(Loops::read("list: one packet after another"), None);
        let function = compile_function("ip and tcp", LinkType::ETHERNET).unwrap();
        assert!(Loops::of(&function).is_some_and(|loops| loops.intervals > 0.1));
    }
}
