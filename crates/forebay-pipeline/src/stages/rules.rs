//! Holds packets against a rule list.

use std::sync::Arc;

use forebay_packet::decode::PlainHead;
use forebay_packet::{Batch, LinkType, LiveMask};
use forebay_rules::counters::Counters;
use forebay_rules::engine::{Engine, NO_RULE};
use forebay_rules::live::{LiveReader, Reading};
use forebay_rules::packed::{Key4, Key6, Packed};
use forebay_rules::{Action, Key, RuleList};

use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};

/// Stands in a verdict for a packet that no rule list is for: it is not IP, or
/// its addresses were not captured.
pub const NOT_IP: u32 = NO_RULE - 1;

/// A list and the engine that finds the first rule that matches.
#[derive(Clone)]
pub struct CompiledRules {
    engine: Arc<dyn Engine>,
    list: Arc<RuleList>,
    /// Of each rule, and of the default behind them, whether it rejects.
    rejects: Arc<[bool]>,
}

impl CompiledRules {
    /// `engine` was built of `list`.
    #[must_use]
    pub fn new(list: Arc<RuleList>, engine: Box<dyn Engine>) -> Self {
        let actions = list.rules.iter().map(|rule| rule.action).chain([list.default]);
        let rejects = actions.map(|action| action == Action::Reject).collect();
        Self { engine: engine.into(), list, rejects }
    }

    /// The list.
    #[must_use]
    pub fn list(&self) -> &RuleList {
        &self.list
    }

    /// The index of the first rule that matches each key, or [`NO_RULE`].
    #[must_use]
    pub fn decide(&self, keys: &[Key]) -> Vec<u32> {
        let mut keyed = Keyed::default();
        keys.iter().enumerate().for_each(|(i, key)| keyed.push(key.into(), i));
        let mut rules = vec![NO_RULE; keys.len()];
        keyed.judge(&*self.engine, &mut rules);
        rules
    }

    #[inline]
    fn rejects(&self, verdict: u32) -> bool {
        let default = self.rejects.len() - 1;
        let decided = (verdict as usize).min(default);
        verdict != NOT_IP && self.rejects[decided]
    }
}

/// The rules of a stage.
#[derive(Clone)]
pub enum RuleSource {
    /// A list that does not change.
    Compiled(CompiledRules),
    /// A list that may change at any time. Each batch is matched against one version of it, and
    /// its packets are counted by rule.
    Live(LiveReader),
}

/// A rule list, or none any more.
impl Setting for Option<RuleSource> {}

impl From<CompiledRules> for RuleSource {
    fn from(rules: CompiledRules) -> Self {
        Self::Compiled(rules)
    }
}

impl From<LiveReader> for RuleSource {
    fn from(rules: LiveReader) -> Self {
        Self::Live(rules)
    }
}

impl RuleSource {
    fn counters(&self) -> Option<&Counters> {
        match self {
            Self::Compiled(_) => None,
            Self::Live(live) => Some(live.counters()),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Compiled(one), Self::Compiled(other)) => Arc::ptr_eq(&one.list, &other.list),
            (Self::Live(one), Self::Live(other)) => one.is_of_same(other),
            _ => false,
        }
    }
}

/// Finds the rules of keys.
trait Classify {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]);
    fn classify6(&self, keys: &[Key6], rules: &mut [u32]);
}

impl Classify for dyn Engine {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        Engine::classify4(self, keys, rules);
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        Engine::classify6(self, keys, rules);
    }
}

impl Classify for Reading {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        self.judge4(keys, rules);
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        self.judge6(keys, rules);
    }
}

/// Keys by family, with the packets they are of, and room for their rules.
#[derive(Default)]
struct Keyed {
    v4: (Vec<Key4>, Vec<usize>),
    v6: (Vec<Key6>, Vec<usize>),
    rules: Vec<u32>,
}

impl Keyed {
    fn clear(&mut self) {
        self.v4.0.clear();
        self.v4.1.clear();
        self.v6.0.clear();
        self.v6.1.clear();
    }

    fn push(&mut self, key: Packed, packet: usize) {
        match key {
            Packed::V4(key) => {
                self.v4.0.push(key);
                self.v4.1.push(packet);
            }
            Packed::V6(key) => {
                self.v6.0.push(key);
                self.v6.1.push(packet);
            }
        }
    }

