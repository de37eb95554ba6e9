//! One inner flow under every header there is: the table that the decoder's tests run over.

use super::build::*;
use ether_type as et;
use forebay_packet::flow::AddressKind;
use forebay_packet::{FlowKey, LinkType};
use protocol as ip;

/// Ports of the inner flow; no other bytes of a packet in the table spell this pair.
pub const INNER: (u16, u16) = (0xc0f1, 0x35f2);

/// Builds a packet that goes one way.
pub type Build = Box<dyn Fn(Way) -> Vec<u8>>;

/// One kind of packet.
pub struct Case {
    pub name: String,
    pub link: LinkType,
    pub build: Build,
    /// The key of the inner flow.
    pub key: FlowKey,
    /// How many tunnels lie around it.
    pub tunnels: u8,
}

/// The key of a flow between the two hosts of subnet `net`.
pub fn key4(net: u8, protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
    let end = |host| u128::from(u32::from(host4(net, host)));
    key(AddressKind::Ipv4, protocol, end(1), end(2), ports)
}

pub fn key6(net: u8, protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
    let end = |host| u128::from(host6(net, host));
    key(AddressKind::Ipv6, protocol, end(1), end(2), ports)
}

fn key(kind: AddressKind, protocol: u8, a: u128, b: u128, ports: Option<(u16, u16)>) -> FlowKey {
    let (first, second) = ports.unwrap_or_default();
    let (key, _) = FlowKey::two_way(kind, protocol, (a, first), (b, second));
    FlowKey { has_ports: ports.is_some(), ..key }
}

/// The inner flow's packet.
pub fn inner(way: Way) -> Vec<u8> {
    way.ip4(1, ip::TCP, &way.tcp(INNER.0, INNER.1))
}

fn inner6(way: Way) -> Vec<u8> {
    way.ip6(1, ip::TCP, &way.tcp(INNER.0, INNER.1))
}

fn inner_frame(way: Way) -> Vec<u8> {
    way.ethernet(et::IPV4, &inner(way))
}

/// Every case, each with the inner flow inside.
pub fn cases() -> Vec<Case> {
    let mut all = Table::default();
    links(&mut all);
    tags(&mut all);
    other_links(&mut all);
    transports(&mut all);
    tunnels(&mut all);
    all.0
}

#[derive(Default)]
struct Table(Vec<Case>);

impl Table {
    fn add(
        &mut self,
        name: &str,
        link: LinkType,
        tunnels: u8,
        key: FlowKey,
        build: impl Fn(Way) -> Vec<u8> + 'static,
    ) {
        self.0.push(Case { name: name.into(), link, build: Box::new(build), key, tunnels });
    }

    /// A link layer around the inner flow.
    fn link(&mut self, name: &str, link: LinkType, build: impl Fn(Way) -> Vec<u8> + 'static) {
        self.add(name, link, 0, key4(1, ip::TCP, Some(INNER)), build);
    }

    /// What follows an EtherType, on Ethernet.
    fn on_ethernet(&mut self, name: &str, et: u16, build: impl Fn(Way) -> Vec<u8> + 'static) {
        self.link(name, LinkType::ETHERNET, move |way| way.ethernet(et, &build(way)));
    }

    /// A tunnel in IPv4, and the same in IPv6, on Ethernet.
    fn tunnel(
        &mut self,
        name: &str,
        protocol: u8,
        build: impl Fn(Way) -> Vec<u8> + Copy + 'static,
    ) {
        let key = key4(1, ip::TCP, Some(INNER));
        self.add(name, LinkType::ETHERNET, 1, key, move |way| {
            way.ethernet(et::IPV4, &way.ip4(2, protocol, &build(way)))
        });
        self.add(&format!("{name} over IPv6"), LinkType::ETHERNET, 1, key, move |way| {
            way.ethernet(et::IPV6, &way.ip6(2, protocol, &build(way)))
        });
    }
}

