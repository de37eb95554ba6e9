//! `--stream`: packets are scanned by the stage of the live broker, which brings segments of TCP
//! into order; what it finds is queued.

use std::sync::Arc;

use forebay_packet::{Batch, DecodeOptions, HashKey};
use forebay_pipeline::Remarks;
use forebay_pipeline::stages::{CompiledScan, Scan, ScanMode, ScanObserver, ScanOptions};
use forebay_scan::{LiteralSet, Match, Scanner};
use serde_json::{Map, Value};

use super::scanning::{Found, Queues};
use crate::cli::ScanArgs;

/// The flows that are followed at a time.
const MOST_FLOWS: usize = 1 << 20;

/// What the names of remarks on doubts begin with.
const DOUBT: &str = "scan_doubt_";

/// The stage, whose matches go to the first queue. `scanner` was compiled of `set`.
pub(super) fn stage(
    args: &ScanArgs,
    set: &LiteralSet,
    scanner: Arc<Scanner>,
    queues: Queues,
) -> Scan {
    let decode = DecodeOptions { tunnel_depth: args.tunnel_depth, ..Default::default() };
    let usual = ScanOptions::new(ScanMode::Stream, args.engine);
    let options = ScanOptions { decode, flows: MOST_FLOWS, ..usual };
    let compiled = Arc::new(CompiledScan::with_scanner(set.clone(), scanner, options));
    Scan::optional(Some(compiled), HashKey::OFFLINE).observed(Box::new(Queueing(queues)))
}

struct Queueing(Queues);

impl ScanObserver for Queueing {
    fn scanned(&mut self, batch: &Batch, matches: &[Match], scanned: &[usize]) {
        let mut matches = matches.to_vec();
        matches.sort_unstable();
        matches.dedup();
        let mut rest = matches.as_slice();
        let mut found = Found::default();
        for (rank, i) in (0..).zip(batch.live().iter()) {
            let end = rest.iter().take_while(|hit| hit.text as usize == i).count();
            let (of_packet, others) = rest.split_at(end);
            rest = others;
            found.matches.extend(of_packet.iter().map(|hit| Match { text: rank, ..*hit }));
            found.scanned.push(Some(scanned[i]));
        }
        self.0.push(0, found);
    }
}

/// Why literals may have been missed, with the flows, or packets of no flow, of each cause.
pub(super) fn doubts(remarks: &Remarks) -> Map<String, Value> {
    let doubts = remarks.named().filter(|(_, count)| *count > 0);
    let named = doubts.filter_map(|(name, count)| Some((name.strip_prefix(DOUBT)?, count)));
    named.map(|(name, count)| (name.to_owned(), count.into())).collect()
}
