//! Programs that a pass of quadratic time would take minutes for.

use forebay_filter::ir::Function;
use forebay_filter::ir::verify::verify;
use forebay_filter::lists::of_program;
use forebay_filter::{Instruction, Profile, Program};

use crate::support::instruction as i;

/// A simplified function that does what the program does on some packets.
fn simplified(instructions: &[Instruction]) -> Function {
    let program = Program::verify(instructions, Profile::Libpcap).unwrap();
    let function = of_program(&program);
    assert_eq!(verify(&function), Ok(()));
    for (number, byte) in [0, 1, 2, 3, 4, 5, 9, 200].into_iter().enumerate() {
        for length in [0, 3, 4, 60, 70_000] {
            let mut packet = vec![0; length];
            packet.iter_mut().skip(1).step_by(2 + number % 3).for_each(|at| *at = byte);
            let verdict = program.run(&packet, 9);
            assert_eq!(function.run(&packet, 9), verdict, "{length} bytes, some {byte}");
        }
    }
    function
}

/// Each of many values is bounded, then bounded further, and all the tests that
/// hold lead to one block: each way there knows something else of every value.
#[test]
fn ways_that_differ_in_all_they_know_meet() {
    const VALUES: u32 = 20_000;
    let halves = || (0..VALUES).map(|n| i(0x28, 0, 0, 2 * n));
    let mut program = Vec::new();
    for half in halves() {
        program.extend([half, i(0x35, 0, 1, 5), i(0x06, 0, 0, 0)]);
    }
    for (half, left) in halves().zip((0..VALUES).rev()) {
        program.extend([half, i(0x25, 0, 1, 2), i(0x05, 0, 0, 3 * left + 1)]);
    }
    program.extend([i(0x06, 0, 0, 7), i(0x20, 0, 0, 0), i(0x45, 0, 1, 1)]);
    program.extend([i(0x06, 0, 0, 9), i(0x06, 0, 0, 3)]);
    let function = simplified(&program);
    // A length test and two tests of each value, and the end.
    assert!(function.blocks.len() < 3 * VALUES as usize + 10, "{}", function.blocks.len());
}

/// A chain of jumps, and many jumps back to where it starts.
#[test]
fn backward_edges_into_a_chain_of_jumps() {
    const JUMPS: u32 = 130_000;
    let mut program = vec![i(0x20, 0, 0, 0)];
    program.extend((0..JUMPS).map(|_| i(0x05, 0, 0, 0)));
    for n in 0..JUMPS / 2 {
        let back = 1_u32.wrapping_sub(program.len() as u32 + 2);
        program.extend([i(0x15, 0, 1, n | 1 << 30), i(0x05, 0, 0, back)]);
    }
    program.push(i(0x06, 0, 0, 3));
    let function = simplified(&program);
    // The length test, a block for each test, and the ends.
    assert!(function.blocks.len() < JUMPS as usize / 2 + 10, "{}", function.blocks.len());
}

/// Loads behind many indices, and each test of the length vouches for more
/// bytes behind all of those before.
#[test]
fn many_indices_and_a_length_that_grows() {
    const INDICES: u32 = 20_000;
    let mut program = Vec::new();
    for n in 0..INDICES {
        let load = [i(0xb1, 0, 0, n), i(0x50, 0, 0, 9), i(0x15, 0, 1, 255), i(0x06, 0, 0, 1)];
        program.extend(load);
    }
    program.push(i(0x06, 0, 0, 3));
    let function = simplified(&program);
    assert!(function.blocks.len() < 4 * INDICES as usize, "{}", function.blocks.len());
}
