//! The kernel's description of a network device: name, number, address, state, counters.

use std::io;

use forebay_packet::MacAddress;

use super::error::DeviceError;
use super::netlink::{
    IFINFO, Netlink, RTM_GETLINK, RTM_NEWLINK, attributes, i32_at, push_attribute, u16_at, u32_at,
    u64_at,
};

/// Attributes of a link (linux/if_link.h).
mod attribute {
    pub(super) const ADDRESS: u16 = 1;
    pub(super) const NAME: u16 = 3;
    pub(super) const MTU: u16 = 4;
    pub(super) const LINK: u16 = 5;
    pub(super) const MASTER: u16 = 10;
    pub(super) const INFO: u16 = 18;
    pub(super) const STATS: u16 = 23;
    pub(super) const TX_QUEUES: u16 = 31;
    pub(super) const RX_QUEUES: u16 = 32;
    pub(super) const CARRIER: u16 = 33;
    pub(super) const LINK_NAMESPACE: u16 = 37;
    pub(super) const XDP: u16 = 43;
    /// Within `INFO`.
    pub(super) const KIND: u16 = 1;
    /// Within `XDP`.
    pub(super) const XDP_ATTACHED: u16 = 2;
}

/// The most bytes of a device's name, without the final zero.
const NAME_LEN: usize = 15;

/// Hardware types (linux/if_arp.h).
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;

/// Device flags (linux/if.h).
const UP: u32 = 1;

/// `XDP_ATTACHED_SKB` (linux/if_link.h): generic XDP, in the network stack.
const BY_THE_STACK: u8 = 2;

/// Packet counters of the device, for all its users (linux/if_link.h, `rtnl_link_stats64`).
/// The three losses of reception do not overlap: errors are damaged frames, missed frames
/// found no buffer in the device, dropped frames were dropped later, by driver or kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Damaged frames received.
    pub rx_errors: u64,
    /// Received frames dropped by driver or kernel.
    pub rx_dropped: u64,
    /// Packets dropped before they were sent.
    pub tx_dropped: u64,
    /// Frames for which the device had no buffer.
    pub rx_missed: u64,
}

/// Bytes of an Ethernet header and of a VLAN tag, which an MTU excludes.
const FRAMING: usize = 14 + 4;

/// The location of a device in another namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The number of its namespace, as seen from ours.
    pub namespace: i32,
    /// Its own number there.
    pub index: u32,
}

/// A network device as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in this namespace; a device deleted and created again has another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// ARPHRD_ value of its hardware.
    pub hardware: u16,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether it has a carrier: a cable, a peer that is up.
    pub carrier: bool,
    /// The most bytes of a frame after its Ethernet header and VLAN tag.
    pub mtu: u32,
    /// Its address, if it has one of six bytes.
    pub address: Option<MacAddress>,
    /// The kind of a virtual device: `veth`, `bridge`, `tun`.
    pub kind: Option<String>,
    /// The number of the bridge or bond it belongs to.
    pub master: Option<u32>,
    /// The number of the device at its other end or below it, if in this namespace.
    pub peer: Option<u32>,
    /// That device, if in another namespace.
    pub elsewhere: Option<Elsewhere>,
    /// Receive queues.
    pub rx_queues: u32,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Whether it has a generic XDP program, which runs in the network stack.
    pub runs_xdp_in_stack: bool,
    /// Its counters.
    pub stats: LinkStats,
}

impl Link {
    /// The device `name`.
    ///
    /// # Errors
    /// If there is none, or the system's error.
    pub fn named(name: &str) -> Result<Self, DeviceError> {
        Links::open(name)?.named(name)
    }

    /// Whether its packets are Ethernet frames.
    #[must_use]
    pub fn is_ethernet(&self) -> bool {
        matches!(self.hardware, ETHERNET | LOOPBACK)
    }

    /// The device itself if its packets are Ethernet frames.
    ///
    /// # Errors
    /// If they are not.
    pub fn ethernet(self) -> Result<Self, DeviceError> {
        if self.is_ethernet() {
            return Ok(self);
        }
        Err(DeviceError::NotEthernet { device: self.name, hardware: self.hardware })
    }

