//! Columns: the same four bytes of 16 packets (AVX-512) or 8 (AVX2), as the
//! lanes of a vector.
//!
//! The bytes that a filter reads are close together, so 16 bytes of each
//! packet, a *window*, hold several fields. Four vectors take the windows of 16
//! packets, four windows in each: packets 0, 4, 8 and 12 in the first, 1, 5, 9
//! and 13 in the second, and so on. Two rounds of shuffles within 128 bits then
//! transpose words of 32 bits: a column has packet `i` in lane `i`. A window
//! costs a load a packet and three quarters of an insertion (AVX2: a half),
//! however many of its words are used; a gather costs a load for each packet
//! and column, measured as three quarters of a cycle a packet and column.

use forebay_filter::ir::{Arithmetic, Function, Value, ValueId};

use rustc_hash::FxHashSet;

use super::atom::{Atom, Field, Reader};
use super::decision::Decision;
use super::layout::LINE;
use super::packets::{header, two_offsets};
use super::sharing::{self, Region};
use super::vectors::Vectors;
use crate::code::{Isa, Options};
use crate::mir::Reg;

/// Bytes of a window.
const WINDOW: u32 = 16;
const WORD: u32 = 4;

/// The most windows with AVX-512, and with AVX2: the vectors of more would not fit the registers.
const MAX_WINDOWS: [usize; 2] = [6, 3];

/// The most constants of a set that a column is compared with one by one. A
/// comparison is one instruction for 16 packets (AVX2: two for 8), a lookup several for
/// each packet.
const MAX_COMPARED: usize = 32;

/// Operations for a column that is chosen from two, and for the registers that it takes.
const CHOICE: u32 = 2;

/// 16 bytes of a packet and the words of them that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Window {
    start: u32,
    /// The indices of the words used, ascending.
    words: Vec<u32>,
}

impl Window {
    /// The index of the word that contains bytes `low` to `high`.
    fn word_of(start: u32, (low, high): (u32, u32)) -> Option<u32> {
        let word = low.checked_sub(start)? / WORD;
        (word < WINDOW / WORD && high < start + WORD * (word + 1)).then_some(word)
    }

    /// The window with the first span in its first word that has the most of
    /// `spans`; of such windows the one with the fewest words.
    fn choose(spans: &[(u32, u32)]) -> Option<Self> {
        let &(low, high) = spans.first()?;
        let starts = (0..WORD.min(low + 1)).map(|before| low - before);
        let windows = starts.filter(|start| high < start + WORD).map(|start| {
            let mut words: Vec<u32> =
                spans.iter().filter_map(|span| Self::word_of(start, *span)).collect();
            let covered = words.len();
            words.sort_unstable();
            words.dedup();
            (covered, Self { start, words })
        });
        // `max_by_key` returns the last maximum, so reverse the order.
        let best = windows
            .rev()
            .max_by_key(|(covered, window)| (*covered, usize::MAX - window.words.len()));
        best.map(|(_, window)| window)
    }

    /// Moves the window to lower bytes, but not below `first`, if it ends beyond the first line of a packet
    /// that starts a line: its last words may be unused.
    fn move_into_line(&mut self, first: u32) {
        let unused = WINDOW / WORD - 1 - self.words.last().copied().unwrap_or_default();
        let beyond = (self.start + WINDOW).saturating_sub(LINE).div_ceil(WORD);
        let words = unused.min(beyond).min(self.start.saturating_sub(first) / WORD);
        self.start -= WORD * words;
        self.words.iter_mut().for_each(|word| *word += words);
    }

    /// Shuffles that extract its words as columns.
    fn shuffles(&self) -> u32 {
        match self.words.len() as u32 {
            1 => 3,
            words => words + 2 * words.div_ceil(2),
        }
    }
}

/// Operations of [`gather`](super::gather::gather), with AVX2 and with AVX-512: 15 and 31 on ports of vectors,
/// and those in general registers, which share two of the four ports with them.
const GATHER: [u32; 2] = [23, 40];

/// The windows and costs of a filter.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    windows: Vec<Window>,
    pub(super) regions: Vec<Region>,
    /// Instructions of tests and of operations on values.
    tests: u32,
    /// The greatest end of loads at computed offsets.
    computed_end: u32,
    /// Whether vectors have 512 bits.
    pub(super) wide: bool,
}

