//! Compiling: the program is the one tcpdump would run, and limits are kept.

use std::fs;
use std::process::Command;
use std::thread;

use forebay_filter::libpcap::{MAX_EXPRESSION, SNAP_LEN};
use forebay_filter::{CompileError, Program, compile};
use forebay_packet::LinkType;

use crate::support::{data, expressions};

/// What `tcpdump` with `flag` prints of the expression for a capture of that
/// link type; nothing where tcpdump is not installed.
pub fn tcpdump(flag: &str, expression: &str, link: LinkType) -> Option<String> {
    let header: Vec<u8> = [0xa1b2_c3d4, 0x0004_0002, 0, 0, SNAP_LEN, link.0]
        .iter()
        .flat_map(|word: &u32| word.to_ne_bytes())
        .collect();
    let name = format!("forebay-filter-{}-{:?}.pcap", std::process::id(), thread::current().id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, header).unwrap();
    let output = Command::new("tcpdump").arg(flag).arg("-r").arg(&path).arg(expression).output();
    fs::remove_file(&path).unwrap();
    let Ok(output) = output else {
        eprintln!("skipped: tcpdump is not installed");
        return None;
    };
    assert!(output.status.success(), "{expression}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn programs_are_those_that_tcpdump_prints() {
    let data = data();
    for expression in expressions(&data) {
        let Some(expected) = tcpdump("-ddd", &expression, LinkType::ETHERNET) else { return };
        let program = compile(&expression, LinkType::ETHERNET).unwrap();
        assert_eq!(program.ddd(), expected, "{expression}");
        assert!(program.ddd().contains(&format!("6 0 0 {SNAP_LEN}\n")), "{expression}");
    }
}

#[test]
fn programs_differ_by_link_type_as_tcpdumps_do() {
    let links = [
        LinkType::NULL,
        LinkType::RAW,
        LinkType::LOOP,
        LinkType::LINUX_SLL,
        LinkType::LINUX_SLL2,
        LinkType::IPV4,
        LinkType::IPV6,
        LinkType(105),
    ];
    for link in links {
        let Some(expected) = tcpdump("-ddd", "ip6 or udp port 53", link) else { return };
        assert_eq!(compile("ip6 or udp port 53", link).unwrap().ddd(), expected, "{link}");
    }
}

#[test]
fn the_empty_expression_accepts_everything() {
    for expression in ["", "  \n"] {
        let program = compile(expression, LinkType::ETHERNET).unwrap();
        assert_eq!(program.listing(), "(000) ret      #262144\n");
        assert_eq!(program.run(&[], 0), SNAP_LEN);
    }
}

#[test]
fn link_types_without_filters_are_named() {
    for (link, words) in [(147_000, "16 bits"), (60_000, "60000")] {
        let error = compile("ip", LinkType(link)).unwrap_err();
        assert!(matches!(error, CompileError::LinkType { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn length_and_nul_bytes_are_checked_first() {
    let nul = compile("ip\0 and tcp", LinkType::ETHERNET);
    assert_eq!(nul, Err(CompileError::Nul { position: 2 }));
    let long = " ".repeat(MAX_EXPRESSION + 1);
    let error = compile(&long, LinkType::ETHERNET).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the filter expression has 65537 bytes, and at most 65536 are allowed"
    );
}

/// tcpdump overflows a stack of 256 KiB on the first of these.
#[test]
fn the_longest_expressions_compile_on_a_small_stack() {
    let longest = |part: &str| part.repeat((MAX_EXPRESSION - 2) / part.len()) + "ip";
    let run = move || {
        assert!(compile(&longest("ip[0]=1||"), LinkType::ETHERNET).is_ok());
        for part in ["(", "!"] {
            let error = compile(&longest(part), LinkType::ETHERNET).unwrap_err();
            assert!(error.to_string().contains("memory exhausted"), "{error}");
        }
    };
    thread::Builder::new().stack_size(128 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn many_threads_compile_at_once() {
    let expected = compile("tcp port 80 or net 10.0.0.0/8", LinkType::ETHERNET).unwrap();
    let compile_often = || -> Vec<Program> {
        let compile = |_| compile("tcp port 80 or net 10.0.0.0/8", LinkType::ETHERNET).unwrap();
        (0..50).map(compile).collect()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(compile_often)).collect();
        for thread in threads {
            assert!(thread.join().unwrap().iter().all(|program| *program == expected));
        }
    });
}
