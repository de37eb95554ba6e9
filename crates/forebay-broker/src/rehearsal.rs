//! What a start would meet, found without one: devices, files, addresses and the user are
//! looked at in the order of a start, and nothing but the user of this process is changed.

use std::net::TcpListener;
use std::path::Path;

use forebay_bpf::programs::sender::MAX_MTU;
use forebay_io::device::{self, Finding, Link};
use nix::unistd::Uid;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::thread::{CapabilitySet, capabilities};

use crate::answers;
use crate::config::{Config, Port, PortKind, Sending};
use crate::control;
use crate::ports::{self, PortError, xdp};
use crate::privileges;

/// What a start would meet.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// What it would fail for.
    pub failures: Vec<String>,
    /// What it would tell or mend, and what was not looked at.
    pub hints: Vec<String>,
}

impl Rehearsal {
    /// Looks at all that `config` names. The process is the user of the configuration
    /// afterwards, if it may become that user.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let mut found = Self::default();
        found.ports(config);
        found.privileges(config);
        if let Some(socket) = &config.control {
            found.folder_of(socket);
        }
        if found.user(config) {
            found.files(config);
        }
        if let Some(address) = config.metrics
            && let Err(error) = TcpListener::bind(address)
        {
            found.fails(format!("cannot serve metrics at {address}: {error}"));
        }
        found
    }

    fn fails(&mut self, what: impl ToString) {
        self.failures.push(what.to_string());
    }

    /// Takes a result, and returns whether it is one.
    fn holds<T, E: ToString>(&mut self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.fails(error.to_string())).ok()
    }

    fn finding(&mut self, finding: &Finding) {
        let hint = answers::finding(finding);
        if !self.hints.contains(&hint) {
            self.hints.push(hint);
        }
    }

    fn ports(&mut self, config: &Config) {
        self.holds(ports::not_own_inputs(config));
        let mtu = ports::longest(&config.inputs);
        for port in &config.outputs {
            self.port(config, port, "output", mtu);
        }
        for port in &config.inputs {
            self.port(config, port, "input", mtu);
        }
    }

    fn port(&mut self, config: &Config, port: &Port, side: &'static str, mtu: u32) {
        let cannot = |what| PortError::Cannot { side, name: port.name.clone(), what };
        match &port.kind {
            PortKind::Tap { interface } => {
                let there = Link::named(interface).ok();
                if let Some(kind) = there.map(|link| link.kind.unwrap_or_default())
                    && kind != "tun"
                {
                    let what = format!("{interface} is there and is no TAP device");
                    self.fails(cannot(what));
                }
                self.reaches(&port.name, Path::new("/dev/net/tun"), Access::READ_OK);
            }
            PortKind::Pcap { file, .. } => {
                self.holds(ports::only_worker(config.workers, port, side));
                if side == "input" {
                    self.reaches(&port.name, file, Access::READ_OK);
                }
            }
            _ => {
                let Some(name) = port.device() else { return };
                let need = ports::need(&port.kind, side, mtu);
                let wrong = |source| PortError::Device { side, name: port.name.clone(), source };
                let looked = device::check(name, need, false).map_err(wrong);
                let Some((link, findings)) = self.holds(looked) else { return };
                findings.iter().for_each(|finding| self.finding(finding));
                self.limits(port, side, &link, mtu);
            }
        }
    }

    /// What a kind of port demands of its device besides.
    fn limits(&mut self, port: &Port, side: &'static str, link: &Link, mtu: u32) {
        let cannot = |what| PortError::Cannot { side, name: port.name.clone(), what };
        let Link { name: device, rx_queues, tx_queues, .. } = link;
        let wanted = match &port.kind {
            PortKind::AfXdp { queues, .. } if side == "input" => {
                self.holds(xdp::has_all_queues(port, device, *queues));
                Some(*queues)
            }
            PortKind::Xdp { queues, .. } if side == "input" => *queues,
            _ => None,
        };
        // A socket is bound to a queue of either way.
        let there = *rx_queues.max(tx_queues);
        if let Some(wanted) = wanted.filter(|&wanted| wanted > there) {
            let what = format!("`queues` is {wanted}: expected {there} at most, as {device} has");
            self.fails(cannot(what));
        }
        match &port.kind {
            PortKind::AfXdp { send: Sending::Frames, .. }
                if side == "output" && link.mtu as usize > MAX_MTU =>
            {
                let what = format!(
                    "{device} has an MTU of {}: expected {MAX_MTU} at most with `send = \"frames\"`",
                    link.mtu
                );
                self.fails(cannot(what));
            }
            PortKind::AfXdp { send: Sending::Frames, .. } => {}
            PortKind::AfXdp { .. } if side == "output" => {
                xdp::long_frames(device, mtu).iter().for_each(|finding| self.finding(finding));
            }
            _ => {}
        }
    }

    /// Whether a file is there, and may be opened.
    fn reaches(&mut self, of: &str, path: &Path, how: Access) -> bool {
        let allowed = accessat(CWD, path, how, AtFlags::EACCESS);
        let said = allowed.map_err(|error| {
            let error = std::io::Error::from(error);
            format!("{of}: {}: {error}", path.display())
        });
        self.holds(said).is_some()
    }

    /// Names the capabilities that a start takes and this process has not: that its sockets
    /// and programs can be had is known only with them.
    fn privileges(&mut self, config: &Config) {
        const NAMES: [(CapabilitySet, &str); 5] = [
            (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
            (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
            (CapabilitySet::BPF, "CAP_BPF"),
            (CapabilitySet::PERFMON, "CAP_PERFMON"),
            (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
        ];
        let xdp = CapabilitySet::NET_RAW | CapabilitySet::NET_ADMIN | CapabilitySet::BPF;
        let takes = |port: &Port| match &port.kind {
            PortKind::AfPacket { .. } => CapabilitySet::NET_RAW,
            PortKind::AfXdp { send: Sending::Frames, .. } => {
                xdp | CapabilitySet::PERFMON | CapabilitySet::SYS_ADMIN
            }
            PortKind::AfXdp { .. } => xdp,
            PortKind::Xdp { .. } => xdp | CapabilitySet::PERFMON,
            PortKind::Tap { .. } => CapabilitySet::NET_ADMIN,
            PortKind::Pcap { .. } => CapabilitySet::empty(),
        };
        let ports = config.inputs.iter().chain(&config.outputs);
        let taken = ports.map(takes).fold(CapabilitySet::empty(), |all, one| all | one);
        // As of before Linux 5.8, this one holds the others.
        let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let missing: Vec<&str> =
            NAMES.iter().filter(|(one, _)| (taken - has).contains(*one)).map(|of| of.1).collect();
        if !missing.is_empty() {
            self.hints.push(format!(
                "not checked without {}: whether sockets and programs can be had. A start takes \
                 root or these capabilities",
                missing.join(", ")
            ));
        }
    }

    /// Whether the folder of the control socket is there, or can be made.
    fn folder_of(&mut self, socket: &Path) {
        let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
            return;
        };
        if folder.is_dir() {
            return;
        }
        let of = format!("cannot make {} for the control socket", folder.display());
        if folder.exists() {
            self.fails(format!("{of}: it is there and is no folder"));
        } else if let Some(above) = folder.parent() {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            self.reaches(&of, above, Access::WRITE_OK | Access::EXEC_OK);
        }
    }

    /// Becomes the user that files are written by. Says whether it has.
    fn user(&mut self, config: &Config) -> bool {
        let Some(user) = &config.user else { return true };
        let Some((number, _)) = self.holds(privileges::numbers_of(user)) else { return false };
        let now = Uid::effective();
        if !now.is_root() && now.as_raw() != number {
            self.hints
                .push(format!("not checked, as that takes root: what user `{user}` may write to"));
            return false;
        }
        self.holds(privileges::become_user(user, false)).is_some()
    }

    /// What is written by the user of the configuration.
    fn files(&mut self, config: &Config) {
        let writes = Access::WRITE_OK | Access::EXEC_OK;
        let beside = |path: &Path| match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => Path::new(".").to_owned(),
        };
        if let Some(socket) = &config.control {
            self.holds(control::is_free(socket));
            let folder = beside(socket);
            // One that is not there is made for the user.
            if folder.is_dir() {
                self.reaches("control socket", &folder, writes);
            }
        }
        for port in &config.outputs {
            let PortKind::Pcap { file, rotate, .. } = &port.kind else { continue };
            let found = std::fs::symlink_metadata(file);
            // Of files that follow one another none has this name.
            if rotate.is_none() && found.is_ok_and(|found| !found.is_file()) {
                let file = file.display();
                self.fails(format!("output {}: {file} is no regular file", port.name));
            }
            self.reaches(&format!("output {}", port.name), &beside(file), writes);
        }
    }
}
