//! `forebay rules match`: the first matching rule of each packet of a capture, or each
//! header of a trace.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use forebay_packet::Batch;
use forebay_pipeline::stages::{CompiledRules, Rules};
use forebay_pipeline::{Chain, Ledger, LedgerRow};
use forebay_rules::language::classbench;
use forebay_rules::language::load::LoadError;
use forebay_rules::{Key, ParseError};

use super::file::RuleFile;
use super::tally::Tally;
use crate::cli::{Cli, RulesMatchArgs};
use crate::failure::Failure;
use crate::input::{Input, file_failure, file_name, processors, read_options};

/// Headers of a trace that are looked up together.
const HEADERS: usize = 4096;

/// The longest line of a trace, in bytes.
const MOST_HEADER: u64 = 4096;

pub fn run(cli: &Cli, args: &RulesMatchArgs) -> Result<(), Failure> {
    let streams = [Some(&args.list.file), args.read.as_ref(), args.trace.as_ref()];
    if streams.into_iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::Usage("the rules or the packets can be `-`, not both".to_owned()));
    }
    let list =
        RuleFile::new(&args.list.file, &args.list.choice).compiled_rules(cli, args.engine)?;
    match (&args.read, &args.trace) {
        (Some(capture), _) => match_capture(cli, args, list, capture),
        (None, Some(trace)) => match_trace(cli, args, list, trace),
        (None, None) => Err(Failure::Usage("give packets with -r or --trace".to_owned())),
    }
}

fn match_capture(
    cli: &Cli,
    args: &RulesMatchArgs,
    (name, compiled_rules): (Option<String>, CompiledRules),
    capture: &Path,
) -> Result<(), Failure> {
    let streams = args.verdicts && !cli.json;
    // A progress bar would be drawn between the lines of the results.
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(capture, &options, cli.quiet || streams)?;
    input.watch_signals()?;
    let chain = || Chain::new().with(Rules::judge_only(compiled_rules.clone()));
    let workers = input.workers((0..processors()).map(|_| chain()).collect());
    let mut tally = Tally::new(cli, (name, compiled_rules.clone()), true, args.verdicts)?;
    let run = forebay_pipeline::run(workers, Chain::new(), |batch: &Batch| {
        batch.live().iter().try_for_each(|i| tally.count(batch.verdict[i], batch.wire_len(i)))
    });
    drop(input);
    tally.conclude(cli, run.ledger, run.error.map(Failure::from))
}

fn match_trace(
    cli: &Cli,
    args: &RulesMatchArgs,
    (name, compiled_rules): (Option<String>, CompiledRules),
    trace: &Path,
) -> Result<(), Failure> {
    let mut lines: Box<dyn BufRead> = if trace.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(trace).map_err(|source| file_failure("read", trace, source))?;
        Box::new(BufReader::new(file))
    };
    let mut tally = Tally::new(cli, (name, compiled_rules.clone()), false, args.verdicts)?;
    let mut keys = Vec::new();
    let (mut line, mut packets, mut failure) = (0, 0, None);
    loop {
        keys.clear();
        let read = read_headers(&mut lines, &mut line, &mut keys, trace);
        let rules = compiled_rules.decide(&keys);
        packets += rules.len() as u64;
        let counted = rules.iter().try_for_each(|&rule| tally.count(rule, 0));
        match read.and_then(|more| counted.map(|()| more)) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let rows = ["read", "rules"].map(|stage| LedgerRow::passed(stage, packets));
    let ledger = Ledger { rows: rows.to_vec() };
    tally.conclude(cli, ledger, failure)
}

/// Reads some headers; returns whether there may be more.
fn read_headers(
    lines: &mut dyn BufRead,
    line: &mut usize,
    keys: &mut Vec<Key>,
    trace: &Path,
) -> Result<bool, Failure> {
    let mut text = String::new();
    while keys.len() < HEADERS {
        text.clear();
        *line += 1;
        let read = io::Read::take(&mut *lines, MOST_HEADER + 1).read_line(&mut text);
        if read.map_err(|source| file_failure("read", trace, source))? == 0 {
            return Ok(false);
        }
        if text.len() as u64 > MOST_HEADER {
            let found = format!("a line of more than {MOST_HEADER} bytes");
            let expected = "a header of a ClassBench trace".to_owned();
            return Err(refused(trace, ParseError { line: *line, found, expected }));
        }
        let header = classbench::parse_header(*line, &text);
        keys.extend(header.map_err(|error| refused(trace, error))?);
    }
    Ok(true)
}

fn refused(trace: &Path, error: ParseError) -> Failure {
    Failure::Rules(LoadError::from(error).in_file(file_name(trace)))
}
