//! Forwarders: the kernel's bridge, nftables, and Forebay by each type of port. Each has
//! interfaces of its own, so that all are ready all the time.
//!
//! ```text
//!   send3 ──veth── in3 → forwarder 3 → out3 ──veth── arrive3
//! ```

use std::path::Path;

use forebay_bpf::asm::Register::{R1, R2, R3};
use forebay_bpf::asm::{Assembler, Helper};
use forebay_bpf::map::DeviceMap;
use forebay_bpf::{Action, Program, XdpLink, XdpMode};

use super::arrival::counting_program;
use super::broker::{Account, Broker, accepts, configuration};
use super::network::{self, feed, ip};
use super::traffic::{Addressed, SENSORS};
use crate::cores::Cores;
use crate::failure::Result;
use crate::peers::process::find;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No forwarder: frames are counted and dropped at the input, the floor under all.
    Nobody,
    /// The kernel's bridge, which only forwards: the paper's baseline.
    Bridge,
    /// The bridge, with nftables choosing the destination address.
    NftBridge,
    /// nftables at the input, choosing the address and the output.
    NftNetdev,
    /// An XDP program that redirects every frame without reading it: the cost of any program
    /// that redirects.
    Redirect,
    /// `forebay run`: type of the input, type of the output, workers.
    Broker(&'static str, &'static str, usize),
}

impl Kind {
    /// All forwarders, where that many workers can run beside the generator.
    pub fn all(workers: usize) -> Vec<Self> {
        let mut all = vec![Self::Bridge, Self::NftBridge, Self::NftNetdev];
        for n in [1, 2, 4].into_iter().filter(|&n| n <= workers.max(1)) {
            all.push(Self::Broker("af_packet", "af_packet", n));
            all.push(Self::Broker("af_xdp", "af_xdp", n));
        }
        all.push(Self::Broker("af_xdp", "af_xdp-frames", 1));
        all.push(Self::Broker("af_packet", "tap", 1));
        all.push(Self::Broker("xdp", "xdp", 1));
        all.push(Self::Redirect);
        all
    }

    /// The name in the record.
    pub fn name(self) -> String {
        match self {
            Self::Nobody => "generator".to_owned(),
            Self::Bridge => "bridge".to_owned(),
            Self::NftBridge => "nft-bridge".to_owned(),
            Self::NftNetdev => "nft-netdev".to_owned(),
            Self::Redirect => "redirect".to_owned(),
            Self::Broker("xdp", ..) => "xdp".to_owned(),
            Self::Broker(_, output, workers) => format!("{output}-{workers}"),
        }
    }

    /// Whether packets leave the kernel, on other processors than the generator's.
    pub fn is_user_space(self) -> bool {
        matches!(self, Self::Broker(..)) && !self.is_xdp()
    }

    fn is_xdp(self) -> bool {
        matches!(self, Self::Broker("xdp", ..))
    }

    pub fn addressed(self) -> Addressed {
        let chooses = !matches!(self, Self::Bridge | Self::Redirect);
        if chooses { Addressed::ToOne } else { Addressed::ToSensors }
    }
}

/// A forwarder between two interfaces.
pub struct Forwarder {
    pub kind: Kind,
    /// The index and name of the interface that the generator sends by.
    pub sender: u32,
    pub sends: String,
    /// The name of the interface where frames arrive.
    pub arrives: String,
    /// The names of the two that are forwarded between.
    between: [String; 2],
    running: Running,
}

/// What has to be kept for a forwarder to run.
enum Running {
    Kernel,
    Broker(Broker),
    Program { _link: XdpLink },
}

impl Running {
    fn program(program: &Program, input: &str) -> Result<Self> {
        let index = network::link(input)?.index;
        Ok(Self::Program { _link: XdpLink::attach(program, index, XdpMode::Driver)? })
    }
}

