//! Rulesets of nftables that name a set.

/// The chain `in`, which packets enter, with these rules, given as their expressions, and a set
/// `s` of so many addresses.
pub fn with_set(addresses: usize, rules: impl Iterator<Item = String>) -> String {
    let elements: Vec<String> =
        (0..addresses).map(|n| format!(r#""10.0.{}.{}""#, n / 250, n % 250)).collect();
    let chain = r#"{"chain":{"family":"ip","table":"t","name":"in","hook":"input"}}"#.to_owned();
    let set = format!(
        r#"{{"set":{{"family":"ip","table":"t","name":"s","type":"ipv4_addr","elem":[{}]}}}}"#,
        elements.join(",")
    );
    let rule = |expressions: String| {
        format!(r#"{{"rule":{{"family":"ip","table":"t","chain":"in","expr":[{expressions}]}}}}"#)
    };
    let all: Vec<String> = [chain, set].into_iter().chain(rules.map(rule)).collect();
    format!("{{\"nftables\":[{}]}}", all.join(",\n"))
}

/// An expression: the source address, or what else `left` is of it, is `right`.
pub fn source_is(mask: Option<u32>, right: &str) -> String {
    let source = r#"{"payload":{"protocol":"ip","field":"saddr"}}"#;
    let left =
        mask.map_or_else(|| source.to_owned(), |mask| format!(r#"{{"&":[{source},{mask}]}}"#));
    format!(r#"{{"match":{{"op":"==","left":{left},"right":"{right}"}}}}"#)
}
