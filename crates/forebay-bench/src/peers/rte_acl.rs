//! DPDK's classifier, `librte_acl`, where it is installed.
//!
//! A context holds a list's rules and the tries built of them; each of the library's
//! algorithms walks the same tries. The library takes fields in network order and four
//! bytes at a time, the first of them one byte long (DPDK Programmer's Guide, "Packet
//! Classification and Access Control"). A receiver would point it at received headers, so that
//! its inputs are laid out outside of the timed part.
//!
//! The tests of our rules beyond the usual five fields are in a sixth group of four bytes:
//! presence of ports or an ICMP type, and TCP's control bits. Five-tuples do without.
#![allow(unsafe_code, reason = "calls DPDK")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_rules::packed::{HAS_ICMP, HAS_PORTS, Key4, NO_FLAGS, UNREACHABLE};
use forebay_rules::rule::{ICMP, TCP};
use forebay_rules::{FlagTest, PortTest, ProtocolTest, Rule, RuleList};

use super::dpdk::{functions, heap_bytes};
use super::matcher::{Matcher, prefix};
use crate::failure::{Failure, Result};
use crate::suites::rules::headers::HeaderKind;

/// The algorithms, by their names in the rows and their numbers in
/// `enum rte_acl_classify_alg`.
pub const ALGORITHMS: [(&str, c_int); 5] = [
    ("rte_acl-scalar", 1),
    ("rte_acl-sse", 2),
    ("rte_acl-avx2", 3),
    ("rte_acl-avx512x16", 6),
    ("rte_acl-avx512x32", 7),
];

/// `RTE_ACL_MAX_FIELDS` of `<rte_acl.h>`.
const MOST_FIELDS: usize = 64;

/// The kinds of fields: value and mask, prefix, range.
const BITMASK: u8 = 2;
const PREFIX: u8 = 0;
const RANGE: u8 = 1;

/// `struct rte_acl_field_def`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Definition {
    kind: u8,
    size: u8,
    field_index: u8,
    input_index: u8,
    offset: u32,
}

/// `struct rte_acl_config`.
#[repr(C)]
struct Config {
    categories: u32,
    fields: u32,
    definitions: [Definition; MOST_FIELDS],
    max_size: usize,
}

/// `struct rte_acl_param`.
#[repr(C)]
struct Parameters {
    name: *const c_char,
    socket: c_int,
    rule_size: u32,
    rules: u32,
}

/// `struct rte_acl_field`: two unions, of which a value takes the first bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
struct Field {
    value: u64,
    mask_range: u64,
}

/// `struct rte_acl_rule` with all our fields; shorter rules leave the last ones out.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct AclRule {
    category_mask: u32,
    priority: i32,
    user_data: u32,
    unused: u32,
    fields: [Field; 7],
}

/// A header in the library's form, in network order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Input {
    protocol: u8,
    unused: [u8; 3],
    source: [u8; 4],
    destination: [u8; 4],
    first: [u8; 2],
    second: [u8; 2],
    kind: [u8; 2],
    flags: [u8; 2],
}

const _: () = assert!(size_of::<Input>() == 20 && size_of::<AclRule>() == 16 + 7 * 16);

/// Fields of the rules for a kind of headers: protocol, addresses and ports, and for packets the
/// other tests of our rules.
fn fields(kind: HeaderKind) -> usize {
    match kind {
        HeaderKind::FiveTuples => 5,
        HeaderKind::Packets => 7,
    }
}

/// How the library compares rules for a kind of headers.
fn config(kind: HeaderKind, max_size: usize) -> Config {
    // Kind, size, group of four bytes, and offset of each field.
    let all = [
        (BITMASK, 1, 0, 0),
        (PREFIX, 4, 1, 4),
        (PREFIX, 4, 2, 8),
        (RANGE, 2, 3, 12),
        (RANGE, 2, 3, 14),
        (BITMASK, 2, 4, 16),
        (BITMASK, 2, 4, 18),
    ];
    let mut definitions = [Definition::default(); MOST_FIELDS];
    for (index, &(kind, size, input_index, offset)) in all[..fields(kind)].iter().enumerate() {
        let field_index = index as u8;
        definitions[index] = Definition { kind, size, field_index, input_index, offset };
    }
    Config { categories: 1, fields: fields(kind) as u32, definitions, max_size }
}

