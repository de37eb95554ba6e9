//! What memory the broker has, and how much there is to be had.
//!
//! Nothing can be done about memory that the system refuses in the middle of a computation:
//! the process ends, by the allocator's hand or the kernel's. So a computation that may take
//! much is watched instead: it ends before less than [`RESERVE`] is left of what limits the
//! process, or when it has taken more than it may. Limits of address space have to leave as
//! much as it has taken already, because a vector that grows takes as much again at once.
//!
//! The limits: those of the memory controller of its control groups (version 1 or 2), each
//! without the pages of files, which the kernel takes back; those of the process
//! (`RLIMIT_AS`, `RLIMIT_DATA`); and the machine's available memory.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_packet::cancel::Watch;

/// The key of the configuration that limits the memory of a preparation.
pub const KEY: &str = "reload_memory";

/// What is left for all else, in bytes.
const RESERVE: u64 = 32 << 20;

/// Memory that can still be had, and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Room {
    bytes: u64,
    limit: String,
    /// Whether memory counts that was not written to yet.
    is_of_addresses: bool,
}

/// Where these values come from.
#[derive(Clone, Debug)]
struct System {
    /// `/proc`
    proc: PathBuf,
    /// `/sys/fs/cgroup`
    cgroups: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self { proc: "/proc".into(), cgroups: "/sys/fs/cgroup".into() }
    }
}

/// A watch over a computation that begins now and may take `most` bytes, as the key `key`
/// says.
#[must_use]
pub fn watch(most: u64, key: &'static str) -> Watch {
    let system = System::default();
    let before = system.resident();
    Box::new(move || {
        let grown = system.resident().saturating_sub(before);
        if grown > most {
            return Err(format!("it takes more than {}, what `{key}` allows", bytes(most)));
        }
        system.suffices(0, grown)
    })
}

/// Whether a computation can begin that takes at least `need` bytes.
///
/// # Errors
/// Why not.
pub fn suffices(need: u64, most: u64, key: &str) -> Result<(), String> {
    if need > most {
        let (need, most) = (bytes(need), bytes(most));
        return Err(format!("it takes at least {need}, more than `{key}` allows, {most}"));
    }
    System::default().suffices(need, 0)
}

impl System {
    /// Whether there is room for `need` bytes more, after a computation has taken `taken`.
    fn suffices(&self, need: u64, taken: u64) -> Result<(), String> {
        for room in self.rooms() {
            let reserve = if room.is_of_addresses { taken.max(RESERVE) } else { RESERVE };
            if room.bytes < need.saturating_add(reserve) {
                let (left, limit) = (bytes(room.bytes), room.limit);
                let (need, reserve) = (bytes(need), bytes(reserve));
                return Err(format!(
                    "there is no memory for it: {left} are left by {limit}, and it takes at least \
                     {need}, with {reserve} kept free"
                ));
            }
        }
        Ok(())
    }

    /// Bytes of the process that are in memory.
    fn resident(&self) -> u64 {
        self.pages(1)
    }

    /// A number of `/proc/self/statm` (proc_pid_statm(5)), in bytes.
    fn pages(&self, field: usize) -> u64 {
        let text = fs::read_to_string(self.proc.join("self/statm")).unwrap_or_default();
        let pages = text.split_whitespace().nth(field).and_then(|word| word.parse::<u64>().ok());
        pages.unwrap_or(0).saturating_mul(rustix::param::page_size() as u64)
    }

    /// The room that each limit leaves which is known.
    fn rooms(&self) -> impl Iterator<Item = Room> {
        self.process().into_iter().chain(self.groups()).chain(self.machine())
    }

