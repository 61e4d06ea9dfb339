//! Patches that the model is writing: what has come of them, at a bounded rate.
//!
//! A preview repeats the whole patch, so one is made only when the text has grown by a share of its
//! length, and not more often than every [`INTERVAL`]: what all previews of a patch cost, in bytes and
//! in time, is in proportion to its length.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use model::{Event, ItemKind};
use patch::StreamedPatch;
use session::ModelEvent;
use tokio::time::Instant;

use crate::thread::patches;

/// Shortest time between two previews of a patch, and before the first one.
const INTERVAL: Duration = Duration::from_millis(100);
/// The share of its length that a patch grows by before it is shown again, as a divisor.
const GROWTH: usize = 4;
/// Most bytes of patches of one response that are kept; larger ones are shown when they are whole.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The tool whose calls are shown.
const TOOL: &str = "apply_patch";

/// The patches that the model is writing.
#[derive(Default)]
pub(super) struct PatchPreviews {
    /// Calls that stream in, by the place of their item in the response.
    calls: BTreeMap<u32, Preview>,
}

struct Preview {
    patch: StreamedPatch,
    shown_bytes: usize,
    shown_at: Instant,
}

impl PatchPreviews {
    /// Takes an event of the response; returns the preview that follows from it.
    pub(super) fn observe(&mut self, event: &Event, now: Instant) -> Option<ModelEvent> {
        match event {
            Event::ItemAdded { index, kind, .. } => {
                self.calls.remove(index);
                if is_patch(kind) {
                    let patch = StreamedPatch::default();
                    self.calls.insert(*index, Preview { patch, shown_bytes: 0, shown_at: now });
                }
                None
            }
            Event::ArgumentsDelta { index, text } | Event::CustomInputDelta { index, text } => {
                let kept: usize = self.calls.values().map(|call| call.patch.text().len()).sum();
                if kept + text.len() > MAX_BYTES {
                    self.calls.remove(index);
                }
                let preview = self.calls.get_mut(index)?;
                preview.patch.push(text);
                preview.next(*index, now)
            }
            Event::ItemDone { index, .. } => {
                self.calls.remove(index);
                None
            }
            _ => None,
        }
    }
}

impl Preview {
    fn next(&mut self, index: u32, now: Instant) -> Option<ModelEvent> {
        let bytes = self.patch.text().len();
        let is_due = now.duration_since(self.shown_at) >= INTERVAL;
        if !is_due || bytes < self.shown_bytes + (self.shown_bytes / GROWTH).max(1) {
            return None;
        }
        (self.shown_bytes, self.shown_at) = (bytes, now);
        let changes = patches::written_changes(&self.patch.operations(), Path::new(""));
        let index = index as usize;
        (!changes.is_empty()).then_some(ModelEvent::PatchPreview { index, changes })
    }
}

fn is_patch(kind: &ItemKind) -> bool {
    let (ItemKind::FunctionCall { name, .. } | ItemKind::CustomToolCall { name, .. }) = kind else {
        return false;
    };
    name == TOOL
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::ChangeKind;

    fn added(index: u32, name: &str) -> Event {
        let (call_id, name) = ("c".into(), name.into());
        let kind = ItemKind::CustomToolCall { call_id, name };
        Event::ItemAdded { index, id: "i".into(), kind }
    }

    fn delta(index: u32, text: &str) -> Event {
        Event::CustomInputDelta { index, text: text.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_preview_follows_after_the_interval() {
        let mut previews = PatchPreviews::default();
        let mut at = |event: &Event| previews.observe(event, Instant::now());
        assert_eq!(at(&added(0, TOOL)), None);
        assert_eq!(at(&delta(0, "*** Begin Patch\n*** Add File: a\n+x\n")), None);
        tokio::time::advance(INTERVAL).await;
        let preview = at(&delta(0, "+y"));
        let expected =
            session::Change { path: "a".into(), kind: ChangeKind::Add, diff: "x\n".into() };
        assert_eq!(preview, Some(ModelEvent::PatchPreview { index: 0, changes: vec![expected] }));
        assert_eq!(at(&delta(0, "\n+z\n+and more\n+of it\n")), None, "too soon");
        tokio::time::advance(INTERVAL).await;
        assert_eq!(at(&delta(1, "another item")), None);
        assert!(at(&delta(0, "+w\n")).is_some());
        assert_eq!(at(&added(2, "exec_command")), None);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(at(&delta(2, "*** Begin Patch\n*** Add File: a\n+x\n")), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_patch_costs_in_proportion_to_its_length() {
        let mut previews = PatchPreviews::default();
        previews.observe(&added(0, TOOL), Instant::now());
        previews.observe(&delta(0, "*** Begin Patch\n*** Add File: a\n"), Instant::now());
        let (line, lines) = (format!("+{}\n", "x".repeat(99)), 100_000);
        let mut shown = 0;
        let mut count = 0;
        for _ in 0..lines {
            tokio::time::advance(INTERVAL).await;
            let preview = previews.observe(&delta(0, &line), Instant::now());
            if let Some(ModelEvent::PatchPreview { changes, .. }) = preview {
                shown += changes[0].diff.len();
                count += 1;
            }
        }
        assert!(shown < 6 * line.len() * lines && (10..100).contains(&count), "{shown} {count}");
        // Beyond the bound, the patch is not kept.
        for _ in 0..2 {
            previews.observe(&delta(0, &line.repeat(lines)), Instant::now());
        }
        assert!(previews.calls.is_empty());
    }
}
