//! What happens in a group of sensors, in words for people.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use forebay_balance::Event;
use forebay_balance::balancer::load::{Dimension, Load};
use forebay_packet::flow::AddressKind;
use forebay_packet::{FlowKey, MacAddress};

/// An event in words; `name` gives the names of sensors by index.
#[must_use]
pub fn in_words<'a>(event: &Event, name: impl Fn(u16) -> &'a str) -> String {
    match event {
        Event::Standing { sensor, transition } => {
            format!("sensor {} is {:?}: {}", name(*sensor), transition.to, transition.reason)
        }
        Event::Died { sensor, buckets, live, or_more } => {
            let or_more = if *or_more { " or more" } else { "" };
            format!(
                "sensor {} gave {buckets} buckets to others; up to about {live}{or_more} flows \
                 broken, to be counted for an idle timeout",
                name(*sensor)
            )
        }
        Event::Broken { sensor, flows, or_more } => {
            let about = if *or_more { "at least about" } else { "about" };
            format!("{about} {flows} flows of sensor {} went on at others", name(*sensor))
        }
        Event::Drained { sensor } => format!("sensor {} has drained", name(*sensor)),
        Event::Cancelled { bucket } => {
            format!("bucket {bucket} stays: it has more flows than moves may record")
        }
        Event::Torn { bucket, to, flows } => {
            let or_more = if flows.or_more { " or more" } else { "" };
            let to = name(*to);
            format!(
                "bucket {bucket} went to sensor {to} at once; up to about {:.0}{or_more} flows torn",
                flows.about
            )
        }
        Event::Oversize { oversize, key } => {
            let flow = key.map_or_else(String::new, |key| format!("; most of it is {}", Flow(key)));
            format!(
                "bucket {} is too big for any sensor: {}, where the most is {}{flow}",
                oversize.bucket,
                amount(oversize.load, oversize.dimension),
                quantity(oversize.most, oversize.dimension),
            )
        }
        Event::OversizeOver { bucket } => format!("bucket {bucket} is not too big any more"),
        Event::Bound { sensor, outlook } => {
            let dimension = outlook.measured.critical(outlook.target);
            format!(
                "sensor {} is bound to {}, where its target is {}: flows that last keep {} there, \
                 which no move can take away",
                name(*sensor),
                amount(outlook.measured, dimension),
                amount(outlook.target, dimension),
                amount(outlook.lasting, dimension),
            )
        }
        Event::BoundOver { sensor } => {
            format!("sensor {} is not bound any more", name(*sensor))
        }
        Event::Overload { load, limit } => {
            let dimension = load.critical(*limit);
            format!(
                "the load is more than all limits together: {}, where they are {}",
                amount(*load, dimension),
                amount(*limit, dimension)
            )
        }
        Event::OverloadOver => "the limits are enough again".to_owned(),
    }
}

fn amount(load: Load, dimension: Dimension) -> String {
    quantity(load[dimension], dimension)
}

fn quantity(number: f64, dimension: Dimension) -> String {
    let unit = match dimension {
        Dimension::Packets => "packets/s",
        Dimension::Bits => "bit/s",
    };
    format!("{number:.0} {unit}")
}

/// A flow by its ends, as far as its key has them.
struct Flow(FlowKey);

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(key) = self;
        let end = |address: u128, port: u16| match (key.kind, key.has_ports) {
            (AddressKind::Ipv4 | AddressKind::Arp, false) => ipv4(address).to_string(),
            (AddressKind::Ipv4 | AddressKind::Arp, true) => format!("{}:{port}", ipv4(address)),
            (AddressKind::Ipv6, false) => Ipv6Addr::from_bits(address).to_string(),
            (AddressKind::Ipv6, true) => format!("[{}]:{port}", Ipv6Addr::from_bits(address)),
            (AddressKind::Mac, _) => mac(address).to_string(),
            (AddressKind::Opaque, _) => "frames of no known kind".to_owned(),
        };
        let (low, high) = (end(key.low, key.port_low), end(key.high, key.port_high));
        match (key.kind, key.protocol) {
            (AddressKind::Opaque, _) => f.write_str(&low),
            // Keys of senders, and of pairs of addresses.
            (_, 0) if key.high == 0 => write!(f, "all from {low}"),
            (_, 0) | (AddressKind::Mac | AddressKind::Arp, _) => write!(f, "{low} and {high}"),
            (_, protocol) => write!(f, "{low} and {high}, protocol {protocol}"),
        }
    }
}

fn ipv4(address: u128) -> Ipv4Addr {
    Ipv4Addr::from_bits(address as u32)
}

fn mac(address: u128) -> MacAddress {
    let [.., a, b, c, d, e, f] = address.to_be_bytes();
    MacAddress([a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use forebay_balance::balancer::{Outlook, Oversize};

    use super::*;

    fn load(packets: f64) -> Load {
        Load { packets, bits: packets * 1_000.0 }
    }

    fn words(event: &Event) -> String {
        in_words(event, |index| ["ids-1", "ids-2"][usize::from(index)])
    }

    #[test]
    fn a_bound_says_what_is_reached_and_why() {
        let outlook = Outlook {
            target: load(500.0),
            measured: load(960.0),
            expected: load(930.0),
            lasting: load(440.0),
        };
        let said = words(&Event::Bound { sensor: 1, outlook });
        for part in ["sensor ids-2", "960 packets/s", "500 packets/s", "440 packets/s"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_flow_too_big_for_any_sensor_is_named() {
        let ends = [("10.0.0.7", 40_000), ("192.0.2.1", 443)].map(|(address, port)| {
            (u128::from(address.parse::<Ipv4Addr>().unwrap().to_bits()), port)
        });
        let (key, _) = FlowKey::two_way(AddressKind::Ipv4, 6, ends[0], ends[1]);
        let key = FlowKey { has_ports: true, ..key };
        let oversize =
            Oversize { bucket: 77, load: load(9e6), dimension: Dimension::Bits, most: 1e9 };
        let said = words(&Event::Oversize { oversize, key: Some(key) });
        for part in
            ["77", "9000000000 bit/s", "1000000000 bit/s", "10.0.0.7:40000", "192.0.2.1:443"]
        {
            assert!(said.contains(part), "{said}");
        }
        assert!(!words(&Event::Oversize { oversize, key: None }).contains("protocol"));
    }

    #[test]
    fn ends_are_written_as_their_kind_is() {
        let key = |kind, has_ports| FlowKey {
            low: 0x0200_0000_0001,
            high: 0x0200_0000_0002,
            port_low: 5,
            port_high: 6,
            protocol: 17,
            kind,
            has_ports,
            ..FlowKey::default()
        };
        for (kind, has_ports, expected) in [
            (AddressKind::Ipv6, true, "[::200:0:1]:5 and [::200:0:2]:6, protocol 17"),
            (AddressKind::Ipv4, false, "0.0.0.1 and 0.0.0.2, protocol 17"),
            (AddressKind::Mac, false, "02:00:00:00:00:01 and 02:00:00:00:00:02"),
            (AddressKind::Opaque, false, "frames of no known kind"),
        ] {
            assert_eq!(Flow(key(kind, has_ports)).to_string(), expected);
        }
        let pair = key(AddressKind::Ipv4, false).address_pair();
        assert_eq!(Flow(pair).to_string(), "0.0.0.1 and 0.0.0.2");
        assert_eq!(Flow(pair.source(true)).to_string(), "all from 0.0.0.2");
    }
}
