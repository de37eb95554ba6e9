//! What a record says of the machine it was made on.

use std::fs;

use serde::Serialize;

/// The machine.
#[derive(Debug, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Processors this process may use.
    pub cores: usize,
    /// Vector extensions.
    pub features: Vec<String>,
    /// Version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
        };
        let features = field("flags").split(' ');
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: field("model name").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features.filter(|name| name.starts_with("avx")).map(str::to_owned).collect(),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// The size of the last level of the first processor's cache, as the kernel writes it.
pub fn last_level_cache() -> Option<String> {
    let size = |level: usize| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{level}/size");
        fs::read_to_string(path).ok()
    };
    (0..8).rev().find_map(size).map(|size| size.trim().to_owned())
}
