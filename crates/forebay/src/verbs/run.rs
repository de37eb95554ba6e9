//! `forebay run`: the live broker.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_broker::compiled::{CodeOptions, CompiledConfig, InUse};
use forebay_broker::config::Config;
use forebay_broker::{Broker, Rehearsal, Signals};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use crate::cli::{Backend, Check, Cli, Example, RunArgs};
use crate::ending::conclude;
use crate::failure::Failure;
use crate::input::{compiler_options, print, print_json};

/// Runs the broker, checks its configuration, or prints an example.
///
/// # Errors
/// [`Failure`]: of the configuration, of the start, or while the broker ran.
pub fn run(cli: &Cli, args: &RunArgs) -> Result<(), Failure> {
    let Some(path) = args.config.as_ref().filter(|_| args.example.is_none()) else {
        let example = args.example.unwrap_or(Example::All);
        return print(|out| out.write_all(example.text().as_bytes()));
    };
    run_broker(cli, path, args.check, false)
}

/// How the code of filters and rules is made.
pub(super) fn code_options(cli: &Cli) -> Result<CodeOptions, Failure> {
    let isa = forebay_jit::cpu::choose(cli.isa.map(Into::into));
    Ok(CodeOptions {
        filters: compiler_options(cli, Backend::Auto)?,
        isa: isa.map_err(|error| Failure::Usage(error.to_string()))?,
    })
}

/// Compiles what a configuration names, and tells what is noticed.
pub(super) fn compiled(
    cli: &Cli,
    config: &Config,
    options: &CodeOptions,
) -> Result<CompiledConfig, Failure> {
    let compiled = CompiledConfig::new(config, options, &InUse::default())?;
    for notice in compiled.notices.iter().filter(|_| !cli.quiet) {
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "{notice}");
    }
    Ok(compiled)
}

/// Runs the broker of a configuration, which must have a gateway if that is asked for, or checks it.
///
/// # Errors
/// As [`run`].
pub(super) fn run_broker(
    cli: &Cli,
    path: &Path,
    check: Option<Check>,
    needs_gateway: bool,
) -> Result<(), Failure> {
    let mut config = Config::read(path)?;
    if needs_gateway && !config.has_gateway() {
        let what = "no gateway: expected the key `gateway` in a [[group]]";
        return Err(Failure::Usage(format!("{}: {what}", path.display())));
    }
    if let (Some(_), Some(scan)) = (check, &mut config.scan) {
        // A check changes nothing.
        scan.cache = None;
    }
    let options = code_options(cli)?;
    let compiled = compiled(cli, &config, &options)?;
    if let Some(what) = check {
        let found = match what {
            Check::File => Rehearsal::default(),
            Check::All => Rehearsal::of(&config),
        };
        return conclude_check(cli, path, &found);
    }
    let signals = watch()?;
    let broker = Broker::open(path, config, compiled, options)?;
    let quiet = cli.quiet;
    let ended = broker.run(&signals, move |event| {
        if !quiet {
            let _ = writeln!(io::stderr(), "{event}");
        }
    })?;
    let shown = if cli.json { print_json(&ended.as_json()) } else { Ok(()) };
    let problems = ended.problems();
    if !ended.told {
        // A blocked thread still writes to standard error; further writes would wait for
        // it.
        let well = problems.is_empty() && ended.report.ledger.closes() && shown.is_ok();
        return if well { Ok(()) } else { Err(Failure::Untold) };
    }
    let failure = (!problems.is_empty()).then(|| Failure::Live(problems.join("; ")));
    conclude(&ended.report.ledger, cli, failure, shown)
}

/// Prints the findings of a check.
fn conclude_check(cli: &Cli, path: &Path, found: &Rehearsal) -> Result<(), Failure> {
    let Rehearsal { failures, hints } = found;
    if cli.json {
        print_json(&json!({ "file": path, "failures": failures, "hints": hints }))?;
    }
    if !cli.quiet {
        let mut lines = hints.clone();
        if failures.is_empty() {
            let hinted = if hints.is_empty() { "all well" } else { "well, but for the above" };
            lines.push(format!("{}: {hinted}", path.display()));
        }
        for line in lines {
            // A failure to write to standard error cannot be reported.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Live(failures.join("\n"))) }
}

/// SIGINT and SIGTERM drain the broker, SIGHUP makes it reload its configuration. A second
/// terminating signal ends it at once.
fn watch() -> Result<Signals, Failure> {
    let signals = Signals { stop: Arc::new(AtomicBool::new(false)), ..Signals::default() };
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.stop))
            .map_err(Failure::Signals)?;
        flag::register(signal, Arc::clone(&signals.stop)).map_err(Failure::Signals)?;
    }
    flag::register(SIGHUP, Arc::clone(&signals.reload)).map_err(Failure::Signals)?;
    Ok(signals)
}
