//! The C forms of a filter, compiled by the system's compilers with the same flags and loaded.
//! The function takes a batch, as ours does.
#![allow(unsafe_code, reason = "loads compiled C and calls it")]

use std::fs;
use std::path::Path;

use forebay_jit::Packets;
use libloading::Library;

use super::dpdk::symbol;
use super::process::CommandLine;
use crate::failure::{During, Failure, Result};
use crate::suites::filters::packets::Engine;

pub const FLAGS: [&str; 5] = ["-O3", "-march=native", "-std=c11", "-shared", "-fPIC"];

/// `void filter(const uint8_t *base, const uint32_t *offset, const uint32_t *cap_len,
/// const uint32_t *wire_len, uint32_t *verdict, size_t n)`.
// SAFETY: a type, that of the C function above.
type Filter = unsafe extern "C" fn(
    base: *const u8,
    offset: *const u32,
    cap_len: *const u32,
    wire_len: *const u32,
    verdict: *mut u32,
    count: usize,
);

/// Compiles `text` with `compiler`, with these flags beside [`FLAGS`], and loads it;
/// files called `name` are left in `folder`.
pub fn library(
    compiler: &Path,
    flags: &[&str],
    text: &str,
    folder: &Path,
    name: &str,
) -> Result<Library> {
    let source = folder.join(format!("{name}.c"));
    let object = folder.join(format!("{name}.so"));
    let (from, to) = (source.display().to_string(), object.display().to_string());
    fs::write(&source, text).during(&from)?;
    let arguments = [&FLAGS[..], flags, &["-o", &to, &from]].concat();
    CommandLine::new(compiler, &arguments).output()?;
    // SAFETY: what our own C was compiled to, which runs nothing when it is loaded.
    unsafe { Library::new(&object) }.map_err(Failure::from)
}

#[derive(Debug)]
pub struct CCode {
    filter: Filter,
    /// Holds the code.
    _library: Library,
}

impl CCode {
    /// Compiles `text`, which defines the function `filter`.
    pub fn compile(compiler: &Path, text: &str, folder: &Path, name: &str) -> Result<Self> {
        let library = library(compiler, &[], text, folder, name)?;
        // SAFETY: our C forms define `filter` with this type.
        let filter = unsafe { symbol(&library, c"filter")? };
        Ok(Self { filter, _library: library })
    }
}

impl Engine for CCode {
    fn run(&mut self, packets: &Packets<'_>, _first: usize, verdict: &mut [u32]) {
        let [offset, cap_len, wire_len] = packets.tables();
        assert_eq!(packets.len(), verdict.len());
        // SAFETY: the code is loaded; the columns and the verdicts have as many places
        // as `count` says, and the packets lie inside their memory, beyond whose end
        // the code, which checks every captured length, does not read.
        unsafe {
            (self.filter)(
                packets.base(),
                offset.as_ptr(),
                cap_len.as_ptr(),
                wire_len.as_ptr(),
                verdict.as_mut_ptr(),
                packets.len(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_packet::Region;

    use super::*;
    use crate::peers::process::find;
    use crate::suites::filters::packets::Descriptors;

    #[test]
    fn text_becomes_a_filter_or_an_error() {
        let compiler = find("cc").expect("a C compiler builds this crate's dependencies");
        let folder = tempfile::tempdir().unwrap();
        let text = "#include <stddef.h>\n#include <stdint.h>\n\
            void filter(const uint8_t *base, const uint32_t *offset, const uint32_t *cap_len,\n\
            const uint32_t *wire_len, uint32_t *verdict, size_t n) {\n\
            for (size_t i = 0; i < n; i++)\n\
            verdict[i] = base[offset[i]] + 10 * cap_len[i] + 100 * wire_len[i]; }\n";
        let mut code = CCode::compile(&compiler, text, folder.path(), "sum").unwrap();
        let mut memory = Region::new(10).unwrap();
        memory.bytes_mut()[7] = 5;
        let mut descriptors = Descriptors::default();
        descriptors.push([7, 2, 3]);
        descriptors.push([0, 1, 1]);
        let mut verdict = [0; 2];
        code.run(&descriptors.packets(&memory), 0, &mut verdict);
        assert_eq!(verdict, [325, 110]);
        let error = CCode::compile(&compiler, "no C", folder.path(), "broken").unwrap_err().0;
        assert!(error.contains("failed"), "{error}");
    }
}
