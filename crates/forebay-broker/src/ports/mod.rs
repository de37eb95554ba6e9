//! Opens the ports that a configuration names.
//!
//! Each worker gets a receiver and a transmitter of its own for each device. Devices are
//! looked at first, and what can be mended is: see `forebay_io::device`.

mod checks;
mod error;
pub(crate) mod xdp;

use std::os::fd::AsFd as _;
use std::sync::mpsc::{self, SyncSender};

use forebay_bpf::link::XdpLink;
use forebay_bpf::programs::fanout;
use forebay_bpf::programs::quiet::Quiet;
use forebay_io::af_packet::{PacketRx, PacketTx, RxOptions, TxOptions};
use forebay_io::device::{self, Finding, Link, Need, Promiscuous, Remedy};
use forebay_io::tap::{Tap, TapOptions, TapRx, TapTx};
use forebay_io::{
    CaptureRx, CaptureTx, Format, Naming, Placement, ReadOptions, Reader, Rx, Series,
    SeriesOptions, Tx, WriteOptions,
};
use forebay_packet::HashKey;

use crate::config::{Config, Port, PortKind};
use crate::hello::ETHER_TYPE;
use crate::kernel::Kernel;
use crate::worker::{Input, Output};
use checks::{has_address, is_below_others};

pub(crate) use checks::{longest, need, not_own_inputs, only_worker};
pub use error::PortError;
pub(crate) use error::io_error;

/// Bytes of a slot of a transmit ring: an Ethernet frame, and some for the kernel.
const SLOT: usize = 2048;

/// Notices of recorders that wait for the broker's thread. What comes while so many wait is
/// in the ledger alone.
const MOST_NOTICES: usize = 64;

/// The ports of one worker.
#[derive(Default)]
pub struct WorkerPorts {
    /// Where its packets come from.
    pub inputs: Vec<Input>,
    /// Where they go, in the order of the configuration.
    pub outputs: Vec<Output>,
}

/// All ports, and what was found out about their devices.
pub struct Ports {
    /// One element a worker.
    pub workers: Vec<WorkerPorts>,
    /// What was not as it should be.
    pub findings: Vec<Finding>,
    /// What recorders say.
    pub notices: mpsc::Receiver<String>,
    /// What devices do for us as long as this lives.
    pub programs: Vec<Attached>,
    /// TAP devices, which are inputs and outputs at once: the ends not yet taken.
    taps: Vec<OpenTap>,
    /// The longest packets that inputs can bring, as MTU of their devices.
    mtu: u32,
}

/// What a device does for us: it runs a program, receives all frames, keeps them from the
/// host.
#[derive(Default)]
pub struct Attached {
    _program: Option<XdpLink>,
    _promiscuous: Option<Promiscuous>,
    _quiet: Option<Quiet>,
}

struct OpenTap {
    name: String,
    receivers: Vec<TapRx>,
    senders: Vec<TapTx>,
}

impl Ports {
    /// Opens what `config` names. `hash_key` shares packets out to workers. Ports of type
    /// `xdp` become those of `kernel`.
    ///
    /// # Errors
    /// [`PortError`]: the first port that cannot be opened.
    pub fn open(
        config: &Config,
        hash_key: &HashKey,
        mut kernel: Option<&mut Kernel>,
    ) -> Result<Self, PortError> {
        let (told, notices) = mpsc::sync_channel(MOST_NOTICES);
        let mut ports = Self {
            notices,
            workers: Vec::new(),
            findings: Vec::new(),
            programs: Vec::new(),
            taps: Vec::new(),
            mtu: longest(&config.inputs),
        };
        ports.workers.resize_with(config.workers, WorkerPorts::default);
        not_own_inputs(config)?;
        for port in &config.outputs {
            ports.open_output(port, hash_key, &told)?;
            if let Some(kernel) = &mut kernel {
                ports.open_kernel_output(port, kernel)?;
            }
        }
        if let Some(kernel) = &mut kernel {
            ports.findings.extend(kernel.watch_losses());
        }
        // Last, so that nothing is received before it can go anywhere.
        for port in &config.inputs {
            match &mut kernel {
                Some(kernel) if port.kind.is_in_kernel() => {
                    ports.open_kernel_input(config, port, kernel)?;
                }
                _ => ports.open_input(port, hash_key)?,
            }
        }
        Ok(ports)
    }

