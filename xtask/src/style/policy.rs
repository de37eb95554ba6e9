//! The tables of the house rules: the only place that defines their extent.

/// The most lines of a Rust file.
pub const FILE_LINES: usize = 500;

/// The most lines of a file that has tests alone.
pub const TEST_FILE_LINES: usize = 800;

/// The most lines of a function, from `fn` to its closing brace.
pub const FUNCTION_LINES: usize = 80;

/// A file, or a folder if the path ends in `/`, that may contain `unsafe`.
pub struct UnsafePlace {
    /// Path relative to the workspace.
    pub path: &'static str,
    /// Why safe code is not possible.
    pub reason: &'static str,
}

/// The places of `unsafe`, besides the `tests/` folders of crates.
pub const UNSAFE_PLACES: &[UnsafePlace] = &[
    UnsafePlace {
        path: "crates/forebay-packet/src/region.rs",
        reason: "owns an anonymous mapping and hands out slices of it",
    },
    UnsafePlace {
        path: "crates/forebay-packet/src/decode/lanes/",
        reason: "vector instructions by intrinsics: headers and hashes of many packets at once",
    },
    UnsafePlace {
        path: "crates/forebay-packet/src/select.rs",
        reason: "vector instructions by intrinsics: the values of some packets of a batch",
    },
    UnsafePlace {
        path: "crates/forebay-bpf/src/sys/",
        reason: "the bpf(2) system call, and memory shared with BPF programs",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/af_packet/sys.rs",
        reason: "system calls on packet sockets that take structures by address",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/af_packet/ring.rs",
        reason: "rings that the kernel reads and writes by turns with us",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/af_xdp/ring/rings.rs",
        reason: "rings that the kernel reads and writes by turns with us",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/af_xdp/ring/umem.rs",
        reason: "frames that the kernel reads and writes by turns with us",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/device/sys.rs",
        reason: "SIOCETHTOOL, on a buffer whose content states its size",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/mem/ring.rs",
        reason: "slots that two threads use by turns",
    },
    UnsafePlace {
        path: "crates/forebay-io/src/tap/sys.rs",
        reason: "ioctls that make a TAP device, by address, and a namespace for it",
    },
    UnsafePlace {
        path: "crates/forebay-jit/src/memory.rs",
        reason: "maps memory, writes machine code to it, and makes it executable",
    },
    UnsafePlace {
        path: "crates/forebay-jit/src/call.rs",
        reason: "calls machine code that was made at run time",
    },
    UnsafePlace {
        path: "crates/forebay-jit/src/planes.rs",
        reason: "calls machine code that was made at run time",
    },
    UnsafePlace {
        path: "crates/forebay-rules/src/linear/kernel/",
        reason: "vector instructions by intrinsics, on memory that was checked",
    },
    UnsafePlace {
        path: "crates/forebay-flow/src/table/kernel/",
        reason: "vector instructions over buckets of flows, and prefetches",
    },
    UnsafePlace {
        path: "crates/forebay-flow/src/table/memory.rs",
        reason: "maps the memory of tables",
    },
    UnsafePlace {
        path: "crates/forebay-scan/src/accelerator/shared/",
        reason: "maps memory that a device process writes, too; its words are atomics",
    },
    UnsafePlace {
        path: "crates/forebay-scan/src/simd/kernel/",
        reason: "vector instructions over a buffer with room around the text",
    },
    UnsafePlace {
        path: "crates/forebay-capi/src/ffi.rs",
        reason: "takes pointers from C programs, and gives them some",
    },
    UnsafePlace {
        path: "crates/forebay-capi/src/ffi/",
        reason: "takes pointers from C programs, and gives them some",
    },
    UnsafePlace {
        path: "crates/forebay-rules/src/tree/arena.rs",
        reason: "cells written once and read without a lock; readers access only written cells",
    },
    UnsafePlace {
        path: "crates/forebay-rules/src/tree/kernel/",
        reason: "vector kernels over blocks of rules, and look-ups that building proves in range",
    },
    UnsafePlace {
        path: "crates/forebay-broker/src/trim.rs",
        reason: "has the C library give freed memory back to the system",
    },
    UnsafePlace {
        path: "crates/forebay-testkit/src/namespace.rs",
        reason: "a thread of a test leaves the network of its process",
    },
    UnsafePlace {
        path: "crates/forebay-bench/src/peers/",
        reason: "binds C functions of the programs that the benchmarks run against",
    },
];

