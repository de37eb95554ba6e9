//! Expressions that libpcap refuses: its message, and where the caret points.

use forebay_filter::{CompileError, ExpressionError, compile};
use forebay_packet::LinkType;

use crate::support::{at_least, data, lines};

fn refusal(expression: &str) -> ExpressionError {
    match compile(expression, LinkType::ETHERNET) {
        Err(CompileError::Expression(error)) => *error,
        other => panic!("{expression}: {other:?}"),
    }
}

/// The text under the caret; `<end>` where the expression ends too early.
fn culprit(expression: &str) -> Option<String> {
    let span = refusal(expression).span?;
    Some(match expression.get(span).unwrap() {
        "" => "<end>".to_owned(),
        text => text.to_owned(),
    })
}

#[test]
fn every_refused_expression_gives_libpcaps_message_and_a_caret() {
    let data = data();
    let refused = lines(&data.join("filters/refused.txt"));
    assert_eq!(refused.len(), at_least(27, 40));
    for line in refused {
        let (expression, message) = line.split_once('\t').unwrap();
        let error = refusal(expression);
        // Some versions of libpcap name the link type in one of the messages.
        assert_eq!(error.message.replace(" on Ethernet", ""), message, "{expression}");
        assert!(error.span.is_some(), "{expression}: no caret");
        assert_eq!(error.to_string().lines().count(), 3, "{error}");
    }
}

#[test]
fn carets_point_at_the_culprit() {
    let cases = [
        ("gateway snup and ip[2:2] > 576", "gateway"),
        ("abc", "abc"),
        ("host", "<end>"),
        ("10.100.100.100", "10.100.100.100"),
        ("host 10.100.100.100/24", "10.100.100.100/24"),
        ("port foo", "foo"),
        ("tcp and (port 80 or port foo) and ip", "foo"),
        ("ether abc", "abc"),
        ("ether aa:bb:cc:dd:ee:ff", "aa:bb:cc:dd:ee:ff"),
        ("ether proto ip6", "ip6"),
        ("ip proto tcp", "tcp"),
        ("ip and inbound or tcp", "inbound"),
        ("tcp prot 80", "prot"),
        ("tcp port 80 and", "<end>"),
        ("tcp port 80 and ", "<end>"),
        ("(tcp or udp", "<end>"),
        ("tcp or udp)", ")"),
        ("ip[2:2] > > 5", ">"),
        ("tcp and and udp", "and"),
        ("port foo-bar or port foo", "foo-bar"),
        ("vlan 9999", "9999"),
        ("ip[0] / 0 = 1", "0"),
        ("port 99999999999", "99999999999"),
        ("net 1.2.3.4/8 or net 1.2.3.4/8", "1.2.3.4/8"),
        ("udp # port 80", "#"),
        ("ip → tcp", "→"),
    ];
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|(expression, expected)| {
            let found = culprit(expression);
            (found.as_deref() != Some(*expected))
                .then(|| format!("{expression}: {found:?}, {}", refusal(expression)))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(refusal("tcp and and udp").span, Some(8..11));
    assert_eq!(refusal("net 1.2.3.4/8 or net 1.2.3.4/8").span, Some(4..13));
}

#[test]
fn no_caret_where_no_place_is_at_fault() {
    let error = refusal("tcp and udp and ip[0] = 0x1ff");
    assert_eq!(error.message, "expression rejects all packets");
    assert_eq!(error.span, None);
    assert_eq!(error.to_string(), "expression rejects all packets");
}

#[test]
fn errors_read_well() {
    assert_eq!(
        refusal("tcp prot 80").to_string(),
        "can't parse filter expression: syntax error\ntcp prot 80\n    ^^^^"
    );
    let long = format!("{} or port foo", vec!["host 10.0.0.1"; 50].join(" or "));
    assert_eq!(
        refusal(&long).to_string(),
        "unknown port 'foo'\n\
         ... 10.0.0.1 or host 10.0.0.1 or host 10.0.0.1 or host 10.0.0.1 or port foo\n\
         \u{20}                                                                       ^^^"
    );
}
