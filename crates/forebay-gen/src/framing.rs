//! What Ethernet frames are put into: the tags and fabrics that a mirror sees in one
//! direction and not in the other, and the link types of other captures.

use std::fmt;
use std::str::FromStr;

use forebay_packet::LinkType;

/// Bytes of two addresses.
const ADDRESSES: usize = 12;

/// The most bytes that a framing adds to a frame.
pub(crate) const MOST: usize = 80;

/// How the frames of a capture are put.
///
/// A tag or fabric is on the frames of one direction only, that from the larger station
/// address to the smaller. A link type is of all packets; VLAN tags stay only where it has
/// EtherTypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "the names are those of the protocols")]
pub enum Framing {
    #[default]
    Ethernet,
    CiscoMetadata,
    VnTag,
    BridgePort,
    Backbone,
    FabricPath,
    Trill,
    ServiceHeader,
    Hsr,
    Prp,
    RedundancyTag,
    Macsec,
    MacsecChannel,
    Mpls,
    Pppoe,
    SwitchTag,
    Ppp,
    PppHdlc,
    CiscoHdlc,
    FrameRelay,
    Wireless,
    Radiotap,
    Ppi,
    Avs,
    Nflog,
    Dsa,
    Edsa,
}

impl Framing {
    /// Every framing and its name, the default first.
    pub const ALL: [(Self, &str); 27] = [
        (Self::Ethernet, "ethernet"),
        (Self::CiscoMetadata, "cmd"),
        (Self::VnTag, "vn-tag"),
        (Self::BridgePort, "802.1br"),
        (Self::Backbone, "802.1ah"),
        (Self::FabricPath, "fabricpath"),
        (Self::Trill, "trill"),
        (Self::ServiceHeader, "nsh"),
        (Self::Hsr, "hsr"),
        (Self::Prp, "prp"),
        (Self::RedundancyTag, "802.1cb"),
        (Self::Macsec, "macsec"),
        (Self::MacsecChannel, "macsec-sci"),
        (Self::Mpls, "mpls"),
        (Self::Pppoe, "pppoe"),
        (Self::SwitchTag, "edsa-tag"),
        (Self::Ppp, "ppp"),
        (Self::PppHdlc, "ppp-hdlc"),
        (Self::CiscoHdlc, "c-hdlc"),
        (Self::FrameRelay, "frame-relay"),
        (Self::Wireless, "802.11"),
        (Self::Radiotap, "radiotap"),
        (Self::Ppi, "ppi"),
        (Self::Avs, "avs"),
        (Self::Nflog, "nflog"),
        (Self::Dsa, "dsa"),
        (Self::Edsa, "edsa"),
    ];

    /// The link type of the capture.
    #[must_use]
    pub fn link(self) -> LinkType {
        match self {
            Self::Ppp => LinkType::PPP,
            Self::PppHdlc => LinkType::PPP_HDLC,
            Self::CiscoHdlc => LinkType::C_HDLC,
            Self::FrameRelay => LinkType::FRELAY,
            Self::Wireless => LinkType::IEEE802_11,
            Self::Radiotap => LinkType::IEEE802_11_RADIO,
            Self::Ppi => LinkType::PPI,
            Self::Avs => LinkType::IEEE802_11_AVS,
            Self::Nflog => LinkType::NFLOG,
            Self::Dsa => LinkType::DSA_TAG_DSA,
            Self::Edsa => LinkType::DSA_TAG_EDSA,
            _ => LinkType::ETHERNET,
        }
    }

