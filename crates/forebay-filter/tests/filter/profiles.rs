//! The verifier against `bpf_validate` and the running kernel.

use forebay_filter::program::instruction::ANCILLARY;
use forebay_filter::verify::verify;
use forebay_filter::{Instruction, Profile, Rule, VerifyError};
use proptest::prelude::*;

use crate::support::{instruction as i, kernel, libpcap};

const RETURN: Instruction = i(0x06, 0, 0, 0);

fn rule(program: &[Instruction], profile: Profile) -> Option<(usize, Rule)> {
    match verify(program, profile) {
        Ok(()) => None,
        Err(VerifyError::Instruction { index, rule, .. }) => Some((index, rule)),
        Err(other) => panic!("{other}"),
    }
}

/// Programs that both profiles refuse for the same rule, alone or before a
/// return.
#[test]
fn rules_of_both_profiles() {
    let cases = [
        (vec![i(0x08, 0, 0, 0), RETURN], 0, Rule::KnownCode),
        (vec![i(0x0e, 0, 0, 0)], 0, Rule::KnownCode),
        (vec![i(0x02, 0, 0, 16), RETURN], 0, Rule::MemoryCell),
        (vec![i(0x61, 0, 0, 16), RETURN], 0, Rule::MemoryCell),
        (vec![i(0x34, 0, 0, 0), RETURN], 0, Rule::DivisionByZero),
        (vec![i(0x94, 0, 0, 0), RETURN], 0, Rule::DivisionByZero),
        (vec![i(0x15, 0, 1, 0), RETURN], 0, Rule::JumpInside),
        (vec![i(0x15, 1, 0, 0), RETURN], 0, Rule::JumpInside),
        (vec![i(0x05, 0, 0, 1), RETURN], 0, Rule::JumpInside),
        (vec![RETURN, i(0x05, 0, 0, u32::MAX - 2), RETURN], 1, Rule::JumpInside),
        (vec![RETURN, i(0x00, 0, 0, 0)], 1, Rule::EndsWithReturn),
    ];
    for (program, index, broken) in cases {
        for profile in [Profile::Libpcap, Profile::Kernel] {
            assert_eq!(rule(&program, profile), Some((index, broken)), "{program:?}");
        }
        assert_ne!(kernel::attaches(&program), Some(true), "{program:?}");
    }
}

/// Programs that libpcap takes and the kernel does not.
#[test]
fn rules_of_the_kernel_alone() {
    let jump_back = i(0x05, 0, 0, 0u32.wrapping_sub(2));
    let cases = [
        (vec![i(0x00, 0, 0, 0), jump_back, RETURN], 1, Rule::ForwardJump),
        (vec![i(0x64, 0, 0, 32), RETURN], 0, Rule::ShiftCount),
        (vec![i(0x74, 0, 0, 99), RETURN], 0, Rule::ShiftCount),
        (vec![i(0x60, 0, 0, 3), RETURN], 0, Rule::StoredBefore),
        (vec![i(0x20, 0, 0, ANCILLARY + 64), RETURN], 0, Rule::Ancillary),
        (vec![i(0x30, 0, 0, ANCILLARY + 1), RETURN], 0, Rule::Ancillary),
        // One way round the store.
        (vec![i(0x15, 0, 1, 7), i(0x02, 0, 0, 3), i(0x61, 0, 0, 3), RETURN], 2, Rule::StoredBefore),
        // The way that ends above still counts.
        (
            vec![
                i(0x15, 2, 0, 7),
                i(0x02, 0, 0, 3),
                i(0x05, 0, 0, 1),
                RETURN,
                i(0x60, 0, 0, 3),
                RETURN,
            ],
            4,
            Rule::StoredBefore,
        ),
    ];
    for (program, index, broken) in cases {
        assert_eq!(rule(&program, Profile::Libpcap), None, "{program:?}");
        assert!(libpcap::validates(&program), "{program:?}");
        assert_eq!(rule(&program, Profile::Kernel), Some((index, broken)), "{program:?}");
        assert_ne!(kernel::attaches(&program), Some(true), "{program:?}");
    }
}

