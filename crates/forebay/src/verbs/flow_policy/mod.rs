//! `forebay flows --policy`: what flows get of a link with a policy, by the time stamps of a
//! capture.

mod result;
mod table;
mod weigh;

use std::io::{self, Write as _};
use std::path::Path;

use forebay_flow::policy::{
    CsfqOptions, DrrOptions, Ecn, LinkOptions, Packet, Policy, PolicyError, Reason, RedOptions,
    SharedLink,
};
use forebay_flow::{Counted, FlowTable, OnFull, RecordOptions};
use forebay_io::{Placement, WholeFile};
use forebay_jit::FilterSet;
use forebay_packet::decode::ip_packet;
use forebay_packet::{Affinity, Batch, Decoder};
use forebay_pipeline::stages::{ClassMembers, Classify, Fragments, Window};
use forebay_pipeline::{Chain, DropCount, Ledger};

use crate::cli::{self, Backend, Cli, FlowFormat, FlowsArgs, ListChoice, PolicyArgs, PolicyName};
use crate::ending::{conclude, refuse_input};
use crate::failure::Failure;
use crate::input::{
    Input, compiler_options, decode_options, file_failure, prepare, print, print_json, processors,
    read_options,
};
use crate::naming;
use result::PolicyResult;
use weigh::Weigh;

/// The seed of the policies' decisions: a capture gives the same result each time.
const SEED: u64 = 1;

/// The buffer if none is given: with the paper's units of 4 bytes, thresholds are up to 256 KiB.
const BUFFER: u64 = 128 << 10;

/// Flows with numbers; packets of further ones are taken for one flow, of this number.
const MOST_FLOWS: usize = 10_000_000;

/// The classes of the options, with their weights.
fn classes(cli: &Cli, args: &FlowsArgs) -> Result<Vec<(ClassMembers, u16)>, Failure> {
    let classes = args.policy.classes.iter().map(|class| {
        let kind = match &class.members {
            cli::ClassMembers::Expression(text) => {
                ClassMembers::Filter(FilterSet::new(text, compiler_options(cli, Backend::Auto)?))
            }
            cli::ClassMembers::Rules(file) => ClassMembers::Rules(super::rules::compiled_rules_of(
                cli,
                file,
                &ListChoice::default(),
            )?),
        };
        Ok((kind, class.weight))
    });
    classes.collect()
}

pub fn run(cli: &Cli, args: &FlowsArgs, capture: &Path) -> Result<(), Failure> {
    if args.format == FlowFormat::Parquet {
        let what = "--format parquet: expected table, csv, json or jsonl with --policy";
        return Err(Failure::Usage(what.to_owned()));
    }
    let options = link_options(&args.policy)?;
    let mut link = SharedLink::new(&options).map_err(usage)?;
    if let Some(plot) = &args.policy.plot {
        refuse_input(plot, capture)?;
    }
    let page = args.policy.plot.as_deref().map(is_page).transpose()?;
    let reading = read_options(&args.limits, processors());
    let mut classes = classes(cli, args)?;
    let mut input = Input::open(capture, &reading, cli.quiet)?;
    for (kind, _) in &mut classes {
        if let ClassMembers::Filter(programs) = kind {
            prepare(programs, input.first_interfaces(), capture, &reading)?;
        }
    }
    input.watch_signals()?;
    let decoder = Decoder::new(decode_options(&args.flow, Affinity::FiveTuple));
    let chain = || {
        let chain = match classes.is_empty() {
            true => Chain::new(),
            false => {
                let selections = classes.iter().map(|(kind, weight)| (kind.selector(), *weight));
                Chain::new().with(Weigh::new(selections.collect()))
            }
        };
        chain.with(Classify::with_keys_only(decoder))
    };
    let workers = input.workers((0..processors()).map(|_| chain()).collect());
    let serial = Chain::new().with(Fragments::new(Window::OFFLINE));
    let mut flows = FlowTable::new(RecordOptions::new(MOST_FLOWS, OnFull::Ignore));
    let mut run = forebay_pipeline::run(workers, serial, |batch| {
        let mut arrive = |i: usize, counted: Option<Counted<'_>>| {
            let flow = counted.map_or(MOST_FLOWS as u32, |counted| counted.number);
            link.packet(packet(batch, i, flow));
        };
        flows.count_each(batch, &mut arrive, |_, _| {});
        Ok::<(), Failure>(())
    });
    drop(input);
    account(&mut run.ledger, &link);
    let failure = run.error.map(Failure::from);
    let result = PolicyResult {
        args,
        capture,
        options: &options,
        flows: &flows,
        link: &link,
        ledger: &run.ledger,
        remarks: &run.remarks,
        error: failure.as_ref().map(ToString::to_string),
    };
    let shown = match (cli.json, args.format) {
        // Parquet is refused before the run.
        (false, FlowFormat::Table | FlowFormat::Parquet) => print(|out| table::write(out, &result)),
        (false, FlowFormat::Csv) => print(|out| result.write_csv(out)),
        (false, FlowFormat::Jsonl) => print(|out| result.write_lines(out)),
        (true, _) | (false, FlowFormat::Json) => print_json(&result),
    };
    let drawn = args.policy.plot.as_deref().map(|path| draw(path, page == Some(true), &result));
    let shown = shown.and(drawn.unwrap_or(Ok(())));
    if let Some(note) = naming::undecoded(&run.remarks).filter(|_| !cli.quiet && !cli.json) {
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{note}");
    }
    conclude(&run.ledger, cli, failure, shown)
}

