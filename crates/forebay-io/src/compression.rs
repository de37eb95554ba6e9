//! The compressions of captures: how they are recognised, and their decoders.

use std::fmt;
use std::io::{self, BufReader, Read};

/// Compressed bytes read at a time.
const COMPRESSED_PIECE: usize = 256 << 10;

/// The compression of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// The compression indicated by the first four bytes of an input.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match *head {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Decompresses `input`; zstd with windows of at most `window` bytes, rounded down to a
    /// power of two.
    pub(crate) fn decoder(
        self,
        input: impl Read + Send + 'static,
        window: u64,
    ) -> io::Result<Box<dyn Read + Send>> {
        let input = BufReader::with_capacity(COMPRESSED_PIECE, input);
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Self::Zstd => {
                /// The range of libzstd (ZSTD_WINDOWLOG_ABSOLUTEMIN, ZSTD_WINDOWLOG_MAX_64 of
                /// zstd.h).
                const LOGS: std::ops::RangeInclusive<u32> = 10..=31;
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                let log = window.checked_ilog2().unwrap_or(0);
                decoder.window_log_max(log.clamp(*LOGS.start(), *LOGS.end()))?;
                Box::new(decoder)
            }
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// Whether decompressing failed because a frame needs a larger window.
pub(crate) fn is_large_window(error: &io::Error) -> bool {
    /// ZSTD_error_frameParameter_windowTooLarge of zstd_errors.h, which is stable.
    const TOO_LARGE: usize = 16;
    let name = zstd::zstd_safe::get_error_name(TOO_LARGE.wrapping_neg());
    error.get_ref().is_some_and(|inner| inner.to_string() == name)
}
