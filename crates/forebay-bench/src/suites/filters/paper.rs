//! Numbers of the paper: Yamashita and Tsuru, "Software Pipelining for Packet
//! Filters", HPCC 2007, LNCS 4782, pp. 446–459 (Itanium 2 at 900 MHz, gcc 2.96, icc
//! 9.1).

/// Percentage of the packets that each filter matches (table 1).
pub const MATCHED: [f64; 13] =
    [100.0, 99.8, 99.8, 0.2, 0.2, 4.9, 4.9, 10.9, 10.9, 9.3, 9.3, 21.41, 21.41];

/// Depth of nested conditions, number of conditions, and number of machine
/// instructions without branches (table 1).
pub const SIZE: [[u32; 3]; 13] = [
    [1, 1, 7],
    [2, 2, 11],
    [3, 3, 17],
    [2, 2, 11],
    [3, 3, 17],
    [2, 2, 15],
    [4, 6, 36],
    [3, 3, 22],
    [5, 9, 59],
    [7, 19, 66],
    [8, 29, 88],
    [9, 19, 90],
    [10, 29, 125],
];

/// What the columns of [`CYCLES`] are: the interpreter, gcc and icc on
/// unstructured and structured C, list-scheduled, predicated, enhanced modulo
/// scheduled, and the faster of the two by size.
pub const COLUMNS: [&str; 9] = ["ip", "gcc", "gccˢ", "icc", "iccˢ", "sls", "pe", "ems", "hyb"];

/// Cycles a packet (table 2).
pub const CYCLES: [[f64; 9]; 13] = [
    [80.6, 17.5, 17.6, 13.4, 7.6, 11.2, 4.3, 4.3, 4.3],
    [126.7, 19.4, 19.5, 15.5, 8.6, 14.1, 4.5, 5.8, 4.5],
    [143.6, 20.6, 21.7, 16.2, 9.6, 15.3, 5.5, 7.5, 5.5],
    [126.5, 19.5, 19.6, 14.6, 8.6, 14.1, 4.5, 7.7, 4.5],
    [143.6, 20.6, 21.7, 16.2, 9.6, 15.3, 5.5, 7.6, 5.5],
    [132.5, 188.1, 188.8, 184.4, 189.5, 18.7, 6.9, 10.4, 6.9],
    [132.7, 190.6, 189.8, 187.1, 184.9, 19.0, 10.7, 9.9, 10.7],
    [181.8, 332.0, 332.0, 330.1, 329.2, 24.9, 9.1, 13.5, 9.1],
    [181.6, 333.7, 333.5, 331.4, 330.5, 25.2, 18.2, 14.4, 14.4],
    [266.2, 54.3, 53.6, 32.5, 34.5, 30.0, 18.6, 15.1, 15.1],
    [283.2, 55.1, 55.4, 30.7, 35.4, 31.1, 21.2, 16.9, 16.9],
    [309.5, 64.6, 67.3, 37.1, 40.6, 37.2, 22.2, 20.5, 20.5],
    [326.5, 66.7, 69.4, 37.6, 39.5, 38.0, 28.8, 22.2, 22.2],
];

/// Times the interpreter's speed (table 3, which is rounded).
pub fn ratio(filter: usize, column: usize) -> f64 {
    CYCLES[filter][0] / CYCLES[filter][column]
}

/// The last line of table 3. Those of the C compilers leave filters 6 to 9 out, where
/// memory accesses conflict on the paper's machine.
pub const MEAN_RATIO: [f64; 9] = [1.0, 5.7, 5.6, 8.3, 11.3, 8.3, 18.6, 16.3, 19.7];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_the_ratios() {
        for column in [5, 6, 7, 8] {
            let mean = (0..13).map(|filter| ratio(filter, column)).sum::<f64>() / 13.0;
            assert!((mean - MEAN_RATIO[column]).abs() < 0.06, "{column}: {mean}");
        }
    }
}
