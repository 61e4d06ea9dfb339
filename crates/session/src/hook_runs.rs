//! The hooks of a turn: which runs it waits for, what they are about, and what they added for the
//! model.

use std::collections::BTreeMap;

use hooks::{CompactionTrigger, Event, EventName};

use crate::cx::Cx;
use crate::port::effect::Effect;
use crate::port::fragment::Fragment;
use crate::port::skill::UsedSkill;
use crate::{Id, history};

/// Times that hooks have one turn go on, one after the other, before it ends nevertheless.
const MAX_CONTINUED: u32 = 16;

/// The hooks of a turn.
#[derive(Default)]
pub(crate) struct HookRuns {
    waits: BTreeMap<u64, (EventName, Wait)>,
    /// For the model, with its next request.
    context: Vec<Fragment>,
    /// Number of times that hooks made the turn continue at its end.
    continued: u32,
    /// The model's last message, kept for the hooks of the turn's end.
    pub(crate) last_message: Option<String>,
    /// True if the hooks of the next request have run.
    pub(crate) admits_request: bool,
    /// True if the hooks of the turn's end have run, and the turn ends.
    pub(crate) admits_end: bool,
    /// True if the model has responded in the turn.
    pub(crate) has_response: bool,
}

/// The subject of a run of hooks.
pub(crate) enum Wait {
    /// The thread's first turn, or the first after a compaction.
    Start,
    /// A message of the user, which the model gets unless it is refused.
    Prompt { message: Vec<Fragment>, skills: Vec<UsedSkill> },
    /// A call, before it begins.
    Call { number: u64 },
    /// A call that the user would be asked about.
    Approval { number: u64 },
    /// A call that was answered.
    Answer { number: u64 },
    /// The next request to the model.
    Request,
    /// A response of the model.
    Response,
    /// A compaction that is about to begin.
    Compaction {
        trigger: CompactionTrigger,
        /// True if the turn cannot continue without it.
        is_needed: bool,
    },
    /// A compaction.
    Compacted,
    /// The end of the turn.
    Stop,
}

impl HookRuns {
    /// Has the driver run the hooks of an event.
    pub(crate) fn run(&mut self, turn: &Id, wait: Wait, event: Event, cx: &mut Cx) {
        let run = cx.number();
        self.waits.insert(run, (event.name(), wait));
        cx.push(Effect::RunHooks { run, turn: turn.clone(), event: Box::new(event) });
    }

    /// Returns the subject of the run; `None` when nothing waits for it.
    pub(crate) fn take(&mut self, run: u64) -> Option<(EventName, Wait)> {
        self.waits.remove(&run)
    }

    /// Returns whether the turn can neither ask the model nor end before its hooks have answered.
    /// Runs about calls hold up these calls only.
    pub(crate) fn hold_turn(&self) -> bool {
        let is_about_call = |wait: &Wait| {
            matches!(wait, Wait::Call { .. } | Wait::Approval { .. } | Wait::Answer { .. })
        };
        self.waits.values().any(|(_, wait)| !is_about_call(wait))
    }

    /// Adds text for the model.
    pub(crate) fn add_context(&mut self, event: &str, texts: Vec<String>) {
        let fragment = |text: String| {
            // The text cannot end the element that marks it.
            let text = text.replace("</hook_context", "<\\/hook_context");
            let text = format!("<hook_context event=\"{event}\">\n{text}\n</hook_context>");
            Fragment::summarized(history::message("developer", &text))
        };
        self.context.extend(texts.into_iter().map(fragment));
    }

    /// Takes what the model has not received.
    pub(crate) fn take_context(&mut self) -> Vec<Fragment> {
        std::mem::take(&mut self.context)
    }

    /// Returns whether hooks made the turn continue at its end before.
    pub(crate) fn is_continued(&self) -> bool {
        self.continued > 0
    }

    /// Counts that hooks have the turn go on. Returns whether they may.
    pub(crate) fn go_on(&mut self) -> bool {
        self.continued += 1;
        self.continued <= MAX_CONTINUED
    }

    /// The turn ends: its runs no longer matter.
    pub(crate) fn cancel(&mut self, cx: &mut Cx) {
        for run in std::mem::take(&mut self.waits).into_keys() {
            cx.push(Effect::CancelHooks { run });
        }
    }
}