    fn look_at(
        &mut self,
        port: &Port,
        side: &'static str,
        need: Need,
    ) -> Result<Option<Link>, PortError> {
        let Some(name) = port.device() else { return Ok(None) };
        let wrong = |source| PortError::Device { side, name: port.name.clone(), source };
        let (link, findings) = device::check(name, need, true).map_err(wrong)?;
        self.findings.extend(findings);
        Ok(Some(link))
    }

    fn open_input(&mut self, port: &Port, hash_key: &HashKey) -> Result<(), PortError> {
        let need = need(&port.kind, "input", 0);
        let receivers: Vec<Box<dyn Rx>> = match &port.kind {
            PortKind::AfPacket { promiscuous, .. } => {
                let link = self.look_at(port, "input", need)?;
                let quiet = link.and_then(|link| self.quiet(&link));
                self.programs.extend(quiet);
                packet_receivers(port, *promiscuous, self.workers.len(), hash_key)?
            }
            PortKind::Xdp { .. } => {
                let what = "its packets stay in the kernel".to_owned();
                return Err(PortError::Cannot { side: "input", name: port.name.clone(), what });
            }
            PortKind::Tap { interface } => {
                let receivers = &mut self.tap(interface, port, "input", hash_key)?.receivers;
                receivers.drain(..).map(|tap| -> Box<dyn Rx> { Box::new(tap) }).collect()
            }
            PortKind::Pcap { file, .. } => {
                only_worker(self.workers.len(), port, "input")?;
                let reader = Reader::open(file, &ReadOptions::default());
                vec![Box::new(CaptureRx::new(reader.map_err(io_error("input", port))?))]
            }
            PortKind::AfXdp { queues, promiscuous, .. } => {
                let link = self.look_at(port, "input", need)?;
                let wrong =
                    |source| PortError::Device { side: "input", name: port.name.clone(), source };
                let wanted = link.as_ref().filter(|_| *promiscuous);
                let joined = wanted.map(Promiscuous::join).transpose().map_err(wrong)?;
                let Some(link) = link else { return Ok(()) };
                let opened = xdp::receive(port, &link, *queues, self.workers.len(), hash_key)?;
                self.look_who_runs_xdp(&link.name);
                let program = Some(opened.link);
                self.programs.push(Attached {
                    _program: program,
                    _promiscuous: joined,
                    ..Attached::default()
                });
                for (worker, receivers) in self.workers.iter_mut().zip(opened.by_worker) {
                    for (queue, receiver) in receivers.into_iter().enumerate() {
                        let name = match queues {
                            1 => port.name.clone(),
                            _ => format!("{}.{queue}", port.name),
                        };
                        worker.inputs.push(Input { name, port: receiver, to: port.to });
                    }
                }
                return Ok(());
            }
        };
        for (worker, receiver) in self.workers.iter_mut().zip(receivers) {
            worker.inputs.push(Input { name: port.name.clone(), port: receiver, to: port.to });
        }
        Ok(())
    }

    /// Notes where the program of an input is run by the network stack.
    fn look_who_runs_xdp(&mut self, device: &str) {
        // A device that is gone by now will say so itself.
        if Link::named(device).is_ok_and(|link| link.runs_xdp_in_stack) {
            let what = "its driver runs no XDP programs: the network stack runs the one that \
                        receives, later and more slowly";
            self.findings.push(Finding {
                device: device.to_owned(),
                check: "xdp",
                what: what.to_owned(),
                remedy: Remedy::Noted,
            });
        }
    }

