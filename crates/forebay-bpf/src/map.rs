//! Maps: memory shared by BPF programs and this process.
//!
//! [`SharedMemory`] is one long value that programs address directly and that is mapped
//! into this process: for tables that are read for every packet, and counters, without
//! system calls on either side. [`HashMap`] is a bounded map by key. [`DeviceMap`] and
//! [`SocketMap`] are the targets of redirected frames.
//!
//! A counter has one writer, since each processor has its own counters ([`processors`]);
//! readers sum them up. Words are always read and written as a whole.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

use crate::error::BpfError;
use crate::sys::layout::Layout;
use crate::sys::{MapKind, MapLayout, Mapping, OwnMemory, RawMap};

/// A value of fixed length in a map.
pub trait Plain: Sized {
    /// Its bytes, as BPF programs access them.
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Copy;
    /// All bytes zero.
    const ZERO: Self::Bytes;
    /// The bytes of the value.
    fn to_bytes(&self) -> Self::Bytes;
    /// The value of the bytes.
    fn from_bytes(bytes: Self::Bytes) -> Self;
}

macro_rules! plain_number {
    ($($number:ty),*) => { $(
        impl Plain for $number {
            type Bytes = [u8; size_of::<$number>()];
            const ZERO: Self::Bytes = [0; size_of::<$number>()];
            fn to_bytes(&self) -> Self::Bytes {
                self.to_ne_bytes()
            }
            fn from_bytes(bytes: Self::Bytes) -> Self {
                Self::from_ne_bytes(bytes)
            }
        }
    )* };
}

plain_number!(u32, u64);

/// A map, its name, and the actions on it, for errors.
#[derive(Debug)]
struct Named {
    name: &'static str,
    map: RawMap,
}

impl Named {
    fn create(name: &'static str, layout: MapLayout) -> Result<Self, BpfError> {
        let map = RawMap::create(name, layout).map_err(|source| BpfError::Map {
            map: name,
            action: "make",
            source,
        })?;
        Ok(Self { name, map })
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> BpfError {
        let map = self.name;
        move |source| BpfError::Map { map, action, source }
    }
}

/// The behaviour of a full hash map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// New keys are refused.
    Refuse,
    /// The least recently used key is evicted.
    EvictOldest,
}

/// A bounded map from keys to values, both of fixed length.
#[derive(Debug)]
pub struct HashMap<K, V> {
    named: Named,
    kinds: PhantomData<fn() -> (K, V)>,
}

