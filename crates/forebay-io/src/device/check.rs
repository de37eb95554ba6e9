//! Checks whether a device is suitable for a port, and reconfigures it.
//!
//! Each setting that would coalesce, change or lose packets without the port's knowledge is
//! checked separately. A setting that is not as required is a [`Finding`]: fixed if that
//! was requested and the system permits it, else reported with the command that fixes it. A
//! device that no port can use is an error.
//!
//! Offloads are named as in the kernel; `ethtool -K` accepts the same names.

use std::fs;
use std::io;

use super::elsewhere::{self, Found};
use super::error::DeviceError;
use super::ethtool::{Ethtool, Feature};
use super::link::{Link, Links};

/// Requirements of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The port receives packets.
    pub receive: bool,
    /// The port sends packets.
    pub send: bool,
    /// The port works below the stack, with XDP, and does not get tags and checksums that
    /// are kept beside a packet.
    pub xdp: bool,
    /// The least MTU, or 0.
    pub mtu: u32,
}

/// What was done about a finding, or can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Fixed.
    Mended,
    /// Not fixed; this command fixes it.
    Command(String),
    /// Not fixed; only the operator can decide whether it is intended.
    Noted,
}

/// A setting that is not as required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The device.
    pub device: String,
    /// The name of the check, one word, stable across versions.
    pub check: &'static str,
    /// The setting, and its effect on packets.
    pub what: String,
    /// What was done about it, or can be done.
    pub remedy: Remedy,
}

/// Offloads that coalesce received packets.
const GLUE: &[&str] = &["rx-gro", "rx-lro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding"];

/// What they do.
const GLUES: &str = "makes one packet of several";

/// Offloads by which the other end of a veth pair delivers packets before segmentation.
const UNCUT: &[&str] = &[
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp6-segmentation",
    "tx-generic-segmentation",
    "tx-udp-segmentation",
];

/// Offloads that keep a received VLAN tag beside its packet.
const TAGS_IN: &[&str] = &["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// Offloads that keep the VLAN tag of a packet to be sent beside it.
const TAGS_OUT: &[&str] = &["tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"];

/// Offloads that leave checksums to a device; the other end of a veth pair does not
/// complete them.
const CHECKSUMS: &[&str] = &["tx-checksum-ip-generic", "tx-checksum-ipv4", "tx-checksum-ipv6"];

/// Checks `device` for a port with these requirements, fixes what it can if `may_mend`, and
/// returns the device's final state and the findings.
///
/// # Errors
/// If there is no such device, it does not carry Ethernet frames, or the system does not
/// report its state.
pub fn check(
    device: &str,
    need: Need,
    may_mend: bool,
) -> Result<(Link, Vec<Finding>), DeviceError> {
    let mut links = Links::open(device)?;
    let link = links.named(device)?.ethernet()?;
    let mut checker = Checker { links, may_mend, findings: Vec::new() };
    checker.link_state(&link, need);
    if need.receive {
        checker.receiving(&link, need)?;
    }
    if need.send {
        checker.sending(&link, need)?;
    }
    if need.receive {
        checker.host_stack(&link, "the host answers packets received there");
    } else if need.send {
        checker.host_stack(&link, "the host sends packets of its own there");
    }
    let link = checker.links.named(device)?;
    if link.up && !link.carrier {
        let what = "no carrier: its cable or other end is missing or down".to_owned();
        checker.find(&link.name, "carrier", what, || false, None);
    }
    Ok((link, checker.findings))
}

/// The other end of a device.
enum End {
    /// There is none.
    None,
    /// A known device.
    Known(Device),
    /// A device in a namespace that has no name, or may not be entered.
    Unknown,
}

/// A device whose offloads are checked.
struct Device {
    name: String,
    /// Its namespace, if it is another one.
    namespace: Option<String>,
    /// `None` if its driver has no offloads.
    tool: Option<Ethtool>,
}

impl Device {
    /// A device in our namespace.
    fn here(name: &str) -> Result<Self, DeviceError> {
        let tool = match Ethtool::open(name) {
            Ok(tool) => Some(tool),
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => None,
            Err(error) => return Err(DeviceError::system(name, ASK)(error)),
        };
        Ok(Self { name: name.to_owned(), namespace: None, tool })
    }

    fn feature(&self, name: &str) -> Result<Option<Feature>, DeviceError> {
        let Some(tool) = &self.tool else { return Ok(None) };
        tool.feature(name).map_err(DeviceError::system(&self.name, ASK))
    }

    fn is_on(&self, name: &str) -> Result<bool, DeviceError> {
        Ok(self.feature(name)?.is_some_and(|feature| feature.on))
    }

    /// Switches an offload; returns whether it then has the wanted state. Devices of other
    /// namespaces are not changed.
    fn set(&self, name: &str, on: bool) -> bool {
        let tool = self.tool.as_ref().filter(|_| self.namespace.is_none());
        tool.is_some_and(|tool| tool.set(name, on).unwrap_or(false))
    }

    /// Those of some offloads that are on: which can be switched, and which cannot.
    fn those_on<'a>(&self, names: &[&'a str]) -> Result<[Vec<&'a str>; 2], DeviceError> {
        let [mut switched, mut fixed] = [const { Vec::new() }; 2];
        for &name in names {
            match self.feature(name)?.filter(|feature| feature.on) {
                Some(feature) if feature.changeable => switched.push(name),
                Some(_) => fixed.push(name),
                None => {}
            }
        }
        Ok([switched, fixed])
    }

    /// The command that switches these off.
    fn command_off(&self, names: &[&str]) -> String {
        let off: Vec<String> = names.iter().map(|name| format!("{name} off")).collect();
        self.command(&off.join(" "))
    }

    /// The command that switches offloads.
    fn command(&self, switched: &str) -> String {
        let within = self.namespace.as_ref().map(|namespace| format!("ip netns exec {namespace} "));
        format!("{}ethtool -K {} {switched}", within.unwrap_or_default(), self.name)
    }

    /// Its name in findings.
    fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{} of namespace {namespace}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Offloads of a device that make one packet of several, for a process that looks at them again after
