//! Windows: the 16 bytes of a packet that are loaded together.

use super::layout::LINE;

/// Bytes of a window.
pub(super) const WINDOW: u32 = 16;
pub(super) const WORD: u32 = 4;

/// 16 bytes of a packet and the words of them that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u32,
    /// The indices of the words used, ascending.
    pub(super) words: Vec<u32>,
}

impl Window {
    /// The index of the word that contains bytes `low` to `high`.
    pub(super) fn word_of(start: u32, (low, high): (u32, u32)) -> Option<u32> {
        let word = low.checked_sub(start)? / WORD;
        (word < WINDOW / WORD && high < start + WORD * (word + 1)).then_some(word)
    }

    /// The window with the first span in its first word that has the most of
    /// `spans`; of such windows the one with the fewest words.
    pub(super) fn choose(spans: &[(u32, u32)]) -> Option<Self> {
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
    pub(super) fn move_into_line(&mut self, first: u32) {
        let unused = WINDOW / WORD - 1 - self.words.last().copied().unwrap_or_default();
        let beyond = (self.start + WINDOW).saturating_sub(LINE).div_ceil(WORD);
        let words = unused.min(beyond).min(self.start.saturating_sub(first) / WORD);
        self.start -= WORD * words;
        self.words.iter_mut().for_each(|word| *word += words);
    }

    /// The first byte of its only word, if there is only one.
    fn only_word(&self) -> Option<u32> {
        (self.words.len() == 1).then(|| self.start + WORD * self.words[0])
    }

    /// Shuffles that extract its words as columns.
    pub(super) fn shuffles(&self) -> u32 {
        match self.words.len() as u32 {
            1 => 3,
            words => words + 2 * words.div_ceil(2),
        }
    }
}

/// Moves windows of one word each so that two of them are 32 bytes, which one load brings into a vector of
/// 256 bits: loads bound the loops with AVX2. Windows are in ascending order, and each word is in the first
/// one that can have it. None moves before the first window, or beyond the first line of the packet.
pub(super) fn put_side_by_side(windows: &mut [Window]) {
    let Some(least) = windows.first().map(|window| window.start) else { return };
    for first in 0..windows.len() {
        for second in first + 1..windows.len() {
            let words = [first, second].map(|window| windows[window].only_word());
            let [Some(low), Some(high)] = words else { continue };
            let apart = high - low;
            // The low word is in the first 16 bytes, the high one in the others, and both are whole words.
            if !(WINDOW..2 * WINDOW).contains(&apart) || apart % WORD != 0 {
                continue;
            }
            let paired = pairs(windows);
            if [first, second].iter().any(|window| paired.as_flattened().contains(window)) {
                continue;
            }
            // The 32 bytes end with the high word, or start as early as they may.
            let earliest = least + (low - least) % WORD;
            let start = (high + WORD).saturating_sub(2 * WINDOW).max(earliest);
            if start + 2 * WINDOW <= LINE || high + WORD > LINE {
                for (window, start, word) in [(first, start, low), (second, start + WINDOW, high)] {
                    windows[window] = Window { start, words: vec![(word - start) / WORD] };
                }
            }
        }
    }
}

/// The windows of one word each of which the second begins where the first ends, each in one pair.
pub(super) fn pairs(windows: &[Window]) -> Vec<[usize; 2]> {
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    let single = |window: &Window| window.words.len() == 1;
    for (first, window) in windows.iter().enumerate().filter(|(_, window)| single(window)) {
        let end = window.start + WINDOW;
        let second = windows.iter().position(|other| other.start == end && single(other));
        if let Some(second) = second
            && ![first, second].iter().any(|window| pairs.as_flattened().contains(window))
        {
            pairs.push([first, second]);
        }
    }
    pairs
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

    #[test]
    fn windows_of_one_word_are_put_side_by_side() {
        let put = |windows: &[(u32, &[u32])]| {
            let of = |&(start, words): &(u32, &[u32])| Window { start, words: words.to_vec() };
            let mut windows: Vec<Window> = windows.iter().map(of).collect();
            put_side_by_side(&mut windows);
            let made: Vec<_> = windows.iter().map(|w| (w.start, w.words.clone())).collect();
            (made, pairs(&windows))
        };
        // Ports of IPv4 and of IPv6: both in the first line.
        let (windows, pairs) = put(&[(12, &[0, 2]), (34, &[0]), (46, &[2])]);
        assert_eq!(windows, [(12, vec![0, 2]), (26, vec![2]), (42, vec![3])]);
        assert_eq!(pairs, [[1, 2]]);
        // EtherType and addresses; a window of two words stands between.
        let (windows, pairs) = put(&[(12, &[0]), (26, &[0, 1]), (28, &[0])]);
        assert_eq!(windows, [(12, vec![0]), (26, vec![0, 1]), (28, vec![0])]);
        assert_eq!(pairs, [[0, 2]]);
        // Beyond the line; the words at both ends.
        let (windows, pairs) = put(&[(100, &[0]), (128, &[0])]);
        assert_eq!((windows, pairs), (vec![(100, vec![0]), (116, vec![3])], vec![[0, 1]]));
        let (windows, pairs) = put(&[(80, &[0, 1]), (90, &[0]), (110, &[0])]);
        assert_eq!(windows, [(80, vec![0, 1]), (82, vec![2]), (98, vec![3])]);
        assert_eq!(pairs, [[1, 2]]);
        // Each in one pair.
        let (windows, pairs) = put(&[(12, &[0]), (28, &[0]), (44, &[0])]);
        assert_eq!(windows, [(12, vec![0]), (28, vec![0]), (44, vec![0])]);
        assert_eq!(pairs, [[0, 1]]);
        let (windows, pairs) = put(&[(8, &[0, 1]), (30, &[0]), (50, &[0]), (58, &[0])]);
        assert_eq!(windows, [(8, vec![0, 1]), (22, vec![2]), (38, vec![3]), (58, vec![0])]);
        assert_eq!(pairs, [[1, 2]]);
        // Not at a multiple of four bytes from each other; too far; only by a second line.
        for [low, other] in [[34, 52], [34, 66], [34, 54]] {
            let (windows, pairs) = put(&[(low, &[0]), (other, &[0])]);
            assert_eq!(windows, [(low, vec![0]), (other, vec![0])]);
            assert_eq!(pairs, [[0; 2]; 0]);
        }
        let (windows, pairs) = put(&[(8, &[0, 1]), (34, &[0]), (52, &[0])]);
        assert_eq!(windows, [(8, vec![0, 1]), (34, vec![0]), (52, vec![0])]);
        assert_eq!(pairs, [[0; 2]; 0]);
        // Two words where 32 bytes would have to have more.
        for words in [[&[0][..], &[0, 1][..]], [&[0, 1], &[0]]] {
            let (_, pairs) = put(&[(12, words[0]), (28, words[1])]);
            assert_eq!(pairs, [[0; 2]; 0]);
        }
    }
}
