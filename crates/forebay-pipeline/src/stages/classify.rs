//! Finds each packet's flow.

use std::mem;

use forebay_packet::decode::DecodeOutcome;
use forebay_packet::fragment::{Fragment, FragmentNote};
use forebay_packet::{Batch, Decoder, FlowKey, HashKey, Interface, LinkType, LiveMask, SimdLevel};

use crate::optional::GroupStages;
use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Settings, Stage, StageError};

/// Decodes headers; sets each packet's flow, hash and notes on fragments.
pub struct Classify {
    decoder: Decoder,
    hash_key: HashKey,
    /// How plain packets are hashed, where their hashes are needed.
    lanes: Option<SimdLevel>,
    /// Keys are kept whatever stages there are.
    keeps_keys: bool,
    /// A stage needs keys.
    stages_need_keys: bool,
    unknown_link: u64,
    not_ip: u64,
    cut: u64,
    /// Packets by the header that ended the walk.
    undecoded: Remarks,
}

impl Classify {
    /// Decodes with `decoder`, hashes with `hash_key`.
    #[must_use]
    pub fn new(decoder: Decoder, hash_key: HashKey) -> Self {
        Self {
            decoder,
            hash_key,
            lanes: Some(SimdLevel::fastest()),
            keeps_keys: true,
            stages_need_keys: false,
            unknown_link: 0,
            not_ip: 0,
            cut: 0,
            undecoded: Remarks::default(),
        }
    }

    /// As [`Classify::new`], and keeps no keys but those of fragments, unless [`GroupStages`] have
    /// a stage that needs them: whoever wants to know another packet's flow decodes it again.
    #[must_use]
    pub fn hashing(decoder: Decoder, hash_key: HashKey) -> Self {
        Self { keeps_keys: false, ..Self::new(decoder, hash_key) }
    }

    /// As [`Classify::new`], for a chain that uses no hash: those of most packets are 0.
    #[must_use]
    pub fn with_keys_only(decoder: Decoder) -> Self {
        Self { lanes: None, ..Self::new(decoder, HashKey::OFFLINE) }
    }

    /// Flow, hash and notes of a packet, whatever it is.
    fn decode(&mut self, batch: &mut Batch, i: usize) {
        let decoded = self.decoder.decode(batch.interface(i).link, batch.packet(i));
        match decoded.outcome {
            DecodeOutcome::UnknownLink => self.unknown_link += 1,
            DecodeOutcome::NotIp => self.not_ip += 1,
            DecodeOutcome::Cut => self.cut += 1,
            DecodeOutcome::Arp | DecodeOutcome::Ip | DecodeOutcome::LaterFragment => {}
        }
        if let Some(what) = decoded.undecoded {
            self.undecoded.count_undecoded(what);
        }
        batch.hash[i] = decoded.affinity.hash(&self.hash_key);
        if !batch.key.is_empty() || decoded.fragments[0].is_some() {
            batch.set_flow(i, decoded.key, decoded.reversed);
            if let (Some(column), Some(flags)) = (batch.tcp_flags.get_mut(i), decoded.tcp_flags) {
                *column = flags;
            }
        }
        for Fragment { role, key, span } in decoded.fragments.into_iter().flatten() {
            batch.fragments.push(FragmentNote { packet: i as u16, role, key, span });
        }
    }

    /// Sets the keys of plain packets, and returns which these are.
    fn keys_of_plain(&self, batch: &mut Batch) -> LiveMask {
        let mut plain = LiveMask::default();
        let packets = batch.len();
        batch.hash.resize(packets, 0);
        // Out of the batch while its packets are borrowed.
        let mut key = mem::take(&mut batch.key);
        let mut reversed = mem::take(&mut batch.reversed);
        let mut tcp_flags = mem::take(&mut batch.tcp_flags);
        key.resize(packets, FlowKey::default());
        reversed.resize(packets, false);
        tcp_flags.resize(packets, 0);
        let link = |one: &Interface| one.link == LinkType::ETHERNET;
        if batch.interfaces().iter().all(link) {
            let frames = batch.frames();
            batch.live().iter().for_each(|i| {
                let Some(found) = self.decoder.decode_plain(frames.get(i)) else { return };
                key[i] = found.key;
                reversed[i] = found.reversed;
                tcp_flags[i] = found.tcp_flags.unwrap_or(0);
                plain.insert(i);
            });
        }
        (batch.key, batch.reversed, batch.tcp_flags) = (key, reversed, tcp_flags);
        plain
    }
}

impl Stage for Classify {
    fn name(&self) -> &'static str {
        "classify"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        batch.fragments.clear();
        batch.clear_flows();
        let lanes =
            self.lanes.map(|lanes| self.decoder.hash_plain(lanes, &self.hash_key, &mut batch));
        let plain = if self.keeps_keys || self.stages_need_keys {
            let keyed = self.keys_of_plain(&mut batch);
            lanes.map_or(keyed, |hashed| hashed.and(&keyed))
        } else {
            lanes.unwrap_or_default()
        };
        batch.live().without(&plain).iter().for_each(|i| self.decode(&mut batch, i));
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(stages) = settings.get::<GroupStages>() {
            self.stages_need_keys = stages.need_keys();
        }
    }

    fn remarks(&self) -> Remarks {
        let mut remarks = Remarks::from([
            ("unknown_link_type", self.unknown_link),
            ("not_ip", self.not_ip),
            ("headers_cut", self.cut),
        ]);
        remarks.add(&self.undecoded);
        remarks
    }
}
