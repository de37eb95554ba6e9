//! Load over time, for captures of unknown length.
//!
//! Buckets start narrow; when a packet is past the last one, pairs of buckets are merged
//! until it fits. So memory is bounded and each packet is counted once, in a bucket of
//! suitable length.

/// The most buckets of an output, and of all outputs together if there are many.
pub const MAX_BUCKETS: usize = 480;
const MAX_OF_ALL: usize = 256 * MAX_BUCKETS;

/// Length of a bucket at the beginning: a millisecond.
const FIRST_WIDTH: u64 = 1_000_000;

/// Packets and bytes of each output in equal steps of time.
#[derive(Clone, Debug)]
pub struct Series {
    start: Option<i64>,
    end: i64,
    width: u64,
    buckets: usize,
    /// The most buckets of an output.
    most: usize,
    packets: Vec<Vec<u64>>,
    bytes: Vec<Vec<u64>>,
}

impl Series {
    /// An empty series of that many outputs.
    #[must_use]
    pub fn new(outputs: usize) -> Self {
        Self {
            start: None,
            end: i64::MIN,
            width: FIRST_WIDTH,
            buckets: 0,
            most: (MAX_OF_ALL / outputs.max(1)).clamp(1, MAX_BUCKETS),
            packets: vec![Vec::new(); outputs],
            bytes: vec![Vec::new(); outputs],
        }
    }

    /// Counts a packet of an output, `nanos` after the epoch. Packets from before the first
    /// one count in the first bucket.
    ///
    /// # Panics
    /// If there is no such output.
    pub fn count(&mut self, output: usize, nanos: i64, bytes: u64) {
        let start = *self.start.get_or_insert(nanos);
        self.end = self.end.max(nanos);
        let after = if nanos > start { nanos.abs_diff(start) } else { 0 };
        while after / self.width >= self.most as u64 {
            self.halve();
        }
        let bucket = (after / self.width) as usize;
        self.buckets = self.buckets.max(bucket + 1);
        let (packets, sums) = (&mut self.packets[output], &mut self.bytes[output]);
        if packets.len() <= bucket {
            packets.resize(bucket + 1, 0);
            sums.resize(bucket + 1, 0);
        }
        packets[bucket] += 1;
        sums[bucket] += bytes;
    }

    /// Merges buckets by pairs.
    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.buckets = self.buckets.div_ceil(2);
        for row in self.packets.iter_mut().chain(&mut self.bytes) {
            *row = row.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// Time stamp of the first packet.
    #[must_use]
    pub fn start(&self) -> Option<i64> {
        self.start
    }

    /// The latest time stamp.
    #[must_use]
    pub fn end(&self) -> Option<i64> {
        self.start.map(|_| self.end)
    }

    /// Length of a bucket in nanoseconds.
    #[must_use]
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Packets by output and bucket, all rows of one length.
    #[must_use]
    pub fn packets(&self) -> Vec<Vec<u64>> {
        self.filled(&self.packets)
    }

    /// Bytes by output and bucket, all rows of one length.
    #[must_use]
    pub fn bytes(&self) -> Vec<Vec<u64>> {
        self.filled(&self.bytes)
    }

    fn filled(&self, rows: &[Vec<u64>]) -> Vec<Vec<u64>> {
        let mut rows = rows.to_vec();
        rows.iter_mut().for_each(|row| row.resize(self.buckets, 0));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_counted_however_long_the_capture() {
        let mut series = Series::new(2);
        let mut nanos = 1_700_000_000_000_000_000_i64;
        for i in 0..10_000_i64 {
            nanos += i * 1_000;
            series.count((i % 2) as usize, nanos, 60);
        }
        let packets = series.packets();
        assert_eq!(packets.iter().flatten().sum::<u64>(), 10_000);
        assert_eq!(series.bytes().iter().flatten().sum::<u64>(), 600_000);
        assert!(packets[0].len() <= MAX_BUCKETS && packets[0].len() == packets[1].len());
    }

    #[test]
    fn many_outputs_have_fewer_buckets() {
        for (outputs, most) in [(1, MAX_BUCKETS), (256, MAX_BUCKETS), (1024, MAX_BUCKETS / 4)] {
            let mut series = Series::new(outputs);
            for i in 0..10_000_i64 {
                series.count(i as usize % outputs, i * 1_000_000, 60);
            }
            let packets = series.packets();
            assert!((most / 2..=most).contains(&packets[0].len()), "{outputs}");
            assert_eq!(packets.iter().flatten().sum::<u64>(), 10_000);
        }
    }

    #[test]
    fn time_stamps_may_be_anything() {
        let mut series = Series::new(1);
        for nanos in [0, i64::MAX, i64::MIN, -1, 7] {
            series.count(0, nanos, 1);
        }
        assert_eq!(series.packets().iter().flatten().sum::<u64>(), 5);
        assert_eq!((series.start(), series.end()), (Some(0), Some(i64::MAX)));
    }
}
