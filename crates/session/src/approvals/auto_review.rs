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
use std::path::Path;
use std::sync::{Arc, LazyLock};

use http_client::retry::Wait;

use crate::context::sandbox_text;
use crate::cx::Cx;
use crate::port::approval::Ask;
use crate::port::auto_review::{
    ApprovalReview, ApprovedAction, ReviewResponse, ReviewStatus, ReviewedAction, RiskLevel,
    UserAuthorization,
};
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::model::{Failure, Retrying};
use crate::port::prompt::{Prompt, PromptInput};
use crate::port::settings::Settings;
use crate::sample::retry::{Attempts, Next, given_up};
use crate::{Id, Millis};
pub(crate) use action::Action;
use answer::Opinion;
use denied::DeniedActions;
pub(crate) use document::UserWords;
pub use document::user_words;

/// Time limit of a reviewer.
const TIME_LIMIT: Millis = 90_000;
/// Reviews at once; one more is refused.
const MAX_OPEN: usize = 16;
/// Reviews in one turn; one more action is refused. What an agent makes of a turn costs no more.
const MAX_REVIEWS: usize = 500;
/// Reviews in one turn whose action no longer waits for them, such as a connection that was closed;
/// then every further action of the turn is refused, because their answers would cost tokens and have
/// no use.
const MAX_WITHDRAWN: usize = 50;
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

/// The open reviews of a thread.
#[derive(Default)]
pub(super) struct AutoReviews {
    /// By the number of the request.
    open: BTreeMap<u64, OpenReview>,
    denied: DeniedActions,
    turn: TurnCounts,
}

/// Reviews of the running turn.
#[derive(Default)]
struct TurnCounts {
    begun: usize,
    withdrawn: usize,
    refused: usize,
}

struct OpenReview {
    view: ApprovalReview,
    action: Action,
    /// Why the agent needs it.
    reason: Option<String>,
    /// The user's messages up to the request, as JSON.
    words: Arc<str>,
    prompt: Prompt,
    /// Failed tries of the request.
    attempts: Attempts,
    /// True if the request waits to be sent again.
    is_waiting: bool,
    deadline: Millis,
    /// True if the driver was early once.
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

/// The facts of a thread that a reviewer gets.
pub(crate) struct ReviewFacts<'a> {
    pub(crate) settings: &'a Settings,
    /// `$TMPDIR` of commands.
    pub(crate) tmpdir: Option<&'a Path>,
    /// The words of the user.
    pub(crate) words: &'a UserWords,
}

/// The end of a review: it lets the action run, or the reason for the model.
pub(crate) type ReviewEnd = Result<(), String>;

impl AutoReviews {
    /// `approved`: what the user approved and has not run yet.
    pub(super) fn new(approved: Vec<ApprovedAction>) -> Self {
        Self { denied: DeniedActions::new(approved), ..Self::default() }
    }

