//! From a filter to code: the back ends in the order they are tried.
//!
//! Every filter has `list` code, which takes any packet. Batch code is added to
//! it. If a back end cannot compile the filter, the next one is tried: `ems`
//! falls back to `pe`, and `pe` to `list`; [`Code::remark`] gives the reason.
//! `auto` is `pe` where the cost model, [`crate::cost`], predicts that it is faster than code
//! with branches, and otherwise `ems`, or where that is not possible `list`, which then
//! prefetches, too.

use std::fmt::Write as _;

use forebay_filter::ir::Function;

use crate::code::{Backend, BatchEntry, Code, Isa, Options, PacketsIn};
use crate::cost;
use crate::emit::assembler::{Assembler, EncodeError, Label};
use crate::emit::loops::{Prefetches, emit_batch_function};
use crate::regalloc::RegisterPressure;
use crate::sched::report::report;
use crate::sched::{ScheduledLoop, schedule_loop};
use crate::{ems, list, pe};

/// Why a filter has no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// The interpreter was requested.
    #[error("back end 'interp' generates no code")]
    NoCode,
    /// An instruction could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Why a filter has no predicated code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoPe {
    #[error(transparent)]
    Unsuited(#[from] pe::Unsuited),
    #[error(transparent)]
    Pressure(#[from] RegisterPressure),
}

/// Batch code, encoded or not.
struct Batch {
    backend: Backend,
    entry: Label,
    resident: Option<Label>,
    lanes: usize,
    least: usize,
    reach: usize,
    scratch: usize,
    leaves: bool,
}

/// Compiles `function` with `options`.
///
/// # Errors
/// If the back end generates no code, or an instruction cannot be encoded.
pub fn compile(function: &Function, options: &Options) -> Result<Code, CompileError> {
    let mut assembler = Assembler::new(options.explain);
    let mut schedule = String::new();
    let mut remark = None;
    let batch = match options.backend {
        Backend::Interp => return Err(CompileError::NoCode),
        Backend::List => None,
        Backend::Pe => predicated(function, options, &mut assembler, &mut schedule, &mut remark)?,
        Backend::Ems => {
            match enhanced(function, options, &mut assembler, &mut schedule, &mut remark)? {
                None => predicated(function, options, &mut assembler, &mut schedule, &mut remark)?,
                made => made,
            }
        }
        Backend::Auto => {
            match predicated(function, options, &mut assembler, &mut schedule, &mut remark)? {
                None => enhanced(function, options, &mut assembler, &mut schedule, &mut remark)?,
                made => made,
            }
        }
    };
    assembler.align(64)?;
    let prefetch = match (&batch, options.backend) {
        (None, Backend::Auto | Backend::List) => prefetch_of_branches(options),
        _ => 0,
    };
    let each = list::compile(function, &Options { prefetch, ..*options }, &mut assembler)?;
    let assembled = assembler.finish()?;
    let entry = |label| assembled.offset(label).unwrap_or(assembled.constants_at);
    if batch.is_none() {
        let _ = writeln!(schedule, "list: one packet after another, no loop is pipelined");
    }
    Ok(Code {
        each: entry(each),
        batch: batch.as_ref().map(|batch| BatchEntry {
            entry: entry(batch.entry),
            resident: batch.resident.map(entry),
            lanes: batch.lanes,
            least: batch.least,
            reach: batch.reach,
            scratch: batch.scratch,
            leaves: batch.leaves,
        }),
        backend: batch.map_or(Backend::List, |batch| batch.backend),
        constants_at: assembled.constants_at,
        notes: assembled.notes,
        bytes: assembled.bytes,
        schedule,
        remark,
    })
}

/// The prefetch distance for code with branches.
fn prefetch_of_branches(options: &Options) -> u16 {
    match options.backend {
        Backend::Auto => cost::prefetch_of_branches(options.packets),
        _ => options.prefetch,
    }
}

/// Appends code with branches for several packets in flight, unless the filter has none.
fn enhanced(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
    schedule: &mut String,
    remark: &mut Option<String>,
) -> Result<Option<Batch>, CompileError> {
    let is_auto = options.backend == Backend::Auto;
    let prefetch = prefetch_of_branches(options);
    match ems::compile(function, &Options { prefetch, ..*options }, assembler) {
        Ok(made) => {
            schedule.push_str(&made.report);
            Ok(Some(Batch {
                backend: Backend::Ems,
                entry: made.entry,
                resident: None,
                lanes: 1,
                least: if is_auto { cost::LEAST_EMS } else { 2 },
                reach: made.reach,
                scratch: 0,
                leaves: false,
            }))
        }
        Err(ems::EmsError::Encode(error)) => Err(error.into()),
        Err(error) => {
            refuse(remark, &format!("not ems: {error}"));
            Ok(None)
        }
    }
}

/// Adds a reason why a back end is not used.
fn refuse(remark: &mut Option<String>, reason: &str) {
    let before = remark.take().map(|before| before + "; ").unwrap_or_default();
    *remark = Some(before + reason);
}

/// Appends predicated code, unless the filter has none or the cost model
/// prefers code with branches for `auto`.
fn predicated(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
    schedule: &mut String,
    remark: &mut Option<String>,
) -> Result<Option<Batch>, CompileError> {
    let scheduled = match schedule_predicated(function, options, assembler) {
        Ok(scheduled) => scheduled,
        Err(error) => {
            refuse(remark, &format!("not pe: {error}"));
            return Ok(None);
        }
    };
    let (loops, bodies) = scheduled;
    if options.backend == Backend::Auto && !cost::pe_pays(function, &bodies) {
        refuse(remark, "not pe: code with branches takes fewer cycles");
        return Ok(None);
    }
    let least = match options.backend {
        Backend::Auto => cost::least_packets(function, &bodies).max(loops.lanes),
        _ => loops.lanes,
    };
    for body in bodies.iter().filter(|_| options.explain) {
        schedule.push_str(&report(body));
        schedule.push('\n');
    }
    let entry = emit_batch_function(assembler, &bodies, Prefetches::Kept)?;
    let both = options.backend == Backend::Auto
        && options.packets == PacketsIn::Unknown
        && bodies.iter().any(|scheduled| scheduled.body.lookahead > 0);
    let resident =
        both.then(|| emit_batch_function(assembler, &bodies, Prefetches::LeftOut)).transpose()?;
    if both && options.explain {
        schedule.push_str("the loops also exist without prefetches, for packets in the cache\n");
    }
    Ok(Some(Batch {
        backend: Backend::Pe,
        entry,
        resident,
        lanes: loops.lanes,
        least,
        reach: loops.reach,
        scratch: loops.scratch,
        leaves: loops.leaves,
    }))
}

fn schedule_predicated(
    function: &Function,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<(pe::Loops, Vec<ScheduledLoop>), NoPe> {
    let mut refused = None;
    for (isa, form) in forms(function, options)?.into_iter().skip(options.pe_form) {
        let prefetch = match options.backend {
            Backend::Auto => cost::prefetch(form.cycles(), isa, options.packets),
            _ => options.prefetch,
        };
        match schedule_form(&form, &Options { prefetch, isa, ..*options }, assembler) {
            Ok(scheduled) => return Ok(scheduled),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    // `forms` returns at least one form; none is left if a later one is asked for.
    Err(refused.unwrap_or(NoPe::Unsuited(pe::Unsuited::ControlFlow)))
}

/// The predicated forms of `function`, each with its level, best first. Where 512-bit instructions are
/// executed in halves, those of AVX2 are first for `auto` that the cost model predicts to be faster.
fn forms<'a>(
    function: &'a Function,
    options: &Options,
) -> Result<Vec<(Isa, pe::PredicatedForm<'a>)>, pe::Unsuited> {
    let forms = pe::forms(function, options)?;
    let mut narrow = Vec::new();
    if options.backend == Backend::Auto
        && options.in_halves
        && options.isa >= Isa::Avx512Bw
        && let Some(limit) = cost::limit_in_halves(forms[0].cycles())
        && let Ok(forms) = pe::forms(function, &Options { isa: Isa::Avx2, ..*options })
    {
        narrow = forms;
        narrow.retain(|form| form.cycles() < limit);
    }
    let of = |isa| move |form| (isa, form);
    Ok(narrow
        .into_iter()
        .map(of(Isa::Avx2))
        .chain(forms.into_iter().map(of(options.isa)))
        .collect())
}

fn schedule_form(
    form: &pe::PredicatedForm<'_>,
    options: &Options,
    assembler: &mut Assembler,
) -> Result<(pe::Loops, Vec<ScheduledLoop>), NoPe> {
    // A form that is not used must not leave constants in the pool.
    let mut pool = assembler.pool.clone();
    let loops = form.loops(options, &mut pool)?;
    let bodies = loops
        .bodies
        .iter()
        .map(|body| schedule_loop(body, &options.into(), options.isa))
        .collect::<Result<Vec<_>, _>>()?;
    assembler.pool = pool;
    Ok((loops, bodies))
}