    /// The most bytes of a frame that the kernel's stack, and its check of redirected
    /// frames, lets through to the device. Frames from a socket's ring are not checked.
    pub(crate) fn max_frame(&self) -> usize {
        self.mtu as usize + FRAMING
    }

    /// Whether packets can pass through it now.
    #[must_use]
    pub fn works(&self) -> bool {
        self.up && self.carrier
    }

    /// The link of a `RTM_NEWLINK` or `RTM_DELLINK` message.
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        // Messages of a bridge about its ports have another family, and are incomplete.
        if *message.first()? != libc::AF_UNSPEC as u8 {
            return None;
        }
        let hardware = u16_at(message, 2)?;
        let index = u32::try_from(i32_at(message, 4)?).ok()?;
        let flags = u32_at(message, 8)?;
        let mut link = Self {
            index,
            name: String::new(),
            hardware,
            up: flags & UP != 0,
            carrier: false,
            mtu: 0,
            address: None,
            kind: None,
            master: None,
            peer: None,
            elsewhere: None,
            rx_queues: 1,
            tx_queues: 1,
            runs_xdp_in_stack: false,
            stats: LinkStats::default(),
        };
        for (kind, value) in attributes(message.get(IFINFO..)?) {
            link.take(kind, value);
        }
        match &mut link.elsewhere {
            Some(elsewhere) => elsewhere.index = link.peer.take().unwrap_or_default(),
            None => link.peer = link.peer.filter(|&peer| peer != index),
        }
        (!link.name.is_empty()).then_some(link)
    }

    /// Applies one attribute.
    fn take(&mut self, kind: u16, value: &[u8]) {
        let number = u32_at(value, 0);
        match kind {
            attribute::ADDRESS => self.address = value.try_into().ok().map(MacAddress),
            attribute::NAME => self.name = text(value),
            attribute::MTU => self.mtu = number.unwrap_or_default(),
            attribute::LINK => self.peer = number.filter(|&peer| peer != 0),
            attribute::MASTER => self.master = number,
            attribute::INFO => {
                let kind = attributes(value).find(|(kind, _)| *kind == attribute::KIND);
                self.kind = kind.map(|(_, name)| text(name));
            }
            attribute::STATS => self.stats = LinkStats::parse(value).unwrap_or_default(),
            attribute::TX_QUEUES => self.tx_queues = number.unwrap_or(1),
            attribute::RX_QUEUES => self.rx_queues = number.unwrap_or(1),
            attribute::CARRIER => self.carrier = value.first() == Some(&1),
            attribute::LINK_NAMESPACE => {
                let namespace = number.unwrap_or_default().cast_signed();
                self.elsewhere = Some(Elsewhere { namespace, index: 0 });
            }
            attribute::XDP => {
                let how = attributes(value).find(|(kind, _)| *kind == attribute::XDP_ATTACHED);
                self.runs_xdp_in_stack = how.is_some_and(|(_, how)| how == [BY_THE_STACK]);
            }
            _ => {}
        }
    }
}

impl LinkStats {
    /// Parses a `rtnl_link_stats64`, whose fields have eight bytes each.
    fn parse(value: &[u8]) -> Option<Self> {
        let at = |field: usize| u64_at(value, field * 8);
        Some(Self {
            rx_packets: at(0)?,
            tx_packets: at(1)?,
            rx_errors: at(4)?,
            rx_dropped: at(6)?,
            tx_dropped: at(7)?,
            rx_missed: at(15)?,
        })
    }
}

/// Text up to the first zero.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Queries of links, in the namespace in which it was opened.
pub(crate) struct Links {
    netlink: Netlink,
}

