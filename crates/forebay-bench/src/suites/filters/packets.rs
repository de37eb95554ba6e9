//! Packets as the engines get them.

use forebay_jit::Packets;
use forebay_packet::Region;

/// Columns that describe packets in a memory: offset, captured bytes, and bytes on the wire.
#[derive(Clone, Debug, Default)]
pub struct Descriptors(pub [Vec<u32>; 3]);

impl Descriptors {
    pub fn len(&self) -> usize {
        self.0[0].len()
    }

    pub fn push(&mut self, values: [u32; 3]) {
        self.0.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }

    /// The packets that `order` names, in that order.
    pub fn pick(&self, order: &[u32]) -> Self {
        let picked = |column: &Vec<u32>| order.iter().map(|&i| column[i as usize]).collect();
        Self(self.0.each_ref().map(picked))
    }

    /// The packets in `memory`. That all lie inside it is checked here, outside of what is
    /// timed, and engines rely on it.
    ///
    /// # Panics
    /// When one lies outside: a mistake of the suite.
    pub fn packets<'a>(&'a self, memory: &'a Region) -> Packets<'a> {
        let [offset, cap_len, wire_len] = &self.0;
        match Packets::in_region(memory, offset, cap_len, wire_len) {
            Ok(packets) => packets,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A filter of one expression, made by one of the compilers or interpreters.
pub trait Engine {
    /// Does what a receiver would have done before the filter runs; not timed.
    fn prepare(&mut self, _packets: &Packets<'_>) {}

    /// Filters packets, of which the first is number `first` of those that were prepared.
    /// `verdict` has as many places as there are packets.
    fn run(&mut self, packets: &Packets<'_>, first: usize, verdict: &mut [u32]);
}
