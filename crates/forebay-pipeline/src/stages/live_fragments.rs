//! On a live link: sends every fragment of a datagram where its first fragment goes,
//! without holding any.
//!
//! Only the first fragment has ports. It is remembered under its datagram's name, for as
//! long as reassembly may take (RFC 791 recommends to give up after 15 s), and those
//! after it are of its flow. One that comes before it is steered by the datagram's name alone,
//! so that at least those are together, and is counted. The table has a fixed size; when
//! it is full the oldest datagram is forgotten, and nothing else is.

use std::collections::{HashMap, VecDeque};

use forebay_packet::fragment::{FragmentKey, FragmentNote, FragmentRole};
use forebay_packet::{Batch, FlowKey, HashKey, siphash13};

use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Stage, StageError};

/// Datagrams that are remembered by each worker.
pub const DATAGRAMS: usize = 1 << 14;

/// How long a datagram's name is good for, in nanoseconds.
const REASSEMBLY: u64 = 15_000_000_000;

/// What the fragments of a datagram share.
struct Datagram {
    hash: u64,
    key: FlowKey,
    reversed: bool,
    since: u64,
    /// Tells it from an earlier one of the same name.
    serial: u64,
}

/// Gives fragments the flow of their first.
pub struct LiveFragments {
    hash_key: HashKey,
    datagrams: HashMap<FragmentKey, Datagram>,
    /// The datagrams by age.
    order: VecDeque<(FragmentKey, u64)>,
    serial: u64,
    now: u64,
    joined: u64,
    before_first: u64,
    forgotten: u64,
}

impl LiveFragments {
    /// Hashes the names of datagrams with `hash_key`.
    #[must_use]
    pub fn new(hash_key: HashKey) -> Self {
        Self {
            hash_key,
            datagrams: HashMap::with_capacity(DATAGRAMS + 1),
            order: VecDeque::with_capacity(DATAGRAMS + 1),
            serial: 0,
            now: 0,
            joined: 0,
            before_first: 0,
            forgotten: 0,
        }
    }

    fn remember(&mut self, name: FragmentKey, batch: &Batch, i: usize) {
        // The classifier notes the flow of every fragment.
        let Some((key, reversed)) = batch.flow(i) else { return };
        let hash = batch.hash[i];
        self.serial += 1;
        let datagram = Datagram { hash, key, reversed, since: self.now, serial: self.serial };
        self.datagrams.insert(name, datagram);
        self.order.push_back((name, self.serial));
        if self.order.len() > DATAGRAMS
            && let Some((oldest, serial)) = self.order.pop_front()
        {
            self.forget(oldest, serial);
        }
    }

    /// Forgets a datagram, unless the name is another's by now.
    fn forget(&mut self, name: FragmentKey, serial: u64) {
        if self.datagrams.get(&name).is_some_and(|datagram| datagram.serial == serial) {
            self.forgotten += u64::from(!self.is_over(self.datagrams[&name].since));
            self.datagrams.remove(&name);
        }
    }

    fn is_over(&self, since: u64) -> bool {
        self.now.saturating_sub(since) > REASSEMBLY
    }

    /// Gives a fragment its datagram's flow, if that is known.
    fn join(&mut self, note: &FragmentNote, batch: &mut Batch) {
        let i = usize::from(note.packet);
        let known = self.datagrams.get(&note.key);
        match known.filter(|datagram| !self.is_over(datagram.since)) {
            Some(datagram) => {
                self.joined += 1;
                batch.hash[i] = datagram.hash;
                if note.role == FragmentRole::Later {
                    batch.set_flow(i, datagram.key, datagram.reversed);
                }
            }
            None => {
                self.before_first += 1;
                batch.hash[i] = self.hash_of(&note.key);
            }
        }
    }

    fn hash_of(&self, name: &FragmentKey) -> u64 {
        let halves = |address: u128| [address as u64, (address >> 64) as u64];
        let [source, source_high] = halves(name.source);
        let [destination, destination_high] = halves(name.destination);
        let rest = u64::from(name.id) | u64::from(name.protocol) << 32;
        let words = [source, source_high, destination, destination_high, rest, name.scope];
        siphash13(&self.hash_key, &words)
    }
}

impl Stage for LiveFragments {
    fn name(&self) -> &'static str {
        "fragments"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        // The notes are read while the batch is written.
        let notes = std::mem::take(&mut batch.fragments);
        for note in &notes {
            match note.role {
                FragmentRole::First => self.remember(note.key, &batch, usize::from(note.packet)),
                FragmentRole::Later | FragmentRole::Quoted => self.join(note, &mut batch),
            }
        }
        batch.fragments = notes;
        out.emit(batch);
        Ok(())
    }

    fn tick(&mut self, now: u64, _out: &mut Outbox) -> Result<(), StageError> {
        self.now = now;
        while let Some(&(name, serial)) = self.order.front() {
            let current = self.datagrams.get(&name).filter(|known| known.serial == serial);
            if current.is_some_and(|known| !self.is_over(known.since)) {
                break;
            }
            self.forget(name, serial);
            self.order.pop_front();
        }
        Ok(())
    }

    fn remarks(&self) -> Remarks {
        Remarks::from([
            ("fragments_joined", self.joined),
            ("fragments_before_first", self.before_first),
            ("datagrams_forgotten", self.forgotten),
        ])
    }
}
