//! `forebay scan --rules`: which packets have a rule's literals, and what is explained.

use serde_json::{Value, json};

use crate::support::command::{Ran, run};
use crate::support::scratch::Scratch;
use forebay_testkit::make::{self, ETHERNET, Pcap};

const RULES: &str = r#"# Four rules, and one with an error
alert tcp any any -> any $WEB (msg:"a word"; content:"evilword"; sid:11;)
alert udp any any -> any $WEB (msg:"a word, UDP"; content:"evilword"; sid:12;)
alert tcp any any -> any 80 (msg:"no content"; flow:established; dsize:>8; sid:13;)
alert http any any -> any any (msg:"a path"; http.uri; content:"/abcdef.php?x=1"; sid:14;)
alert tcp any any -> any 80 (content:"|0|"; sid:15;)
"#;

fn tcp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    segment.extend([0; 8]);
    segment.extend([0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    segment.extend_from_slice(payload);
    let mut frame = make::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 0, 0, &segment);
    frame[23] = 6;
    frame
}

fn scan(options: &[&str]) -> (Vec<Vec<u8>>, Ran) {
    let scratch = Scratch::with_packets(0);
    let udp = |port, text: &[u8]| make::udp(([10, 0, 0, 1], 4_000), ([10, 0, 0, 2], port), text);
    let frames = vec![
        tcp((4_000, 80), b"an evilword"),
        udp(53, b"an evilword"),
        udp(99, b"an evilword"),
        tcp((4_000, 80), b"short"),
        tcp((4_000, 81), b"GET //ABCDEF.php?x=1"),
    ];
    let capture = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&frames));
    let rules = scratch.file("word.rules", RULES.as_bytes());
    let options = options.iter().map(|option| option.replace("IN", &capture));
    let ran = run(["scan".to_owned(), "--rules".to_owned(), rules].into_iter().chain(options));
    (frames, ran)
}

#[test]
fn hits_are_rules_whose_header_may_match() {
    let (_, ran) = scan(&["-r", "IN", "--hits"]);
    assert_eq!(ran.exits(0).text(), "1 11\n2 12\n3 12\n5 14\n");
    let (_, ran) = scan(&["-r", "IN", "--hits", "--var", "WEB=[80,53]"]);
    let ran = ran.exits(0);
    let error = "word.rules:6:41: expected pairs of hexadecimal digits";
    assert!(ran.stderr.contains(error), "{}", ran.stderr);
    assert_eq!(ran.text(), "1 11\n2 12\n5 14\n");
    let (frames, ran) = scan(&["-r", "IN", "--json", "--var", "WEB=80"]);
    let result = ran.exits(0).json();
    let found = json!([
        {"sid": 11, "text": "a word", "packets": 1, "bytes": frames[0].len()},
        {"sid": 14, "text": "a path", "packets": 1, "bytes": frames[4].len()},
    ]);
    assert_eq!((&result["found"], &result["rules"]), (&found, &json!(4)));
}

#[test]
fn rules_are_explained() {
    let (_, ran) = scan(&["--explain"]);
    let text = ran.exits(0).text();
    assert!(text.starts_with("3 of 4 rules filterable\n1 rules with errors"), "{text}");
    assert!(text.contains("it has no contents"), "{text}");
    let (_, ran) = scan(&["--explain", "--json"]);
    let result: Value = serde_json::from_str(&ran.exits(0).text()).unwrap();
    assert_eq!((&result["filterable"], &result["rules"]), (&json!(3), &json!(4)));
    assert_eq!(result["causes"][0]["cause"], "no_content");
    assert_eq!((&result["refused"], &result["errors"][0]["line"]), (&json!(1), &json!(6)));
    assert_eq!(result["always_forward"][0]["packets"], Value::Null);
}