    /// An input whose packets the kernel steers; workers get the rest.
    fn open_kernel_input(
        &mut self,
        config: &Config,
        port: &Port,
        kernel: &mut Kernel,
    ) -> Result<(), PortError> {
        let need = need(&port.kind, "input", 0);
        let Some(link) = self.look_at(port, "input", need)? else { return Ok(()) };
        let by_worker = kernel.open_input(config, port, &link)?;
        self.look_who_runs_xdp(&link.name);
        for (worker, receivers) in self.workers.iter_mut().zip(by_worker) {
            let named = receivers.into_iter().map(|rx| Input {
                name: port.name.clone(),
                port: rx,
                to: port.to,
            });
            worker.inputs.extend(named);
        }
        Ok(())
    }

    /// An output that the kernel sends to, besides the workers.
    fn open_kernel_output(&mut self, port: &Port, kernel: &mut Kernel) -> Result<(), PortError> {
        let need = need(&port.kind, "output", kernel.mtu());
        match self.look_at(port, "output", need)? {
            Some(link) => kernel.open_output(port, link),
            None => Ok(()),
        }
    }

    /// Keeps the host from hearing a tap, but for sensors' hellos. One that has an address,
    /// belongs to a bridge, or is below another device, as a VLAN's, is the host's as well,
    /// and stays so.
    fn quiet(&mut self, link: &Link) -> Option<Attached> {
        let name = &link.name;
        let is_host_s = link.master.is_some() || has_address(name) || is_below_others(link);
        let quiet = if is_host_s { None } else { Quiet::attach(link.index, ETHER_TYPE).ok() };
        if quiet.is_none() {
            let (why, remedy) = if is_host_s {
                ("it has an address, a bridge or a device above it", Remedy::Noted)
            } else {
                let command = format!(
                    "tc qdisc add dev {name} clsact; tc filter add dev {name} ingress matchall \
                     action drop"
                );
                ("this kernel has no tcx", Remedy::Command(command))
            };
            let what = format!("the host hears what it receives, too: {why}");
            self.findings.push(Finding { device: name.clone(), check: "host", what, remedy });
        }
        quiet.map(|quiet| Attached { _quiet: Some(quiet), ..Attached::default() })
    }

    fn open_output(
        &mut self,
        port: &Port,
        hash_key: &HashKey,
        told: &SyncSender<String>,
    ) -> Result<(), PortError> {
        let need = need(&port.kind, "output", self.mtu);
        let workers = self.workers.len();
        let senders: Vec<Box<dyn Tx>> = match &port.kind {
            PortKind::AfPacket { interface, .. } | PortKind::Xdp { interface, .. } => {
                if !port.kind.is_in_kernel() {
                    self.look_at(port, "output", need)?;
                }
                let options = TxOptions {
                    slots: u32::try_from(port.ring / SLOT).unwrap_or(u32::MAX).max(64),
                    patience: port.wait,
                    ..TxOptions::default()
                };
                let open = || -> Result<Box<dyn Tx>, PortError> {
                    let tx = PacketTx::open(interface, &options);
                    Ok(Box::new(tx.map_err(io_error("output", port))?))
                };
                (0..workers).map(|_| open()).collect::<Result<_, _>>()?
            }
            PortKind::Tap { interface } => {
                let senders = &mut self.tap(interface, port, "output", hash_key)?.senders;
                senders.drain(..).map(|tap| -> Box<dyn Tx> { Box::new(tap) }).collect()
            }
            PortKind::Pcap { .. } => {
                only_worker(self.workers.len(), port, "output")?;
                vec![Box::new(recorder(port, told)?)]
            }
            PortKind::AfXdp { interface, send, .. } => {
                self.look_at(port, "output", need)?;
                let (senders, found) = xdp::send(port, interface, self.mtu, *send, workers)?;
                self.findings.extend(found);
                senders
            }
        };
        for (worker, sender) in self.workers.iter_mut().zip(senders) {
            worker.outputs.push(Output { name: port.name.clone(), port: sender });
        }
        Ok(())
    }

