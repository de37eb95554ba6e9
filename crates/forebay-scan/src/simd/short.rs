//! Literals of 2 and 3 bytes. A literal is found by two of its bytes, exactly, and by the third one
//! next to these if there is one.
//!
//! Traffic is full of such literals (`\r\n`, small numbers), and each is reported once for each text. A
//! window all of whose literals were found in a text is passed over in the rest of it, without a
//! branch.

use super::bitmap::Bitmap;
use super::buckets::Buckets;
use super::buffer::{Buffer, Bytes, FRONT};
use super::hash;
use super::kernel::{self, Level, Positions};
use super::literals::Groups;
use super::model::Probabilities;

/// The literals of 2 and 3 bytes of a set, but for runs of one byte.
#[derive(Clone, Debug)]
pub struct Short {
    windows: Bitmap,
    /// In front of the bitmap, if the windows are few.
    buckets: Option<Box<Buckets>>,
    /// Windows have slots, by hash, which have literals.
    slots: Box<[Slot]>,
    shift: u32,
    literals: Box<[Literal]>,
}

/// A literal, by the bytes about its window: one in front of it, two in it, one behind it.
#[derive(Clone, Copy, Debug)]
pub struct Literal {
    bytes: u32,
    /// Those of the bytes that are the literal's.
    mask: u32,
    pub group: u32,
    pub nocase: bool,
}

/// The literals of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    first: u32,
    len: u32,
    /// For the low 5 bits of the byte in front of a window, and of the one behind it, whether
    /// literals of the slot have that.
    before: u32,
    behind: u32,
    pairs: Pairs,
}

/// Which literals of 2 bytes a slot has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Pairs {
    #[default]
    None,
    /// One, which is found wherever its window is.
    Whole,
    /// One whose case matters, or several.
    Some,
}

/// Slots for each window, at least, so that few windows share one; they are fewer than twice that.
const SLOTS_A_WINDOW: usize = 4;

/// The most slots of a set with so many literals.
pub fn most_slots(literals: usize) -> usize {
    (2 * SLOTS_A_WINDOW * literals).min(SLOTS_A_WINDOW << 16)
}

impl Literal {
    /// Of folded text, by the window at `at`.
    fn new(text: &[u8], at: usize, group: u32, nocase: bool) -> Self {
        let (mut bytes, mut mask) = ([0; 4], [0; 4]);
        let place = 1 - at..1 - at + text.len();
        bytes[place.clone()].copy_from_slice(text);
        mask[place].fill(0xff);
        Self { bytes: u32::from_le_bytes(bytes), mask: u32::from_le_bytes(mask), group, nocase }
    }

    fn window(&self) -> u16 {
        (self.bytes >> 8) as u16
    }

    /// Bytes in front of the window.
    #[inline]
    pub fn before(&self) -> usize {
        (self.mask & 1) as usize
    }

    /// Bytes from the window on.
    #[inline]
    pub fn behind(&self) -> usize {
        2 + (self.mask >> 31) as usize
    }
}

impl Short {
    /// The literals of some groups, each with where in it its window is; `None` if these are none.
    pub fn new(
        groups: &Groups,
        short: &[(u32, u16)],
        probabilities: &Probabilities,
        level: Level,
    ) -> Option<Self> {
        let literal = |&(group, at): &(u32, u16)| {
            Literal::new(&groups.folded(group), usize::from(at), group, groups.is_nocase(group))
        };
        let mut literals: Vec<Literal> = short.iter().map(literal).collect();
        let mut windows: Vec<u32> = literals.iter().map(|one| one.window().into()).collect();
        windows.sort_unstable();
        windows.dedup();
        if windows.is_empty() {
            return None;
        }
        let count = (windows.len() * SLOTS_A_WINDOW).next_power_of_two();
        let shift = 32 - count.trailing_zeros();
        literals.sort_by_key(|literal| slot(literal.window(), shift));
        let mut slots = vec![Slot::default(); count];
        let mut is_mixed = vec![false; count];
        for (at, literal) in (0..).zip(&literals) {
            let of_slot = &mut slots[slot(literal.window(), shift)];
            let is_folded = groups.is_nocase(literal.group);
            if of_slot.len == 0 {
                of_slot.first = at;
            }
            of_slot.len += 1;
            is_mixed[slot(literal.window(), shift)] |=
                literal.window() != literals[of_slot.first as usize].window();
            let [before, .., behind] = literal.bytes.to_le_bytes().map(|byte| 1 << (byte & 31));
            match (literal.before(), literal.behind()) {
                (0, 2) if is_folded && of_slot.pairs == Pairs::None => of_slot.pairs = Pairs::Whole,
                (0, 2) => of_slot.pairs = Pairs::Some,
                (0, _) => of_slot.behind |= behind,
                _ => of_slot.before |= before,
            }
        }
        for (slot, is_mixed) in slots.iter_mut().zip(is_mixed) {
            if is_mixed && slot.pairs == Pairs::Whole {
                slot.pairs = Pairs::Some;
            }
        }
        let buckets = (windows.len() <= level.most_in_short_buckets())
            .then(|| Box::new(Buckets::new(windows.clone(), probabilities)));
        Some(Self {
            windows: Bitmap::new(windows.iter().map(|&window| window as u16)),
            buckets,
            slots: slots.into(),
            shift,
            literals: literals.into(),
        })
    }

