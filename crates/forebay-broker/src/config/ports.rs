//! Inputs and outputs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_io::OnFull;
use forebay_pipeline::units;
use toml::Spanned;

use super::error::Fault;
use super::raw;
use super::values::{bounded, choice, names, read};

/// The most queues of a device.
const MAX_QUEUES: u64 = 64;

/// Default bytes of a ring. An input's holds what comes while its worker does not run; an
/// output's is used in order, and is faster where the processor's cache holds it.
const INPUT_RING: usize = 16 << 20;
const OUTPUT_RING: usize = 2 << 20;

/// How long a full ring is waited for, by default.
const WAIT: Duration = Duration::from_millis(1);

/// Longest that a full ring may be waited for: packets pile up in front meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// An input or output.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// What it is called in the ledger and in metrics.
    pub name: String,
    /// What it is.
    pub kind: PortKind,
    /// Bytes of its ring.
    pub ring: usize,
    /// How long a full ring is waited for before a packet is lost.
    pub wait: Duration,
    /// The number of the output that an input's packets go to, past all stages and groups.
    pub to: Option<usize>,
}

/// Kinds of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Rings shared with the kernel.
    AfPacket {
        /// The device.
        interface: String,
        /// Whether frames for other stations are received.
        promiscuous: bool,
    },
    /// Rings below the kernel's network stack.
    AfXdp {
        /// The device.
        interface: String,
        /// Its queues, from 0.
        queues: u32,
        /// Whether frames for other stations are received.
        promiscuous: bool,
        /// How it sends.
        send: Sending,
    },
    /// A program in the device's driver.
    Xdp {
        /// The device.
        interface: String,
        /// Its queues that user space gets packets from; none means all.
        queues: Option<u32>,
        /// Whether frames for other stations are received.
        promiscuous: bool,
    },
    /// A virtual Ethernet device of the broker's own.
    Tap {
        /// What it is called.
        interface: String,
    },
    /// A capture file.
    Pcap {
        /// The file.
        file: PathBuf,
        /// What becomes of a recorder that cannot write.
        on_full: OnFull,
        /// When a recorder begins another file.
        rotate: Option<Rotate>,
    },
}

/// When a recorder begins another file, and how many it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotate {
    /// Bytes after which it does.
    pub size: Option<u64>,
    /// Seconds after which it does.
    pub every: Option<u64>,
    /// Files that are kept.
    pub keep: Option<u64>,
}

const ON_FULL: [(&str, OnFull); 2] = [("retry", OnFull::Retry), ("stop", OnFull::Stop)];

/// Bounds of the files that follow one another.
const LEAST_SIZE: usize = 64 << 10;
const LEAST_TIME: Duration = Duration::from_secs(1);
const MOST_FILES: u64 = 100_000;

/// How an output of type `af_xdp` sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sending {
    /// By a socket's transmit ring.
    #[default]
    Ring,
    /// Frames are redirected to the device by a program.
    Frames,
}

const SENDINGS: [(&str, Sending); 2] = [("ring", Sending::Ring), ("frames", Sending::Frames)];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    AfPacket,
    AfXdp,
    Xdp,
    Tap,
    Pcap,
}

const KINDS: [(&str, Kind); 5] = [
    ("af_packet", Kind::AfPacket),
    ("af_xdp", Kind::AfXdp),
    ("xdp", Kind::Xdp),
    ("tap", Kind::Tap),
    ("pcap", Kind::Pcap),
];

impl PortKind {
    /// Whether its packets go from device to device within the kernel.
    #[must_use]
    pub fn is_in_kernel(&self) -> bool {
        matches!(self, Self::Xdp { .. })
    }
}

/// The ports of one side.
pub fn check(raw: &[Spanned<raw::Port>], side: &str) -> Result<Vec<Port>, Fault> {
    if raw.is_empty() {
        return Err(Fault::new(0..0, format!("no {side}: expected at least one [[{side}]]")));
    }
    names(raw.iter().map(|port| &port.get_ref().name), side)?;
    let is_output = side == "output";
    let ports: Vec<Port> = raw.iter().map(|raw| port(raw, is_output)).collect::<Result<_, _>>()?;
    for (i, port) in ports.iter().enumerate() {
        let same = |other: &&Port| (other.device(), other.file()) == (port.device(), port.file());
        if let Some(other) = ports[..i].iter().find(same) {
            let what = format!("{side} `{}` has the same place as `{}`", port.name, other.name);
            return Err(Fault::new(raw[i].span(), what));
        }
    }
    Ok(ports)
}

