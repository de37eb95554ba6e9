//! Programs compiled from C (`programs/*.bpf.c`), with settings and maps of this process.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::os::fd::{AsFd, AsRawFd};

use aya_obj::btf::Btf;
use aya_obj::generated::bpf_insn;
use aya_obj::{EbpfSectionKind, Object};

use forebay_packet::HashKey;

use crate::asm::Assembler;
use crate::error::BpfError;
use crate::program::{Kind, Program};
use crate::sys::RawMap;

/// The object of `programs/NAME.bpf.c`.
macro_rules! include_program {
    ($name:literal) => {{
        // Parsed in place; the alignment is that of an ELF header.
        #[repr(align(8))]
        struct Aligned<T: ?Sized>(T);
        const OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/programs/",
            $name,
            ".bpf.o"
        )));
        &OBJECT.0
    }};
}
pub(crate) use include_program;

/// A program's code, and the map of its constants, which must stay open until it is loaded.
pub(crate) struct Linked {
    code: Vec<[u8; 8]>,
    constants: Option<RawMap>,
}

impl Linked {
    /// Appends the code to assembled code, and returns the map of its constants.
    pub fn append_to(self, asm: &mut Assembler) -> Option<RawMap> {
        asm.append(&self.code);
        self.constants
    }
}

/// Loads compiled programs.
#[derive(Clone)]
pub(crate) struct Loader<'a> {
    object: &'static [u8],
    settings: Vec<(&'static str, u64)>,
    maps: Vec<(&'static str, &'a dyn AsFd)>,
}

impl<'a> Loader<'a> {
    /// Of this object.
    pub fn new(object: &'static [u8]) -> Self {
        Self { object, settings: Vec::new(), maps: Vec::new() }
    }

    /// The value of a `SETTING`.
    pub fn set(mut self, name: &'static str, value: u64) -> Self {
        self.settings.push((name, value));
        self
    }

    /// The settings of the hash in `programs/flow.h`.
    pub fn hash_key(self, HashKey([first, second]): &HashKey) -> Self {
        self.set("hash_key_0", *first).set("hash_key_1", *second)
    }

    /// The map that is a `MAP`, or the memory that is `SHARED`.
    pub fn map(mut self, name: &'static str, map: &'a dyn AsFd) -> Self {
        self.maps.push((name, map));
        self
    }

    /// Loads the program with this name.
    ///
    /// # Errors
    /// As [`Loader::link`]; the kernel's.
    pub fn load(self, name: &'static str, kind: Kind) -> Result<Program, BpfError> {
        let linked = self.link(name)?;
        Program::load_slots(name, kind, &linked.code, String::new)
    }

    /// The code of the program with this name.
    ///
    /// # Errors
    /// The object does not have what is given, or this kernel does not have what the object
    /// reads; the kernel's.
    pub fn link(&self, name: &'static str) -> Result<Linked, BpfError> {
        let wrong = |source| BpfError::Compiled { program: name, source };
        let mut object = Object::parse(self.object).map_err(|error| wrong(error.into()))?;
        let settings: Vec<_> =
            self.settings.iter().map(|&(name, value)| (name, value.to_ne_bytes())).collect();
        let settings: HashMap<&str, (&[u8], bool)> =
            settings.iter().map(|(name, bytes)| (*name, (&bytes[..], true))).collect();
        object.patch_map_data(settings).map_err(|error| wrong(error.into()))?;
        let constants = constants(&object).map_err(|source| BpfError::Map {
            map: "constants",
            action: "make",
            source,
        })?;
        let code = self.relocate(&mut object, name, constants.as_ref()).map_err(wrong)?;
        Ok(Linked { code, constants })
    }

    /// The code of a program with its maps.
    fn relocate(
        &self,
        object: &mut Object,
        name: &str,
        constants: Option<&RawMap>,
    ) -> Result<Vec<[u8; 8]>, Box<dyn Error + Send + Sync>> {
        if object.has_btf_relocations() {
            object.relocate_btf(&Btf::from_sys_fs()?)?;
        }
        // Programs have no functions that are not inlined.
        let key = object.programs.get(name).ok_or("there is no such program")?.function_key();
        object.functions.retain(|other, _| *other == key);
        let maps = std::mem::take(&mut object.maps);
        let linked = maps.iter().filter_map(|(section, map)| {
            let fd = if map.section_kind() == EbpfSectionKind::Rodata {
                constants.map(|constants| constants.as_fd())
            } else {
                let name = section.strip_prefix(".bss.").unwrap_or(section);
                self.maps.iter().find(|given| given.0 == name).map(|given| given.1.as_fd())
            };
            Some((section.as_str(), fd?.as_raw_fd(), map))
        });
        object.relocate_maps(linked, &HashSet::new())?;
        let function = object.functions.get(&key).ok_or("there is no such program")?;
        Ok(function.instructions.iter().map(slot).collect())
    }
}