fn links(t: &mut Table) {
    t.link("Ethernet", LinkType::ETHERNET, inner_frame);
    t.link("raw", LinkType::RAW, inner);
    t.link("raw, number 12", LinkType(12), inner);
    t.link("raw, number 14", LinkType(14), inner);
    t.link("IPv4", LinkType::IPV4, inner);
    t.add("raw IPv6", LinkType::IPV6, 0, key6(1, ip::TCP, Some(INNER)), inner6);
    for (name, head) in [("little", [2, 0, 0, 0]), ("big", [0, 0, 0, 2])] {
        let name = format!("null, {name}-endian");
        t.link(&name, LinkType::NULL, move |way| before(&head, &inner(way)));
    }
    for family in [24, 28, 30] {
        let key = key6(1, ip::TCP, Some(INNER));
        let name = format!("IPv6 family {family}");
        t.add(&format!("null, {name}"), LinkType::NULL, 0, key, move |way| {
            before(&[family, 0, 0, 0], &inner6(way))
        });
        t.add(&format!("loop, {name}"), LinkType::LOOP, 0, key, move |way| {
            before(&[0, 0, 0, family], &inner6(way))
        });
    }
    t.link("cooked", LinkType::LINUX_SLL, |way| {
        before(&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0], &inner(way))
    });
    t.link("cooked, VLAN", LinkType::LINUX_SLL, |way| {
        let head = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x81, 0];
        before(&head, &vlan(5, et::IPV4, &inner(way)))
    });
    t.link("cooked, LLC", LinkType::LINUX_SLL, |way| {
        let head = [0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0, 4];
        before(&head, &snap(et::IPV4, &inner(way)))
    });
    t.link("cooked 2", LinkType::LINUX_SLL2, |way| {
        let head = [8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
        before(&head, &inner(way))
    });
    for tag in [et::VLAN, et::PROVIDER_VLAN, 0x9100, 0x9200] {
        let name = format!("tag {tag:#06x}");
        t.on_ethernet(&name, tag, |way| vlan(5, et::IPV4, &inner(way)));
    }
    t.on_ethernet("four tags", et::PROVIDER_VLAN, |way| {
        let two = vlan(7, et::VLAN, &vlan(8, et::IPV4, &inner(way)));
        vlan(5, 0x9100, &vlan(6, et::VLAN, &two))
    });
    t.on_ethernet("802.1BR", et::E_TAG, |way| e_tag(5, et::VLAN, &vlan(5, et::IPV4, &inner(way))));
    t.on_ethernet("802.1ah", et::BACKBONE, |way| backbone(5, &inner_frame(way)));
    t.link("SNAP", LinkType::ETHERNET, |way| {
        let payload = snap(et::IPV4, &inner(way));
        way.ethernet(payload.len() as u16, &payload)
    });
    t.on_ethernet("SNAP behind a tag", et::VLAN, |way| vlan(5, 0x40, &snap(et::IPV4, &inner(way))));
    t.on_ethernet("MPLS", et::MPLS, |way| mpls(&[16, 17, 18], &inner(way)));
    t.on_ethernet("MPLS multicast", 0x8848, |way| mpls(&[16], &inner(way)));
    t.on_ethernet("pseudowire", et::MPLS, |way| mpls(&[16], &before(&[0; 4], &inner_frame(way))));
    t.on_ethernet("PPPoE", et::PPPOE, |way| pppoe(5, &before(&[0, 0x21], &inner(way))));
    t.on_ethernet("PPPoE, short protocol", et::PPPOE, |way| {
        pppoe(5, &before(&[0x21], &inner(way)))
    });
    t.on_ethernet("PPPoE, MPLS", et::PPPOE, |way| {
        pppoe(5, &before(&[2, 0x81], &mpls(&[16], &inner(way))))
    });
}

