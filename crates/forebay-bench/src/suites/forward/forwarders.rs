//! Who forwards: the kernel's bridge, nftables, and Forebay by each type of port. Each has
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
use super::broker::{Account, Broker, Port, accepts, configuration};
use super::network::{self, feed, ip};
use super::traffic::{Addressed, SENSORS};
use crate::BenchError;
use crate::cores::Cores;
use crate::peers::process::find;

/// The kinds there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody: frames are counted and dropped where they come in. The floor under all.
    Nobody,
    /// The kernel's bridge, which only forwards: the paper's baseline.
    Bridge,
    /// The bridge, with nftables choosing the destination address.
    NftBridge,
    /// nftables where frames come in, choosing the address and the way out.
    NftNetdev,
    /// An XDP program that sends every frame on, and looks at none: what the kernel takes for
    /// any program that redirects.
    Redirect,
    /// `forebay run`: type of the input, type of the output, workers.
    Broker(&'static str, &'static str, usize),
}

impl Kind {
    /// All, where that many workers can run beside the generator.
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

    /// Its name in the record.
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
        matches!(self, Self::Broker(..)) && !self.is_in_kernel()
    }

    /// Whether `forebay run` has the kernel forward.
    fn is_in_kernel(self) -> bool {
        matches!(self, Self::Broker("xdp", ..))
    }

    /// Who frames have to be for.
    pub fn addressed(self) -> Addressed {
        let chooses = !matches!(self, Self::Bridge | Self::Redirect);
        if chooses { Addressed::ToOne } else { Addressed::ToSensors }
    }

    /// The command that it takes and that is not installed.
    fn missing(self) -> Option<&'static str> {
        let nft = matches!(self, Self::NftBridge | Self::NftNetdev);
        (nft && find("nft").is_none()).then_some("nft")
    }
}

/// Somebody who forwards, and between which interfaces.
pub struct Forwarder {
    /// Who.
    pub kind: Kind,
    /// The number of the interface that the generator sends by.
    pub sender: u32,
    /// The name of that interface.
    pub sends: String,
    /// The name of the interface where frames arrive.
    pub arrives: String,
    /// The names of the two that are forwarded between.
    between: [String; 2],
    what: What,
}

/// What makes it forward, for as long as it is kept.
enum What {
    Kernel,
    Broker(Broker),
    Program { _link: XdpLink },
}

impl What {
    /// A program of ours where frames come in.
    fn program(program: &Program, input: &str) -> Result<Self, BenchError> {
        let index = network::link(input)?.index;
        Ok(Self::Program { _link: XdpLink::attach(program, index, XdpMode::Driver)? })
    }
}

impl Forwarder {
    /// Makes the interfaces of number `number` and somebody who forwards between them.
    /// What is wrong is a note where the machine lacks something.
    pub fn open(
        kind: Kind,
        number: usize,
        program: &Path,
        folder: &Path,
        cores: &Cores,
    ) -> Result<Result<Self, String>, BenchError> {
        if let Some(command) = kind.missing() {
            return Ok(Err(format!("{}: {command} is not installed", kind.name())));
        }
        if kind.is_in_kernel() && !takes_xdp(program, folder)? {
            return Ok(Err(format!("xdp: {} has no ports of that type", program.display())));
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
        let (input_end, output_end) =
            (input.as_str(), if to_tap { arrives.as_str() } else { output.as_str() });
        let what = match kind {
            Kind::Nobody => {
                let (program, _) = counting_program()?;
                What::program(&program, &input)?
            }
            Kind::Redirect => {
                let program = redirecting_program(network::link(&output)?.index)?;
                What::program(&program, &input)?
            }
            Kind::Bridge | Kind::NftBridge => {
                bridge(number, &input, &output)?;
                What::Kernel
            }
            Kind::NftNetdev => What::Kernel,
            Kind::Broker(from, to, workers) => {
                let ports = [
                    Port { kind: from, interface: input_end },
                    Port { kind: to, interface: output_end },
                ];
                let text = configuration(ports[0], ports[1], workers);
                let on = &cores.workers[..workers.min(cores.workers.len())];
                let file = folder.join(format!("run-{number}.toml"));
                What::Broker(Broker::start(program, &text, &file, cores, on)?)
            }
        };
        if to_tap {
            ip(&format!("link set {arrives} up\n"))?;
        }
        // Last, as a broker switches off what glues packets together, and NAPI with it.
        network::receive_by_napi(&sends)?;
        let between = [input, output];
        Ok(Ok(Self { kind, sender, sends, arrives, between, what }))
    }

    /// Gets ready for its turn: rules that others' frames would be held against, too, are
    /// there only while their turn lasts.
    pub fn begin(&self) -> Result<(), BenchError> {
        let [input, output] = &self.between;
        match self.kind {
            Kind::NftBridge => chain(
                "bridge",
                "hook prerouting priority -300",
                &format!("iifname \"{input}\" {}", choice()),
            ),
            Kind::NftNetdev => chain(
                "netdev",
                &format!("hook ingress device \"{input}\" priority 0"),
                &format!("{} fwd to \"{output}\"", choice()),
            ),
            _ => Ok(()),
        }
    }

    /// Ends its turn.
    pub fn end(&self) -> Result<(), BenchError> {
        match self.kind {
            Kind::NftBridge => feed("nft", &["-f", "-"], "delete table bridge bench\n"),
            Kind::NftNetdev => feed("nft", &["-f", "-"], "delete table netdev bench\n"),
            _ => Ok(()),
        }
    }

    /// That it still forwards.
    pub fn check(&mut self) -> Result<(), BenchError> {
        match &mut self.what {
            What::Broker(broker) => broker.check(),
            _ => Ok(()),
        }
    }

    /// Ends it; what became of all frames, where it gives account of that.
    pub fn close(self) -> Result<Option<Account>, BenchError> {
        match self.what {
            What::Broker(broker) => broker.stop().map(Some),
            What::Kernel | What::Program { .. } => Ok(None),
        }
    }
}

/// A program that sends all frames to an interface.
fn redirecting_program(interface: u32) -> Result<Program, BenchError> {
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

/// Whether `program` has ports of type `xdp`.
fn takes_xdp(program: &Path, folder: &Path) -> Result<bool, BenchError> {
    let port = |interface| Port { kind: "xdp", interface };
    accepts(program, &configuration(port("in0"), port("out0"), 1), &folder.join("xdp.toml"))
}

/// Has nftables hold frames against a rule, in a table called `bench`.
fn chain(family: &str, hook: &str, rule: &str) -> Result<(), BenchError> {
    let chain =
        format!("table {family} bench {{\nchain spread {{\ntype filter {hook};\n{rule}\n}}\n}}\n");
    feed("nft", &["-f", "-"], &chain)
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

/// A bridge that knows where the sensors are, and learns nothing.
fn bridge(number: usize, input: &str, output: &str) -> Result<(), BenchError> {
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
