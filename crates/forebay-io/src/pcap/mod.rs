//! The pcap format (draft-ietf-opsawg-pcap; pcap-savefile(5)): a 24-byte
//! header, then records of a 16-byte header and the packet.

mod layout;
mod read;
mod write;

pub(crate) use layout::{FILE_HEADER, RECORD_HEADER};
pub(crate) use read::Parser;
pub(crate) use write::{MAX_SECONDS, file_header, record_header, ticks_per_second};