    /// Puts an Ethernet frame that holds an IP packet into `out`, framed.
    pub(crate) fn apply(self, frame: &[u8], out: &mut Vec<u8>) {
        out.clear();
        let (addresses, rest) = frame.split_at(ADDRESSES);
        let (destination, source) = addresses.split_at(ADDRESSES / 2);
        let is_ethernet = self.link() == LinkType::ETHERNET;
        if is_ethernet && source <= destination {
            out.extend_from_slice(frame);
            return;
        }
        // An IP packet by itself, and its version.
        let mut at = 0;
        while matches!(rest[at..at + 2], [0x81, 0] | [0x88, 0xa8]) {
            at += 4;
        }
        let (bare, packet) = (&rest[at..], &rest[at + 2..]);
        let is_ipv6 = packet[0] >> 4 == 6;
        let ppp = if is_ipv6 { [0, 0x57] } else { [0, 0x21] };
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|part| out.extend_from_slice(part));
        let snap: &[u8] = &[0xaa, 0xaa, 3, 0, 0, 0];
        // From a station to the distribution system, with a quality.
        let access_point: &[u8] = &[2, 0xff, 0, 0, 0, 1];
        let station = [&[0x88, 1, 0, 0], access_point, source, destination, &[0; 6]].concat();
        match self {
            Self::Ethernet => put(&[frame]),
            Self::CiscoMetadata => put(&[addresses, &[0x89, 9, 1, 1, 0, 1, 2, 0], rest]),
            Self::VnTag => put(&[addresses, &[0x89, 0x26, 0, 1, 0, 2], rest]),
            Self::BridgePort => put(&[addresses, &[0x89, 0x3f, 0, 0, 0, 5, 0, 0], rest]),
            Self::Backbone => put(&[addresses, &[0x88, 0xe7, 0, 0, 0, 9], frame]),
            Self::FabricPath => put(&[addresses, &[0x89, 3, 0, 0x60], frame]),
            Self::Trill => put(&[addresses, &[0x22, 0xf3, 0, 0x20, 0, 1, 0, 2], frame]),
            Self::ServiceHeader => {
                put(&[addresses, &[0x89, 0x4f, 0, 2, 2, 3, 0, 0, 1, 9], frame]);
            }
            Self::Hsr => put(&[addresses, &[0x89, 0x2f, 0x10, 0x30, 0, 9], rest]),
            Self::Prp => put(&[frame, &[0, 9, 0xa0, 0x36, 0x88, 0xfb]]),
            Self::RedundancyTag => put(&[addresses, &[0xf1, 0xc1, 0, 0, 0, 9], rest]),
            Self::Macsec => put(&[addresses, &[0x88, 0xe5, 0, 0, 0, 0, 0, 1], rest, &[0; 16]]),
            Self::MacsecChannel => {
                put(&[addresses, &[0x88, 0xe5, 0x20, 0, 0, 0, 0, 1], source, &[0, 1], rest]);
            }
            Self::Mpls => put(&[addresses, &[0x88, 0x47, 0, 1, 1, 64], packet]),
            Self::Pppoe => {
                let len = (packet.len() as u16 + 2).to_be_bytes();
                put(&[addresses, &[0x88, 0x64, 0x11, 0, 0, 7], &len, &ppp, packet]);
            }
            Self::SwitchTag => {
                put(&[addresses, &[0xda, 0xda, 0, 0, 0xc0, 8, 0, 1], rest]);
            }
            Self::Ppp | Self::PppHdlc => put(&[&[0xff, 3], &ppp, packet]),
            Self::CiscoHdlc => put(&[&[0x0f, 0], rest]),
            Self::FrameRelay => {
                let protocol = if is_ipv6 { 0x8e } else { 0xcc };
                put(&[&[0x18, 0x41, 3, protocol], packet]);
            }
            Self::Wireless => put(&[&station[..26], snap, bare]),
            // The flags say that the payload is aligned.
            Self::Radiotap => {
                put(&[&[0, 0, 9, 0, 2, 0, 0, 0, 0x20], &station, snap, bare]);
            }
            Self::Ppi => put(&[&[0, 0, 8, 0, 105, 0, 0, 0], &station[..26], snap, bare]),
            Self::Avs => {
                put(&[&[0x80, 0x21, 0x10, 1, 0, 0, 0, 32], &[0; 24], &station[..26], snap, bare]);
            }
            Self::Nflog => {
                let len = (packet.len() as u16 + 4).to_le_bytes();
                let family = if is_ipv6 { 10 } else { 2 };
                put(&[&[family, 0, 0, 1, 5, 0, 10, 0, 0, 0, 0, 0], &len, &[9, 0], packet]);
            }
            Self::Dsa => put(&[addresses, &[0xc0, 8, 0, 1], rest]),
            Self::Edsa => put(&[addresses, &[0xda, 0xda, 0, 0, 0xc0, 8, 0, 1], rest]),
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().find(|(framing, _)| framing == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

/// The text names no [`Framing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no framing is called `{name}`; there are {known}")]
pub struct UnknownFraming {
    name: String,
    known: String,
}

impl FromStr for Framing {
    type Err = UnknownFraming;

    fn from_str(text: &str) -> Result<Self, UnknownFraming> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(framing, _)| *framing).ok_or_else(|| UnknownFraming {
            name: text.to_owned(),
            known: Self::ALL.map(|(_, name)| name).join(", "),
        })
    }
}