/// its start.
pub struct Coalescing(Device);

impl Coalescing {
    /// Opens what it takes to ask for them. It takes no privileges, then or later.
    ///
    /// # Errors
    /// If there is no such device, or the system does not report its offloads.
    pub fn open(device: &str) -> Result<Self, DeviceError> {
        Device::here(device).map(Self)
    }

    /// The finding about those that are on and can be switched off, if there are any. Nothing is
    /// changed.
    ///
    /// # Errors
    /// The system's, also when the device is gone.
    pub fn find(&self) -> Result<Option<Finding>, DeviceError> {
        let [switched, _] = self.0.those_on(GLUE)?;
        Ok((!switched.is_empty()).then(|| Finding {
            device: self.0.title(),
            check: "glue",
            what: are_on(&switched, GLUES),
            remedy: Remedy::Command(self.0.command_off(&switched)),
        }))
    }
}

/// The state of a check.
struct Checker {
    links: Links,
    may_mend: bool,
    findings: Vec<Finding>,
}

impl Checker {
    /// Adds a finding, after trying to fix it.
    fn find(
        &mut self,
        device: &str,
        check: &'static str,
        what: String,
        mend: impl FnOnce() -> bool,
        command: Option<String>,
    ) {
        let remedy = match command {
            Some(_) if self.may_mend && mend() => Remedy::Mended,
            Some(command) => Remedy::Command(command),
            None => Remedy::Noted,
        };
        self.findings.push(Finding { device: device.to_owned(), check, what, remedy });
    }

    /// The device must be up, with a sufficient MTU.
    fn link_state(&mut self, link: &Link, need: Need) {
        let name = &link.name;
        if link.mtu < need.mtu {
            let what = format!("its MTU is {}: longer packets are lost", link.mtu);
            let mended = self.may_mend && self.links.set(link.index, false, Some(need.mtu)).is_ok();
            let command = format!("ip link set dev {name} mtu {}", need.mtu);
            self.find(name, "mtu", what, || mended, Some(command));
        }
        if !link.up {
            let mended = self.may_mend && self.links.set(link.index, true, None).is_ok();
            let command = format!("ip link set dev {name} up");
            self.find(name, "down", "it is down".to_owned(), || mended, Some(command));
        }
    }

