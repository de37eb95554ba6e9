//! The header and the libraries as C programs use them: the examples are built
//! against either form of the library and run.
//!
//! Cargo builds the shared and the static library before it builds this test,
//! and leaves them beside it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_filter::compile;
use forebay_packet::LinkType;
use forebay_rules::language::yamaha;
use forebay_rules::{Action, Family, Key};
use tempfile::TempDir;

/// The system's libraries that the static library refers to.
const SYSTEM: [&str; 5] = ["-lpcap", "-lgcc_s", "-lpthread", "-ldl", "-lm"];

/// Flags for C and C++.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

fn crate_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A library that Cargo built with this test.
fn library(file: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let path = test.parent().unwrap().join(file);
    assert!(path.is_file(), "no library at {}", path.display());
    path
}

/// The program that `variable` names, or else `usual`. Nothing, and a word on
/// that, if there is none.
fn tool(variable: &str, usual: &str) -> Option<OsString> {
    let name = env::var_os(variable).unwrap_or_else(|| usual.into());
    match Command::new(&name).arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            forebay_testkit::skipped(&format!("no program {} ({variable})", name.display()));
            None
        }
        result => result.map(|_| Some(name)).unwrap(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a program prints, which must succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", text(&output.stderr));
    text(&output.stdout)
}

/// A folder with both libraries and an example linked to each, as the docs say
/// it is done.
fn installed(cc: &OsString, example: &str) -> (TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let install = |file: &str, name: &str| symlink(library(file), path(name)).unwrap();
    install("libforebay_capi.so", &soname());
    install("libforebay_capi.so", "libforebay.so");
    install("libforebay_capi.a", "libforebay.a");
    let build = |name: &str, flags: &[&str]| {
        let program = path(name);
        let mut command = Command::new(cc);
        command.args(["-std=c99", "-O1"]).args(STRICT).arg("-I").arg(crate_file("include"));
        command.arg(crate_file(&format!("examples/{example}.c"))).arg("-L").arg(folder.path());
        printed(command.args(flags).arg("-o").arg(&program));
        program
    };
    let run_path = format!("-Wl,-rpath,{}", folder.path().display());
    let shared = build("shared", &["-lforebay", &run_path]);
    let fixed = build("static", &[&["-l:libforebay.a"], &SYSTEM[..]].concat());
    (folder, [shared, fixed])
}

/// The name by which programs remember the shared library.
fn soname() -> String {
    let [major, minor] = [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR")];
    if major == "0" { format!("libforebay.so.0.{minor}") } else { format!("libforebay.so.{major}") }
}

/// UDP packets to port 53 and others, some cut short.
fn packets() -> Vec<Vec<u8>> {
    let packet = |n: usize| {
        let mut packet = vec![0; 60];
        packet[12] = 0x08;
        packet[14] = 0x45;
        packet[23] = [6, 17, 17][n % 3];
        packet[36..38].copy_from_slice(&[0, [53, 80][n % 2]]);
        packet.truncate(if n.is_multiple_of(7) { n % 60 } else { 60 });
        packet
    };
    (0..1000).map(packet).collect()
}

/// A pcap file of `packets`, each of 60 bytes on the wire.
fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for number in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(number.to_ne_bytes());
    }
    for packet in packets {
        for number in [0, 0, packet.len() as u32, 60] {
            file.extend(number.to_ne_bytes());
        }
        file.extend(packet);
    }
    file
}

/// What the example shall print, by the interpreter.
fn expected(expression: &str, packets: &[Vec<u8>]) -> String {
    let program = compile(expression, LinkType::ETHERNET).unwrap();
    let kept = packets.iter().zip(1..).filter(|(packet, _)| program.run(packet, 60) != 0);
    let mut lines: Vec<String> = kept.map(|(_, number)| number.to_string()).collect();
    lines.push(format!("{} of {} packets\n", lines.len(), packets.len()));
    lines.join("\n")
}

#[test]
fn the_example_keeps_what_the_interpreter_keeps() {
    let Some(cc) = tool("CC", "cc") else { return };
    let (folder, programs) = installed(&cc, "filter");
    let file = folder.path().join("input");
    let packets = packets();
    fs::write(&file, pcap(&packets)).unwrap();
    for program in programs {
        let run = |expression: &str, isa: Option<&str>| -> Output {
            let mut command = Command::new(&program);
            command.arg(expression).arg(&file).env_remove("FOREBAY_ISA");
            command.envs(isa.map(|isa| ("FOREBAY_ISA", isa)));
            command.output().unwrap()
        };
        for expression in ["udp port 53", "tcp or greater 61", "", "less 61", "ip6"] {
            let expected = expected(expression, &packets);
            for isa in [None, Some("scalar")] {
                let output = run(expression, isa);
                assert_eq!(text(&output.stderr), "");
                assert_eq!(text(&output.stdout), expected, "{expression}");
                assert!(output.status.success());
            }
        }
        let output = run("port nonsense", None);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).starts_with("expression: "));
        let output = run("ip", Some("sse9"));
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("FOREBAY_ISA"));
    }
}

