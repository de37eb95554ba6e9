//! Networks of predicates as machine code, against their evaluation.

use forebay_codegen::sliced::network::{Arity, Network, Signal};
use forebay_codegen::sliced::{MAX_OUTPUTS, SlicedError, Width};
use forebay_jit::cpu;
use forebay_jit::planes::{LINE, Line, PlaneKernel};
use proptest::prelude::*;

/// A node to be made: a table, and what of the signals so far it reads.
type Recipe = (u8, [prop::sample::Index; 3], [bool; 3]);

/// A network made of `recipes`, and all its signals.
fn network(inputs: u32, arity: Arity, recipes: &[Recipe]) -> (Network, Vec<Signal>) {
    let mut network = Network::new(inputs, arity);
    let mut signals: Vec<Signal> = (0..inputs).map(|input| network.input(input)).collect();
    signals.push(Signal::TRUE);
    for (table, places, inverted) in recipes {
        let read: [Signal; 3] = std::array::from_fn(|n| {
            let signal = signals[places[n].index(signals.len())];
            if inverted[n] { !signal } else { signal }
        });
        signals.push(network.node(read, *table));
    }
    (network, signals)
}

/// Words in no order, from a seed.
fn words(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Runs `outputs` on three groups in which all is random, and compares.
fn check(network: &Network, outputs: &[Signal], width: Width, seed: u64) {
    const GROUPS: usize = 3;
    let kernel = PlaneKernel::compile(network, outputs, width).unwrap();
    let [inputs, results, scratch] = kernel.lines(GROUPS).map(|lines| vec![Line([7; 8]); lines]);
    let (mut inputs, mut results, mut scratch) = (inputs, results, scratch);
    let mut next = words(seed);
    inputs.iter_mut().flat_map(|line| &mut line.0).for_each(|word| *word = next());
    kernel.run(GROUPS, &inputs, &mut results, &mut scratch);
    let word = |table: &[Line], stride: usize, group: usize, plane: usize, at: usize| {
        let byte = group * stride + plane * width.bytes() + 8 * at;
        table[byte / LINE].0[byte % LINE / 8]
    };
    let code = kernel.code();
    for group in 0..GROUPS {
        for at in 0..width.bytes() / 8 {
            let of = |plane: u32| word(&inputs, code.input_bytes, group, plane as usize, at);
            let planes: Vec<u64> = (0..network.inputs()).map(of).collect();
            let expected = network.evaluate(&planes, outputs);
            for (plane, (output, expected)) in outputs.iter().zip(expected).enumerate() {
                let found = word(&results, code.result_bytes, group, plane, at);
                let found = match (output.number(), output.inverted()) {
                    (0, set) => {
                        if set {
                            u64::MAX
                        } else {
                            0
                        }
                    }
                    (_, true) => !found,
                    (_, false) => found,
                };
                assert_eq!(found, expected, "{width:?}, group {group}, result {plane}");
            }
        }
    }
}

fn widths() -> impl Iterator<Item = Width> {
    Width::ALL.into_iter().filter(|width| cpu::require(width.isa()).is_ok())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn code_computes_what_its_network_says(
        inputs in 1_u32..140,
        recipes in prop::collection::vec(any::<Recipe>(), 0..400),
        chosen in prop::collection::vec(any::<(prop::sample::Index, bool)>(), 0..=MAX_OUTPUTS),
        seed: u64,
    ) {
        for width in widths() {
            let (network, signals) = network(inputs, width.arity(), &recipes);
            let outputs: Vec<Signal> = chosen.iter().map(|(place, inverted)| {
                let signal = signals[place.index(signals.len())];
                if *inverted { !signal } else { signal }
            }).collect();
            check(&network, &outputs, width, seed);
        }
    }
}

#[test]
fn values_that_registers_have_no_room_for_are_kept_in_memory() {
    for width in widths() {
        let mut network = Network::new(120, width.arity());
        // 60 values that are all wanted again in the order they were made.
        let pairs: Vec<Signal> = (0..60)
            .map(|n| {
                let (a, b) = (network.input(2 * n), network.input(2 * n + 1));
                network.and(a, b)
            })
            .collect();
        let any = network.any(pairs.clone());
        let all = network.all(pairs.into_iter().rev());
        let kernel = PlaneKernel::compile(&network, &[any, all], width).unwrap();
        assert!(kernel.code().scratch_bytes > 0);
        check(&network, &[any, all], width, 11);
    }
}

#[test]
fn limits_are_errors() {
    let Some(width) = widths().next() else { return };
    let network = Network::new(1, Arity::Two);
    let outputs = [network.input(0); MAX_OUTPUTS + 1];
    let error = PlaneKernel::compile(&network, &outputs, width).unwrap_err();
    let limit = SlicedError::Outputs(MAX_OUTPUTS + 1);
    assert_eq!(error.to_string(), limit.to_string());
    let many = Network::new(5000, Arity::Two);
    let error = PlaneKernel::compile(&many, &[], width).unwrap_err();
    assert!(error.to_string().starts_with("5000 inputs"), "{error}");
    let ternary = Network::new(1, Arity::Three);
    let error = PlaneKernel::compile(&ternary, &[], Width::YmmAvx2).unwrap_err();
    assert_eq!(error.to_string(), SlicedError::Arity.to_string());
}

#[test]
#[should_panic(expected = "tables of")]
fn tables_that_are_too_short_are_refused() {
    let Some(width) = widths().next() else { panic!("tables of nothing") };
    let network = Network::new(2, width.arity());
    let outputs = [network.input(1)];
    let kernel = PlaneKernel::compile(&network, &outputs, width).unwrap();
    kernel.run(1, &[], &mut [Line::default(); 64], &mut []);
}
