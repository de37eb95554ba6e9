//! Values of the paper: Yamada et al., "Performance improvement of packet forwarding in
//! software-based load balancer for parallel distributed NIDS" (IPSJ SIG Technical Report,
//! 2011).

/// The forwarders.
pub const THEIRS: [&str; 6] =
    ["bridge", "1 thread", "2 threads", "3 threads", "4 threads", "5 threads"];

/// Table 1: the most packets a second, at 128 bytes, in thousands.
pub const KPPS: [f64; 6] = [974.5222, 615.0916, 1412.3040, 1467.6290, 1481.0744, 1477.2323];

/// Table 2: per cent of packets lost at 1,500 bytes.
pub const LOSS: [f64; 6] = [14.592_555, 28.267_35, 0.0, 0.0, 0.0, 0.0];

/// Gigabits a second that were sent for table 2.
pub const SENT: f64 = 9.8;

/// The sizes of the two.
pub const SIZES: [usize; 2] = [128, 1500];

/// Points of figure 8 as far as the text and the tables give them: gigabits a second of each
/// forwarder at 128 and at 1,500 bytes.
pub fn figure_8() -> [(&'static str, [f64; 2]); 6] {
    std::array::from_fn(|i| {
        let small = KPPS[i] * 1e3 * SIZES[0] as f64 * 8.0 / 1e9;
        (THEIRS[i], [small, SENT * (1.0 - LOSS[i] / 100.0)])
    })
}

/// Packets a second of the paper's traffic at 1,500 bytes.
pub fn paper_rate() -> f64 {
    SENT * 1e9 / (SIZES[1] as f64 * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_of_the_text() {
        let [(_, bridge), (_, one), (_, two), ..] = figure_8();
        // "about 8.5 Gbps", "more than 9.8 Gbps"
        assert!((bridge[1] - 8.4).abs() < 0.1 && two[1] >= 9.8 && one[1] < bridge[1]);
        assert!((bridge[0] - 0.998).abs() < 1e-3);
        assert!((paper_rate() - 816_667.0).abs() < 1.0);
    }
}