/// The map of settings and other constants, if the object has any.
fn constants(object: &Object) -> std::io::Result<Option<RawMap>> {
    let found = object.maps.values().find(|map| map.section_kind() == EbpfSectionKind::Rodata);
    found.map(|map| RawMap::constants(map.data())).transpose()
}

/// An instruction as passed to `bpf(2)`.
fn slot(instruction: &bpf_insn) -> [u8; 8] {
    let registers = instruction.src_reg() << 4 | instruction.dst_reg();
    let [o0, o1] = instruction.off.to_le_bytes();
    let [i0, i1, i2, i3] = instruction.imm.to_le_bytes();
    [instruction.code, registers, o0, o1, i0, i1, i2, i3]
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: [&[u8]; 11] = [
        include_program!("fanout"),
        include_program!("generator"),
        include_program!("losses"),
        include_program!("probe"),
        include_program!("quiet"),
        include_program!("redirect"),
        include_program!("replay"),
        include_program!("sender"),
        include_program!("splitter"),
        include_program!("sweep"),
        include_program!("trial"),
    ];

    /// Instructions that may follow instruction `i`, and whether kernels before 6.3 allow a
    /// loop to be closed there: only by a jump (`check_cfg` in their `kernel/bpf/verifier.c`).
    fn followers(code: &[[u8; 8]], i: usize) -> Vec<(usize, bool)> {
        const CALL: u8 = 0x85;
        let [op, _, low, high, ..] = code[i];
        let target = (i + 1).saturating_add_signed(i16::from_le_bytes([low, high]).into());
        match (op, op & 7) {
            (CALL, _) => vec![(i + 1, false)],
            (0x95, _) => vec![],
            (0x05, _) => vec![(target, true)],
            (_, 5 | 6) => vec![(target, true), (i + 1, true)],
            (0x18, _) => vec![(i + 2, false)],
            _ => vec![(i + 1, false)],
        }
    }

    /// An instruction that closes a loop without a jump.
    fn loop_without_jump(code: &[[u8; 8]]) -> Option<usize> {
        let (mut is_open, mut is_seen) = (vec![false; code.len()], vec![false; code.len()]);
        let mut path = vec![(0, followers(code, 0))];
        is_open[0] = true;
        while let Some((i, left)) = path.last_mut() {
            let i = *i;
            match left.pop() {
                None => {
                    is_open[i] = false;
                    path.pop();
                }
                Some((to, is_jump)) if is_open[to] && !is_jump => return Some(i),
                Some((to, _)) if is_seen[to] => {}
                Some((to, _)) => {
                    (is_open[to], is_seen[to]) = (true, true);
                    path.push((to, followers(code, to)));
                }
            }
        }
        None
    }

    #[test]
    fn loops_are_closed_by_jumps_as_kernels_before_6_3_require() {
        for object in OBJECTS {
            let object = Object::parse(object).unwrap();
            assert!(!object.functions.is_empty());
            for function in object.functions.values() {
                let code: Vec<_> = function.instructions.iter().map(slot).collect();
                assert_eq!(loop_without_jump(&code), None, "{}", function.name);
            }
        }
        let close = |code: &[(u8, i16)]| {
            let slot = |&(code, to): &(u8, i16)| {
                let [low, high] = to.to_le_bytes();
                [code, 0, low, high, 0, 0, 0, 0]
            };
            loop_without_jump(&code.iter().map(slot).collect::<Vec<_>>())
        };
        assert_eq!(close(&[(0xb7, 0), (0x07, 0), (0x15, 1), (0x05, -3), (0x95, 0)]), None);
        // The loop is entered at its fourth instruction, into which the third falls.
        let falls = [(0x05, 2), (0x15, 3), (0x07, 0), (0x07, 0), (0x05, -4), (0x95, 0)];
        assert_eq!(close(&falls), Some(2));
    }
}
