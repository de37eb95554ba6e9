//! Long lists: the disjunction of their terms, for packets that hit them and
//! packets that do not. Packets that were cut short are held against libpcap's
//! program in `long`.

use forebay_filter::cancel::{Cancel, Stopped};
use forebay_filter::ir::lower::lower;
use forebay_filter::ir::simplify::simplify;
use forebay_filter::ir::verify::verify;
use forebay_filter::libpcap::{CompileError, MAX_EXPRESSION, MAX_WHOLE_TERMS};
use forebay_filter::lists::{
    Lengths, MAX_LIBPCAP_TERMS, MAX_LIST, compile_function, compile_long, of_program,
};
use forebay_filter::{Program, compile};
use forebay_packet::LinkType;

use crate::support::{Captured, at_least, data, ethernet_packets};

/// What libpcap says of an expression that accepts no packet.
const REJECTS_ALL: &str = "expression rejects all packets";

/// Terms of a shape, each with its number filled in.
fn terms(shape: &str, numbers: impl Iterator<Item = u32>) -> Vec<String> {
    let term = |n: u32| {
        let bytes = [n >> 8 & 0xff, n & 0xff];
        shape
            .replace("{address}", &format!("10.{}.{}.{}", n % 3, bytes[0], bytes[1]))
            .replace("{net}", &format!("10.{}.{}.0/24", bytes[0], bytes[1]))
            .replace("{wide}", &format!("{}.0.0.0/8", n % 223))
            .replace("{port}", &format!("{n}"))
            .replace("{range}", &format!("{}-{}", n * 2, n * 2 + 1))
            .replace("{address6}", &format!("2001:db8::{n:x}"))
            .replace("{net6}", &format!("2001:db8:{n:x}::/48"))
    };
    numbers.map(term).collect()
}

/// Packets with some of the addresses and ports of `terms` in them, IPv4, IPv6
/// and ARP.
fn packets() -> Vec<Captured> {
    let mut packets = Vec::new();
    for n in (1..700_u32).step_by(7) {
        let [_, _, high, low] = n.to_be_bytes();
        let address = [10, (n % 3) as u8, high, low];
        let other = [10, high, low, 7];
        for swap in [false, true] {
            let (source, destination) = if swap { (other, address) } else { (address, other) };
            let ports = [high, low, 0x77, 0x77];
            let ports = if swap { [0x77, 0x77, high, low] } else { ports };
            for protocol in [6, 17, 1, 132] {
                let mut ip = vec![0; 12];
                ip.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
                ip.extend(source.iter().chain(&destination).chain(&ports));
                packets.push(ip);
            }
            let mut arp = vec![0; 12];
            arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 0, 0, 0, 0, 0, 0]);
            arp.extend(source);
            arp.extend([0; 6]);
            arp.extend(destination);
            packets.push(arp);
            let mut ip6 = vec![0; 12];
            ip6.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            let address6 = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low];
            let net6 = [0x20, 0x01, 0x0d, 0xb8, high, low, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
            let pair = if swap { [net6, address6] } else { [address6, net6] };
            ip6.extend(pair.concat());
            ip6.extend(ports);
            packets.push(ip6);
        }
    }
    packets.into_iter().map(|bytes| Captured { bytes, wire_len: 60 }).collect()
}

/// Compares the function of a list with the programs of its terms, and counts
/// the packets accepted.
fn check(terms: &[String], packets: &[Captured]) -> usize {
    check_for(LinkType::ETHERNET, terms, packets)
}

/// The same for a link type: terms that libpcap says reject all packets of it
/// do so. Of the list negated too.
fn check_for(link: LinkType, terms: &[String], packets: &[Captured]) -> usize {
    let list = terms.join(" or ");
    let function = compile_function(&list, link).unwrap();
    let negated = compile_function(&format!("not ({list})"), link).unwrap();
    assert_eq!((verify(&function), verify(&negated)), (Ok(()), Ok(())));
    let alone = |term: &String| match compile(term, link) {
        Err(CompileError::Expression(error)) if error.message == REJECTS_ALL => None,
        program => Some(program.unwrap()),
    };
    let programs: Vec<Program> = terms.iter().filter_map(alone).collect();
    let mut accepted = 0;
    for Captured { bytes, wire_len } in packets {
        let expected = programs.iter().any(|program| program.run(bytes, *wire_len) != 0);
        let verdicts = (function.run(bytes, *wire_len) != 0, negated.run(bytes, *wire_len) != 0);
        // A packet of another link type may end too early for both.
        let not = if link == LinkType::ETHERNET { !expected } else { verdicts.1 && !expected };
        assert_eq!(verdicts, (expected, not), "{} … on {bytes:02x?}", terms[0]);
        accepted += usize::from(expected);
    }
    accepted
}