/// The link that the options describe.
fn link_options(args: &PolicyArgs) -> Result<LinkOptions, Failure> {
    let PolicyArgs { policy, red_min, red_max, red_p, window, quantum, .. } = args;
    let (Some(name), Some(rate)) = (*policy, args.link) else {
        return Err(Failure::Usage("--policy and --link: expected both".to_owned()));
    };
    let given = [
        ("--red-min", red_min.is_some(), PolicyName::Red),
        ("--red-max", red_max.is_some(), PolicyName::Red),
        ("--red-p", red_p.is_some(), PolicyName::Red),
        ("--window", window.is_some(), PolicyName::Csfq),
        ("--quantum", quantum.is_some(), PolicyName::Drr),
    ];
    let foreign = given.iter().find(|(_, is_given, of)| *is_given && *of != name);
    if let Some((option, _, of)) = foreign {
        let of = result::name(*of);
        return Err(Failure::Usage(format!("{option} is an option of --policy {of}")));
    }
    let buffer = args.buffer.unwrap_or(BUFFER);
    let policy = match name {
        PolicyName::Red => {
            let usual = RedOptions::for_buffer(buffer);
            let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
            let third = red_max.map(|max| (bytes(max) / 3).min(usual.min));
            let min = red_min.map(bytes).or(third).unwrap_or(usual.min);
            let max = red_max.map_or(min.saturating_mul(3), bytes);
            Policy::Red(RedOptions { min, max, probability: red_p.unwrap_or(usual.probability) })
        }
        PolicyName::Csfq => {
            let usual = CsfqOptions::default().window;
            let nanos = window.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            Policy::Csfq(CsfqOptions { window: nanos.unwrap_or(usual) })
        }
        PolicyName::Drr => {
            let usual = DrrOptions::default().quantum;
            Policy::Drr(DrrOptions { quantum: quantum.unwrap_or(usual) })
        }
    };
    Ok(LinkOptions { rate, buffer, policy, seed: SEED })
}

fn usage(error: PolicyError) -> Failure {
    Failure::Usage(error.to_string())
}

/// Packet `i` of a batch as it arrives at the link.
fn packet(batch: &Batch, i: usize, flow: u32) -> Packet {
    let at = batch.nanos(i).abs_diff(i64::MIN);
    let ip = ip_packet(batch.interface(i).link, batch.packet(i));
    let ecn = match ip.map(|ip| ip.bytes()) {
        // The second byte of IPv4, and of IPv6 the bits that follow the version.
        Some(&[first, second, ..]) if first >> 4 == 6 => Ecn::of_class(first << 4 | second >> 4),
        Some(&[_, second, ..]) => Ecn::of_class(second),
        _ => Ecn::NotCapable,
    };
    let weight = weigh::weight(batch, i);
    Packet { at, flow, len: batch.wire_len(i), ecn, weight, label: None }
}

/// Puts the link in place of the last row of a ledger: all packets came to it.
fn account(ledger: &mut Ledger, link: &SharedLink) {
    let Some(row) = ledger.rows.last_mut() else { return };
    let totals = link.bottleneck().totals();
    let drops = Reason::ALL.iter().zip(totals.dropped).filter(|(_, drops)| drops.packets > 0);
    row.drops.extend(
        drops.map(|(reason, drops)| DropCount { name: reason.name(), packets: drops.packets }),
    );
    row.stage = "link".into();
    row.output = totals.sent().packets;
    row.held = totals.queued.packets;
}

/// Whether a plot is a page, not a drawing alone.
fn is_page(path: &Path) -> Result<bool, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => Ok(true),
        Some("svg") => Ok(false),
        _ => Err(Failure::Usage(format!(
            "--plot {}: expected a name that ends in .svg or .html",
            path.display()
        ))),
    }
}

/// Writes the plot.
fn draw(path: &Path, is_page: bool, result: &PolicyResult<'_>) -> Result<(), Failure> {
    let write = || {
        let plot = result.plot();
        let text = if is_page { plot.html(&result.summary()) } else { plot.svg() };
        let mut file = WholeFile::create(path, Placement::Hidden)?;
        file.write_all(text.map_err(io::Error::other)?.as_bytes())?;
        file.finish(path)
    };
    write().map_err(|source| file_failure("write", path, source))
}
