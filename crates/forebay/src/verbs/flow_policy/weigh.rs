//! The weights of packets by their classes.

use forebay_packet::Batch;
use forebay_pipeline::stages::ClassSelector;
use forebay_pipeline::{Outbox, Promises, Stage, StageError};

/// Weighs packets: the weight of the first class that a packet is of becomes its verdict, or 0
/// without such a class.
pub(super) struct Weigh {
    classes: Vec<(ClassSelector, u16)>,
    weights: Vec<u32>,
}

impl Weigh {
    pub(super) fn new(classes: Vec<(ClassSelector, u16)>) -> Self {
        Self { classes, weights: Vec::new() }
    }
}

/// The weight of a packet that was weighed.
pub(super) fn weight(batch: &Batch, i: usize) -> u16 {
    let weight = batch.verdict.get(i).copied().unwrap_or(0);
    u16::try_from(weight).unwrap_or(u16::MAX).max(1)
}

impl Stage for Weigh {
    fn name(&self) -> &'static str {
        "classes"
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        self.weights.clear();
        self.weights.resize(batch.len(), 0);
        let weights = &mut self.weights;
        for (selection, weight) in self.classes.iter_mut().rev() {
            let selected = selection.select(&mut batch)?;
            selected.iter().for_each(|i| weights[i] = u32::from(*weight));
        }
        batch.verdict.clone_from(&self.weights);
        out.emit(batch);
        Ok(())
    }
}