#[test]
fn long_lists_are_the_disjunction_of_their_terms() {
    let mut packets = packets();
    let mix = ethernet_packets(&data().join("mix/dev-mix.pcap"));
    packets.extend(mix.into_iter().step_by(at_least(1009, 101)));
    for shape in [
        "host {address}",
        "src host {address}",
        "src or dst host {address}",
        "src and dst host {address}",
        "ip host {address}",
        "arp host {address}",
        "net {net}",
        "dst net {net}",
        "port {port}",
        "tcp src port {port}",
        "udp port {port}",
        "portrange {range}",
        "host {address6}",
        "ip6 net {net6}",
    ] {
        let terms = terms(shape, (1..700).step_by(3));
        assert!(terms.len() > MAX_LIBPCAP_TERMS);
        let accepted = check(&terms, &packets);
        assert!(accepted > 0 || shape.contains("and"), "{shape}");
    }
}

/// Terms of many kinds, some of them compiled unlike the rest of their kind: a
/// comparison with 0 becomes a test of bits, `/0` none at all.
#[test]
fn mixed_lists_are_the_disjunction_of_their_terms() {
    let mut all = Vec::new();
    for (shape, start) in [
        ("host {address}", 0),
        ("tcp port {port}", 0),
        ("udp dst port {port}", 0),
        ("net {wide}", 0),
        ("src net {net}", 5),
        ("host {address6}", 3),
        ("sctp portrange {range}", 100),
    ] {
        all.extend(terms(shape, (start..700).step_by(17)));
    }
    all.extend(["host 0.0.0.0", "port 2048", "net 8.0.6.0/24", "host 8.6.8.6"].map(str::to_owned));
    assert!(all.len() > MAX_LIBPCAP_TERMS);
    assert!(check(&all, &packets()) > 0);
    all.push("net 0.0.0.0/0".to_owned());
    assert!(check(&all, &packets()) > 0);
}

#[test]
fn qualifiers_are_inherited() {
    let values = terms("{address}", 0..300);
    let short = format!("src host {}", values.join(" or "));
    let long: Vec<_> = values.iter().map(|value| format!("src host {value}")).collect();
    let function = compile_function(&short, LinkType::ETHERNET).unwrap();
    assert_eq!(function, compile_function(&long.join(" || "), LinkType::ETHERNET).unwrap());
    assert_eq!(function.sets[0].len(), 300);
}

#[test]
fn up_to_the_limit_a_list_is_libpcaps() {
    let terms = terms("net {net}", 0..MAX_LIBPCAP_TERMS as u32);
    let expression = terms.join(" or ");
    let program = compile(&expression, LinkType::ETHERNET).unwrap();
    let function = compile_function(&expression, LinkType::ETHERNET).unwrap();
    assert_eq!(function, of_program(&program));
}

/// libpcap alone would take minutes.
#[test]
fn three_thousand_hosts_are_a_few_blocks() {
    let terms = terms("host {address}", 0..3000);
    let function = compile_function(&terms.join(" or "), LinkType::ETHERNET).unwrap();
    assert!(function.blocks.len() < 30, "{function}");
    assert_eq!(function.sets.iter().map(Vec::len).collect::<Vec<_>>(), [3000]);
}

/// The packets without their Ethernet headers, those of IP.
fn raw(packets: &[Captured]) -> Vec<Captured> {
    let is_ip =
        |packet: &&Captured| [[8, 0], [0x86, 0xdd]].contains(&[packet.bytes[12], packet.bytes[13]]);
    let without_header =
        |packet: &Captured| Captured { bytes: packet.bytes[14..].to_vec(), wire_len: 46 };
    packets.iter().filter(is_ip).map(without_header).collect()
}

