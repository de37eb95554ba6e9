//! `pe`: all predicates of all rules, on hundreds of packets at once.
//!
//! Code is specialised to the list. A group of 512 packets (256 with AVX2, and
//! for what is left at the end) has its keys sliced into bit planes, the
//! predicates are evaluated by straight-line code, and the bit planes of the
//! answer are turned into rule numbers. There is no branch that depends on a
//! packet. A group costs what it costs however few of its packets there are, so
//! that a few packets are left to `pe-1`. Without vectors there is nothing to gain,
//! and `list` takes the place of all that.

use std::cell::RefCell;

use forebay_codegen::code::{Backend, Isa};
use forebay_codegen::sliced::Width;
use forebay_jit::planes::{Line, PlaneKernel};
use forebay_jit::{JitError, cpu};

use super::compiled::Compiled;
use super::error::LinearError;
use super::generic::Generic;
use super::kernel::key_blocks::{Bit, Block, Key, blocks};
use super::kernel::planes::Slicer;
use super::kernel::rows::LaneContent;
use super::predicates::Predicates;
use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6};
use crate::rule::{Family, RuleList};

/// The most rules of a family. Measured on ClassBench lists, the code for 4,000
/// rules is 1 to 2 MB, about what a second-level cache holds, and takes 54 to
/// 110 cycles a packet.
pub const MAX_RULES: usize = 4096;

/// Fewer packets than a group's are tried one by one up to this number. A group
/// takes as long as 15 packets one by one with 1,000 rules, 40 with 71 and 100
/// with 2.
const FEW: usize = 24;

/// The most conjunctions of a list of which a few packets are tried one by one.
const MAX_FEW_ROWS: usize = 2 * MAX_RULES;

/// Cycles a packet for planes in and out, and cycles of a group for each byte of its code, of vectors of
/// 512 bits and of 256. Measured on ClassBench lists of 512 to 4,096 rules on a core that begins two
/// instructions on the former in a cycle, and three on the latter.
const SLICING: f64 = 6.0;
const A_BYTE: [f64; 2] = [0.15, 0.085];

/// Packets of the largest group.
const LARGEST: usize = 512;

/// Engine `pe`.
#[derive(Debug)]
pub struct Pe(Method);

#[derive(Debug)]
enum Method {
    /// The machine has vectors.
    Planes(Box<Planes>),
    /// It has none.
    List(Compiled),
}

#[derive(Debug)]
struct Planes {
    /// For a few packets, if the list fits its table and is not much longer
    /// there than as planes, which need no conjunctions.
    few: Option<Generic>,
    ipv4: Sliced,
    ipv6: Sliced,
}

/// The code for one family.
#[derive(Debug)]
struct Sliced {
    blocks: Vec<Block>,
    /// The bits of the place of the rule that matches.
    place: Vec<Bit>,
    /// The rule at each place; empty if that is its place.
    rules: Vec<u32>,
    /// Rules of the family: the place of the default.
    default: u32,
    largest: GroupCode,
    /// For fewer packets.
    smaller: Option<GroupCode>,
}

/// Code for groups of a size.
#[derive(Debug)]
struct GroupCode {
    slicer: Slicer,
    kernel: PlaneKernel,
}

/// Memory that groups are worked on in.
#[derive(Default)]
struct Workspace {
    planes: Vec<Line>,
    results: Vec<Line>,
    scratch: Vec<Line>,
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

impl Pe {
    /// The engine of `list` for a machine of level `isa`.
    ///
    /// # Errors
    /// More than [`MAX_RULES`] rules of a family, larger unions than code is made
    /// for, a level that this machine lacks, or code that cannot be made.
    pub fn new(list: &RuleList, isa: Isa) -> Result<Self, LinearError> {
        let widths = match isa {
            Isa::Scalar => return Ok(Self(Method::List(Compiled::new(list, Backend::List, isa)?))),
            Isa::Avx2 => (Width::YmmAvx2, None),
            Isa::Avx512Bw | Isa::Avx512Vbmi => (Width::Zmm, Some(Width::Ymm)),
        };
        cpu::require(isa).map_err(JitError::from)?;
        let few = Generic::new(list, LaneContent::Rules, isa);
        Ok(Self(Method::Planes(Box::new(Planes {
            few: few.ok().filter(|few| few.rows() <= MAX_FEW_ROWS),
            ipv4: Sliced::new::<Key4>(list, Family::Ipv4, widths)?,
            ipv6: Sliced::new::<Key6>(list, Family::Ipv6, widths)?,
        }))))
    }
}

impl Pe {
    /// Cycles a packet of a whole group that are expected, of the family that takes more.
    pub(crate) fn cycles(&self) -> f64 {
        match &self.0 {
            Method::List(_) => f64::INFINITY,
            Method::Planes(planes) => planes.ipv4.cycles().max(planes.ipv6.cycles()),
        }
    }
}

impl Engine for Pe {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        match &self.0 {
            Method::List(list) => list.classify4(keys, rules),
            Method::Planes(planes) => match &planes.few {
                Some(few) if keys.len() <= FEW => few.classify4(keys, rules),
                _ => planes.ipv4.classify(keys, rules),
            },
        }
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        match &self.0 {
            Method::List(list) => list.classify6(keys, rules),
            Method::Planes(planes) => match &planes.few {
                Some(few) if keys.len() <= FEW => few.classify6(keys, rules),
                _ => planes.ipv6.classify(keys, rules),
            },
        }
    }

