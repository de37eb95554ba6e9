//! What is built or read for a configuration that has been overtaken is given up soon: a
//! computation that is cancelled at ten points of its course allocates little more. Work that
//! allocates nothing is not seen.

#[path = "support/draw.rs"]
mod draw;
#[path = "support/lists.rs"]
mod lists;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use draw::Draw;
use forebay_packet::cancel::{Cancel, Stopped};
use forebay_rules::RuleList;
use forebay_rules::choose::EngineName;
use forebay_rules::language::{Format, Options, open};
use forebay_rules::rule::Family;

/// Counts what this thread allocates, and cancels at a number of allocations.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
    static AT: Cell<u64> = const { Cell::new(u64::MAX) };
    static CANCEL: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

impl Counting {
    fn count() {
        let count = COUNT.get() + 1;
        COUNT.set(count);
        if count == AT.get() {
            CANCEL.with_borrow(|cancel| cancel.iter().for_each(Cancel::cancel));
        }
    }
}

// SAFETY: all is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller promises what the system's allocator asks for.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller promises what the system's allocator asks for.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the caller promises what the system's allocator asks for.
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }

    // SAFETY: the caller promises what the system's allocator asks for.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations that a cancelled computation may still make: one pass's over what there is.
const MOST: u64 = 5_000;

/// Cancels `compute` in the course of it, at several points.
fn is_given_up_soon(name: &str, compute: &dyn Fn()) {
    // What a thread keeps is allocated the first time only.
    compute();
    COUNT.set(0);
    compute();
    let all = COUNT.get();
    assert!(all > 3 * MOST, "{name} is too little work to tell: {all}");
    for tenth in 0..10 {
        let cancel = Cancel::default();
        CANCEL.set(Some(cancel.clone()));
        let at = all * tenth / 10 + 100;
        COUNT.set(0);
        AT.set(at);
        let outcome = cancel.run(compute);
        let after = COUNT.get() - at;
        AT.set(u64::MAX);
        CANCEL.take();
        assert_eq!(outcome, Err(Stopped::Cancelled), "{name}, {tenth} tenths");
        assert!(after < MOST, "{name}, {tenth} tenths of {all}: {after} allocations more");
    }
}

/// A list of anything in any field.
fn any(families: &[Family], rules: usize) -> RuleList {
    lists::overlapping(&mut Draw::Seed(1), families, rules)
}

fn build(engine: EngineName, list: &RuleList) {
    let isa = forebay_jit::cpu::detect();
    is_given_up_soon(engine.name(), &|| drop(engine.build(list, isa).unwrap()));
}

#[test]
fn code_of_rules_is_given_up_soon() {
    let list = any(&[Family::Ipv4, Family::Ipv6], 200);
    build(EngineName::List, &list);
    build(EngineName::Pe, &list);
}

#[test]
fn patterns_are_given_up_soon() {
    build(EngineName::Ems, &any(&[Family::Ipv4], 40));
}

#[test]
fn tables_of_rules_are_given_up_soon() {
    build(EngineName::Naive, &any(&[Family::Ipv4], 10_000));
}

#[test]
fn trees_are_given_up_soon() {
    build(EngineName::Tree, &any(&[Family::Ipv4], 2_000));
}

#[test]
fn ranges_are_given_up_soon() {
    build(EngineName::Tree, &lists::adversarial(&mut Draw::Seed(1), "narrow", 5_000));
}

#[test]
fn imports_are_given_up_soon() {
    let read = |format: Format, text: &str| {
        is_given_up_soon(&format!("{format:?}"), &|| {
            let catalogue = open(format, text, &Options::default()).unwrap();
            drop(catalogue.read(0).unwrap());
        });
    };
    let (mut cisco, mut iptables) = ("ip access-list extended L\n".to_owned(), String::new());
    let (mut nftables, mut classbench) = (Vec::new(), String::new());
    for n in 0..20_000 {
        let _ = writeln!(cisco, " permit tcp host 10.0.{}.{} any eq {n}", n / 256, n % 256);
        let _ = writeln!(iptables, "-A INPUT -s 10.0.{}.{}/32 -j ACCEPT", n / 256, n % 256);
        let _ = writeln!(
            classbench,
            "@10.0.{}.{}/32\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000",
            n / 256,
            n % 256
        );
        nftables.push(format!(
            r#"{{"rule":{{"family":"ip","table":"t","chain":"in","expr":[{{"match":{{"op":"==",
            "left":{{"payload":{{"protocol":"ip","field":"saddr"}}}},"right":"10.0.{}.{}"}}}},
            {{"accept":null}}]}}}}"#,
            n / 256,
            n % 256
        ));
    }
    read(Format::Cisco, &cisco);
    read(Format::Iptables, &format!("*filter\n:INPUT DROP\n{iptables}COMMIT\n"));
    read(Format::Classbench, &classbench);
    let base = r#"{"chain":{"family":"ip","table":"t","name":"in","hook":"input"}}"#;
    read(Format::Nftables, &format!(r#"{{"nftables":[{base},{}]}}"#, nftables.join(",")));
}
