//! What a configuration cannot ask for where packets stay in the kernel. Each thing that it
//! asks for nevertheless is refused by its key, rather than done otherwise or not at all.

use std::ops::Range;

use forebay_bpf::programs::splitter::{MAX_INPUTS, MAX_OUTPUTS};
use forebay_bpf::translate;
use forebay_packet::LinkType;
use toml::Spanned;

use super::error::Fault;
use super::ports::Port;
use super::raw;

/// Refuses what ports of type `xdp` cannot do, if there are any.
pub fn check(raw: &raw::File, inputs: &[Port], outputs: &[Port]) -> Result<(), Fault> {
    let ports = || inputs.iter().zip(&raw.input).chain(outputs.iter().zip(&raw.output));
    if !ports().any(|(port, _)| port.kind.is_in_kernel()) {
        return Ok(());
    }
    if let Some((_, other)) = ports().find(|(port, _)| !port.kind.is_in_kernel()) {
        let kind = &other.get_ref().kind;
        return refuse(
            kind.span(),
            &format!("a port of type {} beside others", kind.get_ref()),
            "`xdp` for all inputs and outputs, as packets go from one to the other in the kernel",
        );
    }
    let most = [("inputs", &raw.input, MAX_INPUTS), ("outputs", &raw.output, MAX_OUTPUTS)];
    for (what, ports, most) in most {
        if let Some(port) = ports.get(most as usize) {
            return refuse(port.span(), &format!("more than {most} {what}"), "fewer");
        }
    }
    if let Some(group) = raw.group.get(1) {
        return refuse(group.span(), "a second group", "one, as the kernel copies no packets");
    }
    if let Some(rules) = &raw.rules {
        return refuse(rules.span(), "`rules`", "none, as the kernel has no rule lists");
    }
    if let Some(scan) = &raw.scan {
        return refuse(scan.span(), "[scan]", "none, as the kernel reads no payloads");
    }
    if let Some(key) = raw.flow.vlan_in_key.as_ref().filter(|key| *key.get_ref()) {
        return refuse(key.span(), "`vlan_in_key`", "false, as the kernel leaves tags out of keys");
    }
    for group in &raw.group {
        if let Some(slice) = &group.get_ref().slice {
            return refuse(slice.span(), "`slice`", "none, as the kernel sends whole packets");
        }
        if let Some(name) = group.get_ref().strip.first() {
            return refuse(name.span(), "`strip`", "none, as the kernel sends whole packets");
        }
        if let Some(name) = group.get_ref().follow.first() {
            return refuse(name.span(), "`follow`", "none, as the kernel reads no payloads");
        }
        if let Some(shunt) = &group.get_ref().shunt {
            return refuse(shunt.span(), "`shunt`", "none, as the kernel shunts no flows");
        }
        if let Some((stage, value)) = group.get_ref().stages.first() {
            let what = format!("`{}`", stage.key);
            return refuse(value.span(), &what, "none, as the kernel has no such stage");
        }
        let sensors = group.get_ref().sensor.iter().map(Spanned::get_ref);
        if let Some(policy) = sensors.filter_map(|sensor| sensor.on_overload.as_ref()).next() {
            return refuse(policy.span(), "`on_overload`", "none, as the kernel has no such stage");
        }
    }
    let of_groups = raw.group.iter().filter_map(|group| group.get_ref().filter.as_ref());
    raw.filter.iter().chain(of_groups).try_for_each(filter)
}

/// Whether the kernel can judge by a filter. One that is no filter is reported elsewhere.
fn filter(text: &Spanned<String>) -> Result<(), Fault> {
    let Ok(program) = forebay_filter::compile(text.get_ref(), LinkType::ETHERNET) else {
        return Ok(());
    };
    translate::check(&program).or_else(|error| {
        refuse(text.span(), &error.to_string(), "a filter that the kernel can run")
    })
}

fn refuse(at: Range<usize>, what: &str, expected: &str) -> Result<(), Fault> {
    let what = format!("{what}: with ports of type xdp, expected {expected}");
    Err(Fault::new(at, what))
}
