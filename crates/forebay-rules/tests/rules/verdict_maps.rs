//! Verdict maps of nftables: which packets each of their entries takes.

use forebay_rules::language::ParseError;
use forebay_rules::language::{Format, Imported, Options, open};

/// The only list of a file.
fn first(text: &str) -> Result<Imported, ParseError> {
    open(Format::Nftables, text, &Options::default())?.read(0)
}

/// Its rules in our syntax, without the command.
fn printed(read: &Imported) -> Vec<String> {
    let strip = |text: String| text.split_once("filter ").unwrap().1.to_owned();
    read.list.list.rules.iter().map(|rule| strip(rule.to_string())).collect()
}

#[test]
fn the_rest_of_a_map_is_for_keys_without_an_entry() {
    let chain = |name: &str, hook: &str| {
        format!(r#"{{"chain":{{"family":"ip","table":"t","name":"{name}"{hook}}}}}"#)
    };
    let rule = |name: &str, expr: &str| {
        format!(r#"{{"rule":{{"family":"ip","table":"t","chain":"{name}","expr":[{expr}]}}}}"#)
    };
    let map = |key: &str, entries: &str| {
        let map = format!(r#"{{"vmap":{{"key":{key},"data":{{"set":[{entries}]}}}}}}"#);
        let hook = r#","type":"filter","hook":"input","prio":0,"policy":"drop""#;
        let tcp = r#"{"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"protocol"}},"right":"tcp"}}"#;
        let parts = [
            r#"{"metainfo":{"version":"1.0.6"}}"#.to_owned(),
            r#"{"table":{"family":"ip","name":"t"}}"#.to_owned(),
            chain("in", hook),
            chain("c", ""),
            rule("in", &map),
            rule("in", r#"{"accept":null}"#),
            rule("c", &format!("{tcp},{{\"accept\":null}}")),
        ];
        let text = format!("{{\"nftables\":[{}]}}\n", parts.join(",\n"));
        match first(&text) {
            Ok(read) => printed(&read),
            Err(error) => vec![error.to_string()],
        }
    };
    let saddr = r#"{"payload":{"protocol":"ip","field":"saddr"}}"#;
    let dport = r#"{"payload":{"protocol":"tcp","field":"dport"}}"#;
    let rest = "reject-nolog 0.0.0.0-10.0.0.0,10.0.0.2-255.255.255.255 * * * *";
    let last = "pass * * * * *";
    let one =
        |verdict: &str| map(saddr, &format!(r#"["*",{{"drop":null}}],["10.0.0.1",{verdict}]"#));
    assert_eq!(one(r#"{"continue":null}"#), [format!("1 {rest}"), format!("2 {last}")]);
    let jump = ["1 pass 10.0.0.1 * tcp * *".to_owned(), format!("2 {rest}"), format!("3 {last}")];
    assert_eq!(one(r#"{"jump":{"target":"c"}}"#), jump);
    let goto = one(r#"{"goto":{"target":"c"}}"#);
    assert!(goto.contains(&format!("{} {rest}", goto.len() - 1)), "{goto:?}");
    let ports =
        map(dport, r#"[{"set":[22,{"range":[80,90]}]},{"continue":null}],["*",{"drop":null}]"#);
    assert_eq!(ports[0], "1 reject-nolog * * tcp * 0-21,23-79,91-65535");
    let alone = map(dport, r#"["*",{"drop":null}]"#);
    assert_eq!(alone[0], "1 reject-nolog * * tcp * 0-65535");
    // Of several fields: only where no packet with a key gets behind its entry.
    let both = format!(r#"{{"concat":[{saddr},{dport}]}}"#);
    let pair = |verdict: &str| {
        let entries = format!(r#"[{{"concat":["10.0.0.1",22]}},{verdict}],["*",{{"drop":null}}]"#);
        map(&both, &entries)
    };
    let listed = pair(r#"{"accept":null}"#);
    assert_eq!(listed[..2], ["1 pass 10.0.0.1 * tcp * 22", "2 reject-nolog * * tcp * 0-65535"]);
    for verdict in [r#"{"continue":null}"#, r#"{"jump":{"target":"c"}}"#] {
        assert!(pair(verdict)[0].contains("expected no `*` in a map of several fields"));
    }
}
