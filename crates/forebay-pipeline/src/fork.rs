//! Where the way forks: every packet goes down each branch.
//!
//! The branches' packets lie in the same memory; what is copied is their description.
//! Each branch is a chain of its own that drops what is not for it.

use forebay_packet::Batch;

use crate::chain::Chain;
use crate::ledger::{DropCount, LedgerRow};
use crate::remarks::Remarks;
use crate::shared_flows::SharedFlows;
use crate::stage::{Settings, StageError};

/// A way that packets can go.
pub struct Branch {
    name: String,
    chain: Chain,
    input: u64,
}

/// Chains beside each other, of which each gets all packets.
pub struct Fork {
    branches: Vec<Branch>,
    /// The accounts of branches that there are no more.
    closed: Vec<LedgerRow>,
    closed_remarks: Remarks,
    input: u64,
}

impl Branch {
    /// A branch and its stages.
    #[must_use]
    pub fn new(name: impl Into<String>, chain: Chain) -> Self {
        Self { name: name.into(), chain, input: 0 }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The account of the branch as a whole.
    fn row(&self) -> LedgerRow {
        let mut row = LedgerRow::passed(format!("group {}", self.name), self.input);
        row.output = self.chain.output();
        for stage in self.chain.rows() {
            row.copies += stage.copies;
            row.injected += stage.injected;
            row.held += stage.held;
            for drop in stage.drops {
                match row.drops.iter_mut().find(|known| known.name == drop.name) {
                    Some(known) => known.packets += drop.packets,
                    None => row.drops.push(DropCount { ..drop }),
                }
            }
        }
        row
    }
}

impl Fork {
    /// A fork into at least one branch.
    ///
    /// # Panics
    /// When there is none: packets would vanish.
    #[must_use]
    pub fn new(branches: Vec<Branch>) -> Self {
        assert!(!branches.is_empty(), "a fork without branches");
        Self { branches, closed: Vec::new(), closed_remarks: Remarks::default(), input: 0 }
    }

