//! The way of packets from a group to its sensors.

use forebay_packet::{Batch, LiveMask, Rewrites};

/// How the sensors of a group are reached, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// The output of each.
    pub outputs: Vec<usize>,
    /// What its frames look like.
    pub rewrites: Rewrites,
}

impl Route {
    /// The packets of a batch that go to an output; without a balancer they are all of the
    /// first sensor.
    pub(crate) fn packets_to(&self, output: usize, batch: &Batch) -> LiveMask {
        if batch.output.is_empty() {
            let here = self.outputs.first() == Some(&output);
            return if here { batch.live() } else { LiveMask::default() };
        }
        // Behind a switch all sensors are: then one comparison decides for many at once.
        let which = if self.outputs.iter().all(|one| *one == output) {
            let known = |sensor: u16| usize::from(sensor) < self.outputs.len();
            if batch.output.iter().fold(true, |all, &sensor| all & known(sensor)) {
                return batch.live();
            }
            LiveMask::of(&batch.output, known)
        } else {
            LiveMask::of(&batch.output, |sensor| {
                self.outputs.get(usize::from(sensor)) == Some(&output)
            })
        };
        batch.live().and(&which)
    }
}