    /// Settings that change received packets.
    fn receiving(&mut self, link: &Link, need: Need) -> Result<(), DeviceError> {
        let own = Device::here(&link.name)?;
        self.offloads(&own, "glue", GLUE, GLUES)?;
        if need.xdp {
            self.offloads(&own, "tags", TAGS_IN, "keeps VLAN tags beside their packets")?;
        }
        match other_end(&mut self.links, link)? {
            End::Known(peer) => {
                self.offloads(&peer, "uncut", UNCUT, "hands over packets not yet cut up")?;
                if need.xdp {
                    self.offloads(&peer, "tags", TAGS_OUT, "keeps VLAN tags beside their packets")?;
                    self.offloads(&peer, "checksums", CHECKSUMS, "hands over half-done checksums")?;
                }
            }
            End::Unknown => {
                let what = "its other end is in another namespace, and may hand over packets not \
                            yet cut up, unless tso, gso, tx and txvlan are off there"
                    .to_owned();
                self.find(&link.name, "uncut", what, || false, None);
            }
            End::None => {}
        }
        // A VLAN device or similar receives through the device below it.
        let below = link.peer.filter(|_| !is_veth(link));
        if let Some(below) = below.and_then(|below| self.links.numbered(below).ok().flatten()) {
            self.offloads(&Device::here(&below.name)?, "glue", GLUE, GLUES)?;
        }
        Ok(())
    }

    /// Settings that lose sent packets.
    fn sending(&mut self, link: &Link, need: Need) -> Result<(), DeviceError> {
        self.bridge(link);
        if !need.xdp {
            return Ok(());
        }
        // Frames that XDP redirects to a veth device are received by the NAPI of its other
        // end, which runs if GRO is on, or if that end has an XDP program.
        let lost = "has no NAPI: redirected frames vanish, unless an XDP program is attached";
        match other_end(&mut self.links, link)? {
            End::Known(peer) if !peer.is_on("rx-gro")? => {
                let command = peer.command("gro on");
                let mend = || peer.set("rx-gro", true);
                self.find(&peer.title(), "napi", format!("it {lost}"), mend, Some(command));
            }
            End::Unknown => {
                let what = format!(
                    "its other end is in another namespace, and perhaps {lost}, or gro is on there"
                );
                self.find(&link.name, "napi", what, || false, None);
            }
            End::Known(_) | End::None => {}
        }
        Ok(())
    }

    /// A bridge at the other end that passes frames to netfilter.
    fn bridge(&mut self, link: &Link) {
        let peer = link.peer.filter(|_| is_veth(link));
        let peer = peer.and_then(|peer| self.links.numbered(peer).ok().flatten());
        if peer.is_none_or(|peer| peer.master.is_none()) {
            return;
        }
        for tables in ["iptables", "ip6tables", "arptables"] {
            let setting = format!("/proc/sys/net/bridge/bridge-nf-call-{tables}");
            if is_set(&setting) {
                let what = format!("the bridge behind it lets {tables} drop frames");
                let command = format!("sysctl -w net.bridge.bridge-nf-call-{tables}=0");
                let mend = || fs::write(&setting, "0").is_ok();
                self.find(&link.name, "bridge-netfilter", what, mend, Some(command));
            }
        }
    }

    /// Offloads that must be off: one finding for all that can be switched, one for the
    /// others.
    fn offloads(
        &mut self,
        device: &Device,
        check: &'static str,
        names: &[&str],
        does: &str,
    ) -> Result<(), DeviceError> {
        let [switched, fixed] = device.those_on(names)?;
        let command = device.command_off(&switched);
        for (names, command) in [(switched, Some(command)), (fixed, None)] {
            if names.is_empty() {
                continue;
            }
            let what = are_on(&names, does);
            // Switch all of them, even if one fails.
            let mend = || names.iter().filter(|name| !device.set(name, false)).count() == 0;
            self.find(&device.title(), check, what, mend, command);
        }
        Ok(())
    }

