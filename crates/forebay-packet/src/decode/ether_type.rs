//! Numbers of EtherTypes (IEEE, IANA).

pub(super) const IPV4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const MPLS: u16 = 0x8847;
pub(super) const MPLS_MULTICAST: u16 = 0x8848;
pub(super) const PPPOE_SESSION: u16 = 0x8864;
pub(super) const PPP: u16 = 0x880b;
pub(super) const E_TAG: u16 = 0x893f;
pub(super) const SERVICE_TAG: u16 = 0x88e7;

/// Customer, provider and two older VLAN tags.
macro_rules! vlan_tag {
    () => {
        0x8100 | 0x88a8 | 0x9100 | 0x9200
    };
}
pub(super) use vlan_tag;