impl Port {
    /// Its network device, if it is one.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        match &self.kind {
            PortKind::AfPacket { interface, .. }
            | PortKind::AfXdp { interface, .. }
            | PortKind::Xdp { interface, .. }
            | PortKind::Tap { interface } => Some(interface),
            PortKind::Pcap { .. } => None,
        }
    }

    /// Whether workers get packets from some of its queues only.
    pub(crate) fn limits_queues(&self) -> bool {
        matches!(self.kind, PortKind::Xdp { queues: Some(_), .. })
    }

    /// Its capture file, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.kind {
            PortKind::Pcap { file, .. } => Some(file),
            _ => None,
        }
    }
}

fn port(port: &Spanned<raw::Port>, is_output: bool) -> Result<Port, Fault> {
    let raw = port.get_ref();
    let usual_ring = if is_output { OUTPUT_RING } else { INPUT_RING };
    let kind = choice(&raw.kind, "port type", &KINDS)?;
    applies(raw, kind, is_output)?;
    let interface = || -> Result<String, Fault> {
        let kind = raw.kind.get_ref();
        let missing =
            || Fault::new(port.span(), format!("a port of type {kind} without `interface`"));
        let name = raw.interface.as_ref().ok_or_else(missing)?;
        device_name(name)
    };
    let promiscuous = raw.promiscuous.as_ref().is_none_or(|value| *value.get_ref());
    let kind = match kind {
        Kind::AfPacket => PortKind::AfPacket { interface: interface()?, promiscuous },
        Kind::AfXdp => {
            let queues = bounded(raw.queues.as_ref(), 1..=MAX_QUEUES, "queues")?.unwrap_or(1);
            let send = raw.send.as_ref().map(|text| choice(text, "way to send", &SENDINGS));
            let (interface, send) = (interface()?, send.transpose()?.unwrap_or_default());
            PortKind::AfXdp { interface, queues: queues as u32, promiscuous, send }
        }
        Kind::Xdp => {
            let queues = bounded(raw.queues.as_ref(), 1..=MAX_QUEUES, "queues")?;
            let queues = queues.map(|queues| queues as u32);
            PortKind::Xdp { interface: interface()?, queues, promiscuous }
        }
        Kind::Tap => PortKind::Tap { interface: interface()? },
        Kind::Pcap => {
            let file = raw.file.as_ref().map(|file| PathBuf::from(file.get_ref()));
            let missing = || Fault::new(port.span(), "a port of type pcap without `file`");
            let on_full = raw.on_full.as_ref().map(|text| choice(text, "on_full", &ON_FULL));
            PortKind::Pcap {
                file: file.ok_or_else(missing)?,
                on_full: on_full.transpose()?.unwrap_or_default(),
                rotate: raw.rotate.as_ref().map(rotate).transpose()?,
            }
        }
    };
    let ring = read(raw.ring.as_ref(), units::size)?.unwrap_or(usual_ring);
    if !(1 << 16..=1 << 32).contains(&ring) {
        let at = raw.ring.as_ref().map_or(port.span(), Spanned::span);
        return Err(Fault::new(at, format!("a ring of {ring} bytes: expected 64KiB to 4GiB")));
    }
    let wait = read(raw.wait.as_ref(), units::duration)?.unwrap_or(WAIT);
    if wait > LONGEST_WAIT {
        let at = raw.wait.as_ref().map_or(port.span(), Spanned::span);
        return Err(Fault::new(at, "a full ring can be waited for up to 1s"));
    }
    Ok(Port { name: raw.name.get_ref().clone(), kind, ring, wait, to: None })
}

