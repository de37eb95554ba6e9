//! Lengths and first numbers of pcap files.

/// Length of the file header in bytes.
pub(crate) const FILE_HEADER: usize = 24;

/// Length of an ordinary record header in bytes.
pub(crate) const RECORD_HEADER: usize = 16;

/// First number of a file whose time stamps count microseconds.
pub(super) const MAGIC_MICROS: u32 = 0xa1b2_c3d4;

/// First number of a file whose time stamps count nanoseconds.
pub(super) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;

/// First number of the files of a patched libpcap of the late 1990s, whose
/// record headers have 8 bytes more.
pub(super) const MAGIC_PATCHED: u32 = 0xa1b2_cd34;
