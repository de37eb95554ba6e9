//! The pcapng format (draft-ietf-opsawg-pcapng): blocks of a type, a length,
//! a body and the length again, all in the byte order of their section.

mod blocks;
mod fields;
mod read;
mod write;

pub(crate) use blocks::{INTERFACE, PACKET};
pub(crate) use read::Parser;
pub(crate) use write::{interface_block, packet_block, section_header};
