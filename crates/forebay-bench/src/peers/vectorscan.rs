//! Vectorscan, the portable continuation of Intel's Hyperscan, where `libhs` is installed.
//!
//! A set can be compiled as literals or as expressions in which every byte is escaped, and each
//! literal reported at its first occurrence in a text (`HS_FLAG_SINGLEMATCH`) or at every one. In
//! the latter case repetitions are left out here, by a stamp for each literal.
#![allow(unsafe_code, reason = "calls Vectorscan")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use super::dpdk::symbol;
use crate::failure::{Failure, Result};

// Of `hs_compile.h`.
const CASELESS: c_uint = 1;
const SINGLE_MATCH: c_uint = 8;
const BLOCK: c_uint = 1;
const STREAM: c_uint = 2;

/// `hs_compile_error_t`.
#[repr(C)]
struct CompileError {
    message: *mut c_char,
    expression: c_int,
}

// SAFETY: a type, `match_event_handler` of `hs_runtime.h`.
type OnMatch = unsafe extern "C" fn(
    id: c_uint,
    from: c_ulonglong,
    to: c_ulonglong,
    flags: c_uint,
    context: *mut c_void,
) -> c_int;

/// Declares the table of functions of `libhs`. The types must be those of its headers.
macro_rules! functions {
    ($($field:ident($($argument:ty),*) -> $result:ty = $symbol:literal,)*) => {
        #[derive(Debug)]
        struct Functions {
            $(
                // SAFETY: a type, from the library's headers.
                $field: unsafe extern "C" fn($($argument),*) -> $result,
            )*
        }

        impl Functions {
            fn load(library: &'static Library) -> Result<Self> {
                $(
                    // SAFETY: the table declares the type of the headers; the library stays
                    // loaded for ever.
                    let $field = unsafe { symbol(library, $symbol)? };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}

functions! {
    version() -> *const c_char = c"hs_version",
    compile_literals(
        *const *const c_char, *const c_uint, *const c_uint, *const usize, c_uint, c_uint,
        *const c_void, *mut *mut c_void, *mut *mut CompileError
    ) -> c_int = c"hs_compile_lit_multi",
    compile_expressions(
        *const *const c_char, *const c_uint, *const c_uint, c_uint, c_uint,
        *const c_void, *mut *mut c_void, *mut *mut CompileError
    ) -> c_int = c"hs_compile_multi",
    free_error(*mut CompileError) -> c_int = c"hs_free_compile_error",
    free_database(*mut c_void) -> c_int = c"hs_free_database",
    database_size(*const c_void, *mut usize) -> c_int = c"hs_database_size",
    stream_size(*const c_void, *mut usize) -> c_int = c"hs_stream_size",
    allocate_scratch(*const c_void, *mut *mut c_void) -> c_int = c"hs_alloc_scratch",
    free_scratch(*mut c_void) -> c_int = c"hs_free_scratch",
    scan(*const c_void, *const c_char, c_uint, c_uint, *mut c_void, OnMatch, *mut c_void) -> c_int
        = c"hs_scan",
    open_stream(*const c_void, c_uint, *mut *mut c_void) -> c_int = c"hs_open_stream",
    scan_stream(
        *mut c_void, *const c_char, c_uint, c_uint, *mut c_void, OnMatch, *mut c_void
    ) -> c_int = c"hs_scan_stream",
    close_stream(*mut c_void, *mut c_void, Option<OnMatch>, *mut c_void) -> c_int
        = c"hs_close_stream",
}

impl Functions {
    fn get() -> Result<&'static Self> {
        static TABLE: OnceLock<Result<Functions>> = OnceLock::new();
        let load = || {
            // SAFETY: the library has no effect when it is loaded, and is never unloaded.
            let library = unsafe { Library::new("libhs.so.5") };
            let library = library.map_err(|_| Failure("Vectorscan is not installed".into()))?;
            Self::load(Box::leak(Box::new(library)))
        };
        TABLE.get_or_init(load).as_ref().map_err(Failure::clone)
    }
}

/// The version of the library.
pub fn version() -> Result<String> {
    let functions = Functions::get()?;
    // SAFETY: it takes nothing and returns a text that is never freed.
    let text = unsafe { CStr::from_ptr((functions.version)()) };
    Ok(text.to_string_lossy().into_owned())
}

/// How a set is compiled and its matches are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// As literals, not as expressions.
    pub literals: bool,
    /// At the first occurrence only.
    pub single: bool,
}

impl Variant {
    pub const ALL: [Self; 4] = [
        Self { literals: true, single: true },
        Self { literals: true, single: false },
        Self { literals: false, single: true },
        Self { literals: false, single: false },
    ];

    pub fn name(self) -> String {
        let call = if self.literals { "hs_compile_lit_multi" } else { "hs_compile_multi" };
        let flags = if self.single { "CASELESS, SINGLEMATCH" } else { "CASELESS" };
        format!("{call} with {flags}")
    }
}

/// The mode that a set is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Block,
    Stream,
}

/// A compiled set with what a thread needs to scan.
pub struct Vectorscan {
    functions: &'static Functions,
    database: *mut c_void,
    scratch: *mut c_void,
    streams: Vec<*mut c_void>,
    found: Found,
}

/// What the callback is given.
struct Found {
    text: u32,
    /// For each literal, the last text, counted over all calls, that it was found in; empty if
    /// the library reports it once.
    stamps: Vec<u64>,
    stamp: u64,
    matches: Vec<(u32, u32)>,
}

impl Vectorscan {
    /// Compiles caseless literals.
    pub fn new(literals: &[Vec<u8>], variant: Variant, mode: Mode) -> Result<Self> {
        let functions = Functions::get()?;
        let stamps = if variant.single { Vec::new() } else { vec![0; literals.len()] };
        let found = Found { text: 0, stamps, stamp: 0, matches: Vec::new() };
        let (database, scratch) = (ptr::null_mut(), ptr::null_mut());
        let mut made = Self { functions, database, scratch, streams: Vec::new(), found };
        made.compile(literals, variant, mode)?;
        // SAFETY: the database was compiled; the library writes the scratch.
        let status = unsafe { (functions.allocate_scratch)(made.database, &raw mut made.scratch) };
        check("hs_alloc_scratch", status)?;
        Ok(made)
    }

    fn compile(&mut self, literals: &[Vec<u8>], variant: Variant, mode: Mode) -> Result<()> {
        let functions = self.functions;
        let flags = CASELESS | if variant.single { SINGLE_MATCH } else { 0 };
        let (flags, count) = (vec![flags; literals.len()], literals.len() as c_uint);
        let ids: Vec<c_uint> = (0..count).collect();
        let mode = if mode == Mode::Block { BLOCK } else { STREAM };
        let mut error: *mut CompileError = ptr::null_mut();
        let database = &raw mut self.database;
        let status = if variant.literals {
            let texts: Vec<*const c_char> =
                literals.iter().map(|text| text.as_ptr().cast()).collect();
            let lens: Vec<usize> = literals.iter().map(Vec::len).collect();
            // SAFETY: the arrays have `count` members each, of which the texts have the lengths;
            // all of them live until the call is done.
            unsafe {
                (functions.compile_literals)(
                    texts.as_ptr(),
                    flags.as_ptr(),
                    ids.as_ptr(),
                    lens.as_ptr(),
                    count,
                    mode,
                    ptr::null(),
                    database,
                    &raw mut error,
                )
            }
        } else {
            let escaped = |text: &Vec<u8>| {
                CString::new(text.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>())
            };
            let texts = literals.iter().map(escaped).collect::<Result<Vec<CString>, _>>()?;
            let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
            // SAFETY: as above; the texts end with NUL.
            unsafe {
                (functions.compile_expressions)(
                    texts.as_ptr(),
                    flags.as_ptr(),
                    ids.as_ptr(),
                    count,
                    mode,
                    ptr::null(),
                    database,
                    &raw mut error,
                )
            }
        };
        if error.is_null() {
            return check("compiling", status);
        }
        // SAFETY: a failed call returns an error with a message, freed here once.
        unsafe {
            let message = CStr::from_ptr((*error).message).to_string_lossy().into_owned();
            (functions.free_error)(error);
            Err(message.into())
        }
    }

    /// Bytes of the compiled set.
    pub fn bytes(&self) -> usize {
        let mut bytes = 0;
        // SAFETY: the database is alive.
        unsafe { (self.functions.database_size)(self.database, &raw mut bytes) };
        bytes
    }

    /// Bytes of the state of a stream; 0 for a set compiled for blocks.
    pub fn stream_bytes(&self) -> usize {
        let mut bytes = 0;
        // SAFETY: the database is alive.
        unsafe { (self.functions.stream_size)(self.database, &raw mut bytes) };
        bytes
    }

    /// Scans a text. Its matches are added, each literal once.
    pub fn scan(&mut self, number: u32, text: &[u8]) {
        self.found.begin(number);
        let context = (&raw mut self.found).cast();
        // SAFETY: database and scratch are alive and belong together; the text is that long; the
        // context is what the callback takes.
        unsafe {
            (self.functions.scan)(
                self.database,
                text.as_ptr().cast(),
                text.len() as c_uint,
                0,
                self.scratch,
                on_match,
                context,
            );
        }
    }

    /// Opens streams in place of those that were open.
    pub fn open_streams(&mut self, streams: usize) -> Result<()> {
        self.close_streams();
        for _ in 0..streams {
            let mut stream = ptr::null_mut();
            // SAFETY: the database is alive.
            let status = unsafe { (self.functions.open_stream)(self.database, 0, &raw mut stream) };
            check("hs_open_stream", status)?;
            self.streams.push(stream);
        }
        Ok(())
    }

    /// Scans the next bytes of an open stream. Matches that end in them are added, each literal
    /// once.
    pub fn scan_stream(&mut self, number: u32, stream: usize, text: &[u8]) {
        self.found.begin(number);
        let context = (&raw mut self.found).cast();
        // SAFETY: as in `scan`, and the stream is open.
        unsafe {
            (self.functions.scan_stream)(
                self.streams[stream],
                text.as_ptr().cast(),
                text.len() as c_uint,
                0,
                self.scratch,
                on_match,
                context,
            );
        }
    }

    /// The matches so far, as texts and literals.
    pub fn matches(&mut self) -> &mut Vec<(u32, u32)> {
        &mut self.found.matches
    }

    fn close_streams(&mut self) {
        for stream in self.streams.drain(..) {
            // SAFETY: the stream is open; no callback is called.
            unsafe { (self.functions.close_stream)(stream, self.scratch, None, ptr::null_mut()) };
        }
    }
}

impl Drop for Vectorscan {
    fn drop(&mut self) {
        self.close_streams();
        // SAFETY: each was made here, or is null, which the library allows.
        unsafe {
            (self.functions.free_scratch)(self.scratch);
            (self.functions.free_database)(self.database);
        }
    }
}

impl Found {
    fn begin(&mut self, text: u32) {
        self.text = text;
        self.stamp += 1;
    }
}

/// Notes a match.
///
/// # Safety
/// `context` must be that of a [`Found`] which nothing else refers to.
unsafe extern "C" fn on_match(
    id: c_uint,
    _from: c_ulonglong,
    _to: c_ulonglong,
    _flags: c_uint,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { &mut *context.cast::<Found>() };
    match found.stamps.get_mut(id as usize) {
        Some(stamp) if *stamp == found.stamp => return 0,
        Some(stamp) => *stamp = found.stamp,
        None => {}
    }
    found.matches.push((found.text, id));
    0
}

fn check(doing: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(format!("Vectorscan: {doing}: status {status}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_finds_each_literal_once_a_text() {
        let literals: Vec<Vec<u8>> = [&b"abab"[..], b"GET\0", b"xyz."].map(Vec::from).into();
        for variant in Variant::ALL {
            let mut engine = match Vectorscan::new(&literals, variant, Mode::Block) {
                Ok(engine) => engine,
                Err(why) => return eprintln!("skipped: {}", why.0),
            };
            assert!(engine.bytes() > 0);
            for (number, text) in (0..).zip([&b"ABABABab"[..], b"", b"xyzz get\0 XYZ. xyz."]) {
                engine.scan(number, text);
            }
            engine.matches().sort_unstable();
            assert_eq!(*engine.matches(), [(0, 0), (2, 1), (2, 2)], "{variant:?}");
        }
    }

    #[test]
    fn a_stream_has_matches_in_the_part_that_they_end_in() {
        let variant = Variant { literals: true, single: false };
        let mut engine = match Vectorscan::new(&[b"abab".to_vec()], variant, Mode::Stream) {
            Ok(engine) => engine,
            Err(why) => return eprintln!("skipped: {}", why.0),
        };
        engine.open_streams(2).unwrap();
        for (number, (stream, text)) in (0..).zip([(0, "xab"), (1, "ab"), (0, "aBAB"), (1, "xab")])
        {
            engine.scan_stream(number, stream, text.as_bytes());
        }
        assert_eq!(*engine.matches(), [(2, 0)]);
        assert!(engine.stream_bytes() > 0);
    }
}