const IPV4: LinkType = LinkType(228);
const IPV6: LinkType = LinkType(229);

/// libpcap refuses hosts of one version of IP on links of the other. Given the
/// whole list, it would take half a minute or find it too long.
#[test]
fn terms_that_reject_all_packets_add_nothing() {
    let packets = raw(&packets());
    let mut all = terms("host {address}", 0..2500);
    all.insert(1000, "host 2001:db8::1".to_owned());
    for link in [IPV4, LinkType::RAW] {
        let function = compile_function(&all.join(" or "), link).unwrap();
        assert_eq!(function.sets[0].len(), 2500);
    }
    for link in [IPV4, IPV6, LinkType::RAW] {
        let mut all = terms("host {address}", (0..700).step_by(6));
        all.extend(terms("host {address6}", (0..700).step_by(5)));
        assert!(check_for(link, &all, &packets) > 0);
        // None but the last accepts anything, or none but the first.
        let [first, last] = [terms("host {address}", 1..300), terms("host {address6}", 1..300)];
        let ends = [[&first[..], &last[..1]].concat(), [&first[..1], &last[..]].concat()];
        assert!(ends.iter().all(|all| check_for(link, all, &packets) > 0));
    }
    let mut long = terms("src or dst host {address}", 0..3000);
    long.push("host 2001:db8::1".to_owned());
    assert!(long.join(" or ").len() > MAX_EXPRESSION);
    assert_eq!(compile_function(&long.join(" or "), IPV4).unwrap().sets[0].len(), 3000);
}

#[test]
fn lists_whose_terms_all_reject_all_packets_are_refused() {
    for (shape, link) in [("host {address6}", IPV4), ("src or dst host {address}", IPV6)] {
        for count in [2, 300, 3000] {
            let expression = terms(shape, 0..count).join(" or ");
            let error = compile_function(&expression, link).unwrap_err();
            assert_eq!(error.to_string(), REJECTS_ALL);
            if count < 3000 {
                assert_eq!(compile(&expression, link), Err(error));
            }
        }
    }
}

#[test]
fn errors_are_libpcaps() {
    let mut terms = terms("host {address}", 0..300);
    terms[250] = "net 10.0.0.1/8".to_owned();
    let expression = terms.join(" or ");
    let expected = compile(&expression, LinkType::ETHERNET).unwrap_err();
    assert!(matches!(expected, CompileError::Expression(_)));
    assert_eq!(compile_function(&expression, LinkType::ETHERNET), Err(expected));
}

#[test]
fn a_refusal_of_what_moves_the_rest_is_about_it() {
    let mut terms = terms("host {address}", 0..100);
    terms[80] = "vlan 5000".to_owned();
    let error = compile(&terms.join(" or "), LinkType::ETHERNET).unwrap_err();
    let CompileError::Expression(error) = error else { panic!("{error}") };
    assert_eq!(&error.expression[error.span.unwrap()], "vlan 5000");
}

/// libpcap compiles a text with all before it for each of them: of thousands,
/// that would take hours.
#[test]
fn of_many_that_move_the_rest_libpcap_makes_one_program() {
    let link = LinkType::ETHERNET;
    let of = |count: u32| terms("vlan {port}", 1..count + 1).join(" or ");
    assert!(compile_long(&of(16), link, 1, Lengths::Tested).unwrap().is_some());
    assert_eq!(compile_long(&of(17), link, 1, Lengths::Tested), Ok(None));
    let program = compile(&of(300), link).unwrap();
    let tagged = [[2; 12].as_slice(), &[0x81, 0, 0, 1, 8, 0]].concat();
    assert!(program.run(&tagged, 64) > 0);
    assert_eq!(compile_function(&of(300), link), Ok(of_program(&program)));
}