impl Columns {
    /// The columns for `decision`; `None` if it does not suit lanes.
    pub(super) fn choose(function: &Function, decision: &Decision, isa: Isa) -> Option<Self> {
        let wide = isa >= Isa::Avx512Bw;
        let mut in_regions = Vec::new();
        let mut values = Values::new(function, wide);
        for atom in decision.atoms() {
            match atom {
                Atom::Equal(field, _) | Atom::AtLeast(field, _) => values.spans.push(span(field)),
                Atom::Computed(_, left, right) => {
                    values.read(left)?;
                    values.read(right)?;
                }
                Atom::CapturedFrom(value, _) => values.read(value)?,
                Atom::Member(_, set) | Atom::ComputedMember(_, set)
                    if function.sets.get(set.0 as usize)?.len() > MAX_COMPARED =>
                {
                    return None;
                }
                Atom::Member(field, _) => values.spans.push(span(field)),
                Atom::ComputedMember(value, _) => values.read(value)?,
                Atom::Captured(_) | Atom::WireAtLeast(_) | Atom::WireEqual(_) => {}
            }
        }
        let Values { mut spans, operations, end: computed_end, .. } = values;
        let tests = operations + sharing::work(function, decision, wide) as u32;
        spans.sort_unstable();
        spans.dedup();
        while let Some((number, last)) =
            spans.last().and_then(|last| Some((Region::of(last.0)?, *last)))
        {
            spans.pop();
            spans.extend(decision.regions.get(number)?.sources(last));
            spans.sort_unstable();
            spans.dedup();
            in_regions.push(last);
        }
        let mut windows = Vec::new();
        while let Some(window) = Window::choose(&spans) {
            spans.retain(|span| Window::word_of(window.start, *span).is_none());
            windows.push(window);
            if windows.len() > MAX_WINDOWS[usize::from(!wide)] {
                return None;
            }
        }
        if let Some(first) = windows.first().map(|window| window.start) {
            windows.iter_mut().for_each(|window| window.move_into_line(first));
        }
        let regions = decision.regions.clone();
        let mut columns = Self { windows, regions, tests, computed_end, wide };
        let chosen = in_regions.into_iter().map(|span| columns.word(span));
        let mut chosen = chosen.collect::<Option<Vec<u32>>>()?;
        chosen.sort_unstable();
        chosen.dedup();
        columns.tests += CHOICE * chosen.len() as u32;
        Some(columns)
    }

    /// Where the column begins that has bytes `low` to `high`. In a region it has them where those have
    /// them that it is chosen from; `None` if these differ.
    pub(super) fn word(&self, (low, high): (u32, u32)) -> Option<u32> {
        if let Some(region) = self.region(low) {
            let sources = region.sources((low, high));
            let [then, otherwise] = sources.map(|source| Some(source.0 - self.word(source)?));
            return then.filter(|before| Some(*before) == otherwise).map(|before| low - before);
        }
        self.windows.iter().find_map(|window| {
            Some(window.start + WORD * Window::word_of(window.start, (low, high))?)
        })
    }

    /// Bytes of a packet that must be readable.
    pub(super) fn reach(&self) -> usize {
        let ends = self.windows.iter().map(|window| window.start + WINDOW);
        ends.fold(self.computed_end, u32::max) as usize
    }

    /// The comparison of `field` with `constant` as one of the whole word that
    /// contains it.
    pub(super) fn whole_word(&self, field: Field, constant: u32) -> Atom {
        let Some(offset) = self.word(span(field)) else { return Atom::Equal(field, constant) };
        // Bytes of the field outside the word have no bit in its mask.
        let right = i64::from(field.offset + field.bytes) - i64::from(offset + WORD);
        let moved = |number: u32| match u32::try_from(8 * right) {
            Ok(distance) => number.checked_shr(distance).unwrap_or(0),
            Err(_) => number.checked_shl(8 * (-right) as u32).unwrap_or(0),
        };
        Atom::Equal(Field { offset, bytes: WORD, mask: moved(field.mask) }, moved(constant))
    }

    /// The region that has the offset.
    pub(super) fn region(&self, offset: u32) -> Option<&Region> {
        self.regions.get(Region::of(offset)?)
    }

    /// The atom that decides where the bytes of `region` come from.
    pub(super) fn guard(&self, region: &Region) -> Atom {
        self.whole_word(region.equal.0, region.equal.1)
    }

