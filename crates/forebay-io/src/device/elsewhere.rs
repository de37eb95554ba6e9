//! Devices in other network namespaces, if these have names (ip-netns(8)).

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::ethtool::Ethtool;
use super::link::{Elsewhere, Links};
use super::netlink::{Netlink, RTM_GETNSID, attributes, i32_at, push_attribute};

/// The folder of namespace names.
const NAMES: &str = "/run/netns";

/// The most names examined.
const MOST: usize = 4096;

/// Bytes of the `rtgenmsg` at the start of a message about a namespace.
const GENERAL: usize = 4;

/// Attributes of such a message (linux/net_namespace.h).
const NUMBER: u16 = 1;
const DESCRIPTOR: u16 = 3;

/// A device of another namespace.
pub(super) struct Found {
    /// The namespace's name.
    pub namespace: String,
    /// The device's name.
    pub name: String,
    /// Its driver's settings.
    pub tool: Ethtool,
}

/// Finds the device, if its namespace has a name and may be entered.
pub(super) fn find(place: Elsewhere) -> Option<Found> {
    let mut netlink = Netlink::open(0).ok()?;
    for entry in fs::read_dir(NAMES).ok()?.take(MOST).flatten() {
        let name = entry.file_name();
        let Some(namespace) = name.to_str().filter(|name| is_plain(name)) else { continue };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let Ok(file) = open(entry.path(), flags, Mode::empty()) else { continue };
        if number_of(&mut netlink, file.as_fd()) != Some(place.namespace) {
            continue;
        }
        let namespace = namespace.to_owned();
        // In a new thread, so that this thread stays in its namespace.
        let look = move || {
            let network = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(file.as_fd(), network).ok()?;
            let link = Links::new().ok()?.numbered(place.index).ok()??;
            let tool = Ethtool::open(&link.name).ok()?;
            is_plain(&link.name).then_some(Found { namespace, name: link.name, tool })
        };
        let thread = thread::Builder::new().name("forebay-netns".to_owned()).spawn(look).ok()?;
        return thread.join().ok()?;
    }
    None
}

/// The number of a namespace as seen from ours, if it has one.
fn number_of(netlink: &mut Netlink, namespace: BorrowedFd<'_>) -> Option<i32> {
    let mut request = vec![0; GENERAL];
    push_attribute(&mut request, DESCRIPTOR, &namespace.as_raw_fd().to_ne_bytes());
    let answer = netlink.ask(RTM_GETNSID, &request).ok()??;
    let number = attributes(answer.get(GENERAL..)?).find(|(kind, _)| *kind == NUMBER)?;
    // Negative for a namespace without a number.
    i32_at(number.1, 0).filter(|&number| number >= 0)
}

/// Whether a name needs no quoting in a shell; names may be chosen by others.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:@-".contains(&byte);
    !name.starts_with('-') && !name.is_empty() && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_takes_apart_are_not_printed_in_commands() {
        assert!(["eth0", "ids-1", "a.100", "veth@if3"].iter().all(|name| is_plain(name)));
        for name in ["", "-x", "a b", "a;reboot", "$(x)", "a`b`", "a\nb", "é", "a/b"] {
            assert!(!is_plain(name), "{name:?}");
        }
    }
}
