//! A request in the journal: the one owner of its slot.

use super::{Figures, Identity, Journal, Phase, Place};
use crate::ledger::Entry;

/// A request in the journal. Dropped before it is admitted, it leaves nothing behind; afterwards it is settled by
/// [`crate::ledger::Ledger::settle`], or else by the next process.
#[derive(Debug)]
pub struct OpenRequest {
    slot: Option<(Journal, Place)>,
    phase: Phase,
    figures: Figures,
}

impl OpenRequest {
    /// Takes a slot in `journal`; without one, nothing survives the process.
    ///
    /// # Errors
    /// The disk is full, or all slots are in use.
    pub(crate) fn begin(
        journal: Option<&Journal>,
        identity: &Identity<'_>,
    ) -> std::io::Result<Self> {
        let place = |journal: &Journal| -> std::io::Result<_> {
            Ok((journal.clone(), journal.begin(identity)?))
        };
        let slot = journal.map(place).transpose()?;
        Ok(Self { slot, phase: Phase::Asking, figures: Figures::default() })
    }

    /// Notes what it would cost if it ended now; it is admitted.
    pub fn note(&mut self, figures: &Figures) {
        let phase = if self.phase == Phase::Later { Phase::Later } else { Phase::Open };
        self.write(phase, *figures);
    }

    /// Notes that its reservation is lower now.
    pub fn lower(&mut self, held: u64) {
        self.write(self.phase, Figures { held, ..self.figures });
    }

    /// Notes that the store may have it as an answer that comes later.
    pub fn may_come_later(&mut self) {
        self.write(Phase::Later, self.figures);
    }

    /// Notes that it has ended, with this row.
    pub fn end(&mut self, entry: &Entry) {
        self.write(Phase::Settled, Figures { held: self.figures.held, ..Figures::from(entry) });
    }

    /// Ends it: the store has all of it.
    pub fn free(mut self) {
        self.release();
    }

    fn write(&mut self, phase: Phase, figures: Figures) {
        if phase == self.phase && figures == self.figures {
            return;
        }
        (self.phase, self.figures) = (phase, figures);
        if let Some((journal, place)) = &mut self.slot {
            journal.note(place, phase, &figures);
        }
    }

    fn release(&mut self) {
        if let Some((journal, place)) = self.slot.take() {
            journal.free(place);
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.phase == Phase::Asking {
            self.release();
        }
    }
}