#[test]
fn what_the_kernel_takes() {
    let programs = [
        vec![i(0x64, 0, 0, 31), RETURN],
        vec![i(0x20, 0, 0, ANCILLARY + 60), RETURN],
        // A load by X may have any constant.
        vec![i(0x40, 0, 0, ANCILLARY + 1), RETURN],
        vec![i(0x15, 1, 0, 7), i(0x02, 0, 0, 3), i(0x03, 0, 0, 4), i(0x60, 0, 0, 4), RETURN],
    ];
    for program in programs {
        assert_eq!(rule(&program, Profile::Kernel), None, "{program:?}");
        assert_ne!(kernel::attaches(&program), Some(false), "{program:?}");
    }
}

#[test]
fn length_limits() {
    for profile in [Profile::Libpcap, Profile::Kernel] {
        assert_eq!(verify(&[], profile), Err(VerifyError::Empty));
        let limit = profile.max_instructions();
        let mut program = vec![i(0x00, 0, 0, 0); limit];
        program[limit - 1] = RETURN;
        assert_eq!(verify(&program, profile), Ok(()));
        program.push(RETURN);
        let length = limit + 1;
        assert_eq!(verify(&program, profile), Err(VerifyError::TooLong { length, limit }));
    }
    assert!(!libpcap::validates(&[]));
}

/// Codes that mean something, more often than chance has it, and constants at
/// the edges of what is allowed.
fn likely_instruction() -> impl Strategy<Value = Instruction> {
    let code = prop_oneof![4 => 0_u16..0xb8, 1 => any::<u16>()];
    let near = prop_oneof![0_u32..40, Just(u32::MAX), (0_u32..20).prop_map(|n| n.wrapping_neg())];
    let k = prop_oneof![
        6 => near,
        1 => any::<u32>(),
        1 => (0_u32..70).prop_map(|n| ANCILLARY + n),
    ];
    (code, 0_u8..4, 0_u8..4, k).prop_map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })
}

/// Instructions of one known code each, so that longer programs verify too.
fn known_instruction() -> impl Strategy<Value = Instruction> {
    likely_instruction().prop_filter("a code that is known", |i| i.decode().is_some())
}

fn program() -> impl Strategy<Value = Vec<Instruction>> {
    let body = prop_oneof![
        1 => prop::collection::vec(likely_instruction(), 0..4),
        3 => prop::collection::vec(known_instruction(), 0..8),
    ];
    (body, any::<bool>()).prop_map(|(mut body, returns)| {
        if returns {
            body.extend([RETURN; 4]);
        }
        body
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// What verifies, validates; what validates but does not verify has a code
    /// that libpcap's interpreter would abort on.
    #[test]
    fn the_libpcap_profile_is_bpf_validate_less_unknown_codes(program in program()) {
        let validates = libpcap::validates(&program);
        match verify(&program, Profile::Libpcap) {
            Ok(()) => prop_assert!(validates),
            Err(VerifyError::Empty) => prop_assert!(!validates),
            Err(VerifyError::Instruction { rule: Rule::KnownCode, .. }) => {}
            Err(VerifyError::Instruction { index, rule: Rule::EndsWithReturn, .. }) => {
                // `bpf_validate` looks at the class of the last code only.
                prop_assert!(!validates || program[index].decode().is_none());
            }
            Err(error) => prop_assert!(!validates, "{error}"),
        }
    }

    #[test]
    fn the_kernel_profile_is_the_kernels(program in program()) {
        let verified = verify(&program, Profile::Kernel).is_ok();
        if let Some(attached) = kernel::attaches(&program) {
            prop_assert_eq!(verified, attached);
        }
    }
}
