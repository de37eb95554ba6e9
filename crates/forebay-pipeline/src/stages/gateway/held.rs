//! Packets that wait: those of a flow are a string of bytes over a chain of blocks.
//!
//! All blocks are of one size and in one piece of memory, so that flows of any length share it
//! without gaps, and a packet that waits costs two copies and no allocation. Blocks that were given
//! back last are used first: they are in the cache.

/// Bytes of a block. Most flows are short: a longer block would be empty for its larger part.
const BLOCK: usize = 512;

/// No block.
const NONE: u32 = u32::MAX;

/// Bytes of a packet's header in a chain.
const HEADER: usize = 36;

/// Packets of one flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    /// Bytes of the last block that are used.
    used: u32,
    blocks: u32,
    pub packets: u32,
}

/// What is kept of a packet besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldPacket {
    pub ticks: u64,
    pub hash: u64,
    /// Its place among those that came to the stage.
    pub number: u64,
    pub cap_len: u32,
    pub wire_len: u32,
    pub interface: u16,
    pub tcp_flags: u8,
    pub reversed: bool,
    pub rehashed: bool,
}

/// The blocks.
pub(super) struct HeldPackets {
    /// Those that were ever used; room for all is there from the first on.
    memory: Vec<u8>,
    most_blocks: u32,
    /// The block behind each one in its chain, of those that were ever used.
    next: Vec<u32>,
    free: u32,
    free_blocks: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self { first: NONE, last: NONE, used: 0, blocks: 0, packets: 0 }
    }
}

impl Chain {
    /// The memory it takes, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK as u64
    }

    /// The memory it takes with a packet more.
    pub(super) fn bytes_with(&self, cap_len: usize) -> u64 {
        self.bytes() + u64::from(self.more(HEADER + cap_len)) * BLOCK as u64
    }

    /// The blocks that `bytes` more take.
    fn more(&self, bytes: usize) -> u32 {
        let room = if self.blocks == 0 { 0 } else { BLOCK - self.used as usize };
        bytes.saturating_sub(room).div_ceil(BLOCK) as u32
    }
}

impl HeldPacket {
    fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.ticks.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.hash.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.cap_len.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.wire_len.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.interface.to_le_bytes());
        bytes[26] = self.tcp_flags;
        bytes[27] = u8::from(self.reversed) | u8::from(self.rehashed) << 1;
        bytes[28..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEADER]) -> Self {
        let part = |start: usize| bytes[start..].first_chunk();
        Self {
            ticks: part(0).map_or(0, |part| u64::from_le_bytes(*part)),
            hash: part(8).map_or(0, |part| u64::from_le_bytes(*part)),
            number: part(28).map_or(0, |part| u64::from_le_bytes(*part)),
            cap_len: bytes[16..].first_chunk().map_or(0, |part| u32::from_le_bytes(*part)),
            wire_len: bytes[20..].first_chunk().map_or(0, |part| u32::from_le_bytes(*part)),
            interface: bytes[24..].first_chunk().map_or(0, |part| u16::from_le_bytes(*part)),
            tcp_flags: bytes[26],
            reversed: bytes[27] & 1 != 0,
            rehashed: bytes[27] & 2 != 0,
        }
    }
}

impl HeldPackets {
    /// Memory of at most `bytes`. It is taken when the first packet waits.
    pub(super) fn new(bytes: usize) -> Self {
        let most_blocks = Self::most_blocks(bytes) as u32;
        Self { memory: Vec::new(), most_blocks, next: Vec::new(), free: NONE, free_blocks: 0 }
    }

    /// The most chains that have packets, with memory of `bytes`.
    pub(super) fn most_blocks(bytes: usize) -> usize {
        (bytes / BLOCK).min(NONE as usize - 1)
    }

    /// The most bytes that it takes with memory of `bytes`: twice as much for a moment, when all goes
    /// on.
    pub(super) fn most_bytes(bytes: usize) -> u64 {
        (2 * bytes + bytes / BLOCK * size_of::<u32>()) as u64
    }

    /// Has memory of at most `bytes`, which are more, from now on. Returns false, and changes nothing, if
    /// the system has no memory.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let most_blocks = Self::most_blocks(bytes) as u32;
        let is_there = self.memory.capacity() == 0 || self.reserve(most_blocks);
        if is_there {
            self.most_blocks = most_blocks;
        }
        is_there
    }

    /// Takes the memory for so many blocks.
    fn reserve(&mut self, blocks: u32) -> bool {
        let more = blocks as usize - self.next.len();
        self.memory.try_reserve_exact(more * BLOCK).is_ok()
            && self.next.try_reserve_exact(more).is_ok()
    }

    /// Whether a packet of so many bytes has room at the end of a chain.
    pub(super) fn has_room(&self, chain: &Chain, cap_len: usize) -> bool {
        let unused = self.most_blocks - self.next.len() as u32;
        chain.more(HEADER + cap_len) <= self.free_blocks + unused
    }

    /// Takes a packet, for which there is room, at the end of a chain. Returns false, and takes
    /// nothing, if the system has no memory.
    pub(super) fn push(&mut self, chain: &mut Chain, packet: HeldPacket, bytes: &[u8]) -> bool {
        if self.memory.capacity() == 0 && !self.reserve(self.most_blocks) {
            self.memory = Vec::new();
            return false;
        }
        self.append(chain, &packet.to_bytes());
        self.append(chain, bytes);
        chain.packets += 1;
        true
    }

    fn append(&mut self, chain: &mut Chain, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if chain.blocks == 0 || chain.used as usize == BLOCK {
                let block = match self.free {
                    NONE => {
                        self.next.push(NONE);
                        self.memory.resize(self.next.len() * BLOCK, 0);
                        self.next.len() as u32 - 1
                    }
                    block => {
                        self.free = self.next[block as usize];
                        self.free_blocks -= 1;
                        self.next[block as usize] = NONE;
                        block
                    }
                };
                match chain.blocks {
                    0 => chain.first = block,
                    _ => self.next[chain.last as usize] = block,
                }
                (chain.last, chain.used) = (block, 0);
                chain.blocks += 1;
            }
            let len = bytes.len().min(BLOCK - chain.used as usize);
            let at = chain.last as usize * BLOCK + chain.used as usize;
            self.memory[at..at + len].copy_from_slice(&bytes[..len]);
            bytes = &bytes[len..];
            chain.used += len as u32;
        }
    }

    /// Gives a chain back, without its packets.
    pub(super) fn clear(&mut self, chain: &mut Chain) {
        if chain.blocks > 0 {
            self.next[chain.last as usize] = self.free;
            self.free = chain.first;
            self.free_blocks += chain.blocks;
        }
        *chain = Chain::default();
    }

    /// The packets of a chain, from the first.
    pub(super) fn read(&self, chain: &Chain) -> Reader<'_> {
        Reader { held: self, block: chain.first, at: 0, packets: chain.packets }
    }
}