    /// Sets the verdicts of a batch.
    fn judge_batch(&mut self, rules: &(impl Classify + ?Sized), batch: &mut Batch) {
        self.clear();
        let is_ethernet = batch.interfaces().iter().all(|one| one.link == LinkType::ETHERNET);
        let frames = batch.frames();
        for i in batch.live().iter() {
            let packet = frames.get(i);
            // As `Packed::of_packet`, but plain keys are not put into the larger type first.
            if is_ethernet && let Some(head) = PlainHead::of(packet) {
                self.v4.0.push(head.into());
                self.v4.1.push(i);
            } else if let Some(key) = Key::of_packet(batch.interface(i).link, packet) {
                self.push(Packed::from(&key), i);
            }
        }
        let packets = batch.len();
        batch.verdict.clear();
        batch.verdict.resize(packets, NOT_IP);
        self.judge(rules, &mut batch.verdict);
    }

    /// Sets the verdicts of the packets that have a key.
    fn judge(&mut self, engine: &(impl Classify + ?Sized), verdict: &mut [u32]) {
        let rules = &mut self.rules;
        rules.clear();
        rules.resize(self.v4.0.len(), NO_RULE);
        engine.classify4(&self.v4.0, rules);
        self.v4.1.iter().zip(&*rules).for_each(|(&packet, &rule)| verdict[packet] = rule);
        rules.clear();
        rules.resize(self.v6.0.len(), NO_RULE);
        engine.classify6(&self.v6.0, rules);
        self.v6.1.iter().zip(&*rules).for_each(|(&packet, &rule)| verdict[packet] = rule);
    }
}

/// Sets each packet's verdict to the index of the first rule that matches (of a list that
/// changes, to the rule's number), to [`NO_RULE`] where the default decides, or to [`NOT_IP`];
/// and drops what the list rejects. Packets that are not IP pass.
pub struct Rules {
    source: Option<RuleSource>,
    drops: bool,
    keyed: Keyed,
    /// Which cells of the rules' counters are this stage's.
    cells: Option<usize>,
    /// When the batch came.
    now: u64,
}

impl Rules {
    /// Drops what `rules` reject.
    #[must_use]
    pub fn new(rules: impl Into<RuleSource>) -> Self {
        Self::optional(Some(rules.into()))
    }

    /// As [`Rules::new`]; passes everything while there is no list.
    #[must_use]
    pub fn optional(source: Option<RuleSource>) -> Self {
        let cells = source.as_ref().and_then(RuleSource::counters).and_then(Counters::claim);
        Self { source, drops: true, keyed: Keyed::default(), cells, now: 0 }
    }

    /// Sets verdicts only.
    #[must_use]
    pub fn judge_only(rules: impl Into<RuleSource>) -> Self {
        Self { drops: false, ..Self::new(rules) }
    }

    /// Sets the verdicts of a batch. Returns the packets that pass; nothing without a list.
    pub fn judge(&mut self, batch: &mut Batch) -> Option<LiveMask> {
        let Self { source, keyed, cells, now, .. } = self;
        Some(match source.as_ref()? {
            RuleSource::Live(live) => judge_live(keyed, live, *cells, *now, batch),
            RuleSource::Compiled(rules) => {
                keyed.judge_batch(&*rules.engine, batch);
                LiveMask::of(&batch.verdict, |verdict| !rules.rejects(verdict))
            }
        })
    }
}

/// Sets and counts the verdicts of a batch by a list that may change. Returns the packets that
/// pass.
fn judge_live(
    keyed: &mut Keyed,
    live: &LiveReader,
    cells: Option<usize>,
    now: u64,
    batch: &mut Batch,
) -> LiveMask {
    // Kept until all packets are counted: until then no number is given to another rule.
    let reading = live.read();
    keyed.judge_batch(&reading, batch);
    let passed =
        LiveMask::of(&batch.verdict, |judged| judged == NOT_IP || !reading.rejects(judged));
    for judged in batch.verdict.iter_mut().filter(|judged| **judged != NOT_IP) {
        *judged = Reading::number(*judged);
    }
    if let Some(cells) = cells {
        let counter = live.counters().worker(cells);
        for i in batch.live().iter().filter(|&i| batch.verdict[i] != NOT_IP) {
            counter.count(batch.verdict[i], batch.wire_len(i).into(), now);
        }
    }
    passed
}

impl Stage for Rules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["rejected"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.now = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        if let Some(passed) = self.judge(&mut batch).filter(|_| self.drops) {
            let before = batch.live().count();
            batch.retain(&passed);
            out.dropped(0, (before - batch.live().count()) as u64);
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        let Some(source) = settings.get::<Option<RuleSource>>() else { return };
        let is_same = match (&self.source, source) {
            (Some(old), Some(new)) => old.is_same(new),
            _ => false,
        };
        if !is_same {
            *self = Self { drops: self.drops, now: self.now, ..Self::optional(source.clone()) };
        }
    }
}
