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
//!
//! With AVX2, two windows of one word each that lie side by side are one load of 32 bytes a packet, and each vector
//! has both windows of one packet.

use forebay_filter::ir::{Arithmetic, Function, Value, ValueId};

use rustc_hash::FxHashSet;

use super::atom::{Atom, Field, Reader};
use super::decision::Decision;
use super::packets::{header, two_offsets};
use super::sharing::{self, Region};
use super::vectors::Vectors;
use super::windows::{WINDOW, WORD, Window, pairs, put_side_by_side};
use crate::code::{Isa, Options};
use crate::mir::Reg;

/// The most windows with AVX-512, and with AVX2: the vectors of more would not fit the registers.
const MAX_WINDOWS: [usize; 2] = [6, 3];

/// The most constants of a set that a column is compared with one by one. A
/// comparison is one instruction for 16 packets (AVX2: two for 8), a lookup several for
/// each packet.
const MAX_COMPARED: usize = 32;

/// Operations for a column that is chosen from two, and for the registers that it takes.
const CHOICE: u32 = 2;

/// Operations of [`gather`](super::gather::gather), with AVX2 and with AVX-512: 15 and 31 on ports of vectors,
/// and those in general registers, which share two of the four ports with them.
const GATHER: [u32; 2] = [23, 40];

/// Operations that two windows in one vector spare: they are 14 on two, and 10, or 8, on both.
const SPARED: u32 = 4;

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
        if !wide {
            put_side_by_side(&mut windows);
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

    /// The windows that are loaded together.
    fn pairs(&self) -> Vec<[usize; 2]> {
        if self.wide { Vec::new() } else { pairs(&self.windows) }
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
        let pairs = self.pairs().len() as u32;
        let vectors = (lanes - 4) * windows + shuffles + self.tests + 2 - SPARED * pairs;
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
        let pairs = columns.pairs();
        let is_single = |window: &usize| !pairs.as_flattened().contains(window);
        let singles: Vec<&Window> =
            (0..columns.windows.len()).filter(is_single).map(|i| &columns.windows[i]).collect();
        let pairs: Vec<[&Window; 2]> =
            pairs.iter().map(|pair| pair.map(|window| &columns.windows[window])).collect();
        let mut filled: Vec<[Option<Reg>; 4]> = vec![[None; 4]; singles.len()];
        let mut twos: Vec<[Option<Reg>; 4]> = vec![[None; 4]; pairs.len()];
        let positions = V::LANES as i32 / 4;
        let packets = [0, 2].into_iter().flat_map(|first| (0..positions).map(move |p| (first, p)));
        for (first, position) in packets.filter(|_| !columns.windows.is_empty()) {
            let note = vectors.note("where the packets start");
            let packet = first as i32 + 4 * position;
            let offsets = two_offsets(vectors.body(), packet, note);
            for (window, filled) in singles.iter().zip(&mut filled) {
                vectors.note(&format!("16 header bytes from {}", window.start));
                for (vector, &offset) in filled[first..].iter_mut().zip(&offsets) {
                    let bytes = header(offset, window.start);
                    *vector = Some(vectors.insert(*vector, bytes, position));
                }
            }
            for (pair, twos) in pairs.iter().zip(&mut twos) {
                vectors.note(&format!("32 header bytes from {}", pair[0].start));
                let [a, b] = offsets.map(|offset| vectors.load(header(offset, pair[0].start)));
                // The word of the first window, and that of the second.
                let words = pair[0].words[0] | pair[1].words[0] << 2;
                twos[packet as usize / 2] = Some(vectors.shuffle(a, b, words | words << 4));
            }
        }
        let mut loaded = Self { columns: Vec::new() };
        for (window, filled) in singles.iter().zip(&filled) {
            if let &[Some(a), Some(b), Some(c), Some(d)] = filled {
                vectors.note(&format!("columns of the window from {}", window.start));
                loaded.transpose(vectors, window, [a, b, c, d]);
            }
        }
        for (pair, twos) in pairs.iter().zip(&twos) {
            if let &[Some(a), Some(b), Some(c), Some(d)] = twos {
                vectors.note(&format!("columns of the windows from {}", pair[0].start));
                loaded.columns_of_halves(vectors, pair, [a, b, c, d]);
            }
        }
        loaded
    }

    /// The columns of two windows, of which one is in the first half of each vector and one in the second: two
    /// packets in each, each with a word for the first window and one for the second.
    fn columns_of_halves<V: Vectors>(
        &mut self,
        vectors: &mut V,
        pair: &[&Window; 2],
        [a, b, c, d]: [Reg; 4],
    ) {
        let mut four = [None; 2];
        for (half, window) in pair.iter().enumerate() {
            // One shuffle serves both if their words are at the same place.
            let same = half == 1 && pair[0].words == window.words;
            let [first, second] = four[0].filter(|_| same).unwrap_or_else(|| {
                let words = 0x88 + 0x55 * half as u32;
                [vectors.shuffle(a, b, words), vectors.shuffle(c, d, words)]
            });
            four[half] = Some([first, second]);
            let column = vectors.halves_of([first, second], half == 1);
            self.columns.push((window.start + WORD * window.words[0], column));
        }
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
