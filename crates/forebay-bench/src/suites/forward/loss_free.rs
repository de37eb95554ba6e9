//! The highest rate without loss, by bisection (RFC 2544, section 26.1; the trials are
//! shorter).

use std::time::Duration;

use super::measure::{Offered, Path};
use crate::failure::Result;

#[derive(Clone, Copy, Debug)]
pub struct Trials {
    /// Duration of a trial of the search.
    pub search: Duration,
    /// Duration and number of the trials at the rate that was found.
    pub last: Duration,
    pub count: usize,
    /// The search ends when its bounds differ by this part.
    pub resolution: f64,
}

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

/// The generator cannot reach a rate of which it sends less than this part.
const REACHED: f64 = 0.98;

/// After a loss in the last trials, a lower rate is tried: by this factor, and down to a third
/// of the first.
const STEP: f64 = 0.95;
const RATES: usize = 23;

#[derive(Clone, Debug, PartialEq)]
pub struct LossFree {
    /// The least frames a second of the last trials; none where every rate lost frames.
    pub rate: Option<f64>,
    pub trials: Vec<Offered>,
}

/// Finds the highest rate without loss; `most` is a rate with loss. In the search a rate has
/// to lose twice, as any rate may meet a pause of the machine, which would halve the result.
/// The last trials may lose nothing at all.
pub fn search(path: &mut Path<'_>, most: f64, trials: Trials) -> Result<LossFree> {
    // Where the kernel forwards, the generator cannot be faster than the forwarder.
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

/// The last trials at a rate, up to the first with loss.
fn last_trials(path: &mut Path<'_>, rate: Option<f64>, trials: Trials) -> Result<Vec<Offered>> {
    let mut all = Vec::new();
    for _ in 0..trials.count {
        all.push(path.offer(rate, trials.last)?);
        if all.last().is_some_and(|offered| offered.lost > 0) {
            break;
        }
    }
    Ok(all)
}

/// The result, if no trial lost a frame.
fn without_loss(trials: Vec<Offered>) -> Option<LossFree> {
    let rate = trials.iter().map(|offered| offered.rate).fold(f64::INFINITY, f64::min);
    let none_lost = trials.iter().all(|offered| offered.lost == 0);
    (none_lost && rate.is_finite()).then_some(LossFree { rate: Some(rate), trials })
}