/// Nobody can cancel libpcap.
#[test]
fn what_libpcap_compiles_as_one_has_a_limit_in_primitives() {
    let link = LinkType::ETHERNET;
    let of =
        |count: usize| format!("ip6 protochain 17{}", " or ip6 protochain 6".repeat(count - 1));
    assert!(compile(&of(MAX_WHOLE_TERMS), link).is_ok());
    let error = compile(&of(MAX_WHOLE_TERMS + 1), link).unwrap_err();
    assert_eq!(error, CompileError::TooMany { terms: MAX_WHOLE_TERMS + 1 });
    let message = error.to_string();
    assert!(message.contains("1001 primitives, and at most 1000"), "{message}");
    // Where the expression is wrong, that comes first.
    for wrong in ["or net 10.0.0.1/8", "or tcp prot 80", "or port 1.2.3.4"] {
        let text = format!("{} {wrong}", of(MAX_WHOLE_TERMS + 1));
        let error = compile(&text, link).unwrap_err();
        assert!(matches!(error, CompileError::Expression(_)), "{wrong}: {error}");
    }
    for wrong in ["(", "tcp and ((", "not (udp or "] {
        let text = format!("{wrong}{}", of(MAX_WHOLE_TERMS + 1));
        let error = compile(&text, link).unwrap_err();
        assert!(error.to_string().contains("syntax error"), "{wrong}: {error}");
        assert!(matches!(error, CompileError::Expression(_)), "{wrong}: {error}");
    }
}

/// Arithmetic without end: libpcap's time grows with the square of its length.
#[test]
fn a_long_primitive_is_not_compiled_alone() {
    let link = LinkType::ETHERNET;
    let sum = |terms: usize| format!("len{} = 5", "+len".repeat(terms));
    let of = |terms: usize| format!("{} or {}", vec!["tcp"; 65].join(" or "), sum(terms));
    assert!(compile_long(&of(1000), link, 64, Lengths::Tested).unwrap().is_some());
    assert_eq!(compile_long(&of(1100), link, 64, Lengths::Tested), Ok(None));
    let error = compile(&of(200_000), link).unwrap_err();
    assert!(matches!(error, CompileError::TooLong { .. }), "{error}");
}

#[test]
fn the_longest_expression_is_a_mebibyte() {
    let link = LinkType::ETHERNET;
    let mut expression = terms("dst port {port}", 0..1000).join(" or ");
    expression += &" or src port 7".repeat((MAX_LIST - expression.len()) / " or src port 7".len());
    expression += &" ".repeat(MAX_LIST - expression.len());
    let function = compile_function(&expression, link).unwrap();
    assert!(function.sets.iter().any(|set| set.len() == 1000));
    assert!(compile(&expression, link).is_ok());
    expression.push(' ');
    let error = CompileError::TooLong { length: MAX_LIST + 1, limit: MAX_LIST };
    assert_eq!(compile(&expression, link), Err(error.clone()));
    assert_eq!(compile_function(&expression, link), Err(error));
}

#[test]
fn a_list_is_given_up_wherever_it_is_cancelled() {
    let link = LinkType::ETHERNET;
    let expression = terms("host {address} or dst port {port}", 0..200).join(" or ");
    let function = compile_function(&expression, link).unwrap();
    let cancelled = |work: &dyn Fn()| {
        let cancel = Cancel::default();
        let stopped = cancel.run(|| {
            cancel.cancel();
            work();
        });
        assert_eq!(stopped, Err(Stopped::Cancelled));
    };
    cancelled(&|| drop(compile_function(&expression, link)));
    cancelled(&|| simplify(&mut function.clone()));
    cancelled(&|| drop(lower(&function)));
}

#[test]
fn expressions_longer_than_libpcap_is_given_are_lists_or_refused() {
    let terms = terms("src or dst host {address}", 0..3000);
    let mut expression = terms.join(" or ");
    assert!(expression.len() > MAX_EXPRESSION);
    assert!(compile_function(&expression, LinkType::ETHERNET).is_ok());
    // libpcap's word on the term itself.
    let error = compile_function(&format!("{expression} or net 10.0.0.1/8"), LinkType::ETHERNET);
    assert!(error.unwrap_err().to_string().contains("non-network bits set"));
    expression += " or icmp";
    assert!(compile_function(&expression, LinkType::ETHERNET).is_ok());
    expression += " or ip protochain 6";
    let length = expression.len();
    let error = compile_function(&expression, LinkType::ETHERNET).unwrap_err();
    assert_eq!(error, CompileError::TooLong { length, limit: MAX_EXPRESSION });
}