// The types are those of `rte_acl.h`.
functions! { Dpdk of "acl" {
    create(*const Parameters) -> *mut c_void = c"rte_acl_create",
    add_rules(*mut c_void, *const AclRule, u32) -> c_int = c"rte_acl_add_rules",
    build(*mut c_void, *const Config) -> c_int = c"rte_acl_build",
    set_algorithm(*mut c_void, c_int) -> c_int = c"rte_acl_set_ctx_classify",
    // Context, data, results, their count, categories, and algorithm.
    classify(*const c_void, *const *const u8, *mut u32, u32, u32, c_int) -> c_int
        = c"rte_acl_classify_alg",
    free(*mut c_void) = c"rte_acl_free",
} }

/// Whether the library is there.
pub fn is_installed() -> Result<()> {
    Dpdk::get().map(|_| ())
}

/// A list's rules and tries.
#[derive(Debug)]
pub struct Context {
    dpdk: &'static Dpdk,
    context: *mut c_void,
    /// Bytes of the tries, without the copy of the rules that is kept.
    pub bytes: usize,
}

impl Context {
    /// Builds the tries of `list`. With a `max_size` in bytes they may be as large, and
    /// fewer; with 0 the library parts the rules into more and smaller ones.
    pub fn build(list: &RuleList, kind: HeaderKind, max_size: usize) -> Result<Self> {
        static CONTEXTS: AtomicU32 = AtomicU32::new(0);
        let dpdk = Dpdk::get()?;
        let count = list.rules.len() as u32;
        let rules: Vec<AclRule> = (list.rules.iter().zip(0..))
            .map(|(rule, index)| acl_rule(rule, kind, index, count))
            .collect::<Result<_, _>>()?;
        let name = format!("forebay-{}", CONTEXTS.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name)?;
        let rule_size = (16 + fields(kind) * size_of::<Field>()) as u32;
        let parameters =
            Parameters { name: name.as_ptr(), socket: -1, rule_size, rules: count.max(1) };
        // SAFETY: the parameters are those of `rte_acl.h`; the name is copied.
        let context = unsafe { (dpdk.create)(&raw const parameters) };
        if context.is_null() {
            return Err("rte_acl makes no context".into());
        }
        let mut made = Self { dpdk, context, bytes: heap_bytes()? };
        let config = config(kind, max_size);
        for rule in &rules {
            // SAFETY: the context is alive, and a rule has at least `rule_size` bytes.
            let outcome = unsafe { (dpdk.add_rules)(context, ptr::from_ref(rule), 1) };
            if outcome != 0 {
                return Err(format!("rte_acl refuses a rule ({outcome})").into());
            }
        }
        // SAFETY: the context is alive, and the configuration defines as many fields as
        // its rules have.
        let outcome = unsafe { (dpdk.build)(context, &raw const config) };
        if outcome != 0 {
            return Err(format!("rte_acl does not build its tries ({outcome})").into());
        }
        made.bytes = heap_bytes()?.saturating_sub(made.bytes);
        Ok(made)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: `build` made it, and nothing else frees it.
        unsafe { (self.dpdk.free)(self.context) };
    }
}

/// An algorithm on a context, and the headers it is given.
#[derive(Debug)]
pub struct RteAcl {
    context: Rc<Context>,
    algorithm: c_int,
    inputs: Vec<Input>,
    pointers: Vec<*const u8>,
}

