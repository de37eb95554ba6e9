//! The bars that forwarding is held against.

use super::arrival::SinkKind;
use super::measure::Offered;
use super::results::{Outcome, Results};
use super::traffic::Size;
use crate::bar::{Bar, Limit};

use Limit::AtLeast;

/// Frames a second at which ports in user space must lose nothing.
pub const STEADY: f64 = 400_000.0;

const SMALL: Size = Size::Bytes(64);
const LARGE: Size = Size::Bytes(1500);

/// The bars of which both sides were measured.
pub fn bars(results: &Results) -> Vec<Bar> {
    let splitter = [
        ("bridge", SinkKind::Xdp, 2.5, 4.0),
        ("nft-bridge", SinkKind::Xdp, 3.0, 5.0),
        ("bridge", SinkKind::Stack, 1.6, 2.0),
    ];
    let mut bars = Vec::new();
    for (peer, sink, least, aim) in splitter {
        let ours = results.of("xdp", SMALL, sink);
        let what = format!("xdp to {peer}, 64 bytes, into {} (aim {aim})", sink_name(sink));
        bars.extend(ratio(what, least, ours, results.of(peer, SMALL, sink)));
    }
    for (size, least, aim) in [(SMALL, 0.8, 1.5), (LARGE, 0.5, 1.0)] {
        for sink in SinkKind::ALL {
            let best = results.best_user_space(size, sink);
            let name = best.map_or("", |best| best.engine.as_str());
            let sink_name = sink_name(sink);
            let what = format!(
                "best in user space, {name}, to bridge, {size} bytes, into {sink_name} (aim {aim})"
            );
            bars.extend(ratio(what, least, best, results.of("bridge", size, sink)));
        }
    }
    bars.extend(steady(results));
    bars
}

fn sink_name(sink: SinkKind) -> &'static str {
    match sink {
        SinkKind::Xdp => "an XDP sink",
        SinkKind::Stack => "an ordinary sink",
    }
}

fn ratio(
    what: String,
    least: f64,
    ours: Option<&Outcome>,
    theirs: Option<&Outcome>,
) -> Option<Bar> {
    let median = ours?.ratio_to(theirs?).median();
    (!median.is_nan()).then(|| Bar::of(what, AtLeast(least), median))
}

/// Ports in user space lose nothing at a moderate rate: the part of all trials. One at which
/// the generator did not reach that rate shows nothing.
fn steady(results: &Results) -> Option<Bar> {
    let parts: Vec<(f64, String)> = results
        .outcomes
        .iter()
        .filter(|one| one.user_space && !one.steady.is_empty())
        .map(|one| {
            let shows = |offered: &&Offered| offered.lost == 0 && offered.rate >= STEADY;
            let without = one.steady.iter().filter(shows).count();
            (without as f64 / one.steady.len() as f64, one.engine.clone())
        })
        .collect();
    Bar::each("trials without loss at 0.4 Mpps, user space", AtLeast(1.0), &parts)
}

#[cfg(test)]
mod tests {
    use super::super::results::outcome;
    use super::*;

    #[test]
    fn bars_are_of_what_was_measured() {
        let mut results = Results::default();
        assert!(bars(&results).is_empty());
        for (engine, rate) in [("bridge", 1e6), ("af_packet-1", 0.7e6), ("af_xdp-1", 0.9e6)] {
            results.outcomes.push(outcome(engine, SMALL, SinkKind::Xdp, &[rate, rate, rate]));
        }
        results.outcomes.push(outcome("xdp", SMALL, SinkKind::Xdp, &[2e6, 3e6, 4e6]));
        let at = |rate, lost| Offered { rate, sent: 4_000_000, lost };
        results.outcomes[1].steady = vec![at(4e5, 0), at(4e5, 1), at(4.1e5, 0), at(3.9e5, 0)];
        let bars = bars(&results);
        let met: Vec<(f64, bool)> = bars.iter().map(|bar| (bar.value, bar.met)).collect();
        assert_eq!(met, [(3.0, true), (0.9, true), (0.5, false)]);
        assert!(bars[1].what.contains("af_xdp-1"));
        for line in
            bars.iter().flat_map(|bar| bar.text().lines().map(str::to_owned).collect::<Vec<_>>())
        {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
}
