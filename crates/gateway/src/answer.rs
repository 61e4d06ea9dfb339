//! The body of a response: buffered, or an upstream's that passes through while its usage is read.
//! Its end, of whatever kind, settles the request's account.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep, Timeout};

use crate::account::Account;
use crate::backends::{Lease, LiveBackend};
use crate::bill::End;
use crate::dispatch::count_failure;
use crate::later::{self, Follow, may_come_later};
use crate::metrics::{Answered, Metrics};
use crate::state::Gateway;
use crate::translation::{AnswerStream, Kept};
use crate::upstream::{DecodedBody, Redactor};
use gateway_body::{Outcome, Progress, Reader, UsageFilter};
use gateway_store::ledger::Ended;
use wire::FailureKind;

/// The body of a response.
pub(crate) enum AnswerBody {
    /// One piece.
    Whole(Option<Bytes>),
    /// An upstream's body.
    Forwarded(Box<ForwardedAnswer>),
    /// A page of the administration.
    Page(axum::body::Body),
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

/// The way in which a response is observed.
pub(crate) enum Watch {
    /// Not at all: nothing is counted.
    Nothing,
    /// Passes unchanged.
    Usage(Reader),
    /// The usage chunk that the gateway requested is removed.
    Removing(UsageFilter),
    /// A stream in the wire of the backend, which passes in that of the caller.
    Translating(Reader, Box<AnswerStream>),
    /// Costs nothing: it may show the end of an answer that comes later.
    Following(Reader, Follow),
}

/// An upstream's response in transit.
pub(crate) struct ForwardedAnswer {
    upstream: DecodedBody,
    /// Pieces to forward.
    ready: VecDeque<Bytes>,
    watch: Watch,
    redactor: Redactor,
    /// Where it comes from.
    origin: Arc<LiveBackend>,
    /// The place there, until its end.
    lease: Option<Lease>,
    account: Option<Account>,
    /// True if the store has the account.
    is_kept: bool,
    /// Follows the events of an answer that is kept.
    follow: Option<Follow>,
    /// Until the store has the account or the response: a client does not learn of an answer that a crash would forget.
    storing: Option<Pin<Box<Timeout<JoinHandle<()>>>>>,
    /// The status of the response; after its end, that of the end.
    status: u16,
    /// The model's name in the metric of requests, to be counted at the end.
    counted_as: Option<String>,
    /// Longest silence of the upstream, and the start of the current one.
    patience: Duration,
    silence: Pin<Box<Sleep>>,
    last: Instant,
    /// Callback for the object's id.
    on_id: Option<OnObjectId>,
    /// The length that the client knows, if any.
    size: SizeHint,
    ended: bool,
    /// True once the output is far beyond the request's maximum.
    is_beyond: bool,
}

/// The error in which a translated stream ends that went on and on.
const ENDLESS: &str = "The model server sent far more than the request's maximum of output tokens.";

/// The error in which a translated stream ends that fell silent.
const SILENT: &str = "The model server sent nothing for too long. Please try again.";

/// Longest wait of an answer for the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of an object that wait for its end.
const MAX_HELD: usize = 256 << 10;

/// Called once with the object's id as soon as it is known.
pub(crate) type OnObjectId = Box<dyn FnOnce(&str) + Send + Sync>;

impl ForwardedAnswer {
    /// `first` is the received part of the body; `size` is the length that the client was sent.
    pub(crate) fn new(
        (upstream, first): (DecodedBody, Option<Bytes>),
        watch: Watch,
        (account, lease): (Account, Lease),
        status: u16,
        patience: Duration,
        on_id: Option<OnObjectId>,
    ) -> Self {
        let size = match (&watch, first.as_ref()) {
            (Watch::Removing(_) | Watch::Translating(..), _) => SizeHint::default(),
            (_, first) => {
                let mut size = upstream.size_hint();
                let more = first.map_or(0, |first| first.len() as u64);
                if let Some(exact) = size.exact() {
                    size = SizeHint::with_exact(exact + more);
                }
                size
            }
        };
        let last = Instant::now();
        let mut answer = Self {
            upstream,
            ready: VecDeque::new(),
            watch,
            redactor: Redactor::default(),
            origin: Arc::clone(lease.live()),
            lease: Some(lease),
            account: Some(account),
            is_kept: false,
            follow: None,
            storing: None,
            status,
            counted_as: None,
            patience,
            silence: Box::pin(tokio::time::sleep_until(last + patience)),
            last,
            on_id,
            size,
            ended: false,
            is_beyond: false,
        };
        if let Some(first) = first {
            answer.take_in(first);
        }
        // A short response is often complete by now.
        if answer.upstream.is_end_stream() || answer.has_failed() {
            answer.end();
        }
        answer
    }

