//! The body of a response: buffered, or an upstream's that passes through while its usage is read.
//! Its end, of whatever kind, settles the request's account.

mod fault;

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

use self::fault::Fault;
use crate::account::{Account, Ceiling};
use crate::backends::{Lease, LiveBackend};
use crate::bill::End;
use crate::dispatch::count_failure;
use crate::later::{self, Follow, may_come_later};
use crate::metrics::{Answered, Metrics};
use crate::same_wire::OwnEnd;
use crate::state::Gateway;
use crate::translation::{AnswerStream, Kept};
use crate::upstream::{Redactor, UpstreamBody};
use gateway_body::{EventFilter, FilterEnd, Outcome, Progress, Reader};
use gateway_store::ledger::Ended;
use wire::{Failure, FailureKind};

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
    /// Passes event by event: the usage chunk that the gateway requested may be removed. In a model's answer, whatever
    /// is wrong with it ends it with an error of its wire.
    Events(EventFilter, Option<OwnEnd>),
    /// A stream in the wire of the backend, which passes in that of the caller.
    Translating(Reader, Box<AnswerStream>),
    /// Costs nothing: it may show the end of an answer that comes later.
    Following(Reader, Follow),
}

impl Watch {
    fn reader(&self) -> Option<&Reader> {
        match self {
            Self::Nothing => None,
            Self::Usage(reader) | Self::Translating(reader, _) | Self::Following(reader, _) => {
                Some(reader)
            }
            Self::Events(filter, _) => Some(filter.reader()),
        }
    }
}

/// An upstream's response in transit.
pub(crate) struct ForwardedAnswer {
    upstream: UpstreamBody,
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
    /// The start of the current wait for the upstream: nothing has come, and the client asks for more.
    waits_since: Option<Instant>,
    /// The time of waiting since more than a sign of life came. While the client takes nothing, nothing is read.
    waited: Duration,
    /// Callback for the object's id.
    on_id: Option<OnObjectId>,
    /// The length that the client knows, if any.
    size: SizeHint,
    ended: bool,
    /// The most output of an answer whose account the store has.
    ceiling: Option<Ceiling>,
    /// Set once the gateway is to end the answer.
    fault: Option<Fault>,
    /// Breaks the connection off after the last piece.
    breaks_off: Option<io::Error>,
}

/// The time for which keep-alives alone keep an answer open, as a multiple of the longest silence.
const MOST_SILENCES: u32 = 6;

/// Longest wait of an answer for the store.
const STORE_PATIENCE: Duration = Duration::from_secs(5);

/// Most bytes of an object that wait for its end.
const MAX_HELD: usize = 256 << 10;

/// Called once with the object's id as soon as it is known.
pub(crate) type OnObjectId = Box<dyn FnOnce(&str) + Send + Sync>;

impl ForwardedAnswer {
    /// `first` is the received part of the body; `size` is the length that the client was sent.
    pub(crate) fn new(
        (upstream, first): (UpstreamBody, Option<Bytes>),
        watch: Watch,
        (account, lease): (Account, Lease),
        status: u16,
        patience: Duration,
        on_id: Option<OnObjectId>,
    ) -> Self {
        let size = match (&watch, first.as_ref()) {
            (Watch::Events(..) | Watch::Translating(..), _) => SizeHint::default(),
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
            waits_since: None,
            waited: Duration::ZERO,
            on_id,
            size,
            ended: false,
            ceiling: None,
            fault: None,
            breaks_off: None,
        };
        if let Some(first) = first {
            answer.take_in(first);
        }
        // A short response is often complete by now.
        if (answer.upstream.is_end_stream() && answer.fault.is_none()) || answer.has_failed() {
            answer.end();
        }
        answer
    }

    fn take_in(&mut self, piece: Bytes) {
        let mut kept = None;
        let mut has_progress = true;
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
                has_progress = !stream.is_idle();
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
            Watch::Events(filter, _) => {
                let mut out = Vec::new();
                filter.feed(piece, &mut out);
                has_progress = filter.take_progress();
                let (redactor, origin) = (&mut self.redactor, &self.origin);
                self.ready
                    .extend(out.into_iter().map(|piece| redactor.redact(|| origin.mask(), piece)));
                let reader = filter.reader();
                (reader.id(), reader.usage_so_far(), reader.has_output(), Some(reader.so_far()))
            }
        };
        if let (true, Some(account)) = (has_output, &mut self.account) {
            account.sees_output();
        }
        let is_beyond = match (seen, &mut self.account, &self.ceiling) {
            (Some(seen), Some(account), _) => account.note(seen),
            (Some(seen), None, Some(ceiling)) => ceiling.is_passed_by(&seen),
            _ => false,
        };
        if is_beyond {
            self.fault = Some(Fault::Endless);
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
        self.check_progress(has_progress);
    }

