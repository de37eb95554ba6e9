//! Loads of buckets and sensors, in packets and bits a second.

use std::ops::{Add, AddAssign, Index, IndexMut, Mul, Sub, SubAssign};

use crate::assign::BUCKETS;
use crate::counters::Tally;
use crate::moves::Quiet;

/// A unit of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// Packets a second.
    Packets,
    /// Bits on the wire a second.
    Bits,
}

impl Dimension {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Packets, Self::Bits];
}

/// A load in both dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Load {
    /// Packets a second.
    pub packets: f64,
    /// Bits a second.
    pub bits: f64,
}

impl Load {
    /// No load.
    pub const NONE: Self = Self { packets: 0.0, bits: 0.0 };

    /// The load of `tally` over `seconds`.
    #[must_use]
    pub fn of(tally: Tally, seconds: f64) -> Self {
        Self {
            packets: tally.packets() as f64 / seconds,
            bits: tally.bytes() as f64 * 8.0 / seconds,
        }
    }

    /// Applies a function to each dimension.
    #[must_use]
    pub fn from_fn(each: impl Fn(Dimension) -> f64) -> Self {
        Self { packets: each(Dimension::Packets), bits: each(Dimension::Bits) }
    }

    /// The greatest fraction of `whole` in any dimension: infinite for a load relative to
    /// zero, 0 for zero relative to zero.
    #[must_use]
    pub fn share_of(self, whole: Self) -> f64 {
        Dimension::ALL.map(|d| ratio(self[d], whole[d])).into_iter().fold(0.0, f64::max)
    }

    /// The dimension in which this is the greatest fraction of `whole`.
    #[must_use]
    pub fn critical(self, whole: Self) -> Dimension {
        let [packets, bits] = Dimension::ALL.map(|d| ratio(self[d], whole[d]));
        if bits > packets { Dimension::Bits } else { Dimension::Packets }
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    match (part > 0.0, whole > 0.0) {
        (false, _) => 0.0,
        (true, true) => part / whole,
        (true, false) => f64::INFINITY,
    }
}

impl Index<Dimension> for Load {
    type Output = f64;

    fn index(&self, dimension: Dimension) -> &f64 {
        match dimension {
            Dimension::Packets => &self.packets,
            Dimension::Bits => &self.bits,
        }
    }
}

impl IndexMut<Dimension> for Load {
    fn index_mut(&mut self, dimension: Dimension) -> &mut f64 {
        match dimension {
            Dimension::Packets => &mut self.packets,
            Dimension::Bits => &mut self.bits,
        }
    }
}

impl Add for Load {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::from_fn(|d| self[d] + other[d])
    }
}

impl Sub for Load {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::from_fn(|d| self[d] - other[d])
    }
}

impl Mul<f64> for Load {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self::from_fn(|d| self[d] * factor)
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

/// The load of every bucket, from readings of its counters.
///
/// Loads are exponentially smoothed: the last reading has the weight `weight`. The first
/// two readings give the first loads.
#[derive(Debug)]
pub struct BucketLoads {
    weight: f64,
    last: Vec<Tally>,
    read_at: Option<u64>,
    loads: Option<Vec<Load>>,
    /// The loads of the last interval alone.
    latest: Vec<Load>,
    /// When each counter was first read with its present value, in nanoseconds.
    quiet_since: Vec<u64>,
}

impl BucketLoads {
    /// No readings yet.
    #[must_use]
    pub fn new(weight: f64) -> Self {
        Self {
            weight,
            last: vec![Tally::default(); BUCKETS],
            read_at: None,
            loads: None,
            latest: vec![Load::NONE; BUCKETS],
            quiet_since: vec![0; BUCKETS],
        }
    }

