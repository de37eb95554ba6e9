//! Gives data flows the hash of the control connection that announced them: FTP's transfers,
//! SIP's media.
//!
//! A data flow with its control connection's hash has its bucket and its record there, so
//! that both are at one sensor, also while the bucket moves: to whatever comes behind, they
//! are one flow. The hash is set before anything else looks at it.
//!
//! Whatever a control connection says is believed, so that it must not move a flow that runs.
//! A TCP connection is taken at its bare SYN to the announced end, which only the other host
//! sends: all of it has the hash, and one that runs already keeps its own. In a tunnel flags
//! are not looked at, and TCP data is not followed. UDP has no beginning that shows: its flow
//! is taken at its first packet after the announcement, also where it was running before.
//! What has been taken keeps its hash until it has paused, also when another connection
//! announces the same end.
//!
//! Only flows between the two addresses of the control connection are expected, from or to
//! the end that its sender announces for itself. All others could be on another worker, and
//! a hostile host could draw other hosts' flows to a sensor. They are counted.
//!
//! State is bounded: [`EXPECTED`] ends, and [`OF_ONE`] for one control connection. When
//! there are so many, further announcements are counted and not followed; none that is
//! followed is forgotten for them. An end at which nothing comes is forgotten after
//! [`WAIT`], one with packets when they have paused for the idle timeout. An announcement of
//! TCP is of one connection.

use std::collections::HashMap;
use std::net::IpAddr;

use forebay_balance::moves::TcpSignal;
use forebay_packet::announcement::{Announcement, ControlProtocol, announcements};
use forebay_packet::flow::AddressKind;
use forebay_packet::{Affinity, Batch, DecodeOptions, Decoder, FlowKey, LinkType};

use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Stage, StageError};

/// Ends that are expected at once.
pub const EXPECTED: usize = 1 << 14;

/// Ends that are expected at once on account of one control connection.
pub const OF_ONE: u32 = 1 << 10;

/// How long the first packet of an announced flow may take, in nanoseconds.
const WAIT: u64 = 60_000_000_000;

/// The shortest time between two sweeps for room.
const SWEEP: u64 = 1_000_000_000;

/// The number of the protocol.
const TCP: u8 = 6;

/// The most ports whose connections are read.
const MOST_PORTS: usize = 16;

/// Names and usual ports of protocols.
const PROTOCOLS: [(&str, ControlProtocol, u16); 2] =
    [("ftp", ControlProtocol::Ftp, 21), ("sip", ControlProtocol::Sip, 5060)];

/// The control connections that are read: protocols and their ports.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Follow(pub Vec<(ControlProtocol, u16)>);

impl Follow {
    /// Adds a protocol by its name, with a port if that is not the usual one: `ftp`,
    /// `sip:5061`.
    ///
    /// # Errors
    /// What was expected.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)),
            None => (text, Some(0)),
        };
        let known = PROTOCOLS.iter().find(|(known, ..)| *known == name);
        let (Some(&(_, protocol, usual)), Some(port)) = (known, port) else {
            return Err(format!("`{text}`: expected ftp, sip, ftp:PORT or sip:PORT"));
        };
        if self.0.len() == MOST_PORTS {
            return Err(format!("`{text}`: expected at most {MOST_PORTS} ports"));
        }
        self.0.push((protocol, if port == 0 { usual } else { port }));
        Ok(())
    }

    /// The protocol of a control connection, if a flow is one.
    #[must_use]
    pub fn control(&self, key: &FlowKey) -> Option<ControlProtocol> {
        let is_it = |&&(protocol, port): &&(ControlProtocol, u16)| {
            key.has_ports
                && (key.port_low == port || key.port_high == port)
                && protocol.is_over(key.protocol)
        };
        self.0.iter().find(is_it).map(|&(protocol, _)| protocol)
    }
}

/// Where time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The packets' time stamps; a flow that has begun is never over, but where it has paused
    /// for `WAIT` another connection may announce its end.
    Capture,
    /// The monotonic clock; a flow is over when it has paused for so many nanoseconds.
    Live {
        /// The idle timeout.
        idle: u64,
    },
}

/// An end that a control connection announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    kind: AddressKind,
    protocol: u8,
    port: u16,
    address: u128,
    /// Who talks to it.
    peer: u128,
    /// From where a TCP connection comes that was taken; 0 before, and for UDP.
    peer_port: u16,
    scope: u64,
}

