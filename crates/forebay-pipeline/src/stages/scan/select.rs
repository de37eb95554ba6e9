//! Which packets a group gets of those that were scanned.

use std::sync::Arc;

use forebay_packet::Batch;

use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};

/// The key `scan` of a group.
pub(in crate::stages) static STAGE: OptionalStage = OptionalStage {
    key: "scan",
    help: "Which packets the group gets, where there is a table [scan]: `hits`, those of flows in\n\
           which something was found or may have been missed, from that packet on; `clean`, the\n\
           others; `all`, which it is by default.",
    example: "\"all\"",
    place: Place::BehindFilter,
    needs: &[],
    keys: false,
    read: |value| {
        let all = ScanSelection::ALL.into_iter();
        let selection = all.into_iter().find(|one| value.as_str() == Some(one.name()));
        let selection = selection.ok_or("expected one of `all`, `hits`, `clean`")?;
        Ok(Arc::new(selection))
    },
};

/// The packets that a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanSelection {
    /// All.
    All,
    /// Those of suspect flows.
    Hits,
    /// The others.
    Clean,
}

impl ScanSelection {
    /// All selections.
    pub const ALL: [Self; 3] = [Self::All, Self::Hits, Self::Clean];

    /// The selection's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Hits => "hits",
            Self::Clean => "clean",
        }
    }
}

impl Setting for ScanSelection {}

impl StageConfig for ScanSelection {
    fn build(&self, _: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Select { selection: *self }))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        0
    }
}

/// Drops what the group does not get.
struct Select {
    selection: ScanSelection,
}

impl Stage for Select {
    fn name(&self) -> &'static str {
        "scan_select"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["scan_clean", "scan_hits"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        let (hits, all) = (batch.live().and(&batch.suspect), batch.live());
        let (passed, reason) = match self.selection {
            ScanSelection::All => (all, 0),
            ScanSelection::Hits => (hits, 0),
            ScanSelection::Clean => (all.without(&hits), 1),
        };
        let dropped = all.count() - passed.count();
        if dropped > 0 {
            batch.retain(&passed);
            out.dropped(reason, dropped as u64);
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(selection) = settings.get::<ScanSelection>() {
            self.selection = *selection;
        }
    }
}
