//! Which sensors can be reached, as far as the links of outputs tell.
//!
//! The link of an output says something about a sensor only where the sensor has the
//! output to itself: behind a switch the broker's link may be up while the sensor's is
//! not. Where a group has just one sensor at an output, that sensor is down while the
//! output's link is.

use forebay_io::device::{Change, Watch};

use crate::config::{Config, PortKind};
use crate::group::LiveGroup;
use crate::ports::device_of;

/// An output that is a device.
struct Output {
    number: usize,
    device: String,
    works: bool,
}

/// Follows the links of all outputs that are devices.
pub struct Links {
    watch: Watch,
    outputs: Vec<Output>,
    /// Whether groups have to be told, changed or not.
    is_news: bool,
}

impl Links {
    /// Watches the outputs of `config` from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn open(config: &Config) -> std::io::Result<Self> {
        let mut outputs = Vec::new();
        for (number, port) in config.outputs.iter().enumerate() {
            // The link of a TAP device is up whenever we hold it.
            let device = device_of(port).filter(|_| !matches!(port.kind, PortKind::Tap { .. }));
            outputs.extend(device.map(|device| Output {
                number,
                device: device.to_owned(),
                works: true,
            }));
        }
        let mut links = Self { watch: Watch::open()?, outputs, is_news: true };
        links.look();
        Ok(links)
    }

    /// Has groups that have changed told of the links again.
    pub fn tell_again(&mut self) {
        self.is_news = true;
    }

    /// Tells `groups` what has changed.
    pub fn follow(&mut self, groups: &mut [LiveGroup]) {
        // Links that cannot be watched any more stay as they were: ports tell of failures.
        for change in self.watch.changes().unwrap_or_default() {
            match change {
                Change::Is(link) => self.note(&link.name, link.works()),
                Change::Gone(link) => self.note(&link.name, false),
                Change::Missed => self.look(),
            }
        }
        if !std::mem::take(&mut self.is_news) {
            return;
        }
        for group in groups {
            group.follow_links(|output| {
                let known = self.outputs.iter().find(|known| known.number == output);
                known.is_none_or(|known| known.works)
            });
        }
    }

    /// Looks at all of them anew.
    fn look(&mut self) {
        let devices: Vec<String> = self.outputs.iter().map(|one| one.device.clone()).collect();
        for device in devices {
            let works = self.watch.link(&device).is_ok_and(|link| link.works());
            self.note(&device, works);
        }
    }

    fn note(&mut self, device: &str, works: bool) {
        for output in self.outputs.iter_mut().filter(|output| output.device == device) {
            self.is_news |= output.works != works;
            output.works = works;
        }
    }
}
