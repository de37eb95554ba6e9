//! Finds each packet's flow.

use forebay_packet::decode::{Fragment, FragmentNote, Outcome};
use forebay_packet::{Batch, Decoder, FlowKey, HashKey, LinkType};

use crate::stage::{Outbox, Promises, Stage, StageError};

/// Decodes headers; sets each packet's flow, hash and notes on fragments.
pub struct Classify {
    decoder: Decoder,
    hash_key: HashKey,
    unknown_link: u64,
    not_ip: u64,
    cut: u64,
}

impl Classify {
    /// Decodes with `decoder`, hashes with `hash_key`.
    #[must_use]
    pub fn new(decoder: Decoder, hash_key: HashKey) -> Self {
        Self { decoder, hash_key, unknown_link: 0, not_ip: 0, cut: 0 }
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
        let n = batch.len();
        batch.hash.clear();
        batch.hash.resize(n, 0);
        batch.key.clear();
        batch.key.resize(n, FlowKey::default());
        batch.reversed.clear();
        batch.reversed.resize(n, false);
        batch.fragments.clear();
        for i in batch.live().iter() {
            if batch.interface(i).link == LinkType::ETHERNET
                && let Some(plain) = self.decoder.decode_plain(batch.packet(i))
            {
                batch.key[i] = plain.key;
                batch.reversed[i] = plain.reversed;
                batch.hash[i] = plain.affinity.hash(&self.hash_key);
                continue;
            }
            let decoded = self.decoder.decode(batch.interface(i).link, batch.packet(i));
            match decoded.outcome {
                Outcome::UnknownLink => self.unknown_link += 1,
                Outcome::NotIp => self.not_ip += 1,
                Outcome::Cut => self.cut += 1,
                Outcome::Arp | Outcome::Ip | Outcome::LaterFragment => {}
            }
            batch.key[i] = decoded.key;
            batch.reversed[i] = decoded.reversed;
            batch.hash[i] = decoded.affinity.hash(&self.hash_key);
            for Fragment { role, key, span } in decoded.fragments.into_iter().flatten() {
                batch.fragments.push(FragmentNote { packet: i as u16, role, key, span });
            }
        }
        out.emit(batch);
        Ok(())
    }

    fn remarks(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("unknown_link_type", self.unknown_link),
            ("not_ip", self.not_ip),
            ("headers_cut", self.cut),
        ]
    }
}
