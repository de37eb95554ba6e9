//! Schedules as text.

use std::fmt::Write as _;

use super::{Latencies, Pipelined, Placed, ScheduledLoop};
use crate::machine::{UNITS, unit};
use crate::mir::{Address, Base, Index, LoopBody, Op, Operand, Reg, RegClass};
use crate::regalloc::{RegisterFile, class_name};

/// The most characters in a line.
const COLUMNS: usize = 100;

/// Width of an instruction, before its note.
const INSTRUCTION: usize = 44;

/// The text of a loop: its bounds and II, the reservation table of a kernel
/// iteration, and its ops with their times.
#[must_use]
pub fn report(scheduled: &ScheduledLoop) -> String {
    let body = &scheduled.body;
    let mut text = String::new();
    let s = if body.step == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "loop {}: {} ops, {} packet{s} an iteration",
        body.name,
        body.ops.len(),
        body.step
    );
    let bounds = scheduled.bounds;
    let _ = writeln!(
        text,
        "  ResMII {} ({}), RecMII {}, MII {}",
        bounds.res_mii,
        unit_names(bounds.binding.units),
        bounds.rec_mii,
        bounds.mii()
    );
    let placed = scheduled.pipelined.as_ref().map_or(&scheduled.single, |loops| &loops.placed);
    match &scheduled.pipelined {
        Some(pipelined) => reached(&mut text, pipelined),
        None => {
            let _ = writeln!(
                text,
                "  not pipelined: an iteration takes {} cycles, {}",
                placed.schedule.ii,
                taken(scheduled.latencies)
            );
        }
    }
    live(&mut text, scheduled, placed);
    text.push('\n');
    reservations(&mut text, body, placed);
    text.push('\n');
    let _ = writeln!(text, "   op time stage  {:<INSTRUCTION$} for", "instruction");
    for (number, op) in body.ops.iter().enumerate() {
        let line = format!(
            "  {number:>3} {:>4} {:>5}  {:<INSTRUCTION$} {}",
            placed.schedule.times[number],
            placed.schedule.stage(number),
            instruction(body, op),
            body.notes.get(op.note as usize).map_or("", |note| note)
        );
        text.push_str(line.chars().take(COLUMNS).collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

fn reached(text: &mut String, pipelined: &Pipelined) {
    let schedule = &pipelined.placed.schedule;
    let (stages, trip) = (schedule.stages(), pipelined.expansion.trip);
    let _ = writeln!(
        text,
        "  II {}, {stages} stage{}, kernel of {trip} iteration{}, {}",
        schedule.ii,
        if stages == 1 { "" } else { "s" },
        if trip == 1 { "" } else { "s" },
        taken(pipelined.latencies)
    );
}

/// The assumed latencies as text.
fn taken(latencies: Latencies) -> String {
    let work = match latencies.work {
        u8::MAX => String::new(),
        most => format!(", the rest as {most} at most"),
    };
    format!("loads taken as {} cycles{work}", latencies.load)
}

fn live(text: &mut String, scheduled: &ScheduledLoop, placed: &Placed) {
    let file = RegisterFile::of_loop(&scheduled.body, scheduled.isa);
    let classes = [RegClass::General, RegClass::Vector, RegClass::Mask].map(|class| {
        let most = placed.allocation.max_live[class as usize];
        format!("{} {most} of {}", class_name(class), file.class(class).len())
    });
    let _ = writeln!(text, "  MaxLive: {}", classes.join(", "));
}

/// The reservation table: a row for each cycle of II, a column for each unit.
fn reservations(text: &mut String, body: &LoopBody, placed: &Placed) {
    let schedule = &placed.schedule;
    let _ = write!(text, "  row");
    for name in unit::NAMES {
        let _ = write!(text, "{name:>5}");
    }
    text.push_str("  no unit\n");
    for row in 0..schedule.ii {
        let ops: Vec<usize> =
            (0..body.ops.len()).filter(|&op| schedule.times[op] % schedule.ii == row).collect();
        let units = assign(body, &ops);
        let _ = write!(text, "{row:>5}");
        for op in units {
            match op {
                Some(op) => {
                    let _ = write!(text, "{op:>5}");
                }
                None => text.push_str("    ."),
            }
        }
        let without = ops.iter().filter(|&&op| body.ops[op].units.0 == [0, 0]);
        let without: Vec<String> = without.map(ToString::to_string).collect();
        let _ = writeln!(text, "  {}", without.join(" "));
        let end = text.trim_end().len();
        text.truncate(end);
        text.push('\n');
    }
}

/// Assigns a unit to each request of the ops of a row: the op of each unit.
fn assign(body: &LoopBody, ops: &[usize]) -> [Option<usize>; UNITS] {
    let asks: Vec<(usize, u16)> = ops
        .iter()
        .flat_map(|&op| body.ops[op].units.0.map(|choice| (op, choice)))
        .filter(|&(_, choice)| choice != 0)
        .collect();
    let mut holder: [Option<usize>; UNITS] = [None; UNITS];
    for ask in 0..asks.len() {
        augment(&asks, ask, &mut holder, &mut 0);
    }
    holder.map(|ask| ask.map(|ask| asks[ask].0))
}

/// Finds a unit for `ask`, moving other requests to other units.
fn augment(
    asks: &[(usize, u16)],
    ask: usize,
    holder: &mut [Option<usize>; UNITS],
    seen: &mut u16,
) -> bool {
    for unit in 0..UNITS {
        if asks[ask].1 >> unit & 1 == 0 || *seen >> unit & 1 == 1 {
            continue;
        }
        *seen |= 1 << unit;
        if holder[unit].is_none_or(|other| augment(asks, other, holder, seen)) {
            holder[unit] = Some(ask);
            return true;
        }
    }
    false
}

/// The names of a set of units.
fn unit_names(units: u16) -> String {
    if units == 0 {
        return "issue".to_owned();
    }
    let names = unit::NAMES.iter().enumerate().filter(|(bit, _)| units >> bit & 1 == 1);
    names.map(|(_, &name)| name).collect::<Vec<_>>().join(" ")
}

/// The text of an op on virtual registers.
#[must_use]
pub fn instruction(body: &LoopBody, op: &Op) -> String {
    let mut text = format!("{:?}", op.code.mnemonic()).to_lowercase();
    let mut operands: Vec<String> = op.dest.map(|dest| register(body, dest)).into_iter().collect();
    operands.extend(op.operands.iter().map(|operand| match *operand {
        Operand::Reg(reg) => register(body, reg),
        Operand::Memory(address) => memory(body, &address),
        Operand::Immediate(number) => number.to_string(),
    }));
    if let (Some(mask), Some(first)) = (op.mask, operands.first_mut()) {
        let _ = write!(first, "{{{}}}", register(body, mask));
    }
    let _ = write!(text, " {}", operands.join(", "));
    text
}

fn register(body: &LoopBody, reg: Reg) -> String {
    let letter = match body.class(reg) {
        RegClass::General => 'r',
        RegClass::Vector => 'v',
        RegClass::Mask => 'k',
    };
    format!("{letter}{}", reg.0)
}

fn memory(body: &LoopBody, address: &Address) -> String {
    let mut text = match address.base {
        Base::Table(table) => format!("[{}", table.name()),
        Base::Pool(id) => format!("[pool {}", id.0),
        Base::PoolIn(reg) => format!("[{}", register(body, reg)),
    };
    let scaled = |scale: u8, name: &str| match scale {
        1 => format!("+{name}"),
        _ => format!("+{scale}*{name}"),
    };
    match address.index {
        Index::None => {}
        Index::Reg(reg, scale) => text.push_str(&scaled(scale, &register(body, reg))),
        Index::Packet(scale) => text.push_str(&scaled(scale, "i")),
    }
    if address.displacement != 0 {
        let _ = write!(text, "{:+}", address.displacement);
    }
    text.push_str(if address.broadcast { "]{all}" } else { "]" });
    text
}