/// Tags and fabrics on Ethernet, with what follows their EtherType.
fn tags(t: &mut Table) {
    let typed = |head: &'static [u8]| {
        move |way: Way| [head, &et::IPV4.to_be_bytes(), &inner(way)[..]].concat()
    };
    t.on_ethernet("Cisco MetaData", 0x8909, typed(&[1, 1, 0, 1, 2, 0]));
    t.on_ethernet("Cisco MetaData, longer", 0x8909, |way| {
        let head = [1, 2, 0, 1, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 8, 0];
        before(&head, &inner(way))
    });
    t.on_ethernet("VN-Tag", 0x8926, typed(&[0, 1, 0, 2]));
    t.on_ethernet("HSR", 0x892f, typed(&[0x10, 0x30, 0, 9]));
    t.on_ethernet("802.1CB", 0xf1c1, typed(&[0, 0, 0, 9]));
    t.on_ethernet("EDSA", 0xdada, typed(&[0, 0, 0xc0, 8, 0, 1]));
    t.on_ethernet("MACsec", 0x88e5, typed(&[0, 0, 0, 0, 0, 1]));
    let channel = &[0x20, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 0, 1];
    t.on_ethernet("MACsec with its channel", 0x88e5, typed(channel));
    t.on_ethernet("PRP", et::IPV4, |way| {
        [&inner(way)[..], &[0, 9, 0xa0, 0x36, 0x88, 0xfb]].concat()
    });
    t.on_ethernet("FabricPath", 0x8903, |way| before(&[0, 0x60], &inner_frame(way)));
    t.on_ethernet("FabricPath, tagged inside", 0x8903, |way| {
        before(&[0, 0x60], &way.ethernet(et::VLAN, &vlan(5, et::IPV4, &inner(way))))
    });
    t.on_ethernet("TRILL", 0x22f3, |way| before(&[0, 0x20, 0, 1, 0, 2], &inner_frame(way)));
    t.on_ethernet("TRILL with options", 0x22f3, |way| {
        before(&[8, 0xa0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0], &inner_frame(way))
    });
    t.on_ethernet("NSH, IPv4", 0x894f, |way| before(&[0, 2, 2, 1, 0, 0, 1, 9], &inner(way)));
    t.on_ethernet("NSH with context, Ethernet", 0x894f, |way| {
        let head = [&[0, 6, 1, 3, 0, 0, 1, 9][..], &[0; 16]].concat();
        before(&head, &inner_frame(way))
    });
    t.on_ethernet("NSH in NSH, MPLS", 0x894f, |way| {
        let inside = before(&[0, 2, 2, 5, 0, 0, 1, 8], &mpls(&[16], &inner(way)));
        before(&[0, 2, 2, 4, 0, 0, 1, 9], &inside)
    });
}

/// Link types other than Ethernet's.
fn other_links(t: &mut Table) {
    let mut heads = |name: &str, link, head: &'static [u8]| {
        t.link(name, LinkType(link), move |way| before(head, &inner(way)));
    };
    heads("PPP", 9, &[0xff, 3, 0, 0x21]);
    heads("PPP, bare", 9, &[0x21]);
    heads("PPP in HDLC", 50, &[0xff, 3, 0, 0x21]);
    heads("PPP in HDLC, Cisco", 50, &[0x0f, 0, 8, 0]);
    heads("PPPoE from its header", 51, &[0x11, 0, 0, 5, 0, 42, 0, 0x21]);
    heads("Cisco HDLC", 104, &[0x0f, 0, 8, 0]);
    heads("frame relay", 107, &[0x18, 0x41, 3, 0xcc]);
    heads("frame relay, long address", 107, &[0x18, 0x40, 0x40, 0x41, 3, 0xcc]);
    heads("frame relay, Cisco", 107, &[0x18, 0x41, 8, 0]);
    heads("frame relay, SNAP", 107, &[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0]);
    heads("frame relay, PPP", 107, &[0x18, 0x41, 3, 0xcf, 0, 0x21]);
    heads(
        "NFLOG",
        239,
        &[2, 0, 0, 1, 8, 0, 1, 0, 8, 0, 1, 0, 5, 0, 10, 0, 0x78, 0, 0, 0, 44, 0, 9, 0],
    );
    heads("NFLOG, big-endian", 239, &[2, 0, 0, 1, 0, 8, 0, 1, 8, 0, 1, 0, 0, 44, 0, 9]);
    t.link("frame relay, bridged", LinkType(107), |way| {
        before(&[0x18, 0x41, 3, 0, 0x80, 0, 0x80, 0xc2, 0, 7], &inner_frame(way))
    });
    for (name, link, tag) in
        [("DSA", 284, &[0xc0, 8, 0, 1][..]), ("EDSA link", 285, &[0xda, 0xda, 0, 0, 0xc0, 8, 0, 1])]
    {
        t.link(name, LinkType(link), move |way| {
            let frame = inner_frame(way);
            [&frame[..12], tag, &frame[12..]].concat()
        });
    }
    let snap = |way| snap(et::IPV4, &inner(way));
    // To the distribution system, from it, between its stations, beside it.
    for (flags, len) in [(1, 24), (2, 24), (3, 30), (0, 24)] {
        t.link(&format!("802.11, {flags}"), LinkType(105), move |way| {
            before(&wireless(way, 0x08, flags, len), &snap(way))
        });
    }
    t.link("802.11, QoS", LinkType(105), move |way| {
        before(&wireless(way, 0x88, 1, 26), &snap(way))
    });
    t.link("802.11, QoS and HT", LinkType(105), move |way| {
        before(&wireless(way, 0x88, 0x81, 30), &snap(way))
    });
    t.link("802.11, aggregate", LinkType(105), move |way| {
        let mut head = wireless(way, 0x88, 1, 26);
        head[24] = 0x80;
        let payload = snap(way);
        before(&head, &way.ethernet(payload.len() as u16, &payload))
    });
    t.link("radiotap", LinkType(127), move |way| {
        let head = [&[0, 0, 8, 0, 0, 0, 0, 0][..], &wireless(way, 0x08, 1, 24)].concat();
        before(&head, &snap(way))
    });
    t.link("radiotap, aligned payload", LinkType(127), move |way| {
        // Two words of fields: time, flags, and none of the second word.
        let radio = [&[0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0][..], &[0; 12], &[0x20]].concat();
        let frame = [wireless(way, 0x88, 1, 26), vec![0; 2]].concat();
        [radio, frame, snap(way)].concat()
    });
    t.link("AVS", LinkType(163), move |way| {
        let head = [&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64][..], &[0; 56]].concat();
        [head, wireless(way, 0x08, 2, 24), snap(way)].concat()
    });
    t.link("PPI, 802.11", LinkType(192), move |way| {
        let head = [0, 0, 12, 0, 105, 0, 0, 0, 0, 0, 0, 0];
        [head.to_vec(), wireless(way, 0x08, 2, 24), snap(way)].concat()
    });
    t.link("PPI, Ethernet", LinkType(192), |way| {
        before(&[0, 0, 8, 0, 1, 0, 0, 0], &inner_frame(way))
    });
}

