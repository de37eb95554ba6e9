//! Keys and states of several lengths.
//!
//! Every entry of a bucket has the same 16 bytes, so that buckets are compared by the same
//! instructions and entries are moved by the same code. A short key and two bytes of state are
//! all in the entry. What does not fit lies in a cell beside, which has the number of the entry's
//! slot: the state if it is longer, and the key if it is no short one. Then the entry has a keyed
//! digest of the key instead, by which its buckets are found and which nobody can compute without
//! the secret. Keys of equal digests are told apart by the whole key in the cell; flows whose
//! keys are short need no cell for it. A table of short keys and short states has no cells.

use std::fmt::Debug;

use forebay_packet::FlowKey;

use super::kernel::{self, STRETCH};
use crate::hash::Secret;
use crate::key::ShortKey;

/// Kinds of keys: [`ShortKey`] and [`FlowKey`].
pub trait TableKey: KeyLayout {}

impl TableKey for ShortKey {}
impl TableKey for FlowKey {}

/// Kinds of states: `u16`, and [`Wide`] for others.
pub trait TableState: StateLayout {}

impl TableState for u16 {}
impl<T: Copy + Default + Debug + PartialEq> TableState for Wide<T> {}

/// A state of 2 to 32 bytes, beside the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Wide<T>(pub T);

/// How a key lies in entries and beside them.
pub trait KeyLayout: Copy + Debug + PartialEq {
    /// What a cell has of it.
    type Beside: Copy + Default + Debug;
    /// Memory for what entries have of the keys of a stretch.
    type Buffer: Default + Debug;

    /// Prepares what entries have of these keys, at most [`STRETCH`]. Returns a bit for each
    /// that is a digest.
    fn digest(keys: &[Self], secret: &Secret, buffer: &mut Self::Buffer) -> u64;

    /// What entries have of the keys that the buffer was prepared for.
    fn entries<'a>(keys: &'a [Self], buffer: &'a Self::Buffer) -> &'a [ShortKey];

    /// Whether the key is the one in a cell, where the digest is in the entry.
    fn is(&self, beside: &Self::Beside) -> bool;

    /// Writes the key to the cell, if its entry has the digest.
    fn keep(&self, entry: ShortKey, beside: &mut Self::Beside);

    /// The key by its entry and cell.
    fn whole(entry: ShortKey, beside: &Self::Beside) -> Self;
}

impl KeyLayout for ShortKey {
    type Beside = ();
    type Buffer = ();

    #[inline(always)]
    fn digest(_: &[Self], _: &Secret, (): &mut ()) -> u64 {
        0
    }

    #[inline(always)]
    fn entries<'a>(keys: &'a [Self], (): &'a ()) -> &'a [ShortKey] {
        keys
    }

    #[inline(always)]
    fn is(&self, (): &()) -> bool {
        true
    }

    #[inline(always)]
    fn keep(&self, _: ShortKey, (): &mut ()) {}

    #[inline(always)]
    fn whole(entry: ShortKey, (): &()) -> Self {
        entry
    }
}

/// What entries have of the keys of a stretch.
#[derive(Debug)]
pub struct Digests(pub(super) [ShortKey; STRETCH]);

impl Default for Digests {
    fn default() -> Self {
        Self([ShortKey(0); STRETCH])
    }
}

impl KeyLayout for FlowKey {
    type Beside = FlowKey;
    type Buffer = Digests;

    fn digest(keys: &[Self], secret: &Secret, Digests(buffer): &mut Digests) -> u64 {
        kernel::digest_flows(secret, keys, &mut buffer[..keys.len()])
    }

    #[inline]
    fn entries<'a>(keys: &'a [Self], Digests(buffer): &'a Digests) -> &'a [ShortKey] {
        &buffer[..keys.len()]
    }

    #[inline]
    fn is(&self, beside: &Self) -> bool {
        FlowKey::is(self, beside)
    }

    #[inline]
    fn keep(&self, entry: ShortKey, beside: &mut Self) {
        if entry.is_digest() {
            *beside = *self;
        }
    }

    #[inline]
    fn whole(entry: ShortKey, beside: &Self) -> Self {
        if entry.is_digest() { *beside } else { entry.whole() }
    }
}

/// How a state lies in entries and beside them.
pub trait StateLayout: Copy + Default + Debug + PartialEq {
    /// What a cell has of it.
    type Beside: Copy + Default + Debug;

    /// The state.
    fn whole(bits: u16, beside: &Self::Beside) -> Self;

    /// Changes the state.
    fn change<R>(
        bits: &mut u16,
        beside: &mut Self::Beside,
        change: impl FnOnce(&mut Self) -> R,
    ) -> R;
}

impl StateLayout for u16 {
    type Beside = ();

    #[inline(always)]
    fn whole(bits: u16, (): &()) -> Self {
        bits
    }

    #[inline(always)]
    fn change<R>(bits: &mut u16, (): &mut (), change: impl FnOnce(&mut u16) -> R) -> R {
        change(bits)
    }
}

impl<T: Copy + Default + Debug + PartialEq> StateLayout for Wide<T> {
    type Beside = Self;

    #[inline(always)]
    fn whole(_: u16, beside: &Self) -> Self {
        const { assert!(2 <= size_of::<T>() && size_of::<T>() <= 32, "a state has 2 to 32 bytes") };
        *beside
    }

    #[inline(always)]
    fn change<R>(_: &mut u16, beside: &mut Self, change: impl FnOnce(&mut Self) -> R) -> R {
        change(beside)
    }
}

/// What lies beside an entry.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Cell<K, S> {
    pub(crate) key: K,
    pub(crate) state: S,
}

/// The cell of a table of these keys and states.
pub(crate) type CellOf<K, S> = Cell<<K as KeyLayout>::Beside, <S as StateLayout>::Beside>;
