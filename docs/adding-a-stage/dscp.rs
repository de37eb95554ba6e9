//! Counts packets by the code point of differentiated services (RFC 2474), in the outermost
//! IP header. The names are those of the IANA registry.

use std::sync::Arc;

use forebay_packet::Batch;
use forebay_packet::decode::ip_packet;

use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::remarks::Remarks;
use crate::stage::{Outbox, Promises, Settings, Stage, StageError};

/// The key `count_dscp`.
pub(super) const STAGE: OptionalStage = OptionalStage {
    key: "count_dscp",
    help: "Counts packets by DSCP, in the remarks of `ctl status` and of the metrics.",
    example: "true",
    place: Place::BehindFilter,
    needs: &[],
    keys: false,
    read: |value| match value.as_bool() {
        Some(true) => Ok(Arc::new(CountDscp)),
        _ => Err("expected true; leave the key out for no counting".into()),
    },
};

/// The code points that the registry names, and the name of each.
const NAMED: [(u8, &str); 23] = [
    (0, "dscp_cs0"),
    (1, "dscp_le"),
    (8, "dscp_cs1"),
    (10, "dscp_af11"),
    (12, "dscp_af12"),
    (14, "dscp_af13"),
    (16, "dscp_cs2"),
    (18, "dscp_af21"),
    (20, "dscp_af22"),
    (22, "dscp_af23"),
    (24, "dscp_cs3"),
    (26, "dscp_af31"),
    (28, "dscp_af32"),
    (30, "dscp_af33"),
    (32, "dscp_cs4"),
    (34, "dscp_af41"),
    (36, "dscp_af42"),
    (38, "dscp_af43"),
    (40, "dscp_cs5"),
    (44, "dscp_voice_admit"),
    (46, "dscp_ef"),
    (48, "dscp_cs6"),
    (56, "dscp_cs7"),
];

#[derive(Debug)]
struct CountDscp;

impl StageConfig for CountDscp {
    fn build(&self, _: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Dscp { packets: [0; 64] }))
    }

    fn settings(&self) -> Settings {
        Settings::new()
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Dscp>() as u64
    }
}

struct Dscp {
    /// Packets by code point.
    packets: [u64; 64],
}

impl Stage for Dscp {
    fn name(&self) -> &'static str {
        "dscp"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        for i in batch.live().iter() {
            let ip = ip_packet(batch.interface(i).link, batch.packet(i));
            let Some(&[first, second, ..]) = ip.map(|ip| ip.bytes()) else { continue };
            // Type of service, or traffic class: the code point is the upper six bits.
            let class = if first >> 4 == 6 { first << 4 | second >> 4 } else { second };
            self.packets[usize::from(class >> 2)] += 1;
        }
        out.emit(batch);
        Ok(())
    }

    fn remarks(&self) -> Remarks {
        let named = NAMED.map(|(code, name)| (name, self.packets[usize::from(code)]));
        let mut remarks = Remarks::from(named);
        let known: u64 = named.iter().map(|(_, packets)| packets).sum();
        let unnamed = self.packets.iter().sum::<u64>() - known;
        remarks.add(&Remarks::from([("dscp_unnamed", unnamed)]));
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_flows::SharedFlows;
    use forebay_gen::{Config, Generator};
    use forebay_packet::HashKey;

    #[test]
    fn packets_are_counted_by_code_point() {
        let parts = StageParts { hash_key: HashKey([1, 2]), flows: SharedFlows::default() };
        let mut stage = (STAGE.read)(&true.into()).unwrap().build(&parts).unwrap();
        let config = Config { packets: 500, flows: 20, ..Config::default() };
        let mut packets = Generator::new(config).unwrap();
        let mut out = Outbox::default();
        while let Some(batch) = packets.next_batch().unwrap() {
            stage.process(batch, &mut out).unwrap();
        }
        let passed: usize = out.batches.iter().map(|batch| batch.live().iter().count()).sum();
        assert_eq!((passed, stage.remarks().get("dscp_cs0")), (500, 500));
        assert!((STAGE.read)(&5.into()).is_err());
    }
}
