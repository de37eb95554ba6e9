//! Holds packets against a rule list.

use std::sync::Arc;

use forebay_packet::{Batch, LiveMask};
use forebay_rules::counters::Counters;
use forebay_rules::engine::{Engine, NO_RULE};
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
    /// What live stages count by rule.
    counters: Option<Arc<Counters>>,
}

impl CompiledRules {
    /// `engine` was built of `list`.
    #[must_use]
    pub fn new(list: Arc<RuleList>, engine: Box<dyn Engine>) -> Self {
        let actions = list.rules.iter().map(|rule| rule.action).chain([list.default]);
        let rejects = actions.map(|action| action == Action::Reject).collect();
        Self { engine: engine.into(), list, rejects, counters: None }
    }

    /// The same with counters by rule, for the stages of so many workers.
    #[must_use]
    pub fn counted(self, workers: usize) -> Self {
        let counters = Counters::with_cells(workers, self.list.rules.len());
        Self { counters: Some(counters.into()), ..self }
    }

    /// What stages have counted by the rules' places in the list, if they count.
    #[must_use]
    pub fn counters(&self) -> Option<&Counters> {
        self.counters.as_deref()
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

    #[inline]
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
    fn judge_batch(&mut self, compiled_rules: &CompiledRules, batch: &mut Batch) {
        self.clear();
        for i in batch.live().iter() {
            if let Some(key) = Packed::of_packet(batch.interface(i).link, batch.packet(i)) {
                self.push(key, i);
            }
        }
        let packets = batch.len();
        batch.verdict.clear();
        batch.verdict.resize(packets, NOT_IP);
        self.judge(&*compiled_rules.engine, &mut batch.verdict);
    }

    /// Sets the verdicts of the packets that have a key.
    fn judge(&mut self, engine: &dyn Engine, verdict: &mut [u32]) {
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

/// Sets each packet's verdict to the index of the first rule that matches, to
/// [`NO_RULE`] where the default decides, or to [`NOT_IP`]; and drops what the
/// list rejects. Packets that are not IP pass.
pub struct Rules {
    compiled_rules: Option<CompiledRules>,
    drops: bool,
    keyed: Keyed,
    /// Which cells of the rules' counters are this stage's.
    cells: Option<usize>,
    /// When the batch came.
    now: u64,
}

/// A rule list, or none any more.
impl Setting for Option<CompiledRules> {}

impl Rules {
    /// Drops what `compiled_rules` rejects.
    #[must_use]
    pub fn new(compiled_rules: CompiledRules) -> Self {
        Self::optional(Some(compiled_rules))
    }

    /// As [`Rules::new`]; passes everything while there is no list.
    #[must_use]
    pub fn optional(compiled_rules: Option<CompiledRules>) -> Self {
        let cells =
            compiled_rules.as_ref().and_then(CompiledRules::counters).and_then(Counters::claim);
        Self { compiled_rules, drops: true, keyed: Keyed::default(), cells, now: 0 }
    }

    /// Sets verdicts only.
    #[must_use]
    pub fn judge_only(compiled_rules: CompiledRules) -> Self {
        Self { drops: false, ..Self::new(compiled_rules) }
    }
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
        let Some(compiled_rules) = &self.compiled_rules else {
            out.emit(batch);
            return Ok(());
        };
        self.keyed.judge_batch(compiled_rules, &mut batch);
        if let (Some(counters), Some(cells)) = (compiled_rules.counters(), self.cells) {
            let counter = counters.worker(cells);
            for i in batch.live().iter().filter(|&i| batch.verdict[i] != NOT_IP) {
                counter.count(batch.verdict[i], batch.wire_len(i).into(), self.now);
            }
        }
        if self.drops {
            let before = batch.live().count();
            let passed = LiveMask::of(&batch.verdict, |verdict| !compiled_rules.rejects(verdict));
            batch.retain(&passed);
            out.dropped(0, (before - batch.live().count()) as u64);
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        let Some(compiled_rules) = settings.get::<Option<CompiledRules>>() else { return };
        let is_same = match (&self.compiled_rules, compiled_rules) {
            (Some(old), Some(new)) => Arc::ptr_eq(&old.list, &new.list),
            _ => false,
        };
        if !is_same {
            *self =
                Self { drops: self.drops, now: self.now, ..Self::optional(compiled_rules.clone()) };
        }
    }
}
