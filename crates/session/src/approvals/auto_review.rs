//! A model reviews approvals in the user's place. Each action gets a request of its own, with fixed
//! instructions and a structured answer. Whatever is not one clear approval of this very action is a
//! refusal: no answer in time, another shape, a failure of the provider, an action too large to show.
//!
//! A review replaces the question to the clients and nothing else: rules, grants and the approval
//! policy are applied before it, and it grants nothing for later.

mod action;
mod answer;
mod denied;
mod document;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::cx::Cx;
use crate::port::approval::Ask;
use crate::port::auto_review::{
    ApprovalReview, ReviewResponse, ReviewStatus, ReviewedAction, RiskLevel, UserAuthorization,
};
use crate::port::effect::{Effect, Prompt};
use crate::port::event::Event;
use crate::port::model::Failure;
use crate::port::settings::Settings;
use crate::{Id, Millis};
pub(crate) use action::Action;
use answer::Opinion;
use denied::DeniedActions;
pub(crate) use document::UserWords;

/// How long a reviewer may take.
const TIME_LIMIT: Millis = 90_000;
/// Reviews at once; one more is refused.
const MAX_OPEN: usize = 16;
/// Refusals in one turn; then every further action of the turn is refused without a request, so that
/// an agent that insists costs nothing.
const MAX_REFUSALS: usize = 10;

/// An approval that is needed: what the user is asked, and the action as a reviewer gets to see it.
pub(crate) struct ApprovalRequest {
    /// Names the request.
    pub(crate) number: u64,
    /// The item that shows the action.
    pub(crate) item: Id,
    pub(crate) ask: Ask,
    pub(crate) action: Action,
}

/// See the module.
#[derive(Default)]
pub(super) struct AutoReviews {
    /// By the number of the request.
    open: BTreeMap<u64, OpenReview>,
    denied: DeniedActions,
    /// Refusals in the running turn.
    refusals: usize,
}

struct OpenReview {
    view: ApprovalReview,
    action: Action,
    deadline: Millis,
    /// Whether the driver was early once.
    is_extended: bool,
}

/// Why a review refuses.
enum Refusal {
    /// The reviewer said no.
    Opinion(Opinion),
    /// There is no opinion that can be used. Ends a sentence.
    Unclear(String),
    /// The time is over.
    TimedOut,
}

/// How a review ended: it lets the action run, or the reason for the model.
pub(crate) type ReviewEnd = Result<(), String>;

impl AutoReviews {
    /// Begins a review. A refusal at once comes as its reason for the model.
    pub(super) fn begin(
        &mut self,
        request: ApprovalRequest,
        turn: &Id,
        settings: &Settings,
        words: &UserWords,
        cx: &mut Cx,
    ) -> ReviewEnd {
        let ApprovalRequest { number, item, ask, action } = request;
        let view = ApprovalReview {
            id: cx.item_id(),
            turn: turn.clone(),
            item,
            action: action.shown.clone(),
            started_at: cx.now,
            completed_at: None,
            status: ReviewStatus::InProgress,
            risk: None,
            authorization: None,
            rationale: None,
        };
        cx.emit(Event::ApprovalReview(Box::new(view.clone())));
        let checked = self.check(&action, ask.reason(), cx);
        let message = checked.and_then(|()| {
            let shown = (action.text.as_str(), action.unsandboxed);
            let sandbox = action::sandbox(settings);
            document::message(&view.id, words, shown, &sandbox, ask.reason())
                .map_err(|error| format!("its request cannot be written: {error}"))
        });
        let review = OpenReview {
            view,
            action,
            deadline: cx.now.saturating_add(TIME_LIMIT),
            is_extended: false,
        };
        let message = match message {
            Ok(message) => message,
            Err(why) => return Err(self.refuse(review, Refusal::Unclear(why), cx)),
        };
        self.open.insert(number, review);
        let prompt = prompt(settings, message);
        cx.push(Effect::Review { review: number, prompt });
        cx.push(Effect::ReviewTimeout { review: number, ms: TIME_LIMIT.unsigned_abs() });
        Ok(())
    }

    /// Refuses an action that no reviewer may approve, or that no reviewer can be asked about.
    fn check(&self, action: &Action, reason: Option<&str>, cx: &Cx) -> Result<(), String> {
        if action.unsandboxed && !cx.limits.reviewer_leaves_sandbox {
            return Err(
                "the administrator's requirements forbid full access, so only the user may \
                        approve what leaves the sandbox"
                    .to_owned(),
            );
        }
        if !action.fits(reason) {
            let most = action::MAX_ACTION_BYTES / 1024;
            return Err(format!(
                "the action is too large to be shown to it whole (more than {most} KiB); split it"
            ));
        }
        if self.open.len() >= MAX_OPEN {
            return Err(format!(
                "{MAX_OPEN} reviews are under way; try again when they have ended"
            ));
        }
        if self.refusals >= MAX_REFUSALS {
            return Err(format!("{MAX_REFUSALS} actions of this turn were refused already"));
        }
        Ok(())
    }