/// The dependencies of a crate of the workspace, complete.
pub struct Layer {
    /// The crate, also the name of its folder under `crates/`.
    pub name: &'static str,
    /// Crates of the workspace that its product code may use.
    pub uses: &'static [&'static str],
}

/// The crate that the tests of all crates may use, those below it too.
pub const TESTKIT: &str = "forebay-testkit";

/// The crates from the bottom up. A crate's tests may use every crate above
/// it in this list; its product code only those named.
pub const LAYERS: &[Layer] = &[
    Layer { name: "forebay-packet", uses: &[] },
    Layer { name: "forebay-filter", uses: &["forebay-packet"] },
    Layer { name: "forebay-bpf", uses: &["forebay-packet", "forebay-filter"] },
    Layer { name: "forebay-io", uses: &["forebay-packet", "forebay-bpf"] },
    Layer { name: "forebay-gen", uses: &["forebay-packet"] },
    Layer { name: TESTKIT, uses: &["forebay-packet", "forebay-gen"] },
    Layer { name: "forebay-codegen", uses: &["forebay-packet", "forebay-filter"] },
    Layer { name: "forebay-jit", uses: &["forebay-packet", "forebay-filter", "forebay-codegen"] },
    Layer {
        name: "forebay-rules",
        uses: &["forebay-packet", "forebay-filter", "forebay-codegen", "forebay-jit"],
    },
    Layer {
        name: "forebay-capi",
        uses: &["forebay-packet", "forebay-filter", "forebay-jit", "forebay-rules"],
    },
    Layer { name: "forebay-balance", uses: &["forebay-packet"] },
    Layer { name: "forebay-flow", uses: &["forebay-packet"] },
    Layer { name: "forebay-scan", uses: &["forebay-packet"] },
    Layer { name: "forebay-export", uses: &["forebay-packet", "forebay-io", "forebay-flow"] },
    Layer {
        name: "forebay-pipeline",
        uses: &[
            "forebay-packet",
            "forebay-jit",
            "forebay-rules",
            "forebay-balance",
            "forebay-flow",
            "forebay-scan",
        ],
    },
    Layer {
        name: "forebay-broker",
        uses: &[
            "forebay-packet",
            "forebay-filter",
            "forebay-bpf",
            "forebay-jit",
            "forebay-rules",
            "forebay-io",
            "forebay-balance",
            "forebay-flow",
            "forebay-scan",
            "forebay-export",
            "forebay-pipeline",
        ],
    },
    Layer {
        name: "forebay",
        uses: &[
            "forebay-packet",
            "forebay-filter",
            "forebay-bpf",
            "forebay-codegen",
            "forebay-jit",
            "forebay-rules",
            "forebay-io",
            "forebay-gen",
            "forebay-balance",
            "forebay-flow",
            "forebay-scan",
            "forebay-export",
            "forebay-pipeline",
            "forebay-broker",
        ],
    },
    Layer {
        name: "forebay-bench",
        uses: &[
            "forebay-packet",
            "forebay-filter",
            "forebay-bpf",
            "forebay-codegen",
            "forebay-jit",
            "forebay-rules",
            "forebay-io",
            "forebay-gen",
            "forebay-balance",
            "forebay-flow",
            "forebay-scan",
            "forebay-pipeline",
            "forebay-broker",
            "forebay",
        ],
    },
];

/// An outside crate that only some crates may use.
pub struct Confined {
    /// The outside crate.
    pub name: &'static str,
    /// The crates of the workspace that may use it.
    pub within: &'static [&'static str],
    /// Why the others may not.
    pub reason: &'static str,
}

/// Outside crates that must not spread.
pub const CONFINED: &[Confined] = &[
    Confined {
        name: "pcap",
        within: &["forebay-filter", "forebay-bench"],
        reason: "libpcap is the expression compiler and a peer to measure, nothing else",
    },
    Confined {
        name: "clap",
        within: &["forebay", "forebay-bench"],
        reason: "libraries are independent of the command line",
    },
    Confined {
        name: "parquet",
        within: &["forebay-export", "forebay"],
        reason: "formats of records are written in one place; the command's tests read them",
    },
    Confined {
        name: "indicatif",
        within: &["forebay"],
        reason: "libraries do not draw on a terminal",
    },
];

/// Crates that own a terminal, and so may print.
pub const PRINTING: &[&str] =
    &["crates/forebay/", "crates/forebay-bench/", "crates/forebay-testkit/", "xtask/", "fuzz/"];

/// Folders with files of a single machine; a path that starts with one of them is
/// meaningless elsewhere.
pub const MACHINE_FOLDERS: &[&str] = &["home", "root", "work", "Users"];
