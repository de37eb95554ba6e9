//! The C forms, compiled by the compilers there are and run against the
//! reference interpreter.
//!
//! All filters go into one program, which reads packets and prints verdicts.
//! Warnings are errors, and what C leaves undefined traps.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::functions::Maker;
use forebay_codegen::c;
use forebay_filter::compile;
use forebay_filter::ir::{Function, build, simplify};
use forebay_packet::LinkType;
use forebay_packet::random::Random;

const EXPRESSIONS: [&str; 14] = [
    "ip",
    "ip and tcp",
    "udp",
    "net 10.0.0.0/8",
    "port 80",
    "not (tcp dst port 17)",
    "tcp[13] & 7 != 0 and ip[2:2] > 20",
    "ip[8] * ip[9] - ip[10] << ip[11] > 4096",
    "ip[0] / (ip[1] + 0) = 3 or ip[4] % 0x11 = 2",
    "ether[100] & 0 = 0 or len > 60",
    "less 40",
    "vlan and ip6",
    "ip6 protochain 17",
    "host 10.0.0.1 or host 10.0.0.2 or host 10.0.0.3 or host 10.0.0.4 or host 10.0.0.5",
];

struct Packet {
    bytes: Vec<u8>,
    wire_len: u32,
}

fn functions() -> Vec<(String, Function)> {
    let mut functions = Vec::new();
    for expression in EXPRESSIONS {
        let program = compile(expression, LinkType::ETHERNET).expect(expression);
        functions.push((expression.to_owned(), build::build(&program)));
        let mut simpler = build::build(&program);
        simplify::simplify(&mut simpler);
        functions.push((format!("{expression}, simplified"), simpler));
    }
    for seed in 0..18 {
        let mut random = Random::new(seed);
        let tests = 1 + random.below(40) as usize;
        let mut function = Maker::function(&mut random, tests, seed % 3 == 0);
        // Compilers warn of comparisons that constants decide.
        simplify::simplify(&mut function);
        functions.push((format!("seed {seed}"), function));
    }
    functions
}

/// Packets of which the first bytes are often what filters look for.
fn packets() -> Vec<Packet> {
    let mut random = Random::new(5);
    (0..300)
        .map(|_| {
            let length = random.pick(&[0, 10, 14, 20, 33, 34, 37, 38, 54, 60, 64, 70, 120, 200]);
            let mut bytes: Vec<u8> = (0..length)
                .map(|_| random.pick(&[0, 0, 1, 10, 17, 60, 80, random.state() as u8]))
                .collect();
            let ether_type = random.pick(&[[8, 0], [8, 0], [0x86, 0xdd], [0x81, 0]]);
            let header = [(12, ether_type[0]), (13, ether_type[1]), (14, 0x45)];
            let addresses = [(23, random.pick(&[6, 17, 132])), (26, 10), (29, length as u8 % 7)];
            for (at, byte) in header.into_iter().chain(addresses) {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            Packet { wire_len: length as u32 + random.pick(&[0, 0, 1000]), bytes }
        })
        .collect()
}

/// A program that reads packets, each as captured length, length on the wire
/// and bytes, and prints the verdicts of `count` filters for each.
fn main_text(count: usize) -> String {
    let declarations: String = (0..count)
        .map(|n| {
            format!(
                "void filter_{n}(const uint8_t *, const uint32_t *, const uint32_t *, \
                 const uint32_t *, uint32_t *, size_t);\n"
            )
        })
        .collect();
    let names: Vec<String> = (0..count).map(|n| format!("filter_{n}")).collect();
    format!(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
         {declarations}\
         static void (*const filters[])(const uint8_t *, const uint32_t *, const uint32_t *,\n\
         const uint32_t *, uint32_t *, size_t) = {{ {} }};\n\
         int main(void)\n{{\n    uint32_t lengths[2];\n\
         while (fread(lengths, sizeof lengths, 1, stdin) == 1) {{\n\
         uint8_t *bytes = malloc(lengths[0] + 1);\n\
         if (bytes == NULL || fread(bytes, 1, lengths[0], stdin) != lengths[0]) return 1;\n\
         for (size_t n = 0; n < {count}; n++) {{\n\
         const uint32_t offset = 0;\n uint32_t verdict = 7;\n\
         filters[n](bytes, &offset, &lengths[0], &lengths[1], &verdict, 1);\n\
         printf(\"%u\\n\", verdict);\n}}\nfree(bytes);\n}}\nreturn 0;\n}}\n",
        names.join(", ")
    )
}

/// Compiles `texts` into the program `folder`/filters with `compiler`.
fn build_program(compiler: &str, folder: &Path, texts: &[String]) {
    let mut sources = vec!["main.c".to_owned()];
    fs::write(folder.join("main.c"), main_text(texts.len())).unwrap();
    for (number, text) in texts.iter().enumerate() {
        let source = format!("filter_{number}.c");
        let named = format!("#define filter filter_{number}\n{text}");
        fs::write(folder.join(&source), named).unwrap();
        sources.push(source);
    }
    let output = Command::new(compiler)
        .current_dir(folder)
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-o", "filters"])
        .args(&sources)
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {messages}");
}

/// The verdicts that the program prints.
fn run_program(folder: &Path, packets: &[Packet]) -> Vec<u32> {
    let mut input = Vec::new();
    for packet in packets {
        input.extend((packet.bytes.len() as u32).to_le_bytes());
        input.extend(packet.wire_len.to_le_bytes());
        input.extend(&packet.bytes);
    }
    let mut program = Command::new(folder.join("filters"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = program.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = program.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The compilers there are.
fn compilers() -> Vec<&'static str> {
    let runs = |compiler: &&str| {
        let version = Command::new(compiler).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let found: Vec<&str> = ["gcc", "clang"].into_iter().filter(runs).collect();
    if found.is_empty() {
        forebay_testkit::skipped("neither gcc nor clang is there");
    }
    found
}

fn verdicts_are_the_interpreters(print: fn(&Function) -> String) {
    let functions = functions();
    let texts: Vec<String> = functions.iter().map(|(_, function)| print(function)).collect();
    let packets = packets();
    for compiler in compilers() {
        let folder = tempfile::tempdir().unwrap();
        build_program(compiler, folder.path(), &texts);
        let verdicts = run_program(folder.path(), &packets);
        assert_eq!(verdicts.len(), packets.len() * functions.len());
        let mut accepted = 0;
        for (packet, verdicts) in packets.iter().zip(verdicts.chunks(functions.len())) {
            for ((name, function), &verdict) in functions.iter().zip(verdicts) {
                let expected = function.run(&packet.bytes, packet.wire_len);
                assert_eq!(verdict, expected, "{name} by {compiler} on {:02x?}", packet.bytes);
                accepted += u32::from(verdict != 0);
            }
        }
        assert!(accepted > 1000, "{accepted}");
    }
}

#[test]
fn labels_and_jumps_give_the_interpreters_verdicts() {
    verdicts_are_the_interpreters(c::unstructured);
}

#[test]
fn nested_tests_give_the_interpreters_verdicts() {
    verdicts_are_the_interpreters(c::structured);
}

#[test]
fn a_long_list_is_printed_in_few_bytes_a_block() {
    let expression = (0..150).map(|n| format!("host 10.0.{n}.1")).collect::<Vec<_>>().join(" or ");
    let program = compile(&expression, LinkType::ETHERNET).unwrap();
    let function = build::build(&program);
    for text in [c::unstructured(&function), c::structured(&function)] {
        assert!(text.len() < 1000 * function.blocks.len(), "{} bytes", text.len());
    }
}