    fn machine(&self) -> Option<Room> {
        let text = fs::read_to_string(self.proc.join("meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        let limit = "this machine".to_owned();
        Some(Room { bytes: kibibytes << 10, limit, is_of_addresses: false })
    }

    /// By the limits of the process (proc_pid_limits(5)).
    fn process(&self) -> Vec<Room> {
        let text = fs::read_to_string(self.proc.join("self/limits")).unwrap_or_default();
        // Size of the address space; of the data segment, with its private mappings.
        let limits = [("Max address space", 0, "RLIMIT_AS"), ("Max data size", 5, "RLIMIT_DATA")];
        let room = |(name, field, limit): (&str, usize, &str)| {
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            let most: u64 = rest.split_whitespace().next()?.parse().ok()?;
            let bytes = most.saturating_sub(self.pages(field));
            Some(Room { bytes, limit: limit.to_owned(), is_of_addresses: true })
        };
        limits.into_iter().filter_map(room).collect()
    }

    /// By the limits of its control groups and of those above them.
    fn groups(&self) -> Vec<Room> {
        let text = fs::read_to_string(self.proc.join("self/cgroup")).unwrap_or_default();
        let mut rooms = Vec::new();
        for line in text.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let version = match controllers {
                "" => &VERSION_2,
                _ if controllers.split(',').any(|name| name == "memory") => &VERSION_1,
                _ => continue,
            };
            for place in version.places {
                // In a container the path may be one of the host's: then the top is ours.
                let top = self.cgroups.join(place);
                let own = top.join(path.trim_start_matches('/'));
                let own = if own.is_dir() { own } else { top.clone() };
                let all = own.ancestors().take_while(|folder| folder.starts_with(&top));
                rooms.extend(all.filter_map(|folder| version.room(folder)));
            }
        }
        rooms
    }
}

/// The names of the memory controller's files.
struct Version {
    /// Where it is mounted, below the folder of control groups.
    places: &'static [&'static str],
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat` that count pages of files.
    files: [&'static str; 2],
}

const VERSION_1: Version = Version {
    places: &["memory"],
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};

const VERSION_2: Version = Version {
    places: &["", "unified"],
    limit: "memory.max",
    usage: "memory.current",
    files: ["inactive_file", "active_file"],
};

impl Version {
    fn room(&self, folder: &Path) -> Option<Room> {
        let number = |name: &str| -> Option<u64> {
            fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
        };
        // Without a limit it is a word in version 2, and more than there can be in version 1.
        let limit = number(self.limit).filter(|&limit| limit < 1 << 62)?;
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let mut words = stat.lines().filter_map(|line| line.split_once(' '));
        let files: u64 = words
            .by_ref()
            .filter(|(name, _)| self.files.contains(name))
            .filter_map(|(_, number)| number.parse::<u64>().ok())
            .sum();
        let used = number(self.usage)?.saturating_sub(files);
        let bytes = limit.saturating_sub(used);
        let limit = format!("the memory limit of {}", folder.display());
        Some(Room { bytes, limit, is_of_addresses: false })
    }
}

/// An amount of memory for people.
fn bytes(amount: u64) -> String {
    format!("{} MiB", amount.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 8 GiB and what is in some of its files besides.
    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let folder = tempfile::tempdir().unwrap();
        let meminfo = ("proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:   8388608 kB\n");
        for (name, text) in [&meminfo].into_iter().chain(files) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system =
            System { proc: folder.path().join("proc"), cgroups: folder.path().join("cgroup") };
        (folder, system)
    }

    #[test]
    fn the_machine_s_available_memory_is_the_room_where_nothing_else_limits() {
        let (_folder, system) = system(&[]);
        assert_eq!(system.suffices(1 << 30, 0), Ok(()));
        let refused = system.suffices(8 << 30, 0).unwrap_err();
        assert!(refused.contains("8192 MiB are left by this machine"), "{refused}");
    }

    #[test]
    fn each_control_group_on_the_way_up_limits_without_the_pages_of_files() {
        for (line, place, limit, usage, file) in [
            ("0::/a/b", "cgroup", "memory.max", "memory.current", "inactive_file"),
            ("0::/a/b", "cgroup/unified", "memory.max", "memory.current", "active_file"),
            (
                "3:cpu:/x\n2:hugetlb,memory:/a/b",
                "cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_active_file",
            ),
        ] {
            let own = |name: &str| format!("{place}/a/b/{name}");
            let above = |name: &str| format!("{place}/a/{name}");
            let stat = format!("anon 5\n{file} {}\n", 10 << 20);
            let (_folder, system) = system(&[
                ("proc/self/cgroup", line),
                (&own(limit), "max"),
                (&own(usage), "7"),
                (&above(limit), &(100_u64 << 20).to_string()),
                (&above(usage), &(90_u64 << 20).to_string()),
                (&above("memory.stat"), &stat),
            ]);
            let refused = system.suffices(0, 0).unwrap_err();
            let left = format!("{place}/a, ");
            assert!(refused.contains("20 MiB are left") && refused.contains(&left), "{refused}");
        }
    }

    #[test]
    fn the_limits_of_the_process_count_what_it_has_already() {
        let limits = "Limit            Soft Limit   Hard Limit  Units\n\
                      Max data size    104857600    unlimited   bytes\n\
                      Max address space  unlimited  unlimited   bytes\n";
        let page = rustix::param::page_size() as u64;
        let statm = format!("9999 500 1 1 0 {} 0", (60 << 20) / page);
        let (_folder, system) =
            system(&[("proc/self/limits", limits), ("proc/self/statm", &statm)]);
        assert_eq!(system.resident(), 500 * page);
        assert_eq!(system.suffices(0, 0), Ok(()));
        // What grows may take as much again.
        let refused = system.suffices(0, 41 << 20).unwrap_err();
        assert!(refused.contains("40 MiB are left by RLIMIT_DATA"), "{refused}");
    }

    #[test]
    fn a_computation_may_take_no_more_than_it_is_allowed() {
        assert!(suffices(2 << 20, 1 << 20, "some_key").unwrap_err().contains("`some_key`"));
        let watch = watch(16 << 20, "some_key");
        assert_eq!(watch(), Ok(()));
        let much = vec![1_u8; 128 << 20];
        let refused = watch().unwrap_err();
        assert_eq!(refused, "it takes more than 16 MiB, what `some_key` allows");
        drop(much);
    }
}