    /// The numbers of constants to keep in registers, in the order in which they are tried. The
    /// next one is for filters of which not even one iteration has registers enough: those that
    /// keep many values. Of six choices those for AVX2 made the loops of eleven filters fastest on
    /// a Zen 4 core; those for AVX-512 are what most filters leave of 32 registers.
    pub(super) fn constants(&self) -> &'static [usize] {
        match (self.wide, self.windows.len()) {
            (true, 0) => &[24, 16],
            (true, 1) => &[20, 12],
            (true, 2) => &[17, 8],
            (true, 3) => &[14, 4],
            (true, 4) => &[11, 0],
            (false, 0) => &[12, 8],
            (false, 1) => &[9, 4],
            (false, 2) => &[6, 0],
            (false, 3) => &[3, 0],
            _ => &[0],
        }
    }

    /// The first byte that is read.
    pub(super) fn first_byte(&self) -> Option<u32> {
        self.windows.first().map(|window| window.start)
    }

    /// Estimated work a packet, in 1/64 of a cycle.
    pub(super) fn work(&self, options: &Options) -> u32 {
        let lanes = if self.wide { 16 } else { 8 };
        let windows = self.windows.len() as u32;
        let shuffles: u32 = self.windows.iter().map(Window::shuffles).sum();
        let ahead = if options.prefetch > 0 { lanes } else { 0 };
        let vectors = (lanes - 4) * windows + shuffles + self.tests + 2;
        if self.wide {
            // Vector operations have two ports, shared now and then with integer operations;
            // measured: six cycles an iteration.
            let loads = lanes / 2 + lanes * windows + 3 * ahead / 2;
            (64 * loads / 2).max(64 * (vectors + 12) / 2) / lanes
        } else {
            // Measured on a Zen 4 core: a cycle a packet, and one for 20 operations or prefetches of
            // 8 packets. A third more makes the limit of `cost::prefetch` that of these loops.
            64 + 20 + 64 * (vectors + ahead) / 20
        }
    }
}

/// The first and the last relevant byte of a field.
pub(super) fn span(field: Field) -> (u32, u32) {
    let last = field.offset + field.bytes - 1;
    let low = last - (31 - field.mask.leading_zeros().min(31)) / 8;
    (low, last - field.mask.trailing_zeros().min(31) / 8)
}

/// What values read and take.
struct Values<'a> {
    function: &'a Function,
    reader: Reader<'a>,
    wide: bool,
    /// The bytes at fixed offsets.
    spans: Vec<(u32, u32)>,
    /// The greatest end of loads at computed offsets.
    end: u32,
    operations: u32,
    /// Those that were read. Each is computed once.
    known: FxHashSet<ValueId>,
}

impl<'a> Values<'a> {
    fn new(function: &'a Function, wide: bool) -> Self {
        let (reader, known) = (Reader::new(function), FxHashSet::default());
        Self { function, reader, wide, spans: Vec::new(), end: 0, operations: 0, known }
    }

    /// Adds what `value` reads and takes; `None` if lanes cannot compute it.
    fn read(&mut self, value: ValueId) -> Option<()> {
        if !self.known.insert(value) {
            return Some(());
        }
        match self.function.get(value) {
            Value::Load { width, index, displacement } => {
                self.operations += 2;
                if let Some(offset) = self.reader.offset(index, displacement) {
                    self.spans.push((offset, offset + width.bytes() - 1));
                } else {
                    let (offset, end) = self.reader.computed_load(index, displacement)?;
                    self.end = self.end.max(end);
                    self.operations += GATHER[usize::from(self.wide)];
                    self.read(offset)?;
                }
            }
            Value::Binary { op, left, right } => {
                debug_assert!(!matches!(op, Arithmetic::Div | Arithmetic::Mod));
                self.operations += 1;
                self.read(left)?;
                self.read(right)?;
            }
            _ => {}
        }
        Some(())
    }
}

/// The columns in registers.
pub(super) struct Loaded {
    columns: Vec<(u32, Reg)>,
}

