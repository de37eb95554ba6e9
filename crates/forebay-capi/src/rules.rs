//! Rule lists: parsed, prepared for matching, and matched against packets.

use forebay_jit::{Packets, cpu};
use forebay_packet::{BATCH, LinkType};
use forebay_rules::choose::EngineName;
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::language::load::{Names, Selection, load};
use forebay_rules::packed::{Key4, Key6, Packed};
use forebay_rules::{Action, Family, Rule, RuleList};

use crate::error::Error;

/// The header's `FOREBAY_NOT_IP`.
pub(crate) const NOT_IP: u32 = NO_RULE - 1;

/// Packets whose keys are looked up together: `pe` takes up to 512 of an address family at
/// once, and a batch may have both families.
pub(crate) const GROUP: usize = 4 * BATCH;

/// The header's names for the selection of a list, which is by `list` alone.
const NAMES: Names = Names {
    format: "`forebay rules import --from`",
    list: "`list`",
    table: "`forebay rules import --table`",
    interface: "`forebay rules import --interface`",
    direction: "`forebay rules import --direction`",
    ipv6: "`forebay rules import --ipv6`",
};

/// A rule list and the engine made of it.
pub struct Rules {
    list: RuleList,
    engine: Box<dyn Engine>,
}

impl Rules {
    /// Parses `text` and prepares one of its lists: the one called `list`, or else the only
    /// one.
    pub(crate) fn new(
        text: &[u8],
        list: Option<&[u8]>,
        engine: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let name = engine.map(String::from_utf8_lossy);
        let engine: EngineName = name.map_or(Ok(EngineName::Auto), |name| name.parse())?;
        let list = list.map(|name| String::from_utf8_lossy(name).into_owned());
        let selection = Selection { list, ..Selection::default() };
        let imported = load(text, &selection, &NAMES)?;
        let engine = imported.choose(engine, cpu::choose(None)?)?.engine;
        let list = imported.list.list;
        Ok(Self { list, engine })
    }

    /// The number of rules.
    pub(crate) fn len(&self) -> usize {
        self.list.rules.len()
    }

    /// The rule at `index`; `None` for other answers as well.
    pub(crate) fn rule(&self, index: u32) -> Option<&Rule> {
        self.list.rules.get(index as usize)
    }

    /// Whether an answer passes the packet; false for invalid answers.
    pub(crate) fn passes(&self, answer: u32) -> bool {
        match answer {
            NO_RULE => self.list.default == Action::Pass,
            NOT_IP => true,
            index => self.rule(index).is_some_and(|rule| rule.action == Action::Pass),
        }
    }

    /// Writes the index of the first rule that matches each packet, [`NO_RULE`]
    /// or [`NOT_IP`]. There are as many `answers` as packets.
    pub(crate) fn answer(&self, link: LinkType, packets: &Packets, answers: &mut [u32]) {
        let (mut v4, mut v6) = (Keyed::<Key4>::default(), Keyed::<Key6>::default());
        for (i, answer) in answers.iter_mut().enumerate() {
            match Packed::of_packet(link, packets.packet(i)) {
                Some(Packed::V4(key)) => v4.push(key, i),
                Some(Packed::V6(key)) => v6.push(key, i),
                None => *answer = NOT_IP,
            }
        }
        v4.answer(answers, |keys, rules| self.engine.classify4(keys, rules));
        v6.answer(answers, |keys, rules| self.engine.classify6(keys, rules));
    }
}

/// Keys of one address family, and the numbers of their packets.
struct Keyed<K> {
    keys: Vec<K>,
    packets: Vec<usize>,
}

impl<K> Default for Keyed<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), packets: Vec::new() }
    }
}

impl<K> Keyed<K> {
    fn push(&mut self, key: K, packet: usize) {
        self.keys.push(key);
        self.packets.push(packet);
    }

    /// Writes the answers of these packets.
    fn answer(&self, answers: &mut [u32], classify: impl FnOnce(&[K], &mut [u32])) {
        if self.keys.is_empty() {
            return;
        }
        let mut rules = vec![NO_RULE; self.keys.len()];
        classify(&self.keys, &mut rules);
        self.packets.iter().zip(rules).for_each(|(&packet, rule)| answers[packet] = rule);
    }
}

/// The version of IP that a rule is for.
pub(crate) fn ip_version(rule: &Rule) -> i32 {
    match rule.family {
        Family::Ipv4 => 4,
        Family::Ipv6 => 6,
    }
}
