//! Options for compiling filters.

use std::env;

use forebay_codegen::code::{Backend, Isa, Options as Codegen, PacketsIn};
use forebay_codegen::cost;

use crate::cpu::{CpuError, choose, executes_512_bits_in_halves};
use crate::perf_map::PERF_MAP_VARIABLE;

/// Options of a compilation, and of its side outputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Options of the code generator. A level that the machine lacks is an
    /// error when a filter is compiled.
    pub codegen: Codegen,
    /// Whether to write a map of the code for `perf`.
    pub perf_map: bool,
    /// The name of the filter in that map.
    pub name: String,
}

impl Options {
    /// The default options for `backend` on this machine: the level `isa`, or
    /// without one the level of [`choose`]; a map for `perf` if the environment
    /// variable [`PERF_MAP_VARIABLE`] is `1`.
    ///
    /// # Errors
    /// As [`choose`].
    pub fn new(backend: Backend, isa: Option<Isa>) -> Result<Self, CpuError> {
        let codegen = Codegen::new(backend, choose(isa)?);
        Ok(Self {
            codegen: Codegen { in_halves: executes_512_bits_in_halves(), ..codegen },
            perf_map: env::var_os(PERF_MAP_VARIABLE).is_some_and(|value| value == "1"),
            name: String::from("filter"),
        })
    }

    /// The same where this filter is the first to read packets of a device's ring, which mostly come
    /// from memory or from another processor's cache: loops that read packets prefetch, not only long ones.
    /// Measured by `forebay-bench pipeline`, stage `filter`.
    #[must_use]
    pub fn for_rings(mut self) -> Self {
        self.codegen.packets = PacketsIn::Memory;
        self.codegen.prefetch = cost::DISTANCE_OF_SHORT_LOOPS;
        self
    }

    /// The same, for `auto`, where other code has just read the packets: nothing prefetches.
    #[must_use]
    pub fn for_cached(mut self) -> Self {
        self.codegen.packets = PacketsIn::Cache;
        self
    }
}