/// What is expected at an end.
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// The control connection's.
    hash: u64,
    until: u64,
    is_met: bool,
}

impl Expected {
    /// Whether its time is not over.
    fn stays(&self, timing: Timing, now: u64) -> bool {
        self.until >= now || (timing == Timing::Capture && self.is_met)
    }
}

/// Counts of what became of announcements.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    expected: u64,
    met: u64,
    packets: u64,
    elsewhere: u64,
    refused: u64,
}

/// Reads control connections, and marks the packets of the flows that they announce.
pub struct Expectations {
    follow: Follow,
    decoder: Decoder,
    timing: Timing,
    ends: HashMap<End, Expected>,
    /// Ends on account of each control connection, by its hash.
    of_one: HashMap<u64, u32>,
    now: u64,
    swept: u64,
    counts: Counts,
}

impl Expectations {
    /// Reads the control connections of `follow`; `options` are those of the classifier.
    #[must_use]
    pub fn new(follow: Follow, options: DecodeOptions, timing: Timing) -> Self {
        Self {
            follow,
            decoder: Decoder::new(DecodeOptions { affinity: Affinity::FiveTuple, ..options }),
            timing,
            ends: HashMap::new(),
            of_one: HashMap::new(),
            now: 0,
            swept: 0,
            counts: Counts::default(),
        }
    }

    /// The flow that a packet is of, or the one that it quotes; and whether the packet goes
    /// from its high end to its low end.
    fn flow_of(&self, batch: &Batch, i: usize) -> (FlowKey, bool) {
        let (link, packet) = (batch.interface(i).link, batch.packet(i));
        let plain = (link == LinkType::ETHERNET).then(|| self.decoder.decode_plain(packet));
        match plain.flatten() {
            Some(plain) => (plain.affinity, plain.reversed),
            None => {
                let decoded = self.decoder.decode(link, packet);
                (decoded.affinity, decoded.reversed)
            }
        }
    }

    fn look_at(&mut self, batch: &mut Batch, i: usize) {
        if self.timing == Timing::Capture {
            self.now = self.now.max(u64::try_from(batch.nanos(i)).unwrap_or(0));
        }
        let (key, reversed) = self.flow_of(batch, i);
        if !key.has_ports || !matches!(key.kind, AddressKind::Ipv4 | AddressKind::Ipv6) {
            return;
        }
        if let Some(protocol) = self.follow.control(&key) {
            self.read(protocol, batch, i);
        } else if !self.ends.is_empty()
            && let Some(hash) = self.hash_for(&key, reversed, batch, i)
        {
            batch.hash[i] = hash;
            batch.rehashed.insert(i);
        }
    }

    /// Takes in what a packet of a control connection announces.
    fn read(&mut self, protocol: ControlProtocol, batch: &Batch, i: usize) {
        let (link, packet) = (batch.interface(i).link, batch.packet(i));
        let (decoded, payload) = self.decoder.decode_with_payload(link, packet);
        // An error that quotes such a packet carries none.
        let Some(payload) = payload.filter(|payload| !payload.is_empty()) else { return };
        let key = decoded.key;
        let (sender, receiver) =
            if decoded.reversed { (key.high, key.low) } else { (key.low, key.high) };
        for one in announcements(protocol, payload) {
            self.expect(&one, &key, sender, receiver, batch.hash[i]);
        }
    }

    fn expect(
        &mut self,
        one: &Announcement,
        control: &FlowKey,
        sender: u128,
        receiver: u128,
        hash: u64,
    ) {
        let known = match one.address {
            None => (control.kind, sender),
            Some(IpAddr::V4(address)) => (AddressKind::Ipv4, u32::from(address).into()),
            Some(IpAddr::V6(address)) => (AddressKind::Ipv6, address.into()),
        };
        if known != (control.kind, sender) {
            self.counts.elsewhere += 1;
            return;
        }
        let end = End {
            kind: control.kind,
            protocol: one.transport,
            port: one.port,
            address: sender,
            peer: receiver,
            peer_port: 0,
            scope: control.scope,
        };
        if let Some(known) = self.current(&end).filter(|known| known.hash == hash) {
            // Said again: a flow that goes on keeps its sensor, and one to come has time.
            let until = known.until.max(self.now.saturating_add(WAIT));
            self.ends.insert(end, Expected { until, ..known });
            return;
        }
        // What another connection announced there stays while packets come.
        if self.ends.get(&end).is_some_and(|known| known.is_met && known.until >= self.now) {
            self.counts.refused += 1;
            return;
        }
        self.forget(&end);
        if self.ends.len() >= EXPECTED {
            self.sweep();
        }
        let of_one = self.of_one.get(&hash).copied().unwrap_or(0);
        if self.ends.len() >= EXPECTED || of_one >= OF_ONE {
            self.counts.refused += 1;
            return;
        }
        let until = self.now.saturating_add(WAIT);
        self.of_one.insert(hash, of_one + 1);
        self.ends.insert(end, Expected { hash, until, is_met: false });
        self.counts.expected += 1;
    }