    fn take_in(&mut self, piece: Bytes) {
        let mut kept = None;
        let (id, usage, has_output, seen) = match &mut self.watch {
            Watch::Nothing => {
                self.ready.push_back(piece);
                return;
            }
            Watch::Usage(reader) => {
                reader.feed(&piece);
                let shown = self.redactor.redact(|| self.origin.mask(), piece);
                self.ready.push_back(shown);
                let has_output = reader.is_events() && reader.has_output();
                (reader.id(), reader.usage_so_far(), has_output, Some(reader.so_far()))
            }
            Watch::Translating(reader, stream) => {
                reader.feed(&piece);
                let shown = self.redactor.redact(|| self.origin.mask(), piece);
                let mut out = String::new();
                stream.feed(&shown, &mut out);
                kept = stream.take_kept();
                push(&mut self.ready, out);
                (None, reader.usage_so_far(), reader.has_output(), Some(reader.so_far()))
            }
            Watch::Following(reader, _) => {
                reader.feed(&piece);
                let shown = self.redactor.redact(|| self.origin.mask(), piece);
                self.ready.push_back(shown);
                (None, None, false, None)
            }
            Watch::Removing(filter) => {
                let mut out = Vec::new();
                filter.feed(piece, &mut out);
                let (redactor, origin) = (&mut self.redactor, &self.origin);
                self.ready
                    .extend(out.into_iter().map(|piece| redactor.redact(|| origin.mask(), piece)));
                (filter.id(), filter.usage_so_far(), filter.has_output(), Some(filter.so_far()))
            }
        };
        if let (true, Some(account)) = (has_output, &mut self.account) {
            account.sees_output();
        }
        if let (Some(seen), Some(account)) = (seen, &mut self.account) {
            self.is_beyond |= account.note(seen);
        }
        if let (Some(usage), Some(account)) = (usage, &mut self.account) {
            account.lower_reservation(&usage);
        }
        if let (Some(id), true) = (id, self.on_id.is_some()) {
            let id = id.to_owned();
            if let Some(on_id) = self.on_id.take() {
                on_id(&id);
            }
        }
        self.hold_until_kept(kept);
        self.keep_events();
    }

    /// Has the store keep the account as soon as events say that their answer may come later.
    fn keep_events(&mut self) {
        let (Watch::Usage(reader), Some(account)) = (&self.watch, &self.account) else { return };
        if account.facts().later.is_none() || reader.progress() != Some(Progress::Open) {
            return;
        }
        let id = reader.id().map(str::to_owned);
        let so_far = Outcome { id, progress: Some(Progress::Open), ..Outcome::default() };
        if self.may_come_later(&so_far) {
            self.keep(so_far);
        }
    }

    /// Returns whether pieces wait for the end of the body: an object says only then whether its answer comes later.
    /// Large ones do not wait.
    fn holds_back(&self) -> bool {
        let Watch::Usage(reader) = &self.watch else { return false };
        let comes_later = self.account.as_ref().is_some_and(|one| one.facts().later.is_some());
        let held = || self.ready.iter().map(Bytes::len).sum::<usize>();
        !self.ended && comes_later && !reader.is_events() && held() <= MAX_HELD
    }