/// The header of a data frame, its addresses turned with its way.
fn wireless(way: Way, kind: u8, flags: u8, len: usize) -> Vec<u8> {
    let mut head = vec![0; len];
    (head[0], head[1]) = (kind, flags);
    let (source, destination) = way.ports(1, 2);
    let (to, from) = match flags & 3 {
        0 => (4, 10),
        1 => (16, 10),
        2 => (4, 16),
        _ => (16, 24),
    };
    (head[to + 5], head[from + 5]) = (destination as u8, source as u8);
    head
}

fn transports(t: &mut Table) {
    for protocol in [ip::TCP, ip::UDP, ip::SCTP, ip::DCCP, ip::UDP_LITE] {
        let body = |way: Way| way.udp(INNER.0, INNER.1, b"payload");
        let name = format!("protocol {protocol}");
        t.add(&name, LinkType::RAW, 0, key4(1, protocol, Some(INNER)), move |way| {
            way.ip4(1, protocol, &body(way))
        });
        t.add(
            &format!("{name}, IPv6"),
            LinkType::RAW,
            0,
            key6(1, protocol, Some(INNER)),
            move |way| way.ip6(1, protocol, &body(way)),
        );
    }
    t.add("mobility header", LinkType::RAW, 0, key6(1, ip::MOBILITY, None), |way| {
        way.ip6(1, ip::MOBILITY, &extension(59, 1, b""))
    });
    for protocol in [ip::ESP, ip::OSPF, 253] {
        let name = format!("portless protocol {protocol}");
        t.add(&name, LinkType::RAW, 0, key4(1, protocol, None), move |way| {
            way.ip4(1, protocol, b"opaque body")
        });
        t.add(&format!("{name}, IPv6"), LinkType::RAW, 0, key6(1, protocol, None), move |way| {
            way.ip6(1, protocol, b"opaque body")
        });
    }
    t.link("IPv4 options", LinkType::RAW, |way| {
        way.ip4_with_options(1, ip::TCP, (0, 0), &[1; 40], &way.tcp(INNER.0, INNER.1))
    });
    let key = key6(1, ip::TCP, Some(INNER));
    t.add("IPv6 extensions", LinkType::RAW, 0, key, |way| {
        let last = extension(ip::TCP, 2, &way.tcp(INNER.0, INNER.1));
        let routing = extension(ip::IPV6_DESTINATION, 1, &last);
        way.ip6(1, 0, &extension(ip::IPV6_ROUTING, 0, &routing))
    });
    // What an authentication header covers may be looked at or not, and compression hides it.
    for protocol in [ip::AUTHENTICATION, ip::COMPRESSION] {
        let name = format!("protocol {protocol} by its addresses");
        let body = |way: Way| authentication(ip::TCP, &way.tcp(INNER.0, INNER.1));
        t.add(&name, LinkType::RAW, 0, key4(1, protocol, None), move |way| {
            way.ip4(1, protocol, &body(way))
        });
        t.add(&format!("{name}, IPv6"), LinkType::RAW, 0, key6(1, protocol, None), move |way| {
            let options = extension(protocol, 0, &body(way));
            way.ip6(1, ip::IPV6_DESTINATION, &options)
        });
    }
    t.add("IPv6 atomic fragment", LinkType::RAW, 0, key, |way| {
        way.ip6(1, ip::IPV6_FRAGMENT, &fragment6(ip::TCP, 0, 9, &way.tcp(INNER.0, INNER.1)))
    });
}

