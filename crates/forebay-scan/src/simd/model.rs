//! How frequent byte strings are in traffic.

use std::borrow::Cow;
use std::sync::LazyLock;

/// The frequencies of single bytes and of pairs, of folded text.
///
/// A literal is found by its window that is rarest by this model. A model that does not fit the
/// traffic costs time and never a match.
#[derive(Clone)]
pub struct TrafficModel(Cow<'static, Counts>);

#[derive(Clone)]
struct Counts {
    bytes: Box<[u32; 256]>,
    pairs: Box<[u32; 1 << 16]>,
    total: u64,
}

/// The built-in model: text of common protocols, runs of zeros, and otherwise random bytes. Most
/// sets are compiled for it.
static BUILT_IN: LazyLock<(Counts, Probabilities)> = LazyLock::new(|| {
    let mut counts = Counts::new();
    counts.learn(PROTOCOLS.as_bytes());
    counts.learn(&[0; 1024]);
    for low in 1..=8 {
        counts.learn(&[0, 0, 0, low, 0, low]);
    }
    let probabilities = counts.probabilities();
    (counts, probabilities)
});

/// Text typical of protocols, for the model that has seen no traffic.
const PROTOCOLS: &str = include_str!("model.txt");

/// Weight of the assumption that all bytes are equally frequent, in bytes of traffic.
const UNIFORM: f32 = 64.0;

impl Default for TrafficModel {
    /// The built-in model.
    fn default() -> Self {
        Self(Cow::Borrowed(&BUILT_IN.0))
    }
}

impl TrafficModel {
    /// A model of random bytes, to learn from traffic alone.
    #[must_use]
    pub fn empty() -> Self {
        Self(Cow::Owned(Counts::new()))
    }

    /// Counts the bytes of a text. After 2^31 of them, further text is left out.
    pub fn learn(&mut self, text: &[u8]) {
        self.0.to_mut().learn(text);
    }

    /// All counts, by which models are told apart.
    pub(crate) fn counts(&self) -> Vec<u8> {
        let Counts { bytes, pairs, .. } = &*self.0;
        bytes.iter().chain(pairs.iter()).flat_map(|count| count.to_le_bytes()).collect()
    }

    /// The probabilities of bytes, and of bytes behind others.
    pub(super) fn probabilities(&self) -> Cow<'static, Probabilities> {
        match &self.0 {
            Cow::Borrowed(_) => Cow::Borrowed(&BUILT_IN.1),
            Cow::Owned(counts) => Cow::Owned(counts.probabilities()),
        }
    }
}

impl Counts {
    fn new() -> Self {
        let pairs = vec![0; 1 << 16].into_boxed_slice();
        let pairs = pairs.try_into().expect("it has as many elements as pairs of bytes");
        Self { bytes: Box::new([0; 256]), pairs, total: 0 }
    }

    fn learn(&mut self, text: &[u8]) {
        if self.total + text.len() as u64 > 1 << 31 {
            return;
        }
        self.total += text.len() as u64;
        let mut previous = None;
        for byte in text.iter().map(u8::to_ascii_lowercase) {
            self.bytes[usize::from(byte)] += 1;
            if let Some(previous) = previous.replace(byte) {
                self.pairs[usize::from(previous) << 8 | usize::from(byte)] += 1;
            }
        }
    }

    fn probabilities(&self) -> Probabilities {
        let total = self.total as f32 + UNIFORM;
        let bytes: Vec<f32> =
            self.bytes.iter().map(|&count| (count as f32 + UNIFORM / 256.0) / total).collect();
        let pairs = self.pairs.chunks_exact(256).zip(self.bytes.iter());
        let pairs = pairs.flat_map(|(row, &first)| {
            let bytes = &bytes;
            let total = first as f32 + UNIFORM;
            row.iter().zip(bytes).map(move |(&count, &byte)| {
                // Half of the traffic that the model does not cover is as its bytes are, half
                // random.
                (count as f32 + UNIFORM / 2.0 * (byte + 1.0 / 256.0)) / total
            })
        });
        Probabilities { pairs: pairs.collect(), bytes }
    }
}

impl std::fmt::Debug for TrafficModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrafficModel").field("bytes", &self.0.total).finish_non_exhaustive()
    }
}

/// A model as probabilities.
#[derive(Clone)]
pub(super) struct Probabilities {
    bytes: Vec<f32>,
    pairs: Vec<f32>,
}

impl Probabilities {
    /// The probability that a folded string starts at a position.
    pub fn of(&self, string: &[u8]) -> f32 {
        let first = string.first().map_or(1.0, |&first| self.bytes[usize::from(first)]);
        string.windows(2).fold(first, |product, pair| {
            product * self.pairs[usize::from(pair[0]) << 8 | usize::from(pair[1])]
        })
    }

    /// The probability of the bytes with these low 7 bits.
    pub fn of_low_bits(&self, low: u8) -> f32 {
        self.bytes[usize::from(low)] + self.bytes[usize::from(low | 128)]
    }
}
