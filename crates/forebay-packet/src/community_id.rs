//! Community ID version 1, the flow identifier that Zeek, Suricata and others share
//! (<https://github.com/corelight/community-id-spec>).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::decode::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::flow::{AddressKind, FlowKey};

/// The prefix of version 1.
const VERSION: &str = "1:";

/// The hash that a Community ID consists of.
pub type CommunityDigest = [u8; 20];

/// The Community ID of a flow between IP addresses; nothing for any other.
#[must_use]
pub fn community_id(key: &FlowKey, seed: u16) -> Option<String> {
    community_digest(key, seed).map(|digest| community_text(&digest))
}

/// The text of a Community ID.
#[must_use]
pub fn community_text(digest: &CommunityDigest) -> String {
    format!("{VERSION}{}", STANDARD.encode(digest))
}

/// The hash in the text of a Community ID; nothing if it is none of version 1.
#[must_use]
pub fn read_community_id(text: &str) -> Option<CommunityDigest> {
    STANDARD.decode(text.strip_prefix(VERSION)?).ok()?.try_into().ok()
}

/// The hash of a flow's Community ID.
#[must_use]
pub fn community_digest(key: &FlowKey, seed: u16) -> Option<CommunityDigest> {
    let mut hasher = Sha1::new();
    hasher.update(seed.to_be_bytes());
    match key.kind {
        AddressKind::Ipv4 => {
            hasher.update((key.low as u32).to_be_bytes());
            hasher.update((key.high as u32).to_be_bytes());
        }
        AddressKind::Ipv6 => {
            hasher.update(key.low.to_be_bytes());
            hasher.update(key.high.to_be_bytes());
        }
        AddressKind::Opaque | AddressKind::Mac | AddressKind::Arp => return None,
    }
    hasher.update([key.protocol, 0]);
    if key.has_ports && matches!(key.protocol, TCP | UDP | SCTP | ICMP | ICMPV6) {
        hasher.update(key.port_low.to_be_bytes());
        hasher.update(key.port_high.to_be_bytes());
    }
    Some(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of the specification's test captures (tcp.pcap).
    #[test]
    fn a_tcp_flow() {
        let address = |a: [u8; 4]| u128::from(u32::from_be_bytes(a));
        let (key, _) = FlowKey::two_way(
            AddressKind::Ipv4,
            TCP,
            (address([128, 232, 110, 120]), 34855),
            (address([66, 35, 250, 204]), 80),
        );
        let key = FlowKey { has_ports: true, ..key };
        assert_eq!(community_id(&key, 0).as_deref(), Some("1:LQU9qZlK+B5F3KDmev6m5PMibrg="));
        assert_eq!(community_id(&FlowKey::default(), 0), None);
        let digest = read_community_id("1:LQU9qZlK+B5F3KDmev6m5PMibrg=");
        assert_eq!(digest, community_digest(&key, 0));
        for wrong in ["", "1:", "2:LQU9qZlK+B5F3KDmev6m5PMibrg=", "1:LQU9qZlK+B5F3KDmev6m5PMibr"] {
            assert_eq!(read_community_id(wrong), None, "{wrong}");
        }
    }
}
