//! How much of a flow passes: the setting of the stage `flows`.

use std::sync::Arc;

use forebay_flow::Counted;
use forebay_packet::Batch;
use forebay_packet::flow::AddressKind;
use serde::Deserialize;
use toml::Value;

use super::flows;
use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::stage::{Setting, Settings, Stage};
use crate::units;

/// The key `cutoff`.
pub(super) static STAGE: OptionalStage = OptionalStage {
    key: "cutoff",
    help: "After so many bytes of a flow, or of each direction (`per`: `flow`, `direction`), only\n\
           its end passes: TCP's FIN and RST, three each way. By default all of it does. It needs records of\n\
           flows: without `flows`, it has those with the values shown there.",
    example: "{ bytes = \"1MiB\", per = \"flow\" }",
    place: Place::BehindFragments,
    needs: &[&flows::STAGE],
    keys: true,
    read: |value| Cutoff::read(value).map(|cutoff| Arc::new(cutoff) as _),
};

const EXPECTED: &str = "expected a table with `bytes`, and `per` if it is not `flow`";

/// FIN and RST among TCP's control bits (RFC 9293, section 3.1).
const ENDS: u8 = 1 | 4;

/// In what a record has of a cutoff: its number, and the ends of the flow that passed, at most 3
/// each way.
const NUMBER: u8 = 0x3f;
const END: u8 = 0x40;
const PASSED: u8 = 0xc0;

/// Numbers of cutoffs are from 1 to this.
pub(super) const MOST_NUMBER: u8 = NUMBER;

/// After how many bytes a flow is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff {
    /// Bytes on the wire that pass; of the packet that reaches them, all.
    pub bytes: u64,
    /// Those of each direction are counted by themselves.
    pub per_direction: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCutoff {
    bytes: String,
    per: Option<String>,
}

impl Cutoff {
    /// Reads the value of the key.
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Table(table) = value else { return Err(EXPECTED.into()) };
        let raw: RawCutoff =
            table.clone().try_into().map_err(|error| format!("{}; {EXPECTED}", error.message()))?;
        let bytes = units::size(&raw.bytes).map_err(|error| format!("`bytes`: {error}"))?;
        let per_direction = match raw.per.as_deref() {
            None | Some("flow") => false,
            Some("direction") => true,
            Some(other) => {
                return Err(format!("`per` `{other}`: expected one of `flow`, `direction`"));
            }
        };
        Ok(Self { bytes: bytes as u64, per_direction })
    }

    /// Whether packet `i`, which was counted, is to be dropped; notes it in the record. Packets
    /// without addresses of IP pass: they are of no flow that has an end. So do packets of
    /// flows that an operator exempts.
    /// `number` is that of this cutoff: a flow that another one has cut off is not.
    #[inline]
    pub(super) fn drops(
        self,
        number: u8,
        batch: &Batch,
        i: usize,
        counted: &mut Counted<'_>,
    ) -> bool {
        if batch.exempt.contains(i) {
            return false;
        }
        let (record, direction) = (&mut *counted.record, counted.direction);
        let bytes = record.bytes();
        let total = if self.per_direction { bytes[direction] } else { bytes[0] + bytes[1] };
        let before = total.saturating_sub(batch.wire_len(i).into());
        let cut_off = &mut record.cut_off;
        if before < self.bytes && cut_off[direction] & NUMBER != number
            || !matches!(record.key.kind, AddressKind::Ipv4 | AddressKind::Ipv6)
        {
            return false;
        }
        for (way, kept) in cut_off.iter_mut().enumerate() {
            if (!self.per_direction || way == direction) && *kept & NUMBER != number {
                *kept = number;
            }
        }
        // With FIN in every packet, none would be dropped.
        let ends = batch.tcp_flags[i] & ENDS != 0 && cut_off[direction] & PASSED != PASSED;
        cut_off[direction] += u8::from(ends) * END;
        record.cut = record.cut.saturating_add(u32::from(!ends));
        !ends
    }
}

impl Setting for Cutoff {}

impl StageConfig for Cutoff {
    /// The stage `flows` has it as a setting.
    fn build(&self, _: &StageParts) -> Option<Box<dyn Stage>> {
        None
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}
