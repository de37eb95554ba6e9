//! Why a packet passes a gateway: what the scanner found or could not exclude, and what the
//! gateway itself could not wait for.

use forebay_scan::reassembly::Uncertainty;
use forebay_scan::rules::{Cause, Hazard};

/// Why a packet passes; for nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassReason(u8);

/// How a reason is called.
struct Names {
    /// In tables.
    name: &'static str,
    /// The remarks that count packets, their bytes on the wire, and flows.
    packets: &'static str,
    bytes: &'static str,
    flows: &'static str,
    /// For people.
    help: &'static str,
}

macro_rules! names {
    ($($name:literal $help:literal)*) => {
        &[$(Names {
            name: $name,
            packets: concat!("gateway_passed_", $name),
            bytes: concat!("gateway_passed_bytes_", $name),
            flows: concat!("gateway_passed_flows_", $name),
            help: $help,
        }),*]
    };
}

/// In the order of their numbers. Triggers, causes and doubts are in the order of their types.
const NAMES: &[Names] = names! {
    "clean" "nothing was found: passes in the mode `annotate` only"
    "literal" "a literal of a rule that may fire"
    "trigger_percent_encoding" "something that could hide literals: percent encoding"
    "trigger_wide_character" "something that could hide literals: wide characters"
    "trigger_backslash" "something that could hide literals: a backslash for a slash"
    "trigger_header_folding" "something that could hide literals: folded header lines"
    "trigger_http2" "something that could hide literals: HTTP/2"
    "trigger_body_encoding" "something that could hide literals: an encoded or chunked body"
    "trigger_mail_encoding" "something that could hide literals: an encoded part of a mail"
    "trigger_file_blocks" "something that could hide literals: a file in blocks"
    "trigger_tls_records" "something that could hide literals: a TLS handshake over records"
    "trigger_smb_compression" "something that could hide literals: compressed SMB"
    "forward_event" "the condition of a rule that an event decides"
    "forward_lua" "the condition of a rule that a Lua script decides"
    "forward_derived_buffer" "the condition of a rule whose contents are in computed bytes"
    "forward_normalised_away" "the condition of a rule of whose contents normalisation leaves none"
    "forward_pcre_only" "the condition of a rule that regular expressions decide"
    "forward_negated_only" "the condition of a rule with negated contents only"
    "forward_no_content" "the condition of a rule without contents"
    "doubt_middle" "a connection without its SYN"
    "doubt_overlap" "segments with different bytes at the same place"
    "doubt_unverified" "a segment that repeats bytes which are no longer known"
    "doubt_gap" "bytes that were not seen"
    "doubt_memory" "segments out of order for longer than memory allows"
    "doubt_out_of_window" "a segment far from the expected one"
    "doubt_truncated" "a packet that was not captured whole"
    "doubt_urgent" "urgent data"
    "doubt_syn" "a SYN within a connection"
    "doubt_fin" "a second FIN that contradicts the first"
    "doubt_past_fin" "bytes behind the FIN"
    "doubt_fragment" "a fragment"
    "doubt_undecoded" "headers that are not decoded"
    "doubt_reset" "a reset with bytes"
    "doubt_reload" "new rules while the connection was open"
    "waiting" "bytes before others are missing"
    "ended" "the scanner followed the flow no more before it had ended"
    "memory" "the gateway's memory was full"
    "flow_memory" "the flow was longer than `flow_memory`"
    "wait" "the flow was open for longer than `wait`"
    "prefix" "the first bytes of a flow"
    "exempt" "an operator exempts the flow"
    "stop" "the gateway stopped, or its settings were changed"
    "unscanned" "the packet was not scanned"
};

const TRIGGERS: u8 = 2;
const CAUSES: u8 = TRIGGERS + Hazard::ALL.len() as u8;
const DOUBTS: u8 = CAUSES + Cause::ALL.len() as u8;
const OWN: u8 = DOUBTS + Uncertainty::ALL.len() as u8;

impl PassReason {
    /// There is none.
    pub const CLEAN: Self = Self(0);
    pub(crate) const LITERAL: Self = Self(1);
    pub(crate) const WAITING: Self = Self(OWN);
    pub(crate) const ENDED: Self = Self(OWN + 1);
    pub(crate) const MEMORY: Self = Self(OWN + 2);
    pub(crate) const FLOW_MEMORY: Self = Self(OWN + 3);
    pub(crate) const WAIT: Self = Self(OWN + 4);
    pub(crate) const PREFIX: Self = Self(OWN + 5);
    pub(crate) const EXEMPT: Self = Self(OWN + 6);
    pub(crate) const STOP: Self = Self(OWN + 7);
    pub(crate) const UNSCANNED: Self = Self(OWN + 8);

    /// The number of reasons.
    pub const COUNT: usize = NAMES.len();

    pub(super) const fn trigger(hazard: Hazard) -> Self {
        Self(TRIGGERS + hazard as u8)
    }

    pub(super) const fn forward(cause: Cause) -> Self {
        Self(CAUSES + cause as u8)
    }

    pub(super) const fn doubt(cause: Uncertainty) -> Self {
        Self(DOUBTS + cause as u8)
    }

    /// All of them, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..NAMES.len()).map(|number| Self(number as u8))
    }

    /// That with a number, as in the column `scanned`.
    pub(crate) fn numbered(number: u8) -> Self {
        debug_assert!(usize::from(number) < NAMES.len());
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    fn names(self) -> &'static Names {
        &NAMES[usize::from(self.0)]
    }

    /// A name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.names().name
    }

    /// What it is, for people.
    #[must_use]
    pub fn help(self) -> &'static str {
        self.names().help
    }

    /// The remark that counts packets which pass for it.
    #[must_use]
    pub fn packets_remark(self) -> &'static str {
        self.names().packets
    }

    /// The remark that counts their bytes on the wire.
    #[must_use]
    pub fn bytes_remark(self) -> &'static str {
        self.names().bytes
    }

    /// The remark that counts flows which pass for it from some packet on.
    #[must_use]
    pub fn flows_remark(self) -> &'static str {
        self.names().flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_what_they_stand_for() {
        for hazard in Hazard::ALL {
            let name = PassReason::trigger(hazard).name();
            assert_eq!(name, format!("trigger_{}", hazard.name()));
        }
        for cause in Cause::ALL {
            assert_eq!(PassReason::forward(cause).name(), format!("forward_{}", cause.name()));
        }
        for doubt in Uncertainty::ALL {
            assert_eq!(PassReason::doubt(doubt).name(), format!("doubt_{}", doubt.name()));
        }
        let own = [
            (PassReason::CLEAN, "clean"),
            (PassReason::LITERAL, "literal"),
            (PassReason::WAITING, "waiting"),
            (PassReason::ENDED, "ended"),
            (PassReason::MEMORY, "memory"),
            (PassReason::FLOW_MEMORY, "flow_memory"),
            (PassReason::WAIT, "wait"),
            (PassReason::PREFIX, "prefix"),
            (PassReason::EXEMPT, "exempt"),
            (PassReason::STOP, "stop"),
            (PassReason::UNSCANNED, "unscanned"),
        ];
        own.iter().for_each(|(reason, name)| assert_eq!(reason.name(), *name));
        let others = Hazard::ALL.len() + Cause::ALL.len() + Uncertainty::ALL.len();
        assert_eq!(PassReason::COUNT, own.len() + others);
    }
}