    /// Writes the positions at which windows are to `positions`, in order, and returns their number.
    pub fn probe(&self, level: Level, buffer: &Buffer, positions: &mut Positions) -> usize {
        let (text, len) = (buffer.bytes(), buffer.len());
        match &self.buckets {
            Some(buckets) => {
                let count = kernel::probe_all::<2>(level, text, len, buckets, positions);
                let mut kept = 0;
                for i in 0..count {
                    positions[kept] = positions[i];
                    kept += usize::from(self.windows.has(window(text, positions[i])));
                }
                kept
            }
            None => kernel::probe_each(level, text, len, &self.windows, positions),
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Keeps of positions, at the start of a list, those that may have a literal which the text does
    /// not have before, as the stamp tells, and returns their number.
    ///
    /// From `body` on, literals of 2 bytes are taken to be found where they are.
    pub fn retain(
        &self,
        text: &Bytes,
        positions: &mut [u16],
        body: usize,
        stamp: u32,
        stamps: &mut [u32],
    ) -> usize {
        let mut kept = 0;
        for i in 0..positions.len() {
            let at = positions[i];
            let around = around(text, at);
            let number = slot((around >> 8) as u16, self.shift);
            let (slot, last) = (&self.slots[number], &mut stamps[number]);
            let third = slot.before >> (around & 31) | slot.behind >> (around >> 24 & 31);
            let pair = (slot.pairs != Pairs::None) & (*last != stamp);
            positions[kept] = at;
            kept += usize::from(third & 1 != 0 || pair);
            let is_done = (slot.pairs == Pairs::Whole) & (usize::from(at) >= body);
            *last = if is_done { stamp } else { *last };
        }
        kept
    }

    /// The literals at a position.
    #[inline]
    pub fn at(&self, text: &Bytes, position: u16) -> impl Iterator<Item = &Literal> {
        let around = around(text, position);
        let slot = &self.slots[slot((around >> 8) as u16, self.shift)];
        let literals = &self.literals[slot.first as usize..][..slot.len as usize];
        literals.iter().filter(move |literal| (literal.bytes ^ around) & literal.mask == 0)
    }

    pub fn memory(&self) -> usize {
        size_of_val(self.windows.words())
            + self.buckets.as_ref().map_or(0, |_| size_of::<Buckets>())
            + size_of_val(&*self.slots)
            + size_of_val(&*self.literals)
    }
}

/// The window at a position.
#[inline(always)]
fn window(text: &Bytes, position: u16) -> u16 {
    let bytes = text[FRONT + usize::from(position)..].first_chunk();
    u16::from_le_bytes(*bytes.expect("the buffer has room behind the text"))
}

/// The window at a position, the byte in front of it and the one behind it.
#[inline(always)]
fn around(text: &Bytes, position: u16) -> u32 {
    let bytes = text[FRONT + usize::from(position) - 1..].first_chunk();
    u32::from_le_bytes(*bytes.expect("the buffer has room behind the text"))
}

/// The slot of a window, by the shift that leaves as many bits as they are.
#[inline(always)]
fn slot(window: u16, shift: u32) -> usize {
    (u32::from(window).wrapping_mul(hash::WORD) >> shift) as usize
}
