//! `forebay scan`: literals, or those of rules, in the payloads of a capture.
//!
//! Workers scan the packets of a batch together and queue what they find; it is counted and
//! printed in the order of the packets.

mod explain;
mod facts;
mod learning;
mod literals;
mod rules;
mod scanning;
mod streams;
mod tally;

use std::borrow::Cow;
use std::fs;
use std::io::{self, Write as _};
use std::sync::Arc;

use forebay_packet::{Batch, DecodeOptions, Decoder, Vectors};
use forebay_pipeline::Chain;
use forebay_scan::{CacheError, CachedScanner, Engine, LiteralSet, Match, SetCache};

use crate::cli::{Cli, ScanArgs};
use crate::failure::Failure;
use crate::input::{Input, processors, read_options};
pub(super) use literals::Literals;
use rules::Rules;
use scanning::{Payloads, Queues, Scan};
use tally::Tally;

pub fn run(cli: &Cli, args: &ScanArgs) -> Result<(), Failure> {
    let files = args.literals.iter().chain(&args.rules).chain(&args.read).chain(&args.learn);
    if files.filter(|file| file.as_os_str() == "-").count() > 1 {
        return Err(Failure::Usage("only one of the files can be `-`".to_owned()));
    }
    if args.explain {
        return explain::run(cli, args);
    }
    let decoder =
        Decoder::new(DecodeOptions { tunnel_depth: args.tunnel_depth, ..Default::default() });
    if let Some(file) = &args.literals {
        let literals = Literals::read(file, args.nocase)?;
        let tally = Tally::new(cli, &literals, args.hits)?;
        return scan(cli, args, &literals.set, decoder, tally, |_, _, matches| {
            Cow::Borrowed(matches)
        });
    }
    let rules = Rules::read(args)?;
    let tally = Tally::new(cli, &rules.set, args.hits)?;
    scan(cli, args, rules.literals.set(), decoder, tally, |batch, i, matches| {
        Cow::Owned(rules.of_packet(&decoder, batch, i, matches))
    })
}

fn warn(cli: &Cli, error: &CacheError) {
    if !cli.quiet {
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "warning: {error}");
    }
}

/// Scans the capture. `counted` gives the matches of a packet as they are counted.
fn scan(
    cli: &Cli,
    args: &ScanArgs,
    set: &LiteralSet,
    decoder: Decoder,
    mut tally: Tally<'_>,
    counted: impl for<'a> Fn(&Batch, usize, &'a [Match]) -> Cow<'a, [Match]> + Sync,
) -> Result<(), Failure> {
    let Some(read) = &args.read else { return Ok(()) };
    let learned = args.learn.as_ref().map(|capture| learning::model(cli, args, capture, &decoder));
    let cache = match &args.cache {
        Some(folder) if args.engine == Engine::Simd => {
            // If it cannot be made, the cache tells why.
            let _ = fs::create_dir_all(folder);
            Some(SetCache::new(folder.clone()))
        }
        _ => None,
    };
    let compiled = CachedScanner::compile(
        set,
        args.engine,
        Vectors::widest(),
        &learned.transpose()?.unwrap_or_default(),
        cache.as_ref(),
    )?;
    compiled.errors.iter().for_each(|error| warn(cli, error));
    tally.note_cache(compiled.cache);
    let scanner = Arc::new(compiled.scanner);
    let streams = args.hits && !cli.json;
    // A progress bar would be drawn between the lines of the results.
    let options = read_options(&args.limits, processors());
    let mut input = Input::open(read, &options, cli.quiet || streams)?;
    input.watch_signals()?;
    let payloads = || Payloads::new(decoder, Arc::clone(&scanner));
    let queues = Queues::new(processors());
    let (chains, serial): (Vec<Chain>, _) = if args.stream {
        let stage = streams::stage(args, set, Arc::clone(&scanner), queues.clone());
        ((0..processors()).map(|_| Chain::new()).collect(), Chain::new().with(stage))
    } else {
        let chain = |worker| Chain::new().with(Scan::new(payloads(), queues.clone(), worker));
        ((0..processors()).map(chain).collect(), Chain::new())
    };
    let workers = input.workers(chains);
    let mut left = payloads();
    let run = forebay_pipeline::run(workers, serial, |batch| {
        queues.take(batch, &mut left, |i, scanned, matches| {
            tally.count(batch.wire_len(i), scanned, &counted(batch, i, matches))
        })
    });
    drop(input);
    tally.note_doubts(args.stream.then(|| streams::doubts(&run.remarks)));
    tally.conclude(cli, run.ledger, run.error.map(Failure::from))
}