    /// What is expected at an end, if its time is not over.
    fn current(&self, end: &End) -> Option<Expected> {
        self.ends.get(end).filter(|known| known.stays(self.timing, self.now)).copied()
    }

    fn forget(&mut self, end: &End) {
        if let Some(known) = self.ends.remove(end) {
            release(&mut self.of_one, known.hash);
        }
    }

    /// Removes all whose time is over; not too often, since it visits each.
    fn sweep(&mut self) {
        if self.now.saturating_sub(self.swept) < SWEEP {
            return;
        }
        self.swept = self.now;
        let Self { ends, of_one, now, timing, .. } = self;
        ends.retain(|_, known| {
            let stays = known.stays(*timing, *now);
            if !stays {
                release(of_one, known.hash);
            }
            stays
        });
    }

    /// The hash of the control connection that announced a flow, of which packet `i` is.
    fn hash_for(&mut self, key: &FlowKey, reversed: bool, batch: &Batch, i: usize) -> Option<u64> {
        let end = |(address, port): (u128, u16), (peer, peer_port): (u128, u16)| End {
            kind: key.kind,
            protocol: key.protocol,
            port,
            address,
            peer,
            peer_port: if key.protocol == TCP { peer_port } else { 0 },
            scope: key.scope,
        };
        let (low, high) = ((key.low, key.port_low), (key.high, key.port_high));
        let ends = [end(low, high), end(high, low)];
        if key.protocol == TCP {
            self.take(ends[usize::from(!reversed)], batch, i);
        }
        let (end, known) = ends.into_iter().find_map(|end| Some((end, self.current(&end)?)))?;
        let pause = match self.timing {
            Timing::Capture => WAIT,
            Timing::Live { idle } => idle,
        };
        let until = known.until.max(self.now.saturating_add(pause));
        self.counts.met += u64::from(!known.is_met);
        self.counts.packets += 1;
        self.ends.insert(end, Expected { until, is_met: true, ..known });
        Some(known.hash)
    }

    /// Takes the TCP connection that packet `i` begins at `to`, if one is expected there.
    fn take(&mut self, to: End, batch: &Batch, i: usize) {
        let announced = End { peer_port: 0, ..to };
        let Some(known) = self.current(&announced) else { return };
        let decoded = self.decoder.decode(batch.interface(i).link, batch.packet(i));
        let signal = decoded.tcp_flags.map(|flags| TcpSignal::of_flags(flags, false));
        if signal == Some(TcpSignal::BareSyn) {
            // What used the same ports before is over.
            self.forget(&to);
            self.ends.remove(&announced);
            self.ends.insert(to, known);
        }
    }
}

/// An end fewer on account of a control connection.
fn release(of_one: &mut HashMap<u64, u32>, hash: u64) {
    if let Some(ends) = of_one.get_mut(&hash) {
        *ends -= 1;
        if *ends == 0 {
            of_one.remove(&hash);
        }
    }
}

impl Stage for Expectations {
    fn name(&self) -> &'static str {
        "expectations"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        for i in batch.live().iter() {
            self.look_at(&mut batch, i);
        }
        out.emit(batch);
        Ok(())
    }

    fn tick(&mut self, now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        if let Timing::Live { .. } = self.timing {
            self.now = self.now.max(now);
            self.sweep();
        }
        Ok(())
    }

    fn remarks(&self) -> Remarks {
        let Counts { expected, met, packets, elsewhere, refused } = self.counts;
        Remarks::from([
            ("data_flows_expected", expected),
            ("data_flows_followed", met),
            ("data_packets_followed", packets),
            ("data_flows_elsewhere", elsewhere),
            ("data_flows_refused", refused),
        ])
    }
}
