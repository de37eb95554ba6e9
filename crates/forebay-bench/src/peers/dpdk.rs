//! DPDK's environment, where DPDK is installed.
//!
//! DPDK's libraries are loaded at run time. Most of them take memory from its heap, so
//! that the environment must be started first: once a process, on a thread of its own,
//! as starting pins the thread it runs on to a processor.
//!
//! The heap lies in huge pages where the kernel has enough of them free, as DPDK's
//! guides recommend, and in ordinary ones otherwise. Vectors of 512 bits are allowed, which
//! DPDK does not use by default.
#![allow(unsafe_code, reason = "loads DPDK and starts it")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs;
use std::sync::OnceLock;
use std::thread;

use crate::failure::{Failure, Result};
use libloading::Library;

/// Versions of DPDK's binary interface whose structures are those in this crate: 22.11,
/// 23.11 and 24.11.
const ABI: [u32; 3] = [23, 24, 25];

/// Arguments that start as little of DPDK as possible.
const START: [&str; 6] = [
    "forebay-bench",
    "--no-shconf",
    "--no-pci",
    "--no-telemetry",
    "--log-level=lib.*:error",
    "--force-max-simd-bitwidth=512",
];

/// Mebibytes of the heap in ordinary pages, which take no memory until they are used.
const HEAP: &str = "4096";

/// Free huge pages that the heap is put into: this many bytes, or none.
const HUGE_HEAP: u64 = 1 << 30;

/// DPDK, started.
#[derive(Debug)]
pub struct Environment {
    /// The library of the environment itself.
    pub eal: &'static Library,
    /// The version of DPDK's binary interface.
    pub abi: u32,
    /// Whether DPDK's heap lies in huge pages.
    pub huge_pages: bool,
}

/// `struct rte_malloc_socket_stats` of `<rte_malloc.h>`.
#[derive(Default)]
#[repr(C)]
struct HeapStatistics {
    total: usize,
    free: usize,
    greatest_free: usize,
    free_count: u32,
    allocated_count: u32,
    allocated: usize,
}

/// Bytes taken from DPDK's heap.
pub fn heap_bytes() -> Result<usize> {
    // SAFETY: a type, that of `rte_malloc.h`.
    type Read = unsafe extern "C" fn(socket: c_int, statistics: *mut HeapStatistics) -> c_int;
    let mut statistics = HeapStatistics::default();
    // SAFETY: the type is that of the header; the function fills in the statistics of the heap
    // of socket 0, which the environment has at least.
    unsafe {
        let read: Read = symbol(environment()?.eal, c"rte_malloc_get_socket_stats")?;
        read(0, &raw mut statistics);
    }
    Ok(statistics.allocated)
}

/// Loads and starts DPDK, once.
pub fn environment() -> Result<&'static Environment> {
    static STARTED: OnceLock<Result<Environment>> = OnceLock::new();
    STARTED.get_or_init(start).as_ref().map_err(Failure::clone)
}

fn start() -> Result<Environment> {
    let found = ABI.into_iter().find_map(|abi| Some((library("eal", abi)?, abi)));
    let (eal, abi) = found.ok_or("DPDK is not installed")?;
    let huge_pages = free_huge_pages() >= HUGE_HEAP;
    let heap: &[&str] = if huge_pages { &["--in-memory"] } else { &["--no-huge", "-m", HEAP] };
    // SAFETY: it is `librte_eal`, and started here only.
    let starting = thread::spawn(move || unsafe { start_environment(eal, heap) });
    starting.join().unwrap_or_else(|_| Err("starting DPDK failed".into()))?;
    Ok(Environment { eal, abi, huge_pages })
}

/// Bytes of huge pages that are free.
fn free_huge_pages() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    field("HugePages_Free") * field("Hugepagesize") * 1024
}

/// A DPDK library, loaded for the rest of the process.
pub fn library(name: &str, abi: u32) -> Option<&'static Library> {
    // SAFETY: DPDK's libraries register drivers when they are loaded and have no other
    // effect; they are never unloaded.
    let library = unsafe { Library::new(format!("librte_{name}.so.{abi}")) }.ok()?;
    Some(Box::leak(Box::new(library)))
}

/// A function of `library`.
///
/// # Safety
/// `T` must be the function's type.
pub unsafe fn symbol<T: Copy>(library: &Library, name: &CStr) -> Result<T> {
    // SAFETY: as the caller promises.
    let found = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    found.map(|symbol| *symbol).map_err(Failure::from)
}

/// Declares a table of functions of a DPDK library, which is loaded once. Functions marked with
/// `eal` are those of the environment. The types must be those of DPDK's headers.
macro_rules! functions {
    ($table:ident of $library:literal {
        $($field:ident($($argument:ty),*) $(-> $result:ty)? = $symbol:literal $($eal:ident)?,)*
    }) => {
        #[derive(Debug)]
        struct $table {
            $(
                // SAFETY: a type, which the user of the macro has from DPDK's headers.
                $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,
            )*
        }

        impl $table {
            fn get() -> crate::failure::Result<&'static Self> {
                static TABLE: std::sync::OnceLock<crate::failure::Result<$table>> =
                    std::sync::OnceLock::new();
                TABLE.get_or_init(Self::load).as_ref().map_err(crate::failure::Failure::clone)
            }

            fn load() -> crate::failure::Result<Self> {
                let environment = super::dpdk::environment()?;
                let missing = || concat!("librte_", $library, " is not installed").to_owned();
                let library = super::dpdk::library($library, environment.abi);
                let library = library.ok_or_else(missing)?;
                $(
                    let from = [$(environment.$eal,)? library][0];
                    // SAFETY: the table declares the type of DPDK's headers; both libraries
                    // stay loaded for ever.
                    let $field = unsafe { super::dpdk::symbol(from, $symbol)? };
                )*
                Ok(Self { $($field,)* })
            }
        }
    };
}
pub(super) use functions;

/// Starts DPDK's environment on a processor that this thread may use.
///
/// # Safety
/// `eal` must be `librte_eal`, and not started yet.
unsafe fn start_environment(eal: &Library, heap: &[&str]) -> Result<()> {
    // SAFETY: a type, that of `rte_eal.h`.
    type Init = unsafe extern "C" fn(count: c_int, arguments: *mut *mut c_char) -> c_int;
    let processor = rustix::thread::sched_getcpu().to_string();
    let words = START.iter().chain(heap).copied().chain(["-l", processor.as_str()]);
    let words: Vec<CString> = words.filter_map(|word| CString::new(word).ok()).collect();
    // DPDK keeps and reorders the pointers.
    let words: &'static [CString] = Vec::leak(words);
    let pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    let pointers = Vec::leak(pointers);
    // SAFETY: as the caller promises, and the arguments live as long as the process.
    let outcome = unsafe {
        let init: Init = symbol(eal, c"rte_eal_init")?;
        init(pointers.len() as c_int, pointers.as_mut_ptr())
    };
    if outcome < 0 { Err("DPDK's environment does not start".into()) } else { Ok(()) }
}