    fn bytes(&self) -> usize {
        match &self.0 {
            Method::List(list) => list.bytes(),
            Method::Planes(planes) => {
                let few = planes.few.as_ref().map_or(0, Engine::bytes);
                few + planes.ipv4.bytes() + planes.ipv6.bytes()
            }
        }
    }
}

impl GroupCode {
    fn new(predicates: &Predicates, width: Width) -> Result<Self, LinearError> {
        let kernel = PlaneKernel::compile(&predicates.network, &predicates.place, width)?;
        Ok(Self { slicer: Slicer::new(width)?, kernel })
    }
}

impl Sliced {
    fn new<K: Key>(
        list: &RuleList,
        family: Family,
        (largest, smaller): (Width, Option<Width>),
    ) -> Result<Self, LinearError> {
        let own = list.rules.iter().filter(|rule| rule.family == family).count();
        if own > MAX_RULES {
            return Err(LinearError::TooManyRules { engine: "pe", rules: own, most: MAX_RULES });
        }
        let predicates = Predicates::of(list, family, largest.arity())?;
        let largest = GroupCode::new(&predicates, largest)?;
        let smaller = smaller.map(|width| GroupCode::new(&predicates, width)).transpose()?;
        let place = (0..).zip(&predicates.place).map(|(plane, signal)| match signal.number() {
            0 => Bit::Constant(signal.inverted()),
            _ => Bit::Plane { plane, inverted: signal.inverted() },
        });
        let used = predicates.network.used(&predicates.place);
        let identity = (0..).zip(&predicates.rules).all(|(place, &rule)| place == rule);
        Ok(Self {
            blocks: blocks::<K>(|plane| used.get(plane).copied().unwrap_or(false)),
            place: place.collect(),
            default: predicates.rules.len() as u32,
            rules: if identity { Vec::new() } else { predicates.rules },
            largest,
            smaller,
        })
    }

    fn classify<K: Key>(&self, keys: &[K], rules: &mut [u32]) {
        if self.default == 0 {
            return rules.fill(NO_RULE);
        }
        WORKSPACE.with_borrow_mut(|workspace| {
            let mut done = 0;
            while done < keys.len() {
                done += self.group(&keys[done..], &mut rules[done..], workspace);
            }
        });
        if !self.rules.is_empty() {
            for rule in rules {
                *rule = self.rules.get(*rule as usize).copied().unwrap_or(NO_RULE);
            }
        }
    }

    /// Does as many packets as a group takes, and returns how many.
    fn group<K: Key>(&self, keys: &[K], rules: &mut [u32], workspace: &mut Workspace) -> usize {
        let fits = |group: &&GroupCode| group.slicer.packets() >= keys.len();
        let group = self.smaller.as_ref().filter(fits).unwrap_or(&self.largest);
        let packets = group.slicer.packets();
        if keys.len() >= packets {
            self.whole(group, &keys[..packets], &mut rules[..packets], workspace);
            return packets;
        }
        let mut padded = [K::default(); LARGEST];
        let mut numbers = [0; LARGEST];
        padded[..keys.len()].copy_from_slice(keys);
        self.whole(group, &padded[..packets], &mut numbers[..packets], workspace);
        rules.copy_from_slice(&numbers[..keys.len()]);
        keys.len()
    }

    /// Does packets that fill a group.
    fn whole<K: Key>(
        &self,
        GroupCode { slicer, kernel }: &GroupCode,
        keys: &[K],
        rules: &mut [u32],
        workspace: &mut Workspace,
    ) {
        let Workspace { planes, results, scratch } = workspace;
        let tables = [&mut *planes, &mut *results, &mut *scratch];
        for (table, lines) in tables.into_iter().zip(kernel.lines(1)) {
            if table.len() < lines {
                table.resize(lines, Line::default());
            }
        }
        slicer.slice(keys, &self.blocks, planes);
        kernel.run(1, planes, results, scratch);
        slicer.unslice(results, &self.place, self.default, rules);
    }

    /// Cycles a packet of a whole group that are expected.
    fn cycles(&self) -> f64 {
        let GroupCode { slicer, kernel } = &self.largest;
        let a_byte = A_BYTE[usize::from(slicer.packets() < LARGEST)];
        SLICING + a_byte * kernel.memory().bytes().len() as f64 / slicer.packets() as f64
    }

    fn bytes(&self) -> usize {
        let groups = [Some(&self.largest), self.smaller.as_ref()].into_iter().flatten();
        let code: usize = groups.map(|group| group.kernel.memory().bytes().len()).sum();
        code + size_of_val(&self.rules[..])
    }
}
