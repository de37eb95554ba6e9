//! UDP datagrams larger than a frame, in fragments (RFC 791 section 3.2, RFC 8200 section
//! 4.5).
//!
//! Most datagrams arrive in order. For some the first fragment, the only one with the
//! ports, arrives last and later, and for others the fragments arrive in reverse. Fragments
//! are rendered one by one from the datagram's key; the checksum in the first covers all of
//! them and is computed when the datagram starts.

use super::context::{Context, MICROSECOND, MILLISECOND};
use crate::headers::{
    Direction, Fragment, InternetHeader, UDP_HEADER, fold, protocol, pseudo_header_sum, sum_words,
    write_udp,
};
use crate::path::Path;
use forebay_packet::random::{Random, fill_at};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Ascending,
    FirstLast,
    Descending,
}

/// A datagram of which fragments are left.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    header: InternetHeader,
    direction: Direction,
    key: u64,
    /// Bytes after the UDP header.
    payload: u16,
    checksum: u16,
    order: Order,
    count: u16,
    sent: u16,
}

/// A session of such datagrams.
#[derive(Debug)]
pub struct Datagrams {
    /// Bytes of a full fragment, a multiple of eight.
    unit: u16,
    current: Option<Datagram>,
}

/// Bytes of a fragment header of IPv6.
const FRAGMENT_HEADER: usize = 8;
const LARGEST: u64 = 16_000;
const SMALL: u16 = 120;

impl Datagrams {
    /// A session with a port of file or media servers.
    pub fn new(path: &mut Path, longest: usize, random: &mut Random) -> Self {
        path.ports[1] = if random.one_in(2) { 2049 } else { 5004 };
        let header = if path.is_ipv6() { FRAGMENT_HEADER } else { 0 };
        let unit = (path.transport_limit(longest) - header) as u16 & !7;
        Self { unit, current: None }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        if let Some(datagram) = self.current {
            return self.fragment(context, datagram);
        }
        if context.left == 1 || context.random.one_in(8) {
            let key = context.random.next();
            context.send_udp(Direction::ToServer, |room| {
                let len = usize::from(SMALL);
                fill_at(key, 0, &mut room[..len]);
                len
            });
            return context.about(context.round_trip);
        }
        let datagram = self.start(context);
        self.fragment(context, datagram)
    }

    /// A datagram of two fragments or more, at most the packets left.
    fn start(&self, context: &mut Context<'_>) -> Datagram {
        let unit = u64::from(self.unit);
        let least = unit + 64;
        let wanted = context.random.pareto(least, LARGEST.max(unit * 3));
        let len = wanted.min(u64::from(context.left) * unit);
        let payload = (len - UDP_HEADER as u64) as u16;
        let direction =
            if context.random.one_in(4) { Direction::ToServer } else { Direction::ToClient };
        let order = match context.random.below(10) {
            0 => Order::FirstLast,
            1 => Order::Descending,
            _ => Order::Ascending,
        };
        let mut header = context.path.header(direction, protocol::UDP);
        header.dont_fragment = false;
        let key = context.random.next();
        let checksum = checksum_of(&header, context.path.ports(direction), key, payload);
        let count = len.div_ceil(unit) as u16;
        Datagram { header, direction, key, payload, checksum, order, count, sent: 0 }
    }

    /// Sends the next fragment of a datagram.
    fn fragment(&mut self, context: &mut Context<'_>, mut datagram: Datagram) -> u64 {
        let (sent, count) = (datagram.sent, datagram.count);
        let index = match datagram.order {
            Order::Ascending => sent,
            Order::FirstLast => (sent + 1) % count,
            Order::Descending => count - 1 - sent,
        };
        let offset = index * self.unit;
        let total = datagram.payload + UDP_HEADER as u16;
        let len = usize::from(self.unit.min(total - offset));
        let mut header = datagram.header;
        header.fragment = Some(Fragment { offset, more: index + 1 < count });
        let ports = context.path.ports(datagram.direction);
        let encapsulation = &context.path.encapsulation;
        let room = context.frame.room(encapsulation, datagram.direction, &header);
        if index == 0 {
            write_udp(room, ports, usize::from(datagram.payload));
            room[6..8].copy_from_slice(&datagram.checksum.to_be_bytes());
            fill_at(datagram.key, 0, &mut room[UDP_HEADER..len]);
        } else {
            fill_at(datagram.key, u32::from(offset) - UDP_HEADER as u32, &mut room[..len]);
        }
        context.frame.seal(encapsulation, datagram.direction, &header, len);

        datagram.sent += 1;
        if datagram.sent == count {
            self.current = None;
            return context.pause();
        }
        self.current = Some(datagram);
        if datagram.order == Order::FirstLast && datagram.sent + 1 == count {
            return context.random.between(MILLISECOND, 3 * MILLISECOND);
        }
        context.random.between(10 * MICROSECOND, 40 * MICROSECOND)
    }
}

/// The UDP checksum of a whole datagram.
fn checksum_of(header: &InternetHeader, ports: [u16; 2], key: u64, payload: u16) -> u16 {
    let len = usize::from(payload) + UDP_HEADER;
    let mut chunk = [0; 1024];
    write_udp(&mut chunk, ports, usize::from(payload));
    let mut sum = pseudo_header_sum(header, len) + sum_words(&chunk[..UDP_HEADER]);
    let mut offset = 0;
    while offset < payload {
        let n = usize::from(payload - offset).min(chunk.len());
        fill_at(key, u32::from(offset), &mut chunk[..n]);
        sum += sum_words(&chunk[..n]);
        offset += n as u16;
    }
    match fold(sum) {
        0 => 0xffff,
        checksum => checksum,
    }
}