impl Loaded {
    /// Loads and transposes the windows of `columns`.
    pub(super) fn new<V: Vectors>(columns: &Columns, vectors: &mut V) -> Self {
        let mut filled: Vec<[Option<Reg>; 4]> = vec![[None; 4]; columns.windows.len()];
        let positions = V::LANES as i32 / 4;
        let packets = [0, 2].into_iter().flat_map(|first| (0..positions).map(move |p| (first, p)));
        for (first, position) in packets.filter(|_| !columns.windows.is_empty()) {
            let note = vectors.note("where the packets start");
            let offsets = two_offsets(vectors.body(), first as i32 + 4 * position, note);
            for (window, filled) in columns.windows.iter().zip(&mut filled) {
                vectors.note(&format!("16 header bytes from {}", window.start));
                for (vector, &offset) in filled[first..].iter_mut().zip(&offsets) {
                    let bytes = header(offset, window.start);
                    *vector = Some(vectors.insert(*vector, bytes, position));
                }
            }
        }
        let mut loaded = Self { columns: Vec::new() };
        for (window, filled) in columns.windows.iter().zip(&filled) {
            if let &[Some(a), Some(b), Some(c), Some(d)] = filled {
                vectors.note(&format!("columns of the window from {}", window.start));
                loaded.transpose(vectors, window, [a, b, c, d]);
            }
        }
        loaded
    }

    /// The column that begins at byte `start`.
    pub(super) fn find(&self, start: u32) -> Option<Reg> {
        self.columns.iter().find(|(known, _)| *known == start).map(|(_, reg)| *reg)
    }

    /// Adds a column.
    pub(super) fn add(&mut self, start: u32, column: Reg) {
        self.columns.push((start, column));
    }

    /// Extracts the columns of a window: pairs of words first, then words.
    fn transpose<V: Vectors>(&mut self, vectors: &mut V, window: &Window, [a, b, c, d]: [Reg; 4]) {
        for pair in window.words.chunks(2) {
            let (first, second) = (pair[0], pair[pair.len() - 1]);
            // Both words of one half, then both of the other.
            let words = first | second << 2 | first << 4 | second << 6;
            let left = vectors.shuffle(a, b, words);
            let right = vectors.shuffle(c, d, words);
            for (position, word) in (0..).zip(pair) {
                // Words 0 and 2 of each, or 1 and 3.
                let column = vectors.shuffle(left, right, 0x88 + 0x55 * position);
                self.columns.push((window.start + WORD * word, column));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_what_fits_its_words() {
        // EtherType, fragment offset and protocol of IPv4; ports.
        let spans = [(12, 13), (20, 21), (23, 23), (34, 35), (36, 37)];
        let window = Window::choose(&spans).unwrap();
        assert_eq!(window, Window { start: 12, words: vec![0, 2] });
        let window = Window::choose(&spans[3..]).unwrap();
        assert_eq!(window, Window { start: 34, words: vec![0] });
    }

    #[test]
    fn a_window_starts_where_later_spans_are_within_words() {
        // 18 bytes on: a window from 10 has both, one from 12 only the first.
        let window = Window::choose(&[(12, 13), (18, 21)]).unwrap();
        assert_eq!(window, Window { start: 10, words: vec![0, 2] });
        // Only a window from 3 has the later four bytes in one word.
        let window = Window::choose(&[(5, 5), (7, 10)]).unwrap();
        assert_eq!(window, Window { start: 3, words: vec![0, 1] });
        // The same at the start of a packet, where no window starts earlier.
        let window = Window::choose(&[(1, 1), (3, 6)]).unwrap();
        assert_eq!(window, Window { start: 1, words: vec![0] });
        assert_eq!(Window::choose(&[]), None);
    }

    #[test]
    fn a_window_with_unused_words_ends_with_the_line() {
        let moved = |start, words: &[u32], first| {
            let mut window = Window { start, words: words.to_vec() };
            window.move_into_line(first);
            (window.start, window.words)
        };
        // Ports of IPv6.
        assert_eq!(moved(54, &[0], 12), (46, vec![2]));
        assert_eq!(moved(56, &[0, 1], 12), (48, vec![2, 3]));
        assert_eq!(moved(54, &[0, 3], 12), (54, vec![0, 3]));
        assert_eq!(moved(54, &[0], 54), (54, vec![0]));
        assert_eq!(moved(90, &[1], 12), (82, vec![3]));
        assert_eq!(moved(34, &[0], 12), (34, vec![0]));
    }

    #[test]
    fn words_are_within_a_window() {
        assert_eq!(Window::word_of(10, (9, 10)), None);
        assert_eq!(Window::word_of(10, (22, 25)), Some(3));
        assert_eq!(Window::word_of(10, (23, 26)), None);
        assert_eq!(Window::word_of(10, (26, 26)), None);
        assert_eq!(Window::word_of(10, (13, 14)), None);
    }
}