impl RteAcl {
    /// The algorithm of that number, if this machine can run it.
    pub fn new(context: &Rc<Context>, algorithm: c_int) -> Result<Self> {
        // SAFETY: the context is alive; a number that cannot be is refused.
        let outcome = unsafe { (context.dpdk.set_algorithm)(context.context, algorithm) };
        if outcome != 0 {
            return Err("this machine or this DPDK does not have the algorithm".into());
        }
        let context = Rc::clone(context);
        Ok(Self { context, algorithm, inputs: Vec::new(), pointers: Vec::new() })
    }
}

impl Matcher for RteAcl {
    fn load(&mut self, keys: &[Key4]) -> Result<()> {
        self.pointers.clear();
        self.inputs.clear();
        self.inputs.extend(keys.iter().map(input));
        self.pointers.extend(self.inputs.iter().map(|input| ptr::from_ref(input).cast::<u8>()));
        Ok(())
    }

    fn touch(&self, first: usize, count: usize) -> u64 {
        let inputs = &self.inputs[first..first + count];
        inputs.iter().map(|input| u64::from(input.protocol) + u64::from(input.flags[1])).sum()
    }

    fn run(&mut self, _keys: &[Key4], first: usize, rules: &mut [u32]) {
        let data = &self.pointers[first..first + rules.len()];
        let count = rules.len() as u32;
        let context = &*self.context;
        // SAFETY: the context is built; the pointers are to inputs with all bytes that
        // its fields are made of, and there is a result for each.
        unsafe {
            let (data, results) = (data.as_ptr(), rules.as_mut_ptr());
            (context.dpdk.classify)(context.context, data, results, count, 1, self.algorithm);
        }
    }

    /// The library's answer is the number of a rule counted from 1, or 0.
    fn answers(&self, rules: &mut [u32]) {
        rules.iter_mut().for_each(|rule| *rule = rule.wrapping_sub(1));
    }
}

fn input(key: &Key4) -> Input {
    Input {
        protocol: key.kind as u8,
        unused: [0; 3],
        source: key.source.to_be_bytes(),
        destination: key.destination.to_be_bytes(),
        first: key.first.to_be_bytes(),
        second: key.second.to_be_bytes(),
        kind: key.kind.to_be_bytes(),
        flags: key.flags.to_be_bytes(),
    }
}

/// A rule in the library's form, which has one prefix, range or value a field.
fn acl_rule(rule: &Rule, headers: HeaderKind, index: u32, count: u32) -> Result<AclRule> {
    let refuse = |what: &str| Failure(format!("rte_acl has no {what} like that of `{rule}`"));
    let address = |set| {
        let (address, length) = prefix(set)?;
        Some(Field { value: address.into(), mask_range: length.into() })
    };
    let mut kind = Field::default();
    let ports = |test: &PortTest, kind: &mut Field| match test {
        PortTest::Any => Some((0, u16::MAX)),
        PortTest::In(set) => {
            require(kind, HAS_PORTS);
            <[_; 1]>::try_from(set.ranges()).ok().map(|[range]| range)
        }
    };
    let mut first = ports(&rule.source_ports, &mut kind).ok_or_else(|| refuse("port"))?;
    let mut second = ports(&rule.destination_ports, &mut kind).ok_or_else(|| refuse("port"))?;
    let (mut protocol, mut flags) = (Field::default(), Field::default());
    if let ProtocolTest::Only(test) = &rule.protocol {
        let mut protocols = test.protocols.iter();
        let (Some(number), None) = (protocols.next(), protocols.next()) else {
            return Err(refuse("protocol"));
        };
        protocol = Field { value: number.into(), mask_range: 0xff };
        // No protocol has the number of one that cannot be reached.
        kind.mask_range |= u64::from(UNREACHABLE);
        match (&test.tcp_flags[..], number) {
            ([], _) => {}
            ([FlagTest::Equal { mask, value }], TCP) => {
                flags.value = u64::from(*value);
                flags.mask_range = u64::from(*mask) | u64::from(NO_FLAGS);
            }
            _ => return Err(refuse("test of flags")),
        }
        if let (Some(icmp), ICMP) = (&test.icmp, number) {
            require(&mut kind, HAS_ICMP);
            let range = |ranges: &[(u8, u8)]| match *ranges {
                [(low, high)] => Some((u16::from(low), u16::from(high))),
                _ => None,
            };
            first = range(icmp.types.ranges()).ok_or_else(|| refuse("type"))?;
            second = range(icmp.codes.ranges()).ok_or_else(|| refuse("code"))?;
        }
    }
    let asks_more = flags != Field::default() || kind.value & u64::from(HAS_ICMP) != 0;
    if headers == HeaderKind::FiveTuples && asks_more {
        return Err(refuse("test of flags or ICMP type"));
    }
    let range = |(low, high): (u16, u16)| Field { value: low.into(), mask_range: high.into() };
    Ok(AclRule {
        category_mask: 1,
        priority: (count - index).cast_signed(),
        user_data: index + 1,
        unused: 0,
        fields: [
            protocol,
            address(&rule.source).ok_or_else(|| refuse("source"))?,
            address(&rule.destination).ok_or_else(|| refuse("destination"))?,
            range(first),
            range(second),
            kind,
            flags,
        ],
    })
}

