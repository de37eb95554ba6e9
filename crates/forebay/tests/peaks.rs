//! The most memory that offline verbs take, whatever their input.

mod support {
    pub mod command;
    pub mod peak;
}

use std::path::Path;

use support::command::run;
use support::peak;

/// What every verb may take.
const BASE: u64 = 64 << 20;

/// What `flows` and `split` may take besides for each flow.
const A_FLOW: u64 = 400;

/// A capture of that many flows of one packet each.
fn capture_of_flows(folder: &Path, flows: u64) -> String {
    let name = folder.join("flows.pcap").to_str().unwrap().to_owned();
    let number = flows.to_string();
    let options = ["--profile", "uniform", "--size", "64", "--flows", &number];
    run(["gen", "-q", "-w", &name, "--packets", &number].iter().chain(&options)).exits(0);
    name
}

#[test]
fn a_flow_takes_no_more_than_is_promised_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    // Just more than a hash table of 2^18 slots takes: twice as many slots are half empty.
    let flows = 250_000;
    let capture = capture_of_flows(folder.path(), flows);
    for format in ["table", "csv", "json"] {
        let run = peak::of(&["flows", "-q", "-r", &capture, "--format", format]);
        // Little besides: text would not fit into what every verb may take.
        run.exits(0).within(BASE / 4 + A_FLOW * flows);
    }
    let (out, page) = (folder.path().join("out"), folder.path().join("page.html"));
    let (out, page) = (out.to_str().unwrap(), page.to_str().unwrap());
    let split = ["split", "-q", "-r", &capture, "-n", "4", "-o", out, "--report", page];
    peak::of(&split).exits(0).within(BASE / 4 + A_FLOW * flows);
}