    fn may_come_later(&self, outcome: &Outcome) -> bool {
        self.account.as_ref().is_some_and(|account| may_come_later(account, outcome))
    }

    /// Has the store keep the account of an answer that may come later.
    fn keep(&mut self, outcome: Outcome) {
        let Some(account) = self.account.take() else { return };
        let id = outcome.id.as_deref().unwrap_or_default();
        self.follow = Some(Follow::of_events(&account, id));
        self.is_kept = true;
        let storing = later::keep(account, self.status, outcome);
        self.storing = storing.map(|task| Box::pin(tokio::time::timeout(STORE_PATIENCE, task)));
    }

    /// Holds the end of a response back until it is kept: a client does not learn of one that it cannot name.
    fn hold_until_kept(&mut self, kept: Option<Kept>) {
        let Some((keeper, response)) = kept else { return };
        let keeping = tokio::spawn(async move { keeper.keep(response).await });
        self.storing = Some(Box::pin(tokio::time::timeout(STORE_PATIENCE, keeping)));
    }

    /// Counts the request by the status of its end, once that is known.
    pub(crate) fn count_at_end(&mut self, model: String, metrics: &Metrics) {
        if self.is_kept {
            // It is counted when its end is seen.
        } else if self.ended {
            metrics.requests.get_or_create(&Answered { model, status: self.status }).inc();
        } else {
            self.counted_as = Some(model);
        }
    }

    /// Handles the end of the upstream's body.
    fn end(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.succeeded();
        }
        let mut outcome = self.finish_watching();
        // An answer that usually comes later may have failed already.
        let may_fail = self.account.as_ref().is_some_and(|one| one.facts().later.is_some());
        if let Some(outcome) = outcome.as_mut().filter(|_| may_fail) {
            outcome.failed |=
                matches!(outcome.progress, Some(Progress::Failed | Progress::Expired));
        }
        self.ready.extend(self.redactor.finish());
        let status = self.status;
        self.settle(outcome, |_, outcome| End::answered(status, outcome));
    }

    fn abort(&mut self, ended: Ended, cause: String) {
        let failure = match ended {
            Ended::Stalled => Some((FailureKind::Timeout, SILENT)),
            _ => self.is_beyond.then_some((FailureKind::Malformed, ENDLESS)),
        };
        if let (Watch::Translating(reader, stream), Some((kind, message))) =
            (&mut self.watch, failure)
            && !reader.so_far().complete
        {
            let mut out = String::new();
            stream.fail(&wire::Failure::new(kind, message), &mut out);
            push(&mut self.ready, out);
        }
        if let (Some(lease), Some(account)) = (&mut self.lease, &self.account) {
            let reason = if ended == Ended::Stalled { "timeout" } else { "cut" };
            count_failure(account.gateway(), lease.live(), reason);
            lease.failed(&cause);
        }
        let outcome = self.finish_watching();
        self.settle(outcome, |_, outcome| End::broken(ended, cause, outcome.unwrap_or_default()));
    }

    fn settle(
        &mut self,
        outcome: Option<Outcome>,
        end: impl FnOnce(&Gateway, Option<Outcome>) -> End,
    ) {
        self.ended = true;
        // The place is free for the next request.
        drop(self.lease.take());
        let outcome = match outcome {
            Some(outcome) if self.account.is_none() => {
                // The end of an answer that the store keeps, or of what was seen of it.
                if let Some(follow) = self.follow.take() {
                    follow.note(outcome);
                }
                return;
            }
            Some(outcome) if self.may_come_later(&outcome) => return self.keep(outcome),
            outcome => outcome,
        };
        let Some(account) = self.account.take() else { return };
        let end = end(account.gateway(), outcome);
        self.status = end.status;
        if let Some(model) = self.counted_as.take() {
            let label = Answered { model, status: end.status };
            account.gateway().metrics.requests.get_or_create(&label).inc();
        }
        account.close(end);
    }

