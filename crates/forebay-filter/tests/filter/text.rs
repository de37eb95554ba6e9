//! The two text forms against libpcap's and tcpdump's.

use forebay_filter::program::text;
use forebay_filter::{Instruction, Profile, Program, ProgramError, compile};
use forebay_packet::LinkType;
use proptest::prelude::*;

use crate::compile::tcpdump;
use crate::support::{data, expressions, libpcap};

fn any_instruction() -> impl Strategy<Value = Instruction> {
    any::<(u16, u8, u8, u32)>().prop_map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(program in prop::collection::vec(any_instruction(), 1..50)) {
        prop_assert_eq!(text::parse(&text::print(&program)).unwrap(), program);
    }

    #[test]
    fn reading_never_panics_and_errors_name_a_line(text in "[0-9 \\n\\r-]{0,60}|\\PC{0,40}") {
        if let Err(error) = text::parse(&text) {
            prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 2);
        }
    }
}

#[test]
fn compiled_programs_read_back_from_their_text() {
    let data = data();
    for expression in expressions(&data) {
        let program = compile(&expression, LinkType::ETHERNET).unwrap();
        assert_eq!(Program::from_text(&program.ddd(), Profile::Libpcap), Ok(program));
    }
}

#[test]
fn listings_are_those_that_tcpdump_prints() {
    let data = data();
    for expression in expressions(&data) {
        let Some(expected) = tcpdump("-d", &expression, LinkType::ETHERNET) else { return };
        let program = compile(&expression, LinkType::ETHERNET).unwrap();
        // libpcap 1.10.5 stopped padding mnemonics that nothing follows.
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&program.listing()), trimmed(&expected), "{expression}");
    }
}

#[test]
fn every_code_is_listed_as_libpcap_lists_it() {
    let constants = [0, 1, 12, 0x800, u32::MAX, 0xffff_f000, 0xffff_f030, 0xffff_f03c, 0xffff_f002];
    for code in 0..0x200 {
        // libpcap before 1.10.5 cannot print `ldx #pktlen`.
        if code == 0x81 {
            continue;
        }
        for (n, &k) in constants.iter().enumerate() {
            let instruction = Instruction { code, jt: 3, jf: 200, k };
            // Jump targets past the numbers of C are no part of any program.
            let index = 7 * n;
            let expected = libpcap::image(&instruction, index);
            assert_eq!(instruction.listing(index).trim_end(), expected.trim_end());
        }
    }
}

#[test]
fn text_and_rules_are_told_apart() {
    let error = |text| Program::from_text(text, Profile::Libpcap).unwrap_err();
    assert!(matches!(error("1\n6 0 0\n"), ProgramError::Text(_)));
    assert!(matches!(error("1\n0 0 0 0\n"), ProgramError::Verify(_)));
    assert_eq!(
        error("2\n21 9 0 1\n6 0 0 0\n").to_string(),
        "instruction 0, `jeq #0x1 jt 10 jf 1`: the jump must land inside the program"
    );
}