    /// The TAP device of that name, with a queue for each worker.
    fn tap(
        &mut self,
        name: &str,
        port: &Port,
        side: &'static str,
        hash_key: &HashKey,
    ) -> Result<&mut OpenTap, PortError> {
        let at = match self.taps.iter().position(|tap| tap.name == name) {
            Some(at) => at,
            None => {
                let workers = self.workers.len();
                let options = TapOptions { queues: workers, ..TapOptions::default() };
                let tap = Tap::open(name, &options).map_err(io_error(side, port))?;
                if workers > 1 {
                    // A configuration has no more workers than that.
                    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
                    let failed = |source| PortError::Program { name: port.name.clone(), source };
                    let program = fanout::load_for_queues(hash_key, workers).map_err(failed)?;
                    tap.steer(program.as_fd()).map_err(io_error(side, port))?;
                }
                let (receivers, senders) = tap.queues.into_iter().unzip();
                self.taps.push(OpenTap { name: name.to_owned(), receivers, senders });
                self.taps.len() - 1
            }
        };
        Ok(&mut self.taps[at])
    }
}

/// A recorder. Its files are opened by [`Tx::begin`], by the user that the broker becomes.
fn recorder(port: &Port, told: &SyncSender<String>) -> Result<CaptureTx, PortError> {
    let PortKind::Pcap { file, on_full, rotate } = &port.kind else {
        let what = "is no recorder".to_owned();
        return Err(PortError::Cannot { side: "output", name: port.name.clone(), what });
    };
    let series = Series::new(SeriesOptions {
        name: file.clone(),
        // Inputs bring their interfaces with their packets.
        format: Format::Pcapng,
        write: WriteOptions { placement: Placement::GrowingBeneath, ..WriteOptions::default() },
        max_len: rotate.and_then(|rotate| rotate.size),
        max_age: rotate.and_then(|rotate| rotate.every),
        naming: Naming::Numbered { keep: rotate.and_then(|rotate| rotate.keep) },
        spared: None,
    });
    let series = series.map_err(|error| PortError::Cannot {
        side: "output",
        name: port.name.clone(),
        what: error.to_string(),
    })?;
    let (told, name) = (told.clone(), port.name.clone());
    // Where too many wait, numbers say the same.
    let tell = move |what: String| drop(told.try_send(format!("output {name}: {what}")));
    Ok(CaptureTx::new(series, *on_full, Box::new(tell)))
}

fn packet_receivers(
    port: &Port,
    promiscuous: bool,
    workers: usize,
    hash_key: &HashKey,
) -> Result<Vec<Box<dyn Rx>>, PortError> {
    let Some(device) = port.device() else { return Ok(Vec::new()) };
    let options = RxOptions { promiscuous, ..RxOptions::default() };
    let blocks = port.ring / options.block_len as usize;
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).max(2);
    let options = RxOptions { blocks, ..options };
    let failed = io_error("input", port);
    if workers == 1 {
        return Ok(vec![Box::new(PacketRx::open(device, &options).map_err(failed)?)]);
    }
    let program = fanout_program(port, workers, hash_key)?;
    let group = PacketRx::open_group(device, &options, workers, program.as_fd()).map_err(failed)?;
    Ok(group.into_iter().map(|rx| -> Box<dyn Rx> { Box::new(rx) }).collect())
}

/// The program that chooses the worker of a packet.
fn fanout_program(
    port: &Port,
    workers: usize,
    hash_key: &HashKey,
) -> Result<forebay_bpf::program::Program, PortError> {
    // A configuration has no more workers than that.
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    let failed = |source| PortError::Program { name: port.name.clone(), source };
    fanout::load(hash_key, workers).map_err(failed)
}