    /// Has `branches` in place of those there are. One whose name there is already stays
    /// as it is, with what its stages know; its new settings are for [`Fork::reload`].
    ///
    /// # Errors
    /// As [`Fork::push`]: branches that end give up what they hold, under the numbers that
    /// they had.
    ///
    /// # Panics
    /// As [`Fork::new`].
    pub fn replace<E: From<StageError>>(
        &mut self,
        branches: Vec<Branch>,
        deliver: &mut dyn FnMut(usize, Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        assert!(!branches.is_empty(), "a fork without branches");
        let old = std::mem::take(&mut self.branches);
        let mut old: Vec<(usize, Branch)> = old.into_iter().enumerate().collect();
        for branch in branches {
            let known = old.iter().position(|(_, known)| known.name == branch.name);
            self.branches.push(known.map_or(branch, |known| old.remove(known).1));
        }
        for (i, mut branch) in old {
            let outcome = branch.chain.drain(&mut |batch| deliver(i, batch));
            self.closed_remarks.add(&branch.chain.remarks());
            let row = branch.row();
            match self.closed.iter_mut().find(|closed| closed.stage == row.stage) {
                Some(closed) => closed.add(&row),
                None => self.closed.push(row),
            }
            outcome?;
        }
        Ok(())
    }

    /// Sends a batch down every branch; what comes out goes to `deliver`, with the
    /// number of its branch.
    ///
    /// # Errors
    /// The error of a stage or of `deliver`, after which the fork is of no further use but for
    /// its ledger.
    pub fn push<E: From<StageError>>(
        &mut self,
        batch: Batch,
        deliver: &mut dyn FnMut(usize, Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let packets = batch.live().count() as u64;
        self.input += packets;
        self.branches.iter_mut().for_each(|branch| branch.input += packets);
        // The last branch takes the batch itself.
        let last = self.branches.len() - 1;
        for (i, branch) in self.branches[..last].iter_mut().enumerate() {
            branch.chain.push(batch.clone(), &mut |batch| deliver(i, batch))?;
        }
        self.branches[last].chain.push(batch, &mut |batch| deliver(last, batch))
    }

    /// Tells the stages that a batch is about to come; `now` is monotonic, in nanoseconds.
    pub fn begin(&mut self, now: u64) {
        self.branches.iter_mut().for_each(|branch| branch.chain.begin(now));
    }

    /// Tells the stages that no batch may come for a while.
    pub fn rest(&mut self) {
        self.branches.iter_mut().for_each(|branch| branch.chain.rest());
    }

    /// Tells the stages that time passes; `now` is monotonic, in nanoseconds.
    ///
    /// # Errors
    /// As [`Fork::push`].
    pub fn tick<E: From<StageError>>(
        &mut self,
        now: u64,
        deliver: &mut dyn FnMut(usize, Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut branches = self.branches.iter_mut().enumerate();
        branches.try_for_each(|(i, branch)| branch.chain.tick(now, &mut |batch| deliver(i, batch)))
    }

    /// Makes the stages give up what they hold.
    ///
    /// # Errors
    /// As [`Fork::push`].
    pub fn drain<E: From<StageError>>(
        &mut self,
        deliver: &mut dyn FnMut(usize, Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut branches = self.branches.iter_mut().enumerate();
        branches.try_for_each(|(i, branch)| branch.chain.drain(&mut |batch| deliver(i, batch)))
    }

    /// Gives each branch its new settings, which are as many as there are branches.
    ///
    /// # Errors
    /// As [`Chain::reload`].
    pub fn reload<E: From<StageError>>(
        &mut self,
        settings: &[Settings],
        deliver: &mut dyn FnMut(usize, Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut each = self.branches.iter_mut().zip(settings).enumerate();
        each.try_for_each(|(i, (branch, settings))| {
            branch.chain.reload(settings, &mut |batch| deliver(i, batch))
        })
    }

    /// The account: of the fork, then of each branch.
    #[must_use]
    pub fn rows(&self) -> Vec<LedgerRow> {
        let mut branches: Vec<LedgerRow> = self.branches.iter().map(Branch::row).collect();
        for closed in &self.closed {
            match branches.iter_mut().find(|row| row.stage == closed.stage) {
                Some(row) => row.add(closed),
                None => branches.push(closed.clone()),
            }
        }
        branches.iter_mut().skip(1).for_each(|row| row.beside = true);
        let output = branches.iter().map(|row| row.input).sum();
        let fork = LedgerRow {
            stage: "groups".into(),
            input: self.input,
            copies: output - self.input,
            output,
            ..LedgerRow::default()
        };
        std::iter::once(fork).chain(branches).collect()
    }

    /// The records of a branch's flows.
    #[must_use]
    pub fn flows(&self, name: &str) -> Option<&SharedFlows> {
        let branch = self.branches.iter().find(|branch| branch.name == name)?;
        Some(branch.chain.flows())
    }

    /// What the stages noticed: name and packets.
    #[must_use]
    pub fn remarks(&self) -> Remarks {
        let mut remarks = self.closed_remarks.clone();
        self.branches.iter().for_each(|branch| remarks.add(&branch.chain.remarks()));
        remarks
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_packet::{Interface, PacketMeta, Region};

    use super::*;
    use crate::ledger::Ledger;
    use crate::stages::Limit;

    fn batch(packets: usize) -> Batch {
        let region = Arc::new(Region::new(packets).unwrap());
        let mut batch = Batch::new(region, Arc::new(vec![Interface::default()]));
        for i in 0..packets {
            let offset = i as u32;
            batch
                .push(PacketMeta { offset, cap_len: 1, wire_len: 60, ticks: 0, interface: 0 })
                .unwrap();
        }
        batch
    }

    #[test]
    fn every_branch_gets_every_packet_and_the_ledger_closes() {
        let branch = |name: &str, limit| Branch::new(name, Chain::new().with(Limit::new(limit)));
        let mut fork = Fork::new(vec![branch("few", 3), branch("all", 100)]);
        let mut out = [0, 0];
        for _ in 0..2 {
            let mut deliver = |branch: usize, batch: Batch| {
                out[branch] += batch.live().count();
                Ok::<(), StageError>(())
            };
            fork.push(batch(5), &mut deliver).unwrap();
        }
        assert_eq!(out, [3, 10]);
        let ledger = Ledger { rows: fork.rows() };
        assert!(ledger.closes(), "{ledger:?}");
        assert_eq!((ledger.input(), ledger.output()), (10, 13));
        let names: Vec<&str> = ledger.rows.iter().map(|row| row.stage.as_ref()).collect();
        assert_eq!(names, ["groups", "group few", "group all"]);
    }

    #[test]
    fn branches_come_and_go_and_the_ledger_closes() {
        let branch = |name: &str| Branch::new(name, Chain::new().with(Limit::new(7)));
        let mut fork = Fork::new(vec![branch("a"), branch("b")]);
        let mut deliver = |_: usize, _: Batch| Ok::<(), StageError>(());
        fork.push(batch(5), &mut deliver).unwrap();
        fork.replace(vec![branch("b"), branch("c")], &mut deliver).unwrap();
        fork.push(batch(5), &mut deliver).unwrap();
        fork.replace(vec![branch("a")], &mut deliver).unwrap();
        fork.push(batch(5), &mut deliver).unwrap();
        let ledger = Ledger { rows: fork.rows() };
        assert!(ledger.closes(), "{ledger:?}");
        let account = |name: &str| {
            let row = ledger.rows.iter().find(|row| row.stage == name).unwrap();
            (row.input, row.output)
        };
        // `b` went on counting to its limit, `a` began anew.
        let accounts = ["group a", "group b", "group c"].map(account);
        assert_eq!((ledger.input(), accounts), (15, [(10, 10), (10, 7), (5, 5)]));
    }
}