/// Adds a test that a bit of `kind` is set.
fn require(kind: &mut Field, bit: u16) {
    kind.value |= u64::from(bit);
    kind.mask_range |= u64::from(bit);
}

#[cfg(test)]
mod tests {
    use forebay_rules::language::yamaha;

    use super::*;
    use crate::suites::rules::engines::first_match;
    use crate::suites::rules::headers::draw;

    const LIST: &str = "ip filter 1 pass 10.0.0.0/24 192.0.2.1 tcp 1000-2000 80\n\
        ip filter 2 pass 10.0.1.0/24 * icmp 3-8 1\n\
        ip filter 3 reject 10.0.0.0/16 * tcpflag=0x02/0x12 * *\n\
        ip filter 4 pass 10.0.0.0/8 * * * 53\n\
        ip filter 5 pass * * 17 * *\n";

    #[test]
    fn every_algorithm_answers_as_the_oracle() {
        if let Err(why) = is_installed() {
            eprintln!("skipped: {}", why.0);
            return;
        }
        let list = yamaha::parse(LIST).unwrap().ascending();
        let keys = draw(&list, 5_000, HeaderKind::Packets, 3);
        let expected: Vec<u32> = keys.iter().map(|key| first_match(&list, key)).collect();
        for max_size in [0, 1 << 30] {
            let context = Rc::new(Context::build(&list, HeaderKind::Packets, max_size).unwrap());
            assert!(context.bytes > 0);
            for (name, algorithm) in ALGORITHMS {
                let Ok(mut acl) = RteAcl::new(&context, algorithm) else { continue };
                acl.load(&keys).unwrap();
                let mut rules = vec![0; keys.len()];
                acl.run(&keys, 0, &mut rules);
                acl.answers(&mut rules);
                assert_eq!(rules, expected, "{name}");
            }
        }
    }

    #[test]
    fn rules_that_five_fields_cannot_say_are_refused() {
        let refused = |text: &str, kind| {
            let list = yamaha::parse(text).unwrap().ascending();
            acl_rule(&list.rules[0], kind, 0, 1).is_err()
        };
        assert!(refused("ip filter 1 pass * * established * *", HeaderKind::FiveTuples));
        assert!(!refused("ip filter 1 pass * * established * *", HeaderKind::Packets));
        assert!(refused("ip filter 1 pass 10.0.0.1-10.0.0.2 * * * *", HeaderKind::Packets));
        assert!(refused("ip filter 1 pass * * tcp,udp * *", HeaderKind::Packets));
        assert!(refused("ip filter 1 pass * * tcp 1,3 *", HeaderKind::Packets));
    }
}
