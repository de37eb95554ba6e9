//! Keys and states of every kind that tables take.

use std::fmt::Debug;
use std::hash::Hash;

use forebay_flow::{Level, Options, ShortKey, TableKey, TableState, Wide};
use forebay_packet::flow::AddressKind;
use forebay_packet::{FlowKey, HashKey};

pub const LIFETIME: u8 = 5;

pub fn options(flows: usize, level: Level) -> Options {
    Options { flows, lifetime: LIFETIME, key: HashKey([7, 9]), level }
}

/// Short key `n` of many.
pub fn key(n: u64) -> ShortKey {
    let (a, b) = (u128::from(n as u32), u128::from((n >> 32) as u32 | 0x0a00_0000));
    let (key, _) = FlowKey::two_way(AddressKind::Ipv4, 6, (a, n as u16), (b, 80));
    ShortKey::new(&FlowKey { has_ports: true, ..key }).unwrap()
}

/// Keys that tests number or choose.
pub trait Key: TableKey + Eq + Hash + Ord {
    /// A key of this kind for a short one; others for others.
    fn of(short: ShortKey) -> Self;

    fn number(n: u64) -> Self {
        Self::of(key(n))
    }
}

impl Key for ShortKey {
    fn of(short: ShortKey) -> Self {
        short
    }
}

impl Key for FlowKey {
    /// Of four, one is short; one has the addresses of IPv6, one a scope, one no ports.
    fn of(short: ShortKey) -> Self {
        let key = short.whole();
        let network = 0x2001_0db8 << 96;
        match (key.low ^ key.high) % 4 {
            0 => key,
            1 => FlowKey {
                kind: AddressKind::Ipv6,
                low: key.low | network,
                high: key.high | network,
                ..key
            },
            2 => FlowKey { scope: 7, ..key },
            _ => FlowKey { kind: AddressKind::Mac, has_ports: false, ..key },
        }
    }
}

/// States that have a number in all of their bytes.
pub trait State: TableState + Debug + Ord {
    fn of(number: u16) -> Self;
    fn number(&self) -> u16;
}

impl State for u16 {
    fn of(number: u16) -> Self {
        number
    }

    fn number(&self) -> u16 {
        *self
    }
}

/// A state of `N` times two bytes.
pub type Words<const N: usize> = Wide<[u16; N]>;

impl<const N: usize> State for Words<N>
where
    [u16; N]: Default,
{
    fn of(number: u16) -> Self {
        Wide(std::array::from_fn(|at| number.wrapping_mul(2 * at as u16 + 1)))
    }

    fn number(&self) -> u16 {
        let number = self.0[0];
        assert_eq!(*self, Self::of(number), "the whole state is of the same flow");
        number
    }
}

/// Runs a test for short and whole keys, with states of 2, 8 and 32 bytes, at every level.
macro_rules! for_each_kind {
    ($test:ident($($argument:expr),*)) => {
        for level in forebay_flow::Level::all() {
            use $crate::kinds::Words;
            $test::<forebay_flow::ShortKey, u16>(level, $($argument),*);
            $test::<forebay_flow::ShortKey, Words<4>>(level, $($argument),*);
            $test::<forebay_flow::ShortKey, Words<16>>(level, $($argument),*);
            $test::<forebay_packet::FlowKey, u16>(level, $($argument),*);
            $test::<forebay_packet::FlowKey, Words<4>>(level, $($argument),*);
            $test::<forebay_packet::FlowKey, Words<16>>(level, $($argument),*);
        }
    };
}
pub(crate) use for_each_kind;