/// Finds the outputs of inputs that have one of their own.
pub fn return_paths(
    raw: &[Spanned<raw::Port>],
    inputs: &mut [Port],
    outputs: &[Port],
) -> Result<(), Fault> {
    for (raw, input) in raw.iter().zip(&mut *inputs) {
        let Some(name) = &raw.get_ref().to else { continue };
        let output = outputs.iter().position(|output| output.name == *name.get_ref());
        let unknown =
            || Fault::new(name.span(), format!("there is no output `{}`", name.get_ref()));
        let output = output.ok_or_else(unknown)?;
        if input.device().is_some() && input.device() == outputs[output].device() {
            let what = "`to` with an output by the same device: expected another one";
            return Err(Fault::new(name.span(), what));
        }
        input.to = Some(output);
    }
    match inputs.iter().any(|input| input.to.is_none()) {
        true => Ok(()),
        false => Err(Fault::new(0..0, "all inputs have `to`: expected one for the groups")),
    }
}

/// When another file begins.
pub(super) fn rotate(raw: &Spanned<raw::Rotate>) -> Result<Rotate, Fault> {
    let raw::Rotate { size, every, keep } = raw.get_ref();
    let bytes = read(size.as_ref(), |text| {
        let bytes = units::size(text).map_err(|error| error.to_string())?;
        if bytes >= LEAST_SIZE {
            Ok(bytes as u64)
        } else {
            Err("files of less than 64KiB".to_owned())
        }
    })?;
    let seconds = read(every.as_ref(), |text| {
        let time = units::duration(text).map_err(|error| error.to_string())?;
        if time >= LEAST_TIME {
            Ok(time.as_secs())
        } else {
            Err("files of less than 1s".to_owned())
        }
    })?;
    if bytes.or(seconds).is_none() {
        return Err(Fault::new(raw.span(), "`rotate` without `size` and without `every`"));
    }
    let keep = bounded(keep.as_ref(), 1..=MOST_FILES, "files")?;
    Ok(Rotate { size: bytes, every: seconds, keep })
}

/// Whether all keys given are of the port's type.
fn applies(raw: &raw::Port, kind: Kind, is_output: bool) -> Result<(), Fault> {
    let span = |given: Option<std::ops::Range<usize>>, key, kinds: &[Kind]| match given {
        Some(at) if !kinds.contains(&kind) => {
            let kind = raw.kind.get_ref();
            // Keys of one side only identify it.
            let of_outputs = ["send", "on_full", "rotate"].contains(&key);
            let port = if of_outputs && !is_output { "an input" } else { "a port" };
            Err(Fault::new(at, format!("key `{key}` has no meaning for {port} of type {kind}")))
        }
        _ => Ok(()),
    };
    let devices = [Kind::AfPacket, Kind::AfXdp, Kind::Xdp, Kind::Tap];
    span(raw.interface.as_ref().map(Spanned::span), "interface", &devices)?;
    span(raw.file.as_ref().map(Spanned::span), "file", &[Kind::Pcap])?;
    span(raw.queues.as_ref().map(Spanned::span), "queues", &devices[1..3])?;
    span(raw.ring.as_ref().map(Spanned::span), "ring", &devices[..3])?;
    span(raw.wait.as_ref().map(Spanned::span), "wait", &devices)?;
    let sending = if is_output { &devices[1..2] } else { &[] };
    span(raw.send.as_ref().map(Spanned::span), "send", sending)?;
    let recording = if is_output { &[Kind::Pcap][..] } else { &[] };
    span(raw.on_full.as_ref().map(Spanned::span), "on_full", recording)?;
    span(raw.rotate.as_ref().map(Spanned::span), "rotate", recording)?;
    if let (Some(to), true) = (&raw.to, is_output) {
        return Err(Fault::new(to.span(), "key `to` has no meaning for an output"));
    }
    // The kernel's program knows groups only.
    let returning = [Kind::AfPacket, Kind::AfXdp, Kind::Tap, Kind::Pcap];
    span(raw.to.as_ref().map(Spanned::span), "to", &returning)?;
    span(raw.promiscuous.as_ref().map(Spanned::span), "promiscuous", &devices[..3])
}

/// The name of a network device, which the kernel limits to 15 bytes.
fn device_name(name: &raw::Text) -> Result<String, Fault> {
    let text = name.get_ref();
    let fits = |c: char| !c.is_whitespace() && c != '/' && c != ':' && !c.is_control();
    if text.is_empty() || text.len() > 15 || text == "." || text == ".." || !text.chars().all(fits)
    {
        return Err(Fault::new(
            name.span(),
            format!(
                "`{text}` is no network device: expected a name of 1 to 15 bytes without spaces, \
                 `/` and `:`"
            ),
        ));
    }
    Ok(text.clone())
}