    /// Begins a review. A refusal at once comes as its reason for the model.
    pub(super) fn begin(
        &mut self,
        request: ApprovalRequest,
        turn: &Id,
        facts: &ReviewFacts<'_>,
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
        let prompt = checked.and_then(|()| prompt(&view.id, &action, ask.reason(), facts));
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(why) => return Err(self.refuse(view, action, Refusal::Unclear(why), cx)),
        };
        let review = OpenReview {
            view,
            action,
            reason: ask.reason().map(str::to_owned),
            words: facts.words.json(),
            prompt: prompt.clone(),
            attempts: Attempts::default(),
            is_waiting: false,
            deadline: cx.now.saturating_add(TIME_LIMIT),
            is_extended: false,
        };
        self.open.insert(number, review);
        self.turn.begun += 1;
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
        let TurnCounts { begun, withdrawn, refused } = self.turn;
        if refused >= MAX_REFUSALS {
            return Err(format!("{MAX_REFUSALS} actions of this turn were refused already"));
        }
        if withdrawn >= MAX_WITHDRAWN {
            return Err(format!(
                "{MAX_WITHDRAWN} actions of this turn ended before their review did; end the turn, \
                 the next one starts over"
            ));
        }
        if begun >= MAX_REVIEWS {
            return Err(format!(
                "{MAX_REVIEWS} actions of this turn were reviewed already; end the turn, the next \
                 one starts over"
            ));
        }
        Ok(())
    }

    /// Takes the outcome of a review. `facts` are those of now. `None`: the review goes on, or nothing
    /// waits for it.
    pub(super) fn end(
        &mut self,
        number: u64,
        outcome: Result<&ReviewResponse, &Failure>,
        facts: &ReviewFacts<'_>,
        cx: &mut Cx,
    ) -> Option<ReviewEnd> {
        // While it waits to be sent again there is no request that could end.
        self.open.get(&number).filter(|review| !review.is_waiting)?;
        let mut review = self.open.remove(&number)?;
        if cx.now >= review.deadline {
            let OpenReview { view, action, .. } = review;
            return Some(Err(self.refuse(view, action, Refusal::TimedOut, cx)));
        }
        let opinion = match outcome {
            // What the user wrote meanwhile, such as "stop", is part of the decision.
            Ok(_) if review.words != facts.words.json() => {
                return self.ask_again(number, review, facts, cx);
            }
            Ok(response) => answer::read(&review.view.id, response),
            Err(failure) => match review.failed(failure, cx) {
                Ok(wait) => {
                    self.open.insert(number, review);
                    cx.push(Effect::RetryReviewAfter { review: number, wait });
                    return None;
                }
                Err(failure) => Err(format!("the request to it failed: {}", failure.message)),
            },
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
        Some(Err(self.refuse(review.view, review.action, refusal, cx)))
    }

    /// Asks the reviewer again, with what the user wrote since. The time of the review stays as it
    /// was, so it bounds how often that happens.
    fn ask_again(
        &mut self,
        number: u64,
        mut review: OpenReview,
        facts: &ReviewFacts<'_>,
        cx: &mut Cx,
    ) -> Option<ReviewEnd> {
        let reason = review.reason.as_deref();
        match prompt(&review.view.id, &review.action, reason, facts) {
            Ok(prompt) => review.prompt = prompt,
            Err(why) => {
                return Some(Err(self.refuse(
                    review.view,
                    review.action,
                    Refusal::Unclear(why),
                    cx,
                )));
            }
        }
        review.words = facts.words.json();
        cx.push(Effect::Review { review: number, prompt: review.prompt.clone() });
        self.open.insert(number, review);
        None
    }

    /// The wait before the request of a review is sent again is over.
    pub(super) fn retry_due(&mut self, number: u64, cx: &mut Cx) {
        if let Some(review) = self.open.get_mut(&number).filter(|review| review.is_waiting) {
            review.is_waiting = false;
            cx.push(Effect::Review { review: number, prompt: review.prompt.clone() });
        }
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
        let OpenReview { view, action, .. } = self.open.remove(&number)?;
        cx.push(Effect::CancelReview { review: number });
        Some(Err(self.refuse(view, action, Refusal::TimedOut, cx)))
    }

    /// Aborts a review that nothing waits for.
    pub(super) fn abort(&mut self, number: u64, cx: &mut Cx) {
        if let Some(review) = self.open.remove(&number) {
            self.turn.withdrawn += 1;
            cx.push(Effect::CancelReview { review: number });
            close(review.view, ReviewStatus::Aborted, None, None, cx);
        }
    }

    /// The turn ends, and with it its reviews.
    pub(super) fn close(&mut self, cx: &mut Cx) {
        let open: Vec<u64> = self.open.keys().copied().collect();
        open.into_iter().for_each(|number| self.abort(number, cx));
        self.turn = TurnCounts::default();
    }

    /// See [`DeniedActions::approve`].
    pub(super) fn approve_denied(
        &mut self,
        review: &str,
        shown: &ReviewedAction,
        cx: &mut Cx,
    ) -> Result<(), String> {
        self.denied.approve(review, shown, cx)
    }

    /// See [`DeniedActions::take_approved`].
    pub(super) fn take_approved(&mut self, action: &Action, cx: &mut Cx) -> bool {
        self.denied.take_approved(action, cx)
    }

    /// Returns whether the review of this request is under way.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// The reviews under way.
    pub(super) fn open(&self) -> impl Iterator<Item = &ApprovalReview> {
        self.open.values().map(|review| &review.view)
    }

    /// Ends a review with a refusal. Returns the reason for the model.
    fn refuse(
        &mut self,
        view: ApprovalReview,
        action: Action,
        refusal: Refusal,
        cx: &mut Cx,
    ) -> String {
        self.turn.refused += 1;
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

impl OpenReview {
    /// The request failed. Returns the wait before it is sent again, if that leaves time for an
    /// answer.
    ///
    /// # Errors
    /// The failure as it ends the review.
    fn failed(&mut self, failure: &Failure, cx: &Cx) -> Result<Wait, Failure> {
        let tries = match self.attempts.failed(failure, &cx.limits) {
            Next::Again(Retrying { wait, .. }) if self.has_time(wait, cx.now) => {
                self.is_waiting = true;
                return Ok(wait);
            }
            Next::Again(Retrying { attempt, .. }) => attempt,
            Next::GiveUp { tries } => tries,
        };
        Err(given_up(failure.clone(), tries))
    }

    fn has_time(&self, wait: Wait, now: Millis) -> bool {
        let left = self.deadline.saturating_sub(now);
        i64::try_from(wait.longest().as_millis()).is_ok_and(|wait| wait < left)
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

/// The request to the reviewer: the thread's model, with nothing of the thread but what the user wrote
/// and the action.
///
/// # Errors
/// The action cannot be shown.
fn prompt(
    review: &str,
    action: &Action,
    reason: Option<&str>,
    facts: &ReviewFacts<'_>,
) -> Result<Prompt, String> {
    let ReviewFacts { settings, tmpdir, words } = *facts;
    let shown = (action.text.as_str(), action.unsandboxed);
    let message = document::message(review, words, shown, &sandbox_text(settings, tmpdir), reason)
        .map_err(|error| format!("its request cannot be written: {error}"))?;
    static INSTRUCTIONS: LazyLock<Arc<str>> =
        LazyLock::new(|| include_str!("auto_review/instructions.md").into());
    Ok(Prompt {
        provider: settings.provider.clone(),
        model: settings.model.clone(),
        instructions: INSTRUCTIONS.clone(),
        input: PromptInput::new(vec![message]),
        tools: "[]".into(),
        // The time limit leaves no room for a long search.
        effort: Some("low".to_owned()),
        summary: None,
        verbosity: None,
        output_schema: Some(document::schema()),
        service_tier: settings.service_tier.clone(),
        reasoning_member: false,
        left_out: Vec::new(),
    })
}