impl Forwarder {
    /// Makes the interfaces of number `number` and a forwarder between them; a note where the
    /// machine or the program lacks something.
    pub fn open(
        kind: Kind,
        number: usize,
        program: &Path,
        folder: &Path,
        cores: &Cores,
    ) -> Result<Result<Self>> {
        if matches!(kind, Kind::NftBridge | Kind::NftNetdev) && find("nft").is_none() {
            return Ok(Err(format!("{}: nft is not installed", kind.name()).into()));
        }
        let xdp = configuration(("xdp", "in0"), ("xdp", "out0"), 1);
        if kind.is_xdp() && !accepts(program, &xdp, &folder.join("xdp.toml"))? {
            return Ok(Err(format!("xdp: {} has no ports of that type", program.display()).into()));
        }
        let [sends, input, output, arrives] =
            ["send", "in", "out", "arrive"].map(|name| format!("{name}{number}"));
        network::pair(&sends, &input)?;
        let to_tap = matches!(kind, Kind::Broker(_, "tap", _));
        let arrives = if to_tap { format!("tap{number}") } else { arrives };
        if !to_tap {
            network::pair(&output, &arrives)?;
            network::receive_by_napi(&output)?;
        }
        let sender = network::link(&sends)?.index;
        let running = match kind {
            Kind::Nobody => Running::program(&counting_program()?.0, &input)?,
            Kind::Redirect => {
                let program = redirecting_program(network::link(&output)?.index)?;
                Running::program(&program, &input)?
            }
            Kind::Bridge | Kind::NftBridge => {
                bridge(number, &input, &output)?;
                Running::Kernel
            }
            Kind::NftNetdev => Running::Kernel,
            Kind::Broker(from, to, workers) => {
                let output = if to_tap { &arrives } else { &output };
                let text = configuration((from, &input), (to, output), workers);
                let on = &cores.workers[..workers.min(cores.workers.len())];
                let file = folder.join(format!("run-{number}.toml"));
                Running::Broker(Broker::start(program, &text, &file, cores, on)?)
            }
        };
        if to_tap {
            ip(&format!("link set {arrives} up\n"))?;
        }
        // Last, as a broker switches off segmentation offloads, and NAPI with them.
        network::receive_by_napi(&sends)?;
        let between = [input, output];
        Ok(Ok(Self { kind, sender, sends, arrives, between, running }))
    }

    /// Begins a turn: rules that would also apply to frames of other forwarders are there
    /// only during their turns, and brokers pause between theirs.
    pub fn begin(&self) -> Result<()> {
        if let Running::Broker(broker) = &self.running {
            broker.resume()?;
        }
        let [input, output] = &self.between;
        let (family, hook, rule) = match self.kind {
            Kind::NftBridge => {
                let rule = format!("iifname \"{input}\" {}", choice());
                ("bridge", "hook prerouting priority -300".to_owned(), rule)
            }
            Kind::NftNetdev => {
                let hook = format!("hook ingress device \"{input}\" priority 0");
                ("netdev", hook, format!("{} fwd to \"{output}\"", choice()))
            }
            _ => return Ok(()),
        };
        let chain = format!("chain spread {{\ntype filter {hook};\n{rule}\n}}");
        feed("nft", &["-f", "-"], &format!("table {family} bench {{\n{chain}\n}}\n"))
    }

    pub fn end(&self) -> Result<()> {
        if let Running::Broker(broker) = &self.running {
            broker.pause()?;
        }
        match self.kind {
            Kind::NftBridge => feed("nft", &["-f", "-"], "delete table bridge bench\n"),
            Kind::NftNetdev => feed("nft", &["-f", "-"], "delete table netdev bench\n"),
            _ => Ok(()),
        }
    }

    /// Fails if a broker has ended.
    pub fn check(&mut self) -> Result<()> {
        match &mut self.running {
            Running::Broker(broker) => broker.check(),
            _ => Ok(()),
        }
    }

    /// Ends the forwarder. Returns a broker's account of all frames.
    pub fn close(self) -> Result<Option<Account>> {
        match self.running {
            Running::Broker(broker) => broker.stop().map(Some),
            Running::Kernel | Running::Program { .. } => Ok(None),
        }
    }
}

/// A program that sends all frames to an interface.
fn redirecting_program(interface: u32) -> Result<Program> {
    let devices = DeviceMap::create("bench_output", 1)?;
    devices.set(0, interface)?;
    let mut asm = Assembler::new();
    asm.load_map(R1, &devices);
    asm.mov(R2, 0);
    asm.mov(R3, Action::Aborted as i32);
    asm.call(Helper::RedirectMap);
    asm.exit();
    let kind = forebay_bpf::Kind::Xdp { multi_buffer: false };
    Ok(Program::load("bench_redirect", kind, asm)?)
}

/// L2NAT in nftables' language: the hash of a flow chooses a sensor's address.
fn choice() -> String {
    let sensors: Vec<String> =
        SENSORS.iter().enumerate().map(|(number, mac)| format!("{number} : {mac}")).collect();
    format!(
        "ether daddr set jhash ip saddr . ip daddr . udp sport . udp dport mod {} seed 0xf0eba map \
         {{ {} }}",
        SENSORS.len(),
        sensors.join(", ")
    )
}

/// A bridge with static entries for the sensors, which learns nothing.
fn bridge(number: usize, input: &str, output: &str) -> Result<()> {
    ip(&format!(
        "link add bridge{number} type bridge stp_state 0 mcast_snooping 0\n\
         link set {input} master bridge{number}\n\
         link set {output} master bridge{number}\n\
         link set {input} type bridge_slave learning off\n\
         link set {output} type bridge_slave learning off\n\
         link set bridge{number} up\n"
    ))?;
    let entries: String =
        SENSORS.iter().map(|mac| format!("fdb add {mac} dev {output} master static\n")).collect();
    feed("bridge", &["-batch", "-"], &entries)
}
