//! The highest rate at which nothing is lost, by bisection (RFC 2544, section 26.1; the
//! trials are shorter), and losses at given rates.

use std::time::Duration;

use super::measure::{Offered, Path};
use crate::BenchError;

/// How long trials take, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Trials {
    /// Of the search.
    pub search: Duration,
    /// Of what the search found.
    pub last: Duration,
    /// How many of these.
    pub count: usize,
    /// The search ends where the bounds are that near to each other.
    pub resolution: f64,
}

/// Those of a full run, and of a quick one.
pub const FULL: Trials = Trials {
    search: Duration::from_secs(3),
    last: Duration::from_secs(10),
    count: 5,
    resolution: 0.02,
};
pub const QUICK: Trials = Trials {
    search: Duration::from_millis(200),
    last: Duration::from_millis(600),
    count: 2,
    resolution: 0.06,
};

/// A rate that was sent at less than this part is beyond the generator.
const REACHED: f64 = 0.98;

/// How much lower is tried where a last trial loses something, and how many rates: down to
/// a third of the first.
const STEP: f64 = 0.95;
const RATES: usize = 23;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct LossFree {
    /// Frames a second; the least of the last trials. None where every rate that was tried
    /// lost frames.
    pub rate: Option<f64>,
    /// The last trials at that rate, all of them without loss.
    pub trials: Vec<Offered>,
}

/// Looks for the highest rate at which nothing is lost; `most` is one at which something
/// may be. In the search a rate has to lose twice: a pause of the machine, which any rate may
/// meet, would else halve what is found. The last trials may lose nothing at all.
pub fn search(path: &mut Path<'_>, most: f64, trials: Trials) -> Result<LossFree, BenchError> {
    // Where the kernel forwards, the generator can be no faster than that.
    if !path.forwarder.kind.is_user_space() {
        let last = last_trials(path, None, trials)?;
        if let Some(found) = without_loss(last) {
            return Ok(found);
        }
    }
    let (mut low, mut high) = (0.0, most);
    while high - low > trials.resolution * high {
        let rate = f64::midpoint(low, high);
        let mut offered = path.offer(Some(rate), trials.search)?;
        if offered.lost > 0 {
            offered = path.offer(Some(rate), trials.search)?;
        }
        if offered.lost > 0 {
            high = rate;
        } else if offered.rate < REACHED * rate {
            low = offered.rate;
            break;
        } else {
            low = rate;
        }
    }
    for _ in 0..RATES {
        if low <= 0.0 {
            break;
        }
        if let Some(found) = without_loss(last_trials(path, Some(low), trials)?) {
            return Ok(found);
        }
        low *= STEP;
    }
    Ok(LossFree { rate: None, trials: Vec::new() })
}

/// The last trials at a rate, up to the first that loses something.
fn last_trials(
    path: &mut Path<'_>,
    rate: Option<f64>,
    trials: Trials,
) -> Result<Vec<Offered>, BenchError> {
    let mut all = Vec::new();
    for _ in 0..trials.count {
        all.push(path.offer(rate, trials.last)?);
        if all.last().is_some_and(|offered| offered.lost > 0) {
            break;
        }
    }
    Ok(all)
}

/// What was found, if no trial lost anything.
fn without_loss(trials: Vec<Offered>) -> Option<LossFree> {
    let rate = trials.iter().map(|offered| offered.rate).fold(f64::INFINITY, f64::min);
    let none_lost = trials.iter().all(|offered| offered.lost == 0);
    (none_lost && rate.is_finite()).then_some(LossFree { rate: Some(rate), trials })
}
