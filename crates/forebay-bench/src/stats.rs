//! Medians and spreads.

/// Values in ascending order.
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts the values.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The value that a fraction of all lie below, between neighbours where it falls
    /// between them; NaN without values.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let at = fraction * last as f64;
        let (low, high) = (self.0[at.floor() as usize], self.0[at.ceil() as usize]);
        low + (high - low) * at.fract()
    }

    /// The middle value.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The middle 80% of the values.
    pub fn spread(&self) -> [f64; 2] {
        [self.quantile(0.1), self.quantile(0.9)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let sample = Sample::new(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(sample.median(), 2.5);
        assert_eq!(sample.quantile(0.0), 1.0);
        assert_eq!(sample.quantile(1.0), 4.0);
        assert!(Sample::new(Vec::new()).median().is_nan());
    }
}
