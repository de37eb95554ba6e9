//! Writes the fields of a message.

use forebay_packet::random::{Random, fill_at};

/// Writes fields one after another; omits those that do not fit.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// A writer from the start of `bytes`.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Writes bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(self.bytes.len() - self.at);
        self.bytes[self.at..self.at + n].copy_from_slice(&bytes[..n]);
        self.at += n;
    }

    /// Writes one byte.
    pub fn put8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Writes a 16-bit number in network order.
    pub fn put16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Writes a 32-bit number in network order.
    pub fn put32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Writes a number in decimal.
    pub fn put_decimal(&mut self, value: u32) {
        let mut digits = [0; 10];
        let mut at = digits.len();
        let mut rest = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.put(&digits[at..]);
    }

    /// Writes random bytes.
    pub fn put_random(&mut self, random: &mut Random, len: usize) {
        let end = (self.at + len).min(self.bytes.len());
        fill_at(random.next(), 0, &mut self.bytes[self.at..end]);
        self.at = end;
    }

    /// Writes a 16-bit length, then the output of `inside`, which has that length.
    pub fn put_counted(&mut self, inside: impl FnOnce(&mut Self)) {
        let at = self.at;
        self.put16(0);
        inside(self);
        let len = (self.at - at).saturating_sub(2) as u16;
        if let Some(field) = self.bytes.get_mut(at..at + 2) {
            field.copy_from_slice(&len.to_be_bytes());
        }
    }
}