    /// Sets the fault of a stream that is of another wire, or that has not gone on for too long.
    fn check_progress(&mut self, has_progress: bool) {
        if let Watch::Events(filter, Some(own)) = &self.watch
            && let Some(other) = filter.other_wire()
        {
            self.fault = Some(Fault::OtherWire(own.is_of_other_wire(other)));
        }
        if has_progress {
            self.waited = Duration::ZERO;
        } else if self.waited > self.patience * MOST_SILENCES {
            self.fault.get_or_insert(Fault::Stalled);
        }
    }

    /// Has the store keep the account as soon as events say that their answer may come later.
    fn keep_events(&mut self) {
        let (Watch::Usage(_) | Watch::Events(..), Some(account)) = (&self.watch, &self.account)
        else {
            return;
        };
        let Some(reader) = self.watch.reader() else { return };
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
        self.ceiling = account.ceiling();
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
        let mut outcome = self.finish_watching(None);
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

    /// Ends an answer that is not complete: a model's stream with an error, anything else with the connection.
    fn abort(&mut self, ended: Ended, cause: String) {
        let failure = fault::failure(self.fault.as_ref(), ended);
        if let (Some(lease), Some(account)) = (&mut self.lease, &self.account) {
            let reason = if ended == Ended::Stalled { "timeout" } else { "cut" };
            count_failure(account.gateway(), lease.live(), reason);
            lease.failed(&cause);
        }
        let ends_itself = matches!(self.watch, Watch::Translating(..) | Watch::Events(_, Some(_)));
        if !ends_itself {
            let kind = match ended {
                Ended::Stalled => io::ErrorKind::TimedOut,
                _ => io::ErrorKind::Other,
            };
            self.breaks_off = Some(io::Error::new(kind, failure.message.clone()));
        }
        let outcome = self.finish_watching(Some(failure));
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

    /// Reads to the end of what has come. `failure` says why no more comes; without it, the upstream's body has ended.
    fn finish_watching(&mut self, failure: Option<Failure>) -> Option<Outcome> {
        match std::mem::replace(&mut self.watch, Watch::Nothing) {
            Watch::Nothing => None,
            Watch::Usage(reader) => Some(reader.finish()),
            Watch::Translating(reader, mut stream) => {
                let mut out = String::new();
                if let Some(held) = self.redactor.finish() {
                    stream.feed(&held, &mut out);
                }
                // Of a stream that broke off, the last event may lack only the blank line after it.
                let is_certain = |it: &Failure| it.kind != FailureKind::Disconnected;
                if let Some(failure) = failure.filter(is_certain)
                    && !reader.so_far().complete
                {
                    stream.fail(&failure, &mut out);
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
            Watch::Events(filter, own) => {
                let (id, events) = (filter.reader().id().map(str::to_owned), filter.events());
                let mut rest = Vec::new();
                let FilterEnd { outcome, is_inside, is_over } = filter.finish(&mut rest);
                let (redactor, origin) = (&mut self.redactor, &self.origin);
                self.ready
                    .extend(rest.into_iter().map(|piece| redactor.redact(|| origin.mask(), piece)));
                self.ready.extend(self.redactor.finish());
                if let Some(own) = own.filter(|_| !is_over) {
                    let failure = failure.unwrap_or_else(|| fault::failure(None, Ended::Cut));
                    match is_inside {
                        // An error cannot stand within an event.
                        true => self.breaks_off = Some(io::Error::other(failure.message)),
                        false => push(&mut self.ready, own.error(id, events, &failure)),
                    }
                }
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
            if let (Some(fault), false) = (&self.fault, self.ended) {
                let (ended, cause) = fault.cause(self.patience * MOST_SILENCES);
                self.abort(ended, cause);
            }
            if !self.holds_back()
                && let Some(piece) = self.ready.pop_front()
            {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if self.ended {
                return Poll::Ready(self.breaks_off.take().map(Err));
            }
            match Pin::new(&mut self.upstream).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.last = Instant::now();
                    if let Some(since) = self.waits_since.take() {
                        self.waited += self.last.duration_since(since);
                    }
                    if let Ok(data) = frame.into_data() {
                        self.take_in(data);
                        let has_ended = self.upstream.is_end_stream() && self.fault.is_none();
                        if has_ended || self.has_failed() {
                            self.end();
                        }
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.abort(Ended::Cut, format!("its answer broke off: {error}"));
                }
                Poll::Ready(None) => self.end(),
                Poll::Pending => {
                    self.waits_since.get_or_insert_with(Instant::now);
                    ready!(self.poll_silence(context));
                    let seconds = self.patience.as_secs_f32();
                    self.abort(Ended::Stalled, format!("it sent nothing for {seconds} s"));
                }
            }
        }
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
            let outcome = self.finish_watching(None);
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
            Self::Forwarded(answer) => {
                answer.ended && answer.ready.is_empty() && answer.breaks_off.is_none()
            }
            Self::Page(page) => page.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(piece) => {
                SizeHint::with_exact(piece.as_ref().map_or(0, |piece| piece.len() as u64))
            }
            Self::Forwarded(answer) if answer.ended && answer.breaks_off.is_none() => {
                SizeHint::with_exact(answer.ready.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Forwarded(answer) => answer.size,
            Self::Page(page) => page.size_hint(),
        }
    }
}