/// What the example of rules shall print, by the linear match.
fn expected_rules(rules: &str, list: &str, packets: &[Vec<u8>]) -> String {
    let list = yamaha::parse(rules).unwrap().list(list).unwrap();
    let keys = packets.iter().map(|packet| Key::of_packet(LinkType::ETHERNET, packet));
    let answers: Vec<_> = keys.map(|key| key.map(|key| list.decide(&key).rule)).collect();
    let count = |answer| answers.iter().filter(|&&one| one == answer).count();
    let line = |(index, rule): (usize, &forebay_rules::Rule)| {
        let family = if rule.family == Family::Ipv4 { "IPv4" } else { "IPv6" };
        let action = if rule.action == Action::Pass { "pass" } else { "reject" };
        format!("{family} rule {}: {action} {}\n", rule.number, count(Some(Some(index))))
    };
    let lines: String = list.rules.iter().enumerate().map(line).collect();
    let (by_default, not_ip) = (count(Some(None)), count(None));
    assert!(by_default > 0 && not_ip > 0);
    format!("{lines}default: reject {by_default}\nnot IP: pass {not_ip}\n")
}

#[test]
fn the_example_of_rules_counts_what_the_linear_match_finds() {
    const RULES: &str = "\
        ip filter 10 reject * * udp * 53\n\
        ip filter 20 pass * * udp\n\
        ip filter 30 pass * * tcp * 80\n\
        ipv6 filter 10 pass *\n\
        ip lan1 secure filter in 10 20 30\n\
        ipv6 lan1 secure filter in 10\n\
        ip lan2 secure filter out 30 20\n";
    let Some(cc) = tool("CC", "cc") else { return };
    let (folder, programs) = installed(&cc, "rules");
    let [file, rules] = ["input", "rules"].map(|name| folder.path().join(name));
    let packets = packets();
    fs::write(&file, pcap(&packets)).unwrap();
    for program in programs {
        let run = |text: &str, options: &[&str]| -> Output {
            fs::write(&rules, text).unwrap();
            let mut command = Command::new(&program);
            command.arg(&rules).arg(&file).args(options).env_remove("FOREBAY_ISA").output().unwrap()
        };
        for list in ["lan1:in", "lan2:out"] {
            let expected = expected_rules(RULES, list, &packets);
            for options in [&[list][..], &[list, "naive"], &[list, "tree"]] {
                let output = run(RULES, options);
                assert_eq!(text(&output.stderr), "");
                assert_eq!(text(&output.stdout), expected, "{options:?}");
                assert!(output.status.success());
            }
        }
        let refused = |rules: &str, options: &[&str]| {
            let output = run(rules, options);
            assert_eq!(output.status.code(), Some(1));
            text(&output.stderr)
        };
        let said = refused(RULES, &[]);
        assert!(said.contains("lan1:in (4 rules), lan2:out (2 rules)"), "{said}");
        let said = refused("ip filter 1 pass *\nip filter 2 pass 10.0.0.0/33\n", &[]);
        assert!(said.contains("line 2: found \"10.0.0.0/33\""), "{said}");
        let said = refused(RULES, &["lan1:in", "fast"]);
        assert!(said.contains("unknown engine 'fast'"), "{said}");
    }
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    // An array of -1 elements is an error in either language.
    const SOURCE: &str = "
        #include \"forebay.h\"
        #include \"forebay.h\"
        typedef char size[sizeof(forebay_instruction) == 8 ? 1 : -1];
        typedef char jt[offsetof(forebay_instruction, jt) == 2 ? 1 : -1];
        typedef char k[offsetof(forebay_instruction, k) == 4 ? 1 : -1];
        typedef char answers[FOREBAY_NOT_IP < FOREBAY_NO_RULE ? 1 : -1];
        typedef char version[FOREBAY_VERSION < 1000000 * (FOREBAY_VERSION_MAJOR + 1) ? 1 : -1];
        int main(void) { return FOREBAY_OK; }\n";
    let folder = tempfile::tempdir().unwrap();
    for (variable, usual, ending, standards) in [
        ("CC", "cc", "c", ["-std=c99", "-std=c11", "-std=gnu17"]),
        ("CXX", "c++", "cc", ["-std=c++11", "-std=c++17", "-std=gnu++17"]),
    ] {
        let Some(compiler) = tool(variable, usual) else { continue };
        let source = folder.path().join("header").with_extension(ending);
        fs::write(&source, SOURCE).unwrap();
        for standard in standards {
            let mut command = Command::new(&compiler);
            command.arg(standard).args(STRICT).arg("-fsyntax-only").arg("-I");
            printed(command.arg(crate_file("include")).arg(&source));
        }
    }
}

#[test]
fn the_shared_library_has_what_the_header_declares_and_nothing_else() {
    let header = fs::read_to_string(crate_file("include/forebay.h")).unwrap();
    let declared: BTreeSet<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '\t']))
        .filter_map(|line| Some(line[..line.find('(')?].split([' ', '*']).next_back().unwrap()))
        .collect();
    assert_eq!(declared.len(), 13, "{declared:?}");
    let Some(nm) = tool("NM", "nm") else { return };
    let symbols =
        printed(Command::new(nm).args(["-D", "--defined-only"]).arg(library("libforebay_capi.so")));
    let exported: BTreeSet<&str> =
        symbols.lines().map(|line| line.split(' ').next_back().unwrap()).collect();
    assert_eq!(exported, declared);
}
