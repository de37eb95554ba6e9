//! Finds the complete records in a partly written buffer.

use super::content::Content;
use crate::format::Format;
use crate::pcap::{FILE_HEADER, RECORD_HEADER};
use crate::pcapng::{INTERFACE, PACKET};

/// The length and the content of the complete records in `bytes`, which begin with a record
/// or, at `start`, with a file header, and end anywhere. They are our own, so their lengths
/// are valid.
pub(super) fn whole_records(format: Format, bytes: &[u8], start: bool) -> (usize, Content) {
    let mut content = Content::default();
    let mut at = 0;
    if format == Format::Pcap && start {
        if bytes.len() < FILE_HEADER {
            return (0, content);
        }
        at = FILE_HEADER;
    }
    while let Some((len, record)) = record(format, &bytes[at..]) {
        content += record;
        at += len;
    }
    (at, content)
}

/// The length and the content of the first record, if it is complete.
fn record(format: Format, bytes: &[u8]) -> Option<(usize, Content)> {
    let field = |at: usize| {
        let field = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes([field[0], field[1], field[2], field[3]]))
    };
    let (len, content) = if format == Format::Pcap {
        let cap_len = field(8)?;
        (RECORD_HEADER + cap_len as usize, Content::packet(cap_len))
    } else {
        let content = match field(0)? {
            PACKET => Content::packet(field(20)?),
            INTERFACE => Content::INTERFACE,
            _ => Content::default(),
        };
        (field(4)? as usize, content)
    };
    (0 < len && len <= bytes.len()).then_some((len, content))
}

#[cfg(test)]
mod tests {
    use forebay_packet::{Clock, Interface};

    use super::*;
    use crate::{pcap, pcapng};

    /// A file of a format, and the ends of its records.
    fn file(format: Format) -> (Vec<u8>, Vec<(usize, Content)>) {
        let interface = Interface::default();
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut content = Content::default();
        if format == Format::Pcap {
            bytes.extend(pcap::file_header(&interface, u32::MAX));
            ends.push((bytes.len(), content));
        } else {
            bytes.extend(pcapng::section_header());
            ends.push((bytes.len(), content));
            bytes.extend(pcapng::interface_block(&interface, None).unwrap());
            content += Content::INTERFACE;
            ends.push((bytes.len(), content));
        }
        assert_eq!(interface.clock, Clock::MICROS);
        for len in [0, 1, 60, 1_501] {
            let packet = vec![7; len];
            if format == Format::Pcap {
                bytes.extend(pcap::record_header(5, 1_000_000, len as u32, 2_000));
                bytes.extend(&packet);
            } else {
                let comment = if len == 60 { "marked" } else { "" };
                pcapng::packet_block(&mut bytes, (0, 5), (&packet, 2_000), comment);
            }
            content += Content::packet(len as u32);
            ends.push((bytes.len(), content));
        }
        (bytes, ends)
    }

    #[test]
    fn wherever_a_write_ends_the_records_before_are_whole() {
        for format in [Format::Pcap, Format::Pcapng] {
            let (bytes, ends) = file(format);
            for cut in 0..=bytes.len() {
                let expected = ends.iter().rfind(|(end, _)| *end <= cut).copied();
                let expected = expected.unwrap_or_default();
                assert_eq!(whole_records(format, &bytes[..cut], true), expected, "{cut}");
            }
        }
    }
}