    /// The host's own stack sending on a tap, or to sensors. Disabling IPv6 would remove a
    /// configured address for good, so a device with one is not changed.
    fn host_stack(&mut self, link: &Link, does: &str) {
        let setting = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", link.name);
        if fs::read_to_string(&setting).is_ok_and(|value| value.trim() == "0") {
            let what = format!("IPv6 is on: {does}");
            let command = format!("sysctl -w net.ipv6.conf.{}.disable_ipv6=1", link.name);
            let addresses = fs::read_to_string("/proc/thread-self/net/if_inet6");
            let is_host_s = addresses.is_ok_and(|text| has_given_address(&text, &link.name));
            let mend = || !is_host_s && fs::write(&setting, "1").is_ok();
            self.find(&link.name, "ipv6", what, mend, Some(command));
        }
    }
}

/// Whether a device has an address besides its automatic ones, from the text of
/// /proc/net/if_inet6: address, number, prefix length, scope, flags and name, hexadecimal.
fn has_given_address(text: &str, device: &str) -> bool {
    /// The scope of a link-local address.
    const OF_LINK: &str = "20";
    text.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(5) == Some(&device) && fields.get(3).is_some_and(|scope| *scope != OF_LINK)
    })
}

/// Says that offloads are on, and what that does.
fn are_on(names: &[&str], does: &str) -> String {
    let are = if names.len() == 1 { "is" } else { "are" };
    format!("{} {are} on, which {does}", names.join(", "))
}

const ASK: &str = "read its offloads";

fn is_veth(link: &Link) -> bool {
    link.kind.as_deref() == Some("veth")
}

fn is_set(setting: &str) -> bool {
    fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1")
}

/// The other end of a veth pair.
fn other_end(links: &mut Links, link: &Link) -> Result<End, DeviceError> {
    if !is_veth(link) {
        return Ok(End::None);
    }
    if let Some(peer) = link.peer.and_then(|peer| links.numbered(peer).ok().flatten()) {
        return Device::here(&peer.name).map(End::Known);
    }
    let found = link.elsewhere.and_then(elsewhere::find);
    Ok(found.map_or(End::Unknown, |Found { namespace, name, tool }| {
        End::Known(Device { name, namespace: Some(namespace), tool: Some(tool) })
    }))
}

/// The command that switches offloads, like `gro on`, at the other end of a veth device, if
/// that end can be found.
#[must_use]
pub fn at_other_end(device: &str, switched: &str) -> Option<String> {
    let mut links = Links::open(device).ok()?;
    let link = links.named(device).ok()?;
    match other_end(&mut links, &link).ok()? {
        End::Known(peer) => Some(peer.command(switched)),
        End::Unknown | End::None => None,
    }
}

/// The name of the device's driver.
///
/// # Errors
/// The system's, including that the driver does not report it.
pub fn driver(device: &str) -> Result<String, DeviceError> {
    let asked = Ethtool::open(device).and_then(|tool| tool.driver());
    asked.map_err(DeviceError::system(device, "read its driver"))
}

/// Receive queues in use, as reported by the driver, else by the kernel.
///
/// # Errors
/// If there is no such device, or the system's error.
pub fn receive_queues(device: &str) -> Result<u32, DeviceError> {
    let asked: io::Result<u32> = Ethtool::open(device).and_then(|tool| tool.receive_queues());
    match asked {
        Ok(queues) if queues > 0 => Ok(queues),
        _ => Ok(Link::named(device)?.rx_queues),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_address_is_not_one_of_the_link() {
        let text = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fd000000000000000000000000000001 02 40 00 80     eth0\n\
                    fe80000000000000000000fffe000001 02 40 20 80     eth0\n\
                    fe80000000000000000000fffe000002 03 40 20 80     tap0\n";
        assert!(has_given_address(text, "eth0"));
        assert!(!has_given_address(text, "tap0") && !has_given_address(text, "eth"));
        assert!(!has_given_address("", "eth0"));
    }
}