fn tunnels(t: &mut Table) {
    t.tunnel("IPIP", ip::IP_IN_IP, inner);
    t.add("6in4", LinkType::RAW, 1, key6(1, ip::TCP, Some(INNER)), |way| {
        way.ip4(2, ip::IPV6_IN_IP, &inner6(way))
    });
    t.tunnel("GRE", ip::GRE, |way| gre(0, et::IPV4, &[], &inner(way)));
    t.tunnel("GRE with every field", ip::GRE, |way| gre(0xb000, et::IPV4, &[0; 12], &inner(way)));
    t.tunnel("GRE, Ethernet", ip::GRE, |way| {
        keyed_gre(5, et::TRANSPARENT_ETHERNET, &inner_frame(way))
    });
    t.tunnel("GRE, MPLS", ip::GRE, |way| gre(0, et::MPLS, &[], &mpls(&[16], &inner(way))));
    t.tunnel("PPTP", ip::GRE, |way| {
        gre(0x3081, et::PPP, &[0; 12], &before(&[0xff, 3, 0, 0x21], &inner(way)))
    });
    t.tunnel("PPTP, short headers", ip::GRE, |way| {
        gre(0x3001, et::PPP, &[0; 8], &before(&[0x21], &inner(way)))
    });
    t.tunnel("ERSPAN I", ip::GRE, |way| gre(0, et::ERSPAN, &[], &inner_frame(way)));
    t.tunnel("ERSPAN II", ip::GRE, |way| erspan_2(5, &inner_frame(way)));
    t.tunnel("ERSPAN III", ip::GRE, |way| erspan_3(5, false, &inner_frame(way)));
    t.tunnel("ERSPAN III, subheader", ip::GRE, |way| erspan_3(5, true, &inner_frame(way)));
    t.tunnel("VXLAN", ip::UDP, |way| vxlan(4789, 5, &inner_frame(way)));
    t.tunnel("VXLAN, Linux", ip::UDP, |way| vxlan(8472, 5, &inner_frame(way)));
    t.tunnel("GENEVE", ip::UDP, |way| geneve(5, 0, et::TRANSPARENT_ETHERNET, &inner_frame(way)));
    t.tunnel("GENEVE with options", ip::UDP, |way| {
        geneve(5, 3, et::TRANSPARENT_ETHERNET, &inner_frame(way))
    });
    t.tunnel("GENEVE, IP", ip::UDP, |way| geneve(5, 1, et::IPV4, &inner(way)));
    t.tunnel("GENEVE, MPLS", ip::UDP, |way| geneve(5, 0, et::MPLS, &mpls(&[16], &inner(way))));
    t.tunnel("GTP-U", ip::UDP, |way| gtp_u(5, 0, &[], &inner(way)));
    t.tunnel("GTP-U, sequence", ip::UDP, |way| gtp_u(5, 2, &[0, 1, 0, 0], &inner(way)));
    t.tunnel("GTP-U, extensions", ip::UDP, |way| {
        gtp_u(5, 4, &[0, 0, 0, 0x85, 1, 0, 9, 0x85, 1, 0, 9, 0], &inner(way))
    });
    t.add("four tunnels", LinkType::RAW, 4, key4(1, ip::TCP, Some(INNER)), |way| {
        let one = way.ip4(2, ip::GRE, &gre(0, et::IPV4, &[], &inner(way)));
        let two = way.ip4(3, ip::IP_IN_IP, &one);
        let three = way.ip4(4, ip::UDP, &gtp_u(5, 0, &[], &two));
        way.ip4(5, ip::UDP, &vxlan(4789, 5, &way.ethernet(et::IPV4, &three)))
    });
}
