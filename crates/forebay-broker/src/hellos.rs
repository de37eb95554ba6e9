//! Hears the sensors' hellos, at the outputs that lead to them.
//!
//! Each device that is an output has a socket for the frames of their EtherType alone, so
//! that hellos reach the broker whatever other traffic comes from there. A hello counts
//! for the sensors that it names, and only at the output that leads to them. All others
//! are counted, and a notice names each sender once.

use forebay_io::af_packet::FrameSocket;
use forebay_packet::MacAddress;

use crate::config::{Config, PortKind};
use crate::flooding::Turn;
use crate::group::LiveGroup;
use crate::hello::{ETHER_TYPE, Hello, MAX_FRAME};
use crate::ports::{PortError, io_error};

/// The most frames that one call receives; the rest waits in the socket.
const MOST_FRAMES: usize = 1024;

/// The most strangers that are remembered, so that each is reported once.
const MOST_STRANGERS: usize = 16;

/// How many frames came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelloCounts {
    /// Hellos of sensors.
    pub heard: u64,
    /// Hellos from senders that are not expected at that output.
    pub unknown: u64,
    /// Frames that are no hellos of this version.
    pub malformed: u64,
}

struct Ear {
    /// The output's number and name.
    output: usize,
    name: String,
    socket: FrameSocket,
}

/// Where hellos come in.
pub struct Hellos {
    ears: Vec<Ear>,
    counts: HelloCounts,
    strangers: Vec<(usize, MacAddress, String)>,
}

impl Hellos {
    /// Listens at all outputs that are devices.
    ///
    /// # Errors
    /// [`PortError`]: the first device that cannot be listened to.
    pub fn open(config: &Config) -> Result<Self, PortError> {
        let mut ears = Vec::new();
        for (output, port) in config.outputs.iter().enumerate() {
            let device = port.device().filter(|_| !matches!(port.kind, PortKind::Tap { .. }));
            let Some(device) = device else { continue };
            let failed = io_error("output", port);
            let socket = FrameSocket::open(device, ETHER_TYPE).map_err(&failed)?;
            // A sensor may answer to where its frames seem to come from.
            let behind = config.groups.iter().flat_map(|group| &group.sensors);
            let own = behind.filter(|sensor| sensor.output == output);
            let mut addresses: Vec<MacAddress> =
                own.filter_map(|sensor| sensor.rewrite.source).collect();
            addresses.dedup();
            for address in addresses {
                socket.hear_address(address).map_err(&failed)?;
            }
            ears.push(Ear { output, name: port.name.clone(), socket });
        }
        Ok(Self { ears, counts: HelloCounts::default(), strangers: Vec::new() })
    }

    /// How many frames came until now.
    #[must_use]
    pub fn counts(&self) -> HelloCounts {
        self.counts
    }

    /// Takes in what has come, and gives what is worth telling.
    pub fn take(&mut self, groups: &mut [LiveGroup], now: u64) -> Vec<String> {
        let mut notices = Vec::new();
        let mut frame = [0; MAX_FRAME];
        for ear in &self.ears {
            for _ in 0..MOST_FRAMES {
                // A device that fails is reported by its port.
                let Ok(Some(len)) = ear.socket.receive(&mut frame) else { break };
                let Some(hello) = Hello::of_frame(&frame[..len]) else {
                    self.counts.malformed += 1;
                    continue;
                };
                if hear(groups, ear.output, &hello, now, &mut notices) {
                    self.counts.heard += 1;
                    continue;
                }
                self.counts.unknown += 1;
                let stranger = (ear.output, hello.from, hello.name);
                if self.strangers.len() < MOST_STRANGERS && !self.strangers.contains(&stranger) {
                    let (_, from, name) = &stranger;
                    notices.push(format!(
                        "output {}: {from} (`{name}`) says hello, and is no sensor with \
                         `hello = true` there",
                        ear.name
                    ));
                    self.strangers.push(stranger);
                }
            }
        }
        notices
    }
}

/// Passes a hello on to the sensors that it is about; returns whether there are any.
fn hear(
    groups: &mut [LiveGroup],
    output: usize,
    hello: &Hello,
    now: u64,
    notices: &mut Vec<String>,
) -> bool {
    let mut any = false;
    for group in groups {
        for index in group.speakers(output, hello) {
            any = true;
            let Some(turn) = group.hello(index, hello, now) else { continue };
            let name = group.sensor(index).map_or("?", |sensor| sensor.name.as_str());
            let what = match turn {
                Turn::Began => "gets frames for others: the switch floods",
                Turn::Ended => "gets no frames for others any more",
            };
            notices.push(format!("group {}: sensor {name} {what}", group.config.name));
        }
    }
    any
}
