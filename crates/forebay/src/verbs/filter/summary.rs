//! One line for each packet: time, ends, protocol, length.

use std::io::{self, Write};

use forebay_io::date::iso8601;
use forebay_packet::decode::DecodeOutcome;
use forebay_packet::{Batch, Decoder};
use serde_json::{Value, json};

use crate::naming;

/// Writes a line for each packet.
#[derive(Default)]
pub struct Summarizer {
    decoder: Decoder,
}

impl Summarizer {
    /// Writes the line of packet `i`.
    pub fn write_line(&self, out: &mut dyn Write, batch: &Batch, i: usize) -> io::Result<()> {
        let (source, destination, protocol, remark) = self.describe(batch, i);
        let (time, wire_len) = (iso8601(batch.nanos(i)), batch.wire_len(i));
        if source.is_empty() && destination.is_empty() {
            return writeln!(out, "{time} {}, length {wire_len}{remark}", batch.interface(i).link);
        }
        writeln!(out, "{time} {protocol} {source} > {destination}, length {wire_len}{remark}")
    }

    /// The same as a JSON object.
    pub fn json(&self, batch: &Batch, i: usize) -> Value {
        let (source, destination, protocol, _) = self.describe(batch, i);
        let found = self.decoder.decode(batch.interface(i).link, batch.packet(i));
        let ends = naming::ends_json(["source", "destination"], &found.key, found.reversed);
        let packet = json!({
            "time": iso8601(batch.nanos(i)),
            "proto": protocol,
            "protocol": protocol,
            "source": source,
            "destination": destination,
            "length": batch.wire_len(i),
            "captured": batch.cap_len(i),
            "verdict": batch.verdict.get(i),
        });
        naming::with_fields(packet, ends)
    }

    fn describe(&self, batch: &Batch, i: usize) -> (String, String, String, &'static str) {
        let found = self.decoder.decode(batch.interface(i).link, batch.packet(i));
        let (source, destination) = naming::ends(&found.key, found.reversed);
        let remark = match found.outcome {
            DecodeOutcome::LaterFragment => ", fragment",
            DecodeOutcome::Cut => ", headers cut",
            DecodeOutcome::UnknownLink
            | DecodeOutcome::NotIp
            | DecodeOutcome::Arp
            | DecodeOutcome::Ip => "",
        };
        (source, destination, naming::protocol(&found.key), remark)
    }
}
