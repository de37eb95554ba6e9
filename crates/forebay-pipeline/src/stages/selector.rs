//! Which packets a class has.

use forebay_jit::FilterSet;
use forebay_packet::{Batch, LiveMask};

use super::rules::{CompiledRules, NOT_IP, Rules};
use crate::stage::StageError;

/// What selects the packets of a class, for any number of workers.
#[derive(Clone)]
pub enum ClassMembers {
    /// Those that a filter accepts.
    Filter(FilterSet),
    /// Packets of IP that a rule list passes.
    Rules(CompiledRules),
}

impl ClassMembers {
    /// The selector of one worker.
    #[must_use]
    pub fn selector(&self) -> ClassSelector {
        match self {
            Self::Filter(programs) => ClassSelector::Filter(programs.clone()),
            Self::Rules(rules) => ClassSelector::Rules(Rules::judge_only(rules.clone())),
        }
    }
}

/// Selects the packets of a class.
pub enum ClassSelector {
    /// By a filter.
    Filter(FilterSet),
    /// By a rule list.
    Rules(Rules),
}

impl ClassSelector {
    /// The live packets of the class. The verdicts of the batch change.
    ///
    /// # Errors
    /// A filter that is wrong for the link type of a packet.
    pub fn select(&mut self, batch: &mut Batch) -> Result<LiveMask, StageError> {
        let selected = match self {
            Self::Filter(programs) => {
                programs.run_batch(batch)?;
                LiveMask::nonzero(&batch.verdict)
            }
            Self::Rules(rules) => {
                let passed = rules.judge(batch).unwrap_or_default();
                passed.without(&LiveMask::of(&batch.verdict, |verdict| verdict == NOT_IP))
            }
        };
        Ok(batch.live().and(&selected))
    }
}
