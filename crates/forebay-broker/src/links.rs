//! The links of ports: which work, which do not, and which devices are gone.
//!
//! The kernel also notifies of offloads that are switched. Those of an input that make one packet of
//! several were switched off at the start; if one is on again, sensors may get packets longer than the
//! MTU, which is reported.
//!
//! A link that goes down, or comes back, is reported, and so is a device that was deleted: its port
//! is of no further use, whether or not packets come for it.
//!
//! The link of an output shows the state of a sensor only where the sensor has the
//! output to itself: behind a switch the broker's link may be up while the sensor's is
//! not. Where a group has just one sensor at an output, that sensor is down while the
//! output's link is.

use forebay_io::device::{Change, Coalescing, DeviceError, Finding, Link, Watch};

use crate::answers;
use crate::config::{Config, Port, PortKind};
use crate::group::LiveGroup;

/// What a device can be found as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Works,
    Down,
    NoCarrier,
    /// Deleted, or in another namespace: for good, as a device of that name is another one.
    Gone,
}

impl LinkState {
    fn of(link: &Link) -> Self {
        match (link.up, link.carrier) {
            (true, true) => Self::Works,
            (true, false) => Self::NoCarrier,
            (false, _) => Self::Down,
        }
    }
}

/// A port that is a device.
struct Watched {
    /// "input" or "output", and its number on that side.
    side: &'static str,
    number: usize,
    name: String,
    device: String,
    /// The device's number, if it was there at the start.
    index: Option<u32>,
    state: LinkState,
    /// Its offloads that make one packet of several, if packets are received behind them, and what
    /// was found of them last.
    coalescing: Option<Coalescing>,
    found: Option<Finding>,
}

/// Follows the links of all ports that are devices.
pub struct Links {
    watch: Watch,
    ports: Vec<Watched>,
    /// Whether groups must be informed, changed or not.
    is_news: bool,
    /// Notices to print.
    notices: Vec<String>,
}

impl Links {
    /// Watches the ports of `config` from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn open(config: &Config) -> std::io::Result<Self> {
        let mut links =
            Self { watch: Watch::open()?, ports: Vec::new(), is_news: true, notices: Vec::new() };
        for (side, ports) in [("input", &config.inputs), ("output", &config.outputs)] {
            let each = ports.iter().enumerate();
            each.for_each(|(number, port)| links.add(side, number, port));
        }
        Ok(links)
    }

    fn add(&mut self, side: &'static str, number: usize, port: &Port) {
        // The link of a TAP device is up whenever we hold it.
        let device = port.device().filter(|_| !matches!(port.kind, PortKind::Tap { .. }));
        let Some(device) = device else { return };
        let link = self.watch.link(device).ok();
        // XDP takes packets before they are joined. A device that cannot be asked has been told of at the
        // start.
        let joins = side == "input" && matches!(port.kind, PortKind::AfPacket { .. });
        let coalescing = joins.then(|| Coalescing::open(device).ok()).flatten();
        let found = coalescing.as_ref().and_then(|coalescing| coalescing.find().ok().flatten());
        self.ports.push(Watched {
            side,
            number,
            name: port.name.clone(),
            device: device.to_owned(),
            index: link.as_ref().map(|link| link.index),
            state: link.as_ref().map_or(LinkState::Gone, LinkState::of),
            coalescing,
            found,
        });
    }

    /// Informs groups that have changed of the links again.
    pub fn tell_again(&mut self) {
        self.is_news = true;
    }

    /// Informs `groups` of what has changed, and returns the notices for people.
    pub fn follow(&mut self, groups: &mut [LiveGroup]) -> Vec<String> {
        // Links that cannot be watched any more stay as they were: ports tell of failures.
        for change in self.watch.changes().unwrap_or_default() {
            match change {
                Change::Is(link) => {
                    self.note(link.index, LinkState::of(&link));
                    self.note_offloads(link.index);
                }
                Change::Gone(link) => self.note(link.index, LinkState::Gone),
                Change::Missed => self.look(),
            }
        }
        if std::mem::take(&mut self.is_news) {
            for group in groups {
                group.follow_links(|output| self.works(output));
            }
        }
        std::mem::take(&mut self.notices)
    }

    fn works(&self, output: usize) -> bool {
        let mut known = self.ports.iter().filter(|port| port.side == "output");
        let known = known.find(|port| port.number == output);
        known.is_none_or(|port| port.state == LinkState::Works)
    }

    /// Whether packets can go through the port of that side and name; true where it is no
    /// device. A queue of an input has the queue's number behind its name.
    #[must_use]
    pub fn is_up(&self, side: &str, name: &str) -> bool {
        let is_it = |port: &&Watched| {
            let rest = name.strip_prefix(&port.name);
            port.side == side && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.ports.iter().find(is_it).is_none_or(|port| port.state == LinkState::Works)
    }

    /// Ports whose devices are gone.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let gone = self.ports.iter().filter(|port| port.state == LinkState::Gone);
        gone.map(|port| {
            let Watched { side, name, device, .. } = port;
            let error = DeviceError::Gone { device: device.clone() };
            format!("{side} {name}: {error}")
        })
        .collect()
    }

    /// Looks at all of them anew.
    fn look(&mut self) {
        let devices: Vec<(Option<u32>, String)> =
            self.ports.iter().map(|port| (port.index, port.device.clone())).collect();
        for (index, device) in devices {
            let Some(index) = index else { continue };
            let link = self.watch.link(&device).ok().filter(|link| link.index == index);
            self.note(index, link.as_ref().map_or(LinkState::Gone, LinkState::of));
            self.note_offloads(index);
        }
    }

    /// Reports offloads that make one packet of several and that were off when last asked.
    fn note_offloads(&mut self, index: u32) {
        for port in self.ports.iter_mut().filter(|port| port.index == Some(index)) {
            let Some(coalescing) = &port.coalescing else { continue };
            // A device that is gone is told of as such.
            let Ok(found) = coalescing.find() else { continue };
            if let Some(finding) = found.as_ref().filter(|_| found != port.found) {
                let Watched { side, name, .. } = port;
                self.notices.push(format!("{side} {name}: {}", answers::finding(finding)));
            }
            port.found = found;
        }
    }

    fn note(&mut self, index: u32, state: LinkState) {
        for port in self.ports.iter_mut().filter(|port| port.index == Some(index)) {
            if port.state == state || port.state == LinkState::Gone {
                continue;
            }
            port.state = state;
            self.is_news = true;
            let Watched { side, name, device, .. } = port;
            let what = match state {
                LinkState::Works => format!("{device} is up again"),
                LinkState::Down => format!("{device} is down: run `ip link set dev {device} up`"),
                LinkState::NoCarrier => {
                    format!("{device} has no carrier: its cable or other end is missing or down")
                }
                LinkState::Gone => format!("{device} was deleted: the port is of no further use"),
            };
            self.notices.push(format!("{side} {name}: {what}"));
        }
    }
}
