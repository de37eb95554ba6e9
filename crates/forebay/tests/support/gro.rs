//! Switches GRO of a device as old programs do, by `ETHTOOL_SGRO` (linux/ethtool.h).

use std::io;

/// A request of `SIOCETHTOOL` (linux/if.h, `ifreq`): a name, and where the command is.
#[repr(C)]
struct Request {
    name: [u8; 16],
    command: *mut [u32; 2],
    rest: [u64; 2],
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_SGRO: u32 = 0x2c;

/// Switches it on or off.
pub fn switch_gro(device: &str, on: bool) {
    let mut command = [ETHTOOL_SGRO, u32::from(on)];
    let mut name = [0; 16];
    name[..device.len()].copy_from_slice(device.as_bytes());
    let request = Request { name, command: &raw mut command, rest: [0; 2] };
    // SAFETY: the request has the layout and length of an `ifreq`, and its command, a value of
    // two words, outlives the call. The descriptor is closed here alone.
    let result = unsafe {
        let socket = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let result = libc::ioctl(socket, SIOCETHTOOL as _, &raw const request);
        libc::close(socket);
        result
    };
    assert_eq!(result, 0, "{device}: {}", io::Error::last_os_error());
}
