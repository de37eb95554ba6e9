//! `forebay accelerator`: a device that scans for other processes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_scan::Scanner;
use forebay_scan::accelerator::{Device, DeviceLimits, SetIdentity};
use serde_json::json;

use super::scan::Literals;
use crate::cli::{AcceleratorArgs, Cli};
use crate::failure::Failure;
use crate::input::print_json;
use crate::show::human;
use crate::signals;

/// Serves clients until a signal arrives.
///
/// # Errors
/// If the literals or the socket cannot be used.
pub fn run(cli: &Cli, args: &AcceleratorArgs) -> Result<(), Failure> {
    let literals = Literals::read(&args.literals, args.nocase)?;
    let scanner = Arc::new(Scanner::compile(&literals.set, args.engine)?);
    let limits = DeviceLimits {
        clients: args.clients.into(),
        client_bytes: u64::from(args.client_memory) << 20,
        spin: args.spin.unwrap_or_default(),
    };
    let set = SetIdentity::of(&literals.set);
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let device = Device::listen(&args.socket, scanner, set, limits)?;
    if !cli.quiet {
        let count = human::count(set.literals.into());
        eprintln!("{}: {count} literals, digest {:016x}", args.socket.display(), set.digest);
    }
    device.run(&stop)?;
    let [clients, batches, bytes] = device.work();
    if cli.json {
        return print_json(&json!({ "clients": clients, "batches": batches, "bytes": bytes }));
    }
    if !cli.quiet {
        let [clients, batches, bytes] = [clients, batches, bytes].map(human::count);
        eprintln!("{clients} clients, {batches} batches, {bytes} bytes");
    }
    Ok(())
}