    /// Takes the outcome of a review. `None`: nothing waits for it.
    pub(super) fn end(
        &mut self,
        number: u64,
        outcome: Result<&ReviewResponse, &Failure>,
        cx: &mut Cx,
    ) -> Option<ReviewEnd> {
        let review = self.open.remove(&number)?;
        if cx.now >= review.deadline {
            return Some(Err(self.refuse(review, Refusal::TimedOut, cx)));
        }
        let opinion = match outcome {
            Ok(response) => answer::read(&review.view.id, response),
            Err(failure) => Err(format!("the request to it failed: {}", failure.message)),
        };
        let refusal = match opinion {
            Ok(opinion) if !opinion.approves => Refusal::Opinion(opinion),
            Ok(opinion) => match opinion.contradiction() {
                Some(why) => Refusal::Unclear(format!("{why}: {}", opinion.rationale)),
                None => {
                    let Opinion { risk, authorization, rationale, .. } = opinion;
                    let judged = Some((risk, authorization));
                    close(review.view, ReviewStatus::Approved, judged, Some(rationale), cx);
                    return Some(Ok(()));
                }
            },
            Err(why) => Refusal::Unclear(why),
        };
        Some(Err(self.refuse(review, refusal, cx)))
    }

    /// The time of a review is over. `None`: it has ended.
    pub(super) fn overdue(&mut self, number: u64, cx: &mut Cx) -> Option<ReviewEnd> {
        // A driver may be a little early once. More often, the clock was set back.
        let review = self.open.get_mut(&number)?;
        if cx.now < review.deadline && !review.is_extended {
            review.is_extended = true;
            let ms = (review.deadline - cx.now).min(TIME_LIMIT).unsigned_abs();
            cx.push(Effect::ReviewTimeout { review: number, ms });
            return None;
        }
        let review = self.open.remove(&number)?;
        cx.push(Effect::CancelReview { review: number });
        Some(Err(self.refuse(review, Refusal::TimedOut, cx)))
    }

    /// Nothing waits for a review any longer.
    pub(super) fn abort(&mut self, number: u64, cx: &mut Cx) {
        if let Some(review) = self.open.remove(&number) {
            cx.push(Effect::CancelReview { review: number });
            close(review.view, ReviewStatus::Aborted, None, None, cx);
        }
    }

    /// The turn ends, and with it its reviews.
    pub(super) fn close(&mut self, cx: &mut Cx) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().for_each(|number| self.abort(number, cx));
        self.refusals = 0;
    }

    /// See [`DeniedActions::approve`].
    pub(super) fn approve_denied(
        &mut self,
        review: &str,
        shown: &ReviewedAction,
        now: Millis,
    ) -> Result<(), String> {
        self.denied.approve(review, shown, now)
    }

    /// See [`DeniedActions::take_approved`].
    pub(super) fn take_approved(&mut self, action: &Action, now: Millis) -> bool {
        self.denied.take_approved(action, now)
    }

    /// Whether the review of this request is under way.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// The reviews under way.
    pub(super) fn open(&self) -> impl Iterator<Item = &ApprovalReview> {
        self.open.values().map(|review| &review.view)
    }

    /// Ends a review with a refusal. Returns the reason for the model.
    fn refuse(&mut self, review: OpenReview, refusal: Refusal, cx: &mut Cx) -> String {
        self.refusals += 1;
        let OpenReview { view, action, .. } = review;
        self.denied.add(view.id.clone(), action, cx.now);
        let (status, judged, rationale) = match refusal {
            Refusal::Opinion(Opinion { risk, authorization, rationale, .. }) => {
                let message = format!(
                    "the approvals reviewer denied this: {rationale}\nDo not try to reach the same in \
                     another way. Go on without it, or tell the user what you need and why."
                );
                let judged = Some((risk, authorization));
                close(view, ReviewStatus::Denied, judged, Some(rationale), cx);
                return message;
            }
            Refusal::TimedOut => {
                let why = format!("it did not answer within {} s", TIME_LIMIT / 1000);
                (ReviewStatus::TimedOut, None, why)
            }
            Refusal::Unclear(why) => (ReviewStatus::Denied, None, why),
        };
        close(view, status, judged, Some(rationale.clone()), cx);
        let message = format!("the approvals reviewer gave no approval: {rationale}");
        cx.emit(Event::ReviewerWarning { message: message.clone() });
        message
    }
}

/// Reports the end of a review.
fn close(
    view: ApprovalReview,
    status: ReviewStatus,
    judged: Option<(RiskLevel, UserAuthorization)>,
    rationale: Option<String>,
    cx: &mut Cx,
) {
    let completed_at = Some(cx.now);
    let (risk, authorization) = judged.unzip();
    let view = ApprovalReview { completed_at, status, risk, authorization, rationale, ..view };
    cx.emit(Event::ApprovalReview(Box::new(view)));
}

/// The request to the reviewer: the thread's model, with nothing of the thread but `message`.
fn prompt(settings: &Settings, message: Arc<str>) -> Prompt {
    static INSTRUCTIONS: LazyLock<Arc<str>> =
        LazyLock::new(|| include_str!("auto_review/instructions.md").into());
    Prompt {
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        instructions: INSTRUCTIONS.clone(),
        input: vec![message],
        tools: "[]".into(),
        // The time limit leaves no room for a long search.
        effort: Some("low".to_owned()),
        summary: None,
        verbosity: None,
        output_schema: Some(document::schema()),
        service_tier: settings.service_tier.clone(),
    }
}
