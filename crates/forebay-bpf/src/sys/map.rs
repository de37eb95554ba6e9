//! Maps, and their memory in this process.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::AtomicU64;

use super::call::{Command, address, address_mut, bpf, bpf_fd, kernel_name, length};
use super::layout::Layout;

/// The layout of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapLayout {
    /// `enum bpf_map_type`; no kind with a value for each CPU, whose values are longer than
    /// `value_size`.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// The most elements.
    pub max_entries: u32,
}

/// Kinds of maps, by their numbers in `enum bpf_map_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum MapKind {
    Hash = 1,
    /// An array that can be mapped into user space.
    SharedArray = 2,
    LruHash = 9,
    DeviceMap = 14,
    SocketMap = 17,
}

/// `BPF_F_MMAPABLE`.
const MMAPABLE: u32 = 1 << 10;

/// `BPF_F_RDONLY_PROG`.
const READ_ONLY: u32 = 1 << 7;

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapElement {
    map_fd: RawFd,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct MapBatch {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: RawFd,
    element_flags: u64,
    flags: u64,
}

#[repr(C)]
struct ObjectInfo {
    fd: RawFd,
    info_size: u32,
    info: u64,
}

/// A map, with the sizes the kernel uses for every access.
#[derive(Debug)]
pub(crate) struct RawMap {
    fd: OwnedFd,
    layout: MapLayout,
}

/// A part of a map's elements, and the position of the next.
pub(crate) struct MapPart {
    /// Elements read.
    pub count: usize,
    /// The start of the next part; `None` after the last.
    pub next: Option<u32>,
}

impl RawMap {
    /// Creates a map, its elements empty or zero.
    pub fn create(name: &str, layout: MapLayout) -> io::Result<Self> {
        let flags = if layout.kind == MapKind::SharedArray { MMAPABLE } else { 0 };
        Self::with_flags(name, layout, flags)
    }

    /// Creates an array of one value, which never changes.
    pub fn constants(value: &[u8]) -> io::Result<Self> {
        let value_size = length(value.len())?;
        let layout =
            MapLayout { kind: MapKind::SharedArray, key_size: 4, value_size, max_entries: 1 };
        let map = Self::with_flags("constants", layout, READ_ONLY)?;
        map.update(&[0; 4], value)?;
        let mut fd = map.fd.as_raw_fd();
        // SAFETY: the only field is the descriptor.
        unsafe { bpf(Command::MapFreeze, &mut fd) }?;
        Ok(map)
    }

    fn with_flags(name: &str, layout: MapLayout, flags: u32) -> io::Result<Self> {
        let mut attributes = MapCreate {
            kind: layout.kind as u32,
            key_size: layout.key_size,
            value_size: layout.value_size,
            max_entries: layout.max_entries,
            flags,
            inner_map_fd: 0,
            numa_node: 0,
            name: kernel_name(name),
        };
        // SAFETY: no field is a pointer, and the command makes a descriptor.
        let fd = unsafe { bpf_fd(Command::MapCreate, &mut attributes) }?;
        Ok(Self { fd, layout })
    }

    fn element(&self, key: &[u8], value: u64, flags: u64) -> io::Result<MapElement> {
        check_length(key.len(), self.layout.key_size)?;
        Ok(MapElement { map_fd: self.fd.as_raw_fd(), padding: 0, key: address(key), value, flags })
    }

    /// Copies the value at `key`; returns false if there is none.
    pub fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        check_length(value.len(), self.layout.value_size)?;
        let mut attributes = self.element(key, address_mut(value), 0)?;
        // SAFETY: the kernel reads a key and writes a value, each as long as the
        // map was made for, which is how long the buffers are.
        present(unsafe { bpf(Command::MapLookup, &mut attributes) })
    }

    /// Sets the value at `key`, new or existing.
    pub fn update(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        check_length(value.len(), self.layout.value_size)?;
        let mut attributes = self.element(key, address(value), 0)?;
        // SAFETY: the kernel reads a key and a value, each as long as the map was
        // made for, which is how long the buffers are.
        unsafe { bpf(Command::MapUpdate, &mut attributes) }.map(drop)
    }

    /// Removes the value at `key`; returns false if there is none.
    pub fn delete(&self, key: &[u8]) -> io::Result<bool> {
        let mut attributes = self.element(key, 0, 0)?;
        // SAFETY: the kernel reads a key as long as the map was made for, which is
        // how long the buffer is.
        present(unsafe { bpf(Command::MapDelete, &mut attributes) })
    }

    /// Sets the values of keys of a hash map, in order; keys and values lie one after another.
    pub fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        check_length(values.len(), length(self.elements_of(keys)?)? * self.layout.value_size)?;
        self.batch(Command::MapUpdateBatch, keys, address(values))
    }

    /// Removes keys of a hash map, all of which it has.
    pub fn delete_batch(&self, keys: &[u8]) -> io::Result<()> {
        self.batch(Command::MapDeleteBatch, keys, 0)
    }

    /// How many keys lie one after another.
    fn elements_of(&self, keys: &[u8]) -> io::Result<usize> {
        let each = self.layout.key_size as usize;
        if self.layout.kind != MapKind::Hash || !keys.len().is_multiple_of(each) {
            return Err(io::Error::new(ErrorKind::InvalidInput, "not whole keys of a hash map"));
        }
        Ok(keys.len() / each)
    }

    fn batch(&self, command: Command, keys: &[u8], values: u64) -> io::Result<()> {
        let mut attributes = MapBatch {
            in_batch: 0,
            out_batch: 0,
            keys: address(keys),
            values,
            count: length(self.elements_of(keys)?)?,
            map_fd: self.fd.as_raw_fd(),
            element_flags: 0,
            flags: 0,
        };
        if attributes.count == 0 {
            return Ok(());
        }
        // SAFETY: the kernel reads `count` keys, which the buffer holds, and to update as many
        // values, whose length was compared with that.
        unsafe { bpf(command, &mut attributes) }.map(drop)
    }

    /// Copies elements of a hash map, from the start or the position returned by an earlier
    /// call, at most as many as both buffers hold.
    pub fn lookup_batch(
        &self,
        from: Option<u32>,
        keys: &mut [u8],
        values: &mut [u8],
    ) -> io::Result<MapPart> {
        if !matches!(self.layout.kind, MapKind::Hash | MapKind::LruHash) {
            return Err(io::Error::new(ErrorKind::Unsupported, "only hash maps are read in parts"));
        }
        let fit = |bytes: usize, each: u32| bytes / each as usize;
        let most =
            fit(keys.len(), self.layout.key_size).min(fit(values.len(), self.layout.value_size));
        let from = from.map(|from| [from]);
        let mut next = [0_u32];
        let mut attributes = MapBatch {
            in_batch: from.as_ref().map_or(0, |from| address(from)),
            out_batch: address_mut(&mut next),
            keys: address_mut(keys),
            values: address_mut(values),
            count: length(most)?,
            map_fd: self.fd.as_raw_fd(),
            element_flags: 0,
            flags: 0,
        };
        // SAFETY: for hash maps the kernel reads and writes a place of 32 bits
        // (`__htab_map_lookup_and_delete_batch`), and writes at most `count` keys and
        // values, which the buffers hold.
        let result = unsafe { bpf(Command::MapLookupBatch, &mut attributes) };
        let count = attributes.count as usize;
        match result {
            Ok(_) => Ok(MapPart { count, next: Some(next[0]) }),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                Ok(MapPart { count, next: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The map's number in the kernel.
    pub fn id(&self) -> io::Result<u32> {
        // The first fields of `struct bpf_map_info`: type and number.
        let mut info = [0_u32; 2];
        let mut attributes = ObjectInfo {
            fd: self.fd.as_raw_fd(),
            info_size: size_of_val(&info) as u32,
            info: address_mut(&mut info),
        };
        // SAFETY: the kernel writes no more of the information than there is room for.
        unsafe { bpf(Command::ObjectInfo, &mut attributes) }?;
        Ok(info[1])
    }

    /// Maps the elements into this process.
    pub fn map(&self) -> io::Result<Mapping> {
        if self.layout.kind != MapKind::SharedArray || !self.layout.value_size.is_multiple_of(8) {
            return Err(io::Error::new(ErrorKind::Unsupported, "not an array to be mapped"));
        }
        let bytes = self.layout.value_size as usize * self.layout.max_entries as usize;
        // SAFETY: a new shared mapping at an address of the kernel's choosing
        // aliases nothing in this process but other mappings of the same map, which
        // are all accessed by atomic operations.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.fd.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { base: base.cast(), words: bytes / 8 })
    }
}

impl AsFd for RawMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check_length(given: usize, expected: u32) -> io::Result<()> {
    if given == expected as usize {
        return Ok(());
    }
    let message = format!("a buffer of {given} bytes where the map has {expected}");
    Err(io::Error::new(ErrorKind::InvalidInput, message))
}

/// Whether the key was there.
fn present(result: io::Result<i32>) -> io::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The elements of an array map in this process's memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to no thread, and all access goes through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The memory as values of words.
    pub fn values<T: Layout>(&self) -> &[T] {
        let count = self.words * 8 / size_of::<T>();
        // SAFETY: the mapping is `words` long, page-aligned, readable and writable
        // while `self` lives, and `T` consists of atomic words. BPF programs write it by
        // aligned stores.
        unsafe { slice::from_raw_parts(self.base.as_ptr().cast(), count) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no slice of it outlives the
        // borrow it was given for.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.words * 8) };
    }
}

/// Memory written by this process, for a program that only reads it. The kernel has a flag
/// for such maps (`BPF_F_RDONLY_PROG`), but then refuses to map them for writing.
#[derive(Debug)]
pub(crate) struct OwnMemory {
    map: RawMap,
    mapping: Mapping,
}

impl OwnMemory {
    /// Creates memory of `words` words, all 0.
    pub fn create(name: &str, words: u32) -> io::Result<Self> {
        let value_size = words.checked_mul(8).ok_or(ErrorKind::InvalidInput)?;
        let kind = MapKind::SharedArray;
        let map =
            RawMap::create(name, MapLayout { kind, key_size: 4, value_size, max_entries: 1 })?;
        let mapping = map.map()?;
        Ok(Self { map, mapping })
    }

    /// The memory.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (base, bytes) = (self.mapping.base.as_ptr().cast(), self.mapping.words * 8);
        // SAFETY: the mapping is that long, lives as long as `self`, and is the only one of
        // its map. The map never leaves this crate, and the one program that is given it
        // (`programs::sender`) reads it only.
        unsafe { slice::from_raw_parts_mut(base, bytes) }
    }
}

impl AsFd for OwnMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
