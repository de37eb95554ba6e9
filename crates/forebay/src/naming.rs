//! Names of flows, as in files of records, and of headers that are not decoded.

use std::cmp::Reverse;

pub use forebay_export::naming::{ends, ends_json, protocol, protocol_name, with_fields};
use forebay_pipeline::Remarks;
use serde_json::Value;

use crate::show::human;

/// A sentence about the packets that end at undecoded headers, if there are any.
#[must_use]
pub fn undecoded(remarks: &Remarks) -> Option<String> {
    let mut all: Vec<_> = remarks.undecoded().collect();
    all.sort_by_key(|(_, packets)| Reverse(*packets));
    let each = all.iter().map(|(header, packets)| format!("{header} ({})", human::count(*packets)));
    let headers = each.collect::<Vec<_>>().join(", ");
    (!headers.is_empty())
        .then(|| format!("headers that are not decoded, with their packets: {headers}"))
}

/// The packets that end at undecoded headers, by the header.
#[must_use]
pub fn undecoded_json(remarks: &Remarks) -> Value {
    remarks.undecoded().map(|(header, packets)| (header, Value::from(packets))).collect()
}
