//! Rules that are unusual, or wrong: their literals, classes and errors.

use forebay_scan::rules::{Cause, Class, Evidence, FlowEnds, Rule, RuleError, RuleSet, Side};

fn parse(text: &str) -> (RuleSet, Vec<RuleError>) {
    let mut rules = RuleSet::new();
    let mut errors = Vec::new();
    rules.parse("odd.rules", text.as_bytes(), &mut errors);
    (rules, errors)
}

fn rule(header: &str, options: &str) -> Rule {
    let (rules, errors) = parse(&format!("alert {header} ({options} sid:1;)"));
    assert_eq!(errors, [], "{options}");
    rules.rules()[0].clone()
}

fn literals(rule: &Rule) -> Vec<String> {
    rule.literals.iter().map(|(bytes, _)| bytes.escape_ascii().to_string()).collect()
}

#[test]
fn the_literal_is_one_that_must_be_in_the_stream() {
    for (protocol, options, expected) in [
        ("tcp", r#"content:"abc"; content:"defgh";"#, "defgh"),
        ("tcp", r#"content:"abcdef"; fast_pattern; content:"ghijkl";"#, "abcdef"),
        ("tcp", r#"content:!"longer than"; content:"abc";"#, "abc"),
        ("tcp", r#"content:"a\;b\"|0d 0A|c";"#, r#"a;b\"\r\nc"#),
        ("http", r#"content:"/a/../bcde?fg=% h"; http_uri;"#, r"/bcde \\bcde %2fbcde %5cbcde"),
        ("http", r#"http.uri; content:"index.php?option=com_foo";"#, "=com_foo %3dcom_foo"),
        ("http", r#"http.uri; content:"/a%0ab|0a|";"#, "%0a"),
        ("http", r#"http.uri; content:".aspx|3b 2e|";"#, ";. %3b."),
        ("udp", r#"content:"|84 00 00|"; content:"|00 00 00|"; within:3;"#, r"\x84\x00\x00"),
        (
            "udp",
            r#"content:"|01 00 00 01 00 00 00 00 00 00|"; content:"|02|in|00|";"#,
            r"\x02in\x00",
        ),
        ("http", r#"content:"User-Agent|3a 20|evilthing|0d 0a|"; http_header;"#, "evilthing"),
        ("http", r#"http.header; content:"one, another";"#, "another"),
        (
            "http",
            r#"flow:to_server; http.user_agent; content:"Mozilla/4.0 (x qq";"#,
            "Mozilla/4.0 (x qq",
        ),
        ("http", r#"flow:to_client; http.header; content:"|3a| abcd efghij";"#, "efghij"),
        ("dns", r#"dns.query; content:"www.evilname.co";"#, r"\x08evilname .evilname evilname."),
        ("dns", r#"dns_query; content:".pw"; pcre:"/a/R"; isdataat:!1,relative;"#, "pw"),
        ("tls", r#"tls.cert_subject; content:"CN=*.evil.example";"#, "*.evil.example"),
        ("tls", r#"tls.cert_subject; content:"emailAddress=abc@d.example";"#, "abc@d.example"),
        ("tls", r#"tls.cert_issuer; content:"evil.example, OU";"#, "evil.example"),
        ("tls", r#"tls.cert_issuer; content:"CN=cafe, O=x"; nocase;"#, "x"),
        ("tls", r#"tls.cert_issuer; content:"CN=cafe";"#, "cafe"),
        ("smb", r#"smb.named_pipe; content:"atsvc";"#, r"\xffSMB \xfeSMB"),
        ("smb", r#"smb.share; content:"ADMIN$"; pkt_data; content:"abc";"#, "abc"),
        (
            "http",
            r#"http.request_body; content:"abcdef"; bsize:>10; content:"ghijklmn";"#,
            "ghijklmn",
        ),
        ("http", r#"http.host; content:"Evil.example"; http.uri; content:"/";"#, "Evil.example"),
        ("tcp", r#"file_data; content:"abc|0d 0a|defghi";"#, "defghi"),
    ] {
        let rule = rule(&format!("{protocol} any any -> any any"), options);
        assert_eq!(rule.class, Class::Filterable, "{options}");
        assert_eq!(literals(&rule).join(" "), expected, "{options}");
    }
}

#[test]
fn the_last_label_of_a_name_may_be_cut_from_a_longer_one() {
    for option in ["isdataat:!1,relative;", "endswith;"] {
        let options = format!(r#"dns.query; content:".pw"; {option}"#);
        let found = literals(&rule("dns any any -> any any", &options));
        // A label of two to 63 bytes, or a part of one with a dot in it.
        assert_eq!(found.len(), 63, "{found:?}");
        for expected in [r"\x02pw", r"\x05pw", "?pw", ".pw"] {
            assert!(found.iter().any(|literal| literal == expected), "{expected}: {found:?}");
        }
    }
}

#[test]
fn the_protocol_of_a_rule_is_that_of_its_packets() {
    let admits = |protocol: &str, number: u8| {
        let end = |last| (std::net::IpAddr::from([10, 0, 0, last]), 0);
        let rule = rule(&format!("{protocol} any any -> any any"), "dsize:>10;");
        (rule.header.admits(number, end(1), end(2)), rule.condition.application.is_some())
    };
    assert_eq!(admits("igmp", 2), (true, false));
    assert_eq!(admits("igmp", 6), (false, false));
    assert_eq!((admits("krb5", 6), admits("krb5", 2)), ((true, true), (false, true)));
    // Not known: it may be any.
    assert_eq!((admits("new", 6), admits("new", 2)), ((true, false), (true, false)));
    // Behind an extension header of IPv6, or an authentication header, there may be any.
    assert_eq!((admits("tcp", 44), admits("tcp", 51)), ((true, false), (true, false)));
}

#[test]
fn ports_that_are_not_known_exclude_nothing() {
    let rule = rule("tcp 10.0.0.1 any -> any 4444", "dsize:>10;");
    let end = |last, port| (std::net::IpAddr::from([10, 0, 0, last]), port);
    assert!(!rule.header.admits(6, end(1, 1), end(2, 2)));
    assert!(rule.header.admits(6, end(1, 0), end(2, 0)), "a later fragment");
    assert!(!rule.header.admits(6, end(2, 0), end(1, 0)));
    assert!(rule.admits_flow(6, end(2, 0), end(1, 0)));
}

#[test]
fn rules_that_inspect_a_stream_pass_whole_flows() {
    let whole = |protocol: &str, options: &str| {
        rule(&format!("{protocol} any any -> any any"), options).condition.whole_flow
    };
    for options in [
        r#"pcre:"/ev.*il/";"#,
        "stream-event:reassembly_overlap_different_data;",
        "byte_test:4,>,5,0;",
        r#"content:!"a";"#,
        "bsize:>5;",
        "flow:to_server;",
    ] {
        assert!(whole("tcp", options) && whole("ip", options), "{options}");
        assert_eq!(whole("udp", options), options.starts_with("flow"), "{options}");
    }
    for options in [
        "flags:S,12;",
        "dsize:>10; ttl:1; classtype:x; reference:a,b; metadata:c d;",
        "decode-event:tcp.opt_invalid_len;",
        "fragbits:M; ipopts:rr; tos:8; window:5;",
    ] {
        assert!(!whole("tcp", options), "{options}");
    }
}

#[test]
fn short_values_are_looked_for_with_what_is_before_them() {
    let whole =
        rule("http any any -> any any", r#"content:"User-Agent|3a| [|0d 0a|"; http_header;"#);
    let found = literals(&whole);
    for expected in [
        r"User-Agent:[\r",
        r"User-Agent: [\n",
        r"User-Agent: [\x00",
        "User-Agent: [  ",
        "User-Agent ",
        r"User-Agent:\r",
        "User-Agent:  ",
        r"User-Agent: \t",
    ] {
        assert!(found.iter().any(|literal| literal == expected), "{expected}: {found:?}");
    }
    assert!(found.iter().all(|literal| literal.starts_with("User-Agent")), "{found:?}");
    // Without the end of the line more may follow, and without the name all names are meant.
    let of = |options: &str| literals(&rule("http any any -> any any", options));
    let found = of(r#"content:"User-Agent|3a| ["; http_header;"#);
    assert!(found.contains(&"User-Agent: [".to_owned()), "{found:?}");
    let found = of(r#"content:"|3a| ["; http_header;"#);
    for expected in [":[", ": [", "  [", r"\t[", r"\n ["] {
        assert!(found.iter().any(|literal| literal == expected), "{expected}: {found:?}");
    }
    // A value may hold colons, and end with a comma; folded lines have the blank elsewhere.
    let found = of(r#"content:"Agent|3a| c|3a 5c|"; http_header; flow:to_server;"#);
    assert!(found.contains(&r"Agent: c:\\".to_owned()), "{found:?}");
    let found = of(r#"content:"Agent|3a| a,|0d 0a|"; http_header; flow:to_server;"#);
    assert!(found.contains(&"Agent: a".to_owned()), "{found:?}");
    let folded = rule("http", r#"content:"Q|3a| a b"; http_header; flow:to_server;"#);
    assert!(folded.hazards.folding && literals(&folded).contains(&"Q: a b".to_owned()));
    let to_client = rule("http", r#"content:"Q|3a| a b|0d 0a|"; http_header; flow:to_client;"#);
    assert!(!to_client.hazards.folding && literals(&to_client).contains(&"Q: a".to_owned()));
    // An empty one.
    let found = of(r#"content:"User-Agent|3a 20 0d 0a|"; http_header; flow:to_server;"#);
    assert!(found.contains(&r"User-Agent: \r".to_owned()), "{found:?}");
}

#[test]
fn short_values_of_a_header_are_looked_for_with_what_is_before_them() {
    let of = |options: &str| literals(&rule("http any any -> any any", options));
    for placed in ["depth:1;", "depth:1; offset:0;", "depth:1; isdataat:!1,relative;"] {
        let found = of(&format!(r#"content:"x"; http_user_agent; {placed}"#));
        let ends = if placed.contains("isdataat") { r"\r" } else { "" };
        for expected in ["user-agent:x", "user-agent: x"] {
            assert!(found.contains(&format!("{expected}{ends}")), "{placed} {found:?}");
        }
        // A sensor ignores zero bytes in the name.
        assert!(found.contains(&r"\x00-agent".to_owned()), "{placed} {found:?}");
        assert!(found.contains(&r"\x00t:".to_owned()), "{placed} {found:?}");
        assert!(found.iter().all(|literal| literal.len() > 2), "{placed} {found:?}");
    }
    // Elsewhere in a value, or in lines of headers, nothing is known of what is before.
    for placed in
        ["", "depth:2;", "depth:1; offset:1;", "offset:1; depth:1;", "distance:0; depth:1;"]
    {
        assert_eq!(of(&format!(r#"content:"x"; http_user_agent; {placed}"#)), ["x"], "{placed}");
    }
    assert_eq!(of(r#"content:"x"; http_header; depth:1;"#), ["x"]);
    // The end of a header's name has the colon behind it, perhaps after blanks.
    let found = of(r#"content:"Q|3a|"; http_header;"#);
    for expected in ["Q:", "Q ", r"Q\t"] {
        assert!(found.iter().any(|literal| literal == expected), "{found:?}");
    }
    assert!(found.iter().all(|literal| literal != "Q"), "{found:?}");
    let found = of(r#"content:"Q|3a|"; http_header; flow:to_server;"#);
    for expected in ["Q:", "Q :", r"Q \t"] {
        assert!(found.iter().any(|literal| literal == expected), "{found:?}");
    }
    assert!(found.iter().all(|literal| literal != "Q "), "{found:?}");
}

#[test]
fn triggers_have_the_spellings_that_sensors_take_for_the_same() {
    let triggers = |header: &str, options: &str| -> Vec<String> {
        let (rules, _) = parse(&format!("alert {header} any any -> any any ({options} sid:1;)"));
        let literals = rules.literals().unwrap();
        let bytes = literals.triggers().iter().map(|one| one.bytes.escape_ascii().to_string());
        bytes.collect()
    };
    // Zero bytes in a name are ignored.
    let body = triggers("http", r#"http.response_body; content:"abcdefghij";"#);
    for name in ["Content-Encoding", r"\x00coding", r"\x00-Encoding", r"\x00g:"] {
        assert!(body.iter().any(|one| one == name), "{name}: {body:?}");
    }
    // Calls that move blocks of files, whatever their program is, once a flow is known as NFS.
    let files = triggers("nfs", r#"file.data; content:"abcdefghij";"#);
    for call in [r"\x00\x01\x86\xa3\x00\x00\x00", r"\x00\x00\x00\x03\x00\x00\x00\x07"] {
        assert!(files.iter().any(|one| one == call), "{call}: {files:?}");
    }
}

#[test]
fn a_literal_that_many_rules_share_waits_for_none_of_them() {
    let rule = |sid: usize| {
        format!(
            r#"alert tcp any any -> any any (content:"abcdefgh"; content:"zyx{sid}"; sid:{sid};)"#
        )
    };
    for (number, waits) in [(256, true), (257, false)] {
        let lines: Vec<String> = (1..=number).map(rule).collect();
        let (rules, errors) = parse(&lines.join("\n"));
        assert_eq!(errors, []);
        let literals = rules.literals().unwrap();
        let end = ("10.0.0.1".parse().unwrap(), 2000);
        let ends = FlowEnds { protocol: 6, a: end, b: end };
        let mut all = literals.set().literals().iter();
        let shared = all.position(|one| *one.bytes == *b"abcdefgh").unwrap() as u32;
        let mut evidence = Evidence::default();
        literals.observe(&rules, Some(&ends), Side::Either, shared, None, &mut evidence);
        assert_eq!(evidence.may_match(), !waits, "{number}");
    }
}

#[test]
fn other_rules_are_always_forward() {
    use Cause::{DerivedBuffer, Event, Lua, NegatedOnly, NoContent, NormalisedAway, PcreOnly};
    for (options, cause) in [
        ("dsize:>10;", NoContent),
        (r#"content:!"a";"#, NegatedOnly),
        (r#"pcre:"/a/";"#, PcreOnly),
        ("lua:a.lua;", Lua),
        ("app-layer-event:http.x;", Event),
        ("decode-event:ipv4.trunc_pkt;", Event),
        (r#"base64_decode; base64_data; content:"abc";"#, DerivedBuffer),
        (r#"ja3.hash; content:"0123456789abcdef";"#, DerivedBuffer),
        (r#"http.uri; url_decode; content:"abc";"#, DerivedBuffer),
        (r#"http.request_body; gunzip: max-size 10000; content:"abcdef";"#, DerivedBuffer),
        (r#"file.data; zlib_deflate:max-size 10; content:"abcdef";"#, DerivedBuffer),
        (r#"http.uri; new_transform: 1; content:"abc";"#, DerivedBuffer),
        (r#"content:"abc"; new_modifier: 1;"#, DerivedBuffer),
        (r#"frame:http1.request; content:"abc";"#, DerivedBuffer),
        // The type of an attribute is printed by its number, and a value that is no text as digits.
        (r#"tls.cert_subject; content:"emailAddress=";"#, NormalisedAway),
        (r#"tls.cert_subject; content:"emailAddr";"#, NormalisedAway),
        (r#"tls.cert_subject; content:"CN=ABC, mail"; content:"2.5.4.17";"#, NormalisedAway),
        (r#"tls.cert_subject; content:"CN=DEADBEEF01";"#, NormalisedAway),
        (r#"tls.cert_subject; content:"Invalid X.509";"#, NormalisedAway),
        (r#"http.user_agent; absent:or_else; content:"abc";"#, DerivedBuffer),
        (r#"new.buffer; content:"abc";"#, DerivedBuffer),
        (r#"content:"abc"; new_modifier;"#, DerivedBuffer),
        (r#"http.uri; content:"/?+";"#, NormalisedAway),
        (r#"http.header; content:"|3a 20|";"#, NormalisedAway),
        (r#"tls.sni; content:"|ff|";"#, NormalisedAway),
    ] {
        let rule = rule("tcp any any -> any any", options);
        assert_eq!(rule.class, Class::AlwaysForward(cause), "{options}");
        assert!(rule.literals.is_empty(), "{options}");
    }
}

#[test]
fn buffers_end_where_the_next_one_begins() {
    let modern =
        rule("tcp any any -> any any", r#"http.uri; content:"abc"; pkt_data; content:"/d/e";"#);
    assert_eq!(literals(&modern), ["/d/e"]);
    let snort3 =
        rule("http", r#"http_uri; content:"/defgh",nocase; http_client_body; content:"/d";"#);
    assert_eq!(literals(&snort3), ["/defgh", r"\\defgh", "%2fdefgh", "%5cdefgh", "@defgh"]);
    assert_eq!(snort3.side, Side::ToServer);
    let snort3 = rule("http", r#"http_header:field host; content:"a:bcd",fast_pattern,offset 3;"#);
    assert_eq!(literals(&snort3), ["bcd"]);
}

#[test]
fn case_counts_where_the_buffer_keeps_it() {
    let nocase = |options: &str| rule("http any any -> any any", options).literals[0].1;
    assert!(!nocase(r#"content:"Abc"; "#));
    assert!(nocase(r#"content:"Abc"; nocase; "#));
    assert!(nocase(r#"http.uri; content:"Abc"; "#));
    assert!(nocase(r#"http.user_agent; to_lowercase; content:"abcdef"; "#));
}

#[test]
fn errors_name_file_line_and_column_and_the_rest_is_read() {
    let (rules, errors) = parse(concat!(
        "# a comment\n",
        "alert tcp any any -> any any (content:\"a|0|\"; sid:1;)\n",
        "alert tcp any any > any any (sid:2;)\n",
        "alert tcp any any -> any any (msg:\"fine\"; content:\"a\"; sid:3;)\n",
        "alert tcp any any -> any any \\\n  (nocase; sid:4;)\n",
        "alert tcp any any -> any any sid:5;\n",
        "alert tcp any any -> any any (sid:x;)\n",
        "alert tcp any any -> any any (content:\"a;)\n",
        "alert tcp [10.0.0.0/99] any -> any any (sid:8;)\n",
    ));
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
    assert_eq!(
        places,
        [(2, 43), (3, 19), (6, 4), (7, 36), (8, 35), (9, 39), (10, 11)],
        "{errors:?}"
    );
    assert!(errors.iter().all(|error| error.to_string().starts_with("odd.rules:")));
    assert_eq!((rules.rules().len(), rules.refused()), (1, 7));
    assert_eq!((rules.rules()[0].sid, rules.rules()[0].line), (3, 4));
    assert_eq!(rules.rules()[0].message, "fine");
}

#[test]
fn what_is_too_large_is_refused() {
    let contents = "content:\"a\"; ".repeat(257);
    let long = format!("content:\"{}\";", "a".repeat(4097));
    let bytes = format!("msg:\"{}\";", "a".repeat(1 << 16));
    let nested =
        format!("alert tcp {}any{} any -> any any (sid:1;)", "[".repeat(20), "]".repeat(20));
    for options in [&contents, &long, &bytes] {
        let (rules, errors) = parse(&format!("alert tcp any any -> any any ({options} sid:1;)"));
        assert_eq!((rules.rules().len(), errors.len()), (0, 1));
        assert!(errors[0].message.contains("at most"), "{}", errors[0]);
    }
    assert!(parse(&nested).1[0].message.contains("at most 16"));
}