/// Reads a chain.
pub(super) struct Reader<'a> {
    held: &'a HeldPackets,
    block: u32,
    at: usize,
    packets: u32,
}

impl Reader<'_> {
    /// Packets that were not read yet.
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    /// The next packet. Its bytes are read next.
    pub(super) fn next_packet(&mut self) -> Option<HeldPacket> {
        self.packets = self.packets.checked_sub(1)?;
        let mut header = [0; HEADER];
        self.take(&mut header);
        Some(HeldPacket::from_bytes(&header))
    }

    /// Reads so many bytes as there is room for.
    pub(super) fn take(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            if self.at == BLOCK {
                (self.block, self.at) = (self.held.next[self.block as usize], 0);
            }
            let len = to.len().min(BLOCK - self.at);
            let start = self.block as usize * BLOCK + self.at;
            to[..len].copy_from_slice(&self.held.memory[start..start + len]);
            to = &mut to[len..];
            self.at += len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(i: usize, len: usize) -> (HeldPacket, Vec<u8>) {
        let held = HeldPacket {
            ticks: i as u64 * 7,
            hash: !(i as u64),
            number: i as u64 * 3,
            cap_len: len as u32,
            wire_len: len as u32 + 4,
            interface: i as u16 % 3,
            tcp_flags: i as u8,
            reversed: i.is_multiple_of(2),
            rehashed: i.is_multiple_of(3),
        };
        (held, (0..len).map(|at| (at * 31 + i) as u8).collect())
    }

    fn all(held: &HeldPackets, chain: &Chain) -> Vec<(HeldPacket, Vec<u8>)> {
        let mut reader = held.read(chain);
        let mut packets = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let mut bytes = vec![0; packet.cap_len as usize];
            reader.take(&mut bytes);
            packets.push((packet, bytes));
        }
        packets
    }

    #[test]
    fn packets_of_all_lengths_come_back_in_order_and_blocks_are_used_again() {
        let mut held = HeldPackets::new(200 * BLOCK);
        for round in 0..50 {
            let mut chains = [Chain::default(); 3];
            let mut expected = [const { Vec::new() }; 3];
            for i in 0.. {
                let (one, len) = (i % 3, (i * 97 + round * 13) % 1_700);
                let (packet, bytes) = packet(i, len);
                if !held.has_room(&chains[one], len) {
                    assert!(i > 90, "{i}");
                    break;
                }
                assert!(held.push(&mut chains[one], packet, &bytes));
                expected[one].push((packet, bytes));
            }
            let blocks: u32 = chains.iter().map(|chain| chain.blocks).sum();
            assert!((190..=200).contains(&blocks), "{blocks}");
            for (chain, expected) in chains.iter_mut().zip(&expected) {
                assert_eq!(&all(&held, chain), expected);
                held.clear(chain);
            }
            assert_eq!(held.free_blocks as usize, held.next.len());
        }
        assert!(held.next.len() <= 200);
    }

    #[test]
    fn packets_stay_where_they_are_when_memory_grows() {
        let mut held = HeldPackets::new(4 * BLOCK);
        let mut chain = Chain::default();
        let mut expected = Vec::new();
        for blocks in [4, 8, 100] {
            assert!(held.grow(blocks * BLOCK));
            while held.has_room(&chain, 700) {
                let (packet, bytes) = packet(expected.len(), 700);
                assert!(held.push(&mut chain, packet, &bytes));
                expected.push((packet, bytes));
            }
            assert!((blocks - 1..=blocks).contains(&(chain.blocks as usize)), "{chain:?}");
        }
        assert_eq!(all(&held, &chain), expected);
    }

    #[test]
    fn a_packet_that_fits_exactly_takes_no_further_block() {
        let mut held = HeldPackets::new(2 * BLOCK);
        let mut chain = Chain::default();
        let len = 2 * BLOCK - HEADER;
        assert!(!held.has_room(&chain, len + 1) && held.has_room(&chain, len));
        let (packet, bytes) = packet(1, len);
        assert!(held.push(&mut chain, packet, &bytes));
        assert_eq!((chain.blocks, chain.bytes_with(0)), (2, 3 * BLOCK as u64));
        assert!(!held.has_room(&chain, 0));
        assert_eq!(all(&held, &chain), [(packet, bytes)]);
    }
}
