//! Names of rules and keys in tables and JSON.

use std::net::{Ipv4Addr, Ipv6Addr};

use forebay_rules::{Action, Family, Key, Rule};
use serde_json::{Value, json};

use crate::naming;

pub(super) fn action_name(action: Action) -> &'static str {
    match action {
        Action::Pass => "pass",
        Action::Reject => "reject",
    }
}

/// The name of a rule in tables.
pub(super) fn rule_name(rule: &Rule) -> String {
    match rule.family {
        Family::Ipv4 => rule.number.to_string(),
        Family::Ipv6 => format!("IPv6 {}", rule.number),
    }
}

/// The identification of a rule of a list.
pub(super) fn rule_json(rule: &Rule) -> Value {
    json!({"family": family_name(rule.family), "number": rule.number})
}

/// The same with the rule's text.
pub(super) fn rule_text_json(rule: &Rule) -> Value {
    let mut object = rule_json(rule);
    object["text"] = json!(rule.to_string());
    object
}

/// The rule key of a packet; protocol, addresses and ports as in all JSON.
pub(super) fn key_json(key: &Key) -> Value {
    let address = |bits: u128| match key.family {
        Family::Ipv4 => Ipv4Addr::from_bits(bits as u32).to_string(),
        Family::Ipv6 => Ipv6Addr::from_bits(bits).to_string(),
    };
    let protocol = key.protocol.map(naming::protocol_name);
    json!({
        "proto": protocol,
        "protocol": protocol,
        "source_address": address(key.source),
        "source_port": key.ports.map(|(source, _)| source),
        "destination_address": address(key.destination),
        "destination_port": key.ports.map(|(_, destination)| destination),
    })
}

pub(super) fn family_name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}