#[test]
fn one_rule_is_explained() {
    let (_, ran) = scan(&["--explain", "--rule", "14", "--json"]);
    let result: Value = serde_json::from_str(&ran.exits(0).text()).unwrap();
    let rule = result["rules"][0].clone();
    assert_eq!(rule["filterable"], true);
    let first = json!({"text": "/abcdef.php", "hex": "2f6162636465662e706870", "nocase": true});
    assert_eq!(rule["literals"][0], first);
    assert_eq!(rule["also"], json!([]));
    assert!(rule["triggers"].as_array().unwrap().contains(&json!("percent_encoding")));
    let (_, ran) = scan(&["--explain", "--rule", "13"]);
    assert!(ran.exits(0).text().contains("always forward: it has no contents"));
    scan(&["--explain", "--rule", "99"]).1.exits(2).says(&["no rule"]);
}

#[test]
fn a_capture_shows_what_always_forward_rules_cost() {
    let (frames, ran) = scan(&["--explain", "-r", "IN", "--json"]);
    let result = ran.exits(0).json();
    // The first packet meets the rule, and its flow has the fourth, too.
    let bytes = frames[0].len() + frames[3].len();
    let cost = &result["always_forward"][0];
    assert_eq!(
        (&cost["sid"], &cost["packets"], &cost["bytes"]),
        (&json!(13), &json!(2), &json!(bytes))
    );
    let all: usize = frames.iter().map(Vec::len).sum();
    assert_eq!(result["all"], json!({"packets": 5, "bytes": all}));
}

#[test]
fn what_is_not_known_of_a_packet_and_tunnels_exclude_no_rule() {
    let rules = "\
alert udp any any -> any 4444 (dsize:>5; sid:21;)\n\
alert ip any any -> any any (ip_proto:47; sid:22;)\n\
alert tcp any any -> any any (dsize:>1000; sid:23;)\n\
alert tcp any any -> any any (pcre:\"/a/\"; sid:24;)\n\
alert udp any any -> any any (content:\"evilword\"; sid:25;)\n\
alert igmp any any -> any any (dsize:>0; sid:26;)\n";
    let (here, there) = ([10, 0, 0, 1], [10, 0, 0, 2]);
    let with_protocol = |protocol, mut frame: Vec<u8>| {
        frame[23] = protocol;
        frame
    };
    let inner = tcp((1, 2), b"an evilword");
    let vxlan = [&[8, 0, 0, 0, 0, 0, 1, 0], &inner[..]].concat();
    let frames = [
        with_protocol(17, make::ipv4(here, there, 7, 1, &[0; 24])),
        with_protocol(47, make::ipv4(here, there, 0, 0, &[&[0, 0, 8, 0], &inner[14..]].concat())),
        tcp((5, 6), b"short"),
        make::udp((here, 9), (there, 4789), &vxlan),
        with_protocol(2, make::ipv4(here, there, 0, 0, &[0x16, 0, 0, 0, 224, 0, 0, 1])),
        make::udp((here, 9), (there, 4444), b"five5"),
    ];
    let scratch = Scratch::with_packets(0);
    let pcap = Pcap::of(ETHERNET);
    let mut file = pcap.file(&frames);
    // The same as the third, of which most is not captured.
    file.extend(pcap.record(1_700_000_001_000_000_000, &frames[2], 1_500));
    let capture = scratch.file("in.pcap", &file);
    let rules = scratch.file("odd.rules", rules.as_bytes());
    let scan = |options: &[&str]| {
        run(["scan", "--rules", &rules, "-r", &capture].into_iter().chain(options.iter().copied()))
    };
    let result = scan(&["--explain", "--json"]).exits(0).json();
    let packets = |sid: u64| {
        let rules = result["always_forward"].as_array().unwrap();
        rules.iter().find(|rule| rule["sid"] == sid).unwrap()["packets"].clone()
    };
    assert_eq!(packets(21), 1, "the later fragment; five bytes are too few");
    assert_eq!(packets(22), 1, "the header around the tunnel");
    assert_eq!(packets(23), 1, "the packet that is cut");
    assert_eq!(packets(24), 4, "all of both flows");
    assert_eq!(packets(26), 1);
    assert_eq!(scan(&["--hits"]).exits(0).text(), "4 25\n", "in the datagram of the tunnel");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for options in [
        &["--hits"][..],
        &["--explain", "--hits"],
        &["--explain", "--var", "x"],
        &["-r", "IN", "--nocase"],
    ] {
        scan(options).1.exits(2);
    }
    run(["scan", "-r", "x.pcap"]).exits(2).says(&["--literals"]);
}