    fn finish_watching(&mut self) -> Option<Outcome> {
        match std::mem::replace(&mut self.watch, Watch::Nothing) {
            Watch::Nothing => None,
            Watch::Usage(reader) => Some(reader.finish()),
            Watch::Translating(reader, mut stream) => {
                let mut out = String::new();
                if let Some(held) = self.redactor.finish() {
                    stream.feed(&held, &mut out);
                }
                stream.finish(&mut out);
                push(&mut self.ready, out);
                self.hold_until_kept(stream.take_kept());
                Some(reader.finish())
            }
            Watch::Following(reader, follow) => {
                follow.note(reader.finish());
                None
            }
            Watch::Removing(filter) => {
                let mut rest = Vec::new();
                let outcome = filter.finish(&mut rest);
                let (redactor, origin) = (&mut self.redactor, &self.origin);
                self.ready
                    .extend(rest.into_iter().map(|piece| redactor.redact(|| origin.mask(), piece)));
                Some(outcome)
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            if let Some(storing) = &mut self.storing {
                // A store that takes longer does not hold up the answer.
                let _ = ready!(storing.as_mut().poll(context));
                self.storing = None;
                self.last = Instant::now();
            }
            if self.is_beyond && !self.ended {
                let is_translated = self.is_translated();
                self.abort(Ended::Cut, "its output is far beyond the request's maximum".to_owned());
                if !is_translated {
                    return Poll::Ready(Some(Err(io::Error::other(ENDLESS))));
                }
            }
            if !self.holds_back()
                && let Some(piece) = self.ready.pop_front()
            {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            match Pin::new(&mut self.upstream).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.last = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        self.take_in(data);
                        if self.upstream.is_end_stream() || self.has_failed() {
                            self.end();
                        }
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    let is_translated = self.is_translated();
                    self.abort(Ended::Cut, format!("its answer broke off: {error}"));
                    if is_translated {
                        // Its last event says so.
                        continue;
                    }
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                Poll::Ready(None) => self.end(),
                Poll::Pending => {
                    ready!(self.poll_silence(context));
                    let silent = "the model server sent nothing for too long";
                    let seconds = self.patience.as_secs_f32();
                    let is_translated = self.is_translated();
                    self.abort(Ended::Stalled, format!("it sent nothing for {seconds} s"));
                    if is_translated {
                        continue;
                    }
                    return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, silent))));
                }
            }
        }
    }

    fn is_translated(&self) -> bool {
        matches!(self.watch, Watch::Translating(..))
    }

    /// Returns whether a translated stream has ended with an error, so that no more of it is read.
    fn has_failed(&self) -> bool {
        matches!(&self.watch, Watch::Translating(_, stream) if stream.has_failed())
    }

    /// Ready after too long a silence. The timer is reset only when it expires.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            ready!(self.silence.as_mut().poll(context));
            let due = self.last + self.patience;
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            self.silence.as_mut().reset(due);
        }
    }
}

fn push(ready: &mut VecDeque<Bytes>, text: String) {
    if !text.is_empty() {
        ready.push_back(text.into());
    }
}

impl Drop for ForwardedAnswer {
    /// The client disconnected, or the gateway stops.
    fn drop(&mut self) {
        if !self.ended {
            let outcome = self.finish_watching();
            self.settle(outcome, |gateway, outcome| gateway.dropped(outcome.unwrap_or_default()));
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(piece) => Poll::Ready(piece.take().map(|piece| Ok(Frame::data(piece)))),
            Self::Forwarded(answer) => answer.poll(context),
            Self::Page(page) => {
                let frame = ready!(Pin::new(page).poll_frame(context));
                Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(piece) => piece.is_none(),
            Self::Forwarded(answer) => answer.ended && answer.ready.is_empty(),
            Self::Page(page) => page.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(piece) => {
                SizeHint::with_exact(piece.as_ref().map_or(0, |piece| piece.len() as u64))
            }
            Self::Forwarded(answer) if answer.ended => {
                SizeHint::with_exact(answer.ready.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Forwarded(answer) => answer.size,
            Self::Page(page) => page.size_hint(),
        }
    }
}
