//! Medians and spreads.

/// Values in ascending order.
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The quantile, interpolated between neighbours; NaN without values.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let at = fraction * last as f64;
        let (low, high) = (self.0[at.floor() as usize], self.0[at.ceil() as usize]);
        low + (high - low) * at.fract()
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The middle 80% of the values.
    pub fn spread(&self) -> [f64; 2] {
        [self.quantile(0.1), self.quantile(0.9)]
    }
}

/// The mean of ratios: the root of their product; NaN without values.
pub fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

/// The number to five significant digits.
pub fn rounded(number: f64) -> f64 {
    format!("{number:.4e}").parse().unwrap_or(number)
}

/// Slope and intercept of the line of least squares; none without two different x.
pub fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>() / spread;
    slope.is_finite().then_some((slope, y - slope * x))
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

    #[test]
    fn a_geometric_mean_of_reciprocals_is_the_reciprocal() {
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert!((geometric_mean(&[0.5, 0.125]) - 0.25).abs() < 1e-12);
        assert!(geometric_mean(&[]).is_nan());
    }

    #[test]
    fn five_digits_are_kept() {
        assert_eq!(rounded(12.345_678), 12.346);
        assert_eq!(rounded(0.000_123_456_7), 0.000_123_46);
        assert_eq!(rounded(1_234_567.0), 1_234_600.0);
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn a_line_is_found_again_and_a_point_is_no_line() {
        let (slope, start) = least_squares(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]).unwrap();
        assert!((slope - 2.0).abs() < 1e-12 && (start - 3.0).abs() < 1e-12);
        assert_eq!(least_squares(&[(1.0, 5.0), (1.0, 6.0)]), None);
        assert_eq!(least_squares(&[]), None);
    }
}