    /// Takes a reading at the time `now`, in nanoseconds; ignored unless it is later than
    /// the last.
    pub fn read(&mut self, now: u64, tally: impl Fn(u16) -> Tally) {
        let seconds = match self.read_at {
            Some(at) if now <= at => return,
            Some(at) => Some((now - at) as f64 / 1e9),
            None => None,
        };
        let known = self.loads.is_some();
        let mut loads = self.loads.take().unwrap_or_else(|| vec![Load::NONE; BUCKETS]);
        for (bucket, load) in (0..=u16::MAX).zip(&mut loads) {
            let i = usize::from(bucket);
            let reading = tally(bucket);
            let came = reading.since(self.last[i]);
            if came != Tally::default() || seconds.is_none() {
                self.quiet_since[i] = now;
                self.last[i] = reading;
            }
            if let Some(seconds) = seconds {
                let fresh = Load::of(came, seconds);
                *load = if known { *load + (fresh - *load) * self.weight } else { fresh };
                self.latest[i] = fresh;
            }
        }
        self.read_at = Some(now);
        self.loads = seconds.map(|_| loads);
    }

    /// The loads by bucket, available from the second reading on.
    #[must_use]
    pub fn loads(&self) -> Option<&[Load]> {
        self.loads.as_deref()
    }

    /// The loads of the last interval alone, by bucket.
    #[must_use]
    pub fn latest(&self) -> &[Load] {
        &self.latest
    }

    /// Since when the bucket's counters are known not to have changed.
    #[must_use]
    pub fn quiet(&self, bucket: u16) -> Option<Quiet> {
        let i = usize::from(bucket);
        self.read_at.map(|_| Quiet { since: self.quiet_since[i], tally: self.last[i] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn loads_are_differences_by_time_and_follow_with_their_weight() {
        let mut loads = BucketLoads::new(0.5);
        let near_wrap = Tally::default().since(Tally::new(100, 6_000));
        loads.read(SECOND, |_| near_wrap);
        assert_eq!(loads.loads(), None);
        loads.read(3 * SECOND, |bucket| {
            near_wrap.plus(if bucket == 5 { Tally::new(1_000, 100_000) } else { Tally::default() })
        });
        let known = loads.loads().unwrap();
        assert_eq!(known[5], Load { packets: 500.0, bits: 400_000.0 });
        assert_eq!(known[4], Load::NONE);
        let quiet = [loads.quiet(4).unwrap().since, loads.quiet(5).unwrap().since];
        assert_eq!(quiet, [SECOND, 3 * SECOND]);
        loads.read(4 * SECOND, |bucket| loads_at_rest(bucket, near_wrap));
        assert_eq!(loads.loads().unwrap()[5].packets, 250.0);
        assert_eq!(loads.latest()[5], Load::NONE);
        assert_eq!(loads.quiet(5).unwrap().since, 3 * SECOND);
    }

    fn loads_at_rest(bucket: u16, start: Tally) -> Tally {
        start.plus(if bucket == 5 { Tally::new(1_000, 100_000) } else { Tally::default() })
    }

    #[test]
    fn a_reading_out_of_time_is_left_out() {
        let mut loads = BucketLoads::new(0.5);
        loads.read(5 * SECOND, |_| Tally::default());
        loads.read(5 * SECOND, |_| Tally::new(1, 1));
        loads.read(4 * SECOND, |_| Tally::new(2, 2));
        assert_eq!(loads.loads(), None);
        loads.read(6 * SECOND, |_| Tally::new(3, 3));
        assert_eq!(loads.loads().unwrap()[0].packets, 3.0);
    }

    #[test]
    fn shares_of_nothing() {
        let none = Load::NONE;
        let some = Load { packets: 1.0, bits: 8.0 };
        assert_eq!((none.share_of(none), some.share_of(none)), (0.0, f64::INFINITY));
        assert_eq!(some.share_of(Load { packets: 2.0, bits: 10.0 }), 0.8);
        assert_eq!(some.critical(Load { packets: 2.0, bits: 10.0 }), Dimension::Bits);
    }
}