/// Elements of a hash map that are read at once.
const PART: usize = 4096;

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Creates a map of at most `max_entries` keys.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(
        name: &'static str,
        max_entries: u32,
        when_full: WhenFull,
    ) -> Result<Self, BpfError> {
        let kind = match when_full {
            WhenFull::Refuse => MapKind::Hash,
            WhenFull::EvictOldest => MapKind::LruHash,
        };
        let layout = MapLayout {
            kind,
            key_size: K::ZERO.as_ref().len() as u32,
            value_size: V::ZERO.as_ref().len() as u32,
            max_entries,
        };
        Ok(Self { named: Named::create(name, layout)?, kinds: PhantomData })
    }

    /// The value at `key`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn get(&self, key: &K) -> Result<Option<V>, BpfError> {
        let mut value = V::ZERO;
        let found = self.named.map.lookup(key.to_bytes().as_ref(), value.as_mut());
        let found = found.map_err(self.named.failed("look into"))?;
        Ok(found.then(|| V::from_bytes(value)))
    }

    /// Sets the value at `key`.
    ///
    /// # Errors
    /// The kernel's; the map may be full.
    pub fn set(&self, key: &K, value: &V) -> Result<(), BpfError> {
        let updated = self.named.map.update(key.to_bytes().as_ref(), value.to_bytes().as_ref());
        updated.map_err(self.named.failed("write to"))
    }

    /// Removes `key`; returns false if there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(&self, key: &K) -> Result<bool, BpfError> {
        let removed = self.named.map.delete(key.to_bytes().as_ref());
        removed.map_err(self.named.failed("remove from"))
    }

    /// Sets the values of many keys, in order.
    ///
    /// # Errors
    /// The kernel's; the map may be full. Some of the keys may then be set.
    pub fn set_all(&self, elements: &[(K, V)]) -> Result<(), BpfError> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in elements {
            keys.extend_from_slice(key.to_bytes().as_ref());
            values.extend_from_slice(value.to_bytes().as_ref());
        }
        let updated = self.named.map.update_batch(&keys, &values);
        updated.map_err(self.named.failed("write to"))
    }

    /// Removes keys, all of which the map has.
    ///
    /// # Errors
    /// The kernel's. Some of the keys may then be removed.
    pub fn remove_all(&self, keys: &[K]) -> Result<(), BpfError> {
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| bytes.extend_from_slice(key.to_bytes().as_ref()));
        self.named.map.delete_batch(&bytes).map_err(self.named.failed("remove from"))
    }

    /// Calls `visit` with every element. Elements that are added or removed meanwhile may
    /// or may not be visited.
    ///
    /// # Errors
    /// The kernel's.
    pub fn for_each(&self, mut visit: impl FnMut(K, V)) -> Result<(), BpfError> {
        let (key_len, value_len) = (K::ZERO.as_ref().len(), V::ZERO.as_ref().len());
        let mut room = PART;
        let mut from = None;
        loop {
            let mut keys = vec![0; room * key_len];
            let mut values = vec![0; room * value_len];
            let part = match self.named.map.lookup_batch(from, &mut keys, &mut values) {
                // A chain of the kernel's hash table is longer than the buffer.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    room *= 2;
                    continue;
                }
                part => part.map_err(self.named.failed("read"))?,
            };
            let elements = keys.chunks_exact(key_len).zip(values.chunks_exact(value_len));
            for (key_bytes, value_bytes) in elements.take(part.count) {
                let (mut key, mut value) = (K::ZERO, V::ZERO);
                key.as_mut().copy_from_slice(key_bytes);
                value.as_mut().copy_from_slice(value_bytes);
                visit(K::from_bytes(key), V::from_bytes(value));
            }
            from = part.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }
}

impl<K, V> AsFd for HashMap<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.named.map.as_fd()
    }
}

/// Values that BPF programs address directly and that are mapped into this process; words,
/// or structures of words.
#[derive(Debug)]
pub struct SharedMemory<T = AtomicU64> {
    named: Named,
    mapping: Mapping,
    kind: PhantomData<T>,
}

impl<T: Layout> SharedMemory<T> {
    /// Creates memory of `count` values, all 0.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(name: &'static str, count: usize) -> Result<Self, BpfError> {
        let words = count.saturating_mul(size_of::<T>()) / 8;
        let limit = || BpfError::Setting {
            setting: "the length of shared memory",
            value: words as u64,
            expected: "1 to 67108864 words",
        };
        if words == 0 || words > 1 << 26 {
            return Err(limit());
        }
        let layout = MapLayout {
            kind: MapKind::SharedArray,
            key_size: 4,
            value_size: words as u32 * 8,
            max_entries: 1,
        };
        let named = Named::create(name, layout)?;
        let mapping = named.map.map().map_err(named.failed("map"))?;
        Ok(Self { named, mapping, kind: PhantomData })
    }

    /// The values; at least one. A BPF program finds them one after another in the map's value.
    #[must_use]
    pub fn values(&self) -> &[T] {
        self.mapping.values()
    }
}

impl<T> AsFd for SharedMemory<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.named.map.as_fd()
    }
}

/// Memory written by this process, and only read by a BPF program.
#[derive(Debug)]
pub(crate) struct ReadMemory(OwnMemory);

impl ReadMemory {
    /// Creates memory of `words` 64-bit words, all 0.
    pub fn create(name: &'static str, words: u32) -> Result<Self, BpfError> {
        let memory = OwnMemory::create(name, words);
        memory.map(Self).map_err(|source| BpfError::Map { map: name, action: "make", source })
    }

