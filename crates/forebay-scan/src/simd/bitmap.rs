//! An exact filter of windows of 2 bytes: a bit for each, 8 KiB in all.

/// The set of windows.
#[derive(Clone, Debug)]
pub struct Bitmap(Box<[u32; 1 << 11]>);

impl Bitmap {
    pub fn new(windows: impl IntoIterator<Item = u16>) -> Self {
        let mut words = Box::new([0; 1 << 11]);
        for window in windows {
            words[usize::from(window >> 5)] |= 1 << (window & 31);
        }
        Self(words)
    }

    /// The bit of a window is in the word that its high 11 bits number, at its low 5 bits.
    #[inline(always)]
    pub fn words(&self) -> &[u32; 1 << 11] {
        &self.0
    }

    #[inline(always)]
    pub fn has(&self, window: u16) -> bool {
        self.0[usize::from(window >> 5)] >> (window & 31) & 1 == 1
    }
}
