//! What a worker scans for, and the time of the matcher alone.

use std::path::Path;
use std::sync::Arc;

use forebay_packet::{BATCH, Decoder, LinkType};
use forebay_pipeline::stages::{CompiledScan, ScanMode, ScanOptions};
use forebay_scan::{Engine, Matches, Scanner};

use super::oracle::Expected;
use crate::clock::nanos_of;
use crate::failure::Result;
use crate::suites::scan::literals::{Sample, of_rules, set_of};
use crate::suites::scan::traffic::Traffic;

/// Literals that are scanned for.
const LITERALS: usize = 12_000;

/// Bytes of generated traffic that literals are chosen by, and payloads taken from.
const SAMPLE: usize = 4 << 20;

/// Payloads like those of HTTP, DNS and TLS.
pub fn payloads() -> Result<Traffic> {
    Traffic::generated(SAMPLE)
}

/// Literals of the rules of the larger data, and ones made of these, in any case. None without the
/// data.
pub fn compile(data: &Path, traffic: &Traffic) -> Result<Option<Arc<CompiledScan>>> {
    let rules = data.join("ids-rules");
    if !rules.is_dir() {
        return Ok(None);
    }
    let texts = traffic.texts();
    let literals = Sample::new(&texts).generate(&of_rules(&rules)?, LITERALS)?;
    let options = ScanOptions::new(ScanMode::Stream, Engine::default());
    Ok(Some(Arc::new(CompiledScan::new(set_of(&literals)?, options, None)?)))
}

/// The payloads of the packets that are scanned, and the matcher.
pub struct Matcher<'a> {
    scanner: &'a Scanner,
    texts: Vec<&'a [u8]>,
}

impl<'a> Matcher<'a> {
    pub fn new(scanner: &'a Scanner, decoder: &Decoder, expected: &'a Expected) -> Self {
        let payload = |packet| decoder.payload(LinkType::ETHERNET, packet).unwrap_or_default();
        Self { scanner, texts: expected.sent().map(payload).collect() }
    }

    /// Nanoseconds a packet that the matcher takes for so many passes, a batch at a time.
    pub fn nanos(&self, passes: u64) -> f64 {
        let (mut scratch, mut matches) = (self.scanner.scratch(), Matches::new());
        let ((), nanos) = nanos_of(|| {
            for _ in 0..passes {
                for texts in self.texts.chunks(BATCH) {
                    matches.clear();
                    self.scanner.scan(texts, &mut scratch, &mut matches);
                }
            }
        });
        nanos / (self.texts.len() as u64 * passes) as f64
    }
}