    /// The memory, which is the map's only value.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

impl AsFd for ReadMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Interfaces as targets of redirected frames, by slot.
#[derive(Debug)]
pub struct DeviceMap(Named);

impl DeviceMap {
    /// Creates a map of `slots` slots, all empty.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(name: &'static str, slots: u32) -> Result<Self, BpfError> {
        let kind = MapKind::DeviceMap;
        let layout = MapLayout { kind, key_size: 4, value_size: 4, max_entries: slots };
        Named::create(name, layout).map(Self)
    }

    /// Sets the interface of a slot. The kernel removes it when the interface is deleted.
    ///
    /// # Errors
    /// The kernel's: no such slot, no such interface.
    pub fn set(&self, slot: u32, interface: u32) -> Result<(), BpfError> {
        let updated = self.0.map.update(&slot.to_bytes(), &interface.to_bytes());
        updated.map_err(self.0.failed("put an interface into"))
    }

    /// The map's number in the kernel, by which tracepoints identify it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn id(&self) -> Result<u32, BpfError> {
        self.0.map.id().map_err(self.0.failed("read the number of"))
    }

    /// Empties a slot; returns false if it was empty.
    ///
    /// # Errors
    /// The kernel's: no such slot.
    pub fn clear(&self, slot: u32) -> Result<bool, BpfError> {
        // The kernel reports no error for an empty slot of a device map.
        self.0.map.delete(&slot.to_bytes()).map_err(self.0.failed("empty a slot of"))
    }
}

impl AsFd for DeviceMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.map.as_fd()
    }
}

/// AF_XDP sockets as targets of redirected frames, by slot.
#[derive(Debug)]
pub struct SocketMap(Named);

impl SocketMap {
    /// Creates a map of `slots` slots, all empty.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create(name: &'static str, slots: u32) -> Result<Self, BpfError> {
        let kind = MapKind::SocketMap;
        let layout = MapLayout { kind, key_size: 4, value_size: 4, max_entries: slots };
        Named::create(name, layout).map(Self)
    }

    /// Sets the bound AF_XDP socket of a slot. The kernel removes it when the socket is
    /// closed.
    ///
    /// # Errors
    /// The kernel's: no such slot, not a bound AF_XDP socket.
    pub fn set(&self, slot: u32, socket: &impl AsFd) -> Result<(), BpfError> {
        let fd = socket.as_fd().as_raw_fd().cast_unsigned();
        let updated = self.0.map.update(&slot.to_bytes(), &fd.to_bytes());
        updated.map_err(self.0.failed("put a socket into"))
    }

    /// Empties a slot.
    ///
    /// # Errors
    /// The kernel's: no such slot.
    pub fn clear(&self, slot: u32) -> Result<bool, BpfError> {
        self.0.map.delete(&slot.to_bytes()).map_err(self.0.failed("empty a slot of"))
    }
}

impl AsFd for SocketMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.map.as_fd()
    }
}

/// One more than the highest possible processor number of this machine.
///
/// # Errors
/// If the kernel does not provide it, or in an unknown format.
pub fn processors() -> Result<u32, BpfError> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible");
    let text = text.map_err(BpfError::Processors)?;
    highest_in_list(text.trim()).map(|highest| highest + 1).ok_or_else(|| {
        let message = format!("`{}` is not a list of processors", text.trim());
        BpfError::Processors(io::Error::new(io::ErrorKind::InvalidData, message))
    })
}

/// The highest number of an ascending list such as `0-3,8`.
fn highest_in_list(list: &str) -> Option<u32> {
    list.rsplit([',', '-']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        assert_eq!(highest_in_list("0"), Some(0));
        assert_eq!(highest_in_list("0-15"), Some(15));
        assert_eq!(highest_in_list("0-3,8"), Some(8));
        assert_eq!(highest_in_list(""), None);
    }
}