impl Links {
    /// Opens queries on behalf of `device`.
    pub(crate) fn open(device: &str) -> Result<Self, DeviceError> {
        Self::new().map_err(DeviceError::system(device, "query devices"))
    }

    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open(0)? })
    }

    /// The device called `name`.
    pub(crate) fn named(&mut self, name: &str) -> Result<Link, DeviceError> {
        let missing = || DeviceError::Missing { device: name.to_owned() };
        if name.is_empty() || name.len() > NAME_LEN || name.contains(['\0', '/']) {
            return Err(missing());
        }
        let mut request = vec![0; IFINFO];
        push_attribute(&mut request, attribute::NAME, &[name.as_bytes(), b"\0"].concat());
        self.ask(&request).map_err(DeviceError::system(name, "query it"))?.ok_or_else(missing)
    }

    /// The device with this number, if it still exists.
    pub(crate) fn numbered(&mut self, index: u32) -> io::Result<Option<Link>> {
        let mut request = vec![0; IFINFO];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        self.ask(&request)
    }

    fn ask(&mut self, request: &[u8]) -> io::Result<Option<Link>> {
        match self.netlink.ask(RTM_GETLINK, request) {
            Ok(answer) => Ok(answer.and_then(|message| Link::parse(&message))),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets a device up, and sets its MTU if one is given.
    pub(super) fn set(&mut self, index: u32, up: bool, mtu: Option<u32>) -> io::Result<()> {
        let mut request = vec![0; IFINFO];
        request[4..8].copy_from_slice(&index.to_ne_bytes());
        if up {
            request[8..12].copy_from_slice(&UP.to_ne_bytes());
            request[12..16].copy_from_slice(&UP.to_ne_bytes());
        }
        if let Some(mtu) = mtu {
            push_attribute(&mut request, attribute::MTU, &mtu.to_ne_bytes());
        }
        self.netlink.ask(RTM_NEWLINK, &request).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_there_and_others_are_not() {
        let lo = Link::named("lo").unwrap().ethernet().unwrap();
        assert_eq!((lo.name.as_str(), lo.hardware, lo.index), ("lo", LOOPBACK, 1));
        assert_eq!(lo.address, Some(MacAddress([0; 6])));
        assert!(lo.mtu > 0);
        for missing in ["", "no-such-device", "a-name-that-is-too-long", "l\0o", "../lo"] {
            let error = Link::named(missing).unwrap_err();
            assert!(matches!(error, DeviceError::Missing { .. }), "{error}");
        }
    }

    #[test]
    fn a_message_is_taken_apart() {
        let mut message = vec![0; IFINFO];
        message[2..4].copy_from_slice(&512_u16.to_ne_bytes());
        message[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        message[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        push_attribute(&mut message, attribute::NAME, b"ppp0\0");
        push_attribute(&mut message, attribute::LINK, &3_u32.to_ne_bytes());
        push_attribute(&mut message, attribute::CARRIER, &[1]);
        let link = Link::parse(&message).unwrap();
        assert_eq!((link.index, link.peer, link.works()), (7, Some(3), true));
        let error = link.ethernet().unwrap_err().to_string();
        assert!(error.contains("ppp0 is no Ethernet device") && error.contains("512"), "{error}");
        push_attribute(&mut message, attribute::LINK_NAMESPACE, &0_u32.to_ne_bytes());
        let link = Link::parse(&message).unwrap();
        assert_eq!(link.peer, None, "a number of another namespace");
        assert_eq!(link.elsewhere, Some(Elsewhere { namespace: 0, index: 3 }));
        for cut in 0..message.len() {
            let _ = Link::parse(&message[..cut]);
        }
    }

    #[test]
    fn who_runs_an_xdp_program_is_told() {
        let by_the_stack = |how: &[u8]| {
            let mut attached = Vec::new();
            push_attribute(&mut attached, 4, &77_u32.to_ne_bytes());
            push_attribute(&mut attached, attribute::XDP_ATTACHED, how);
            let mut message = vec![0; IFINFO];
            push_attribute(&mut message, attribute::NAME, b"eth0\0");
            push_attribute(&mut message, attribute::XDP, &attached);
            let whole = Link::parse(&message).unwrap().runs_xdp_in_stack;
            for cut in 0..message.len() {
                let link = Link::parse(&message[..cut]);
                assert!(!link.is_some_and(|link| link.runs_xdp_in_stack), "{cut}");
            }
            whole
        };
        // XDP_ATTACHED_NONE, _DRV, _SKB, _HW, _MULTI (linux/if_link.h).
        assert_eq!(
            [0, 1, 2, 3, 4].map(|how| by_the_stack(&[how])),
            [false, false, true, false, false]
        );
        assert!(!by_the_stack(&[]) && !by_the_stack(&[2, 0]));
    }
}
