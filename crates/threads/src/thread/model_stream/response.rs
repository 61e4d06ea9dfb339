//! A request to a model and its response, charged to the budgets of the turn.

use std::sync::Arc;

use model::catalog::ModelInfo;
use model::{Arrival, Client, Event, Failure, Provider, ResponseStream};
use session::{ModelEvent, Prompt};

use crate::thread::model_stream::meter::Meter;
use crate::thread::model_stream::span::RequestSpan;
use services::budget::{Admission, Budgets, RequestSize};
use services::convert;
use services::telemetry::TurnTrace;

/// Bytes of text for each token that a request is charged when the provider reports no usage.
const BYTES_PER_TOKEN: i64 = 4;

/// Fewest bytes of text for each token: what is reserved for a request rests on it.
const MIN_BYTES_PER_TOKEN: i64 = 2;

/// A response in progress. Dropped, the request is cut off, and charged its likely usage.
pub(in crate::thread) struct Response(State);

enum State {
    /// Near the limit of a budget, a request waits for those in flight.
    Waiting(Box<Unsent>),
    Streaming(Box<Streaming>),
    /// The budgets refused it.
    Ended,
}

/// A request that is not sent yet.
pub(super) struct Unsent {
    pub(super) client: Client,
    pub(super) arrival: Arrival,
    pub(super) provider: Arc<Provider>,
    pub(super) prompt: Prompt,
    pub(super) cache_key: String,
    pub(super) info: ModelInfo,
    pub(super) meter: Meter,
    pub(super) budgets: Budgets,
    /// True if the model is informed when little is left of a budget.
    pub(super) takes_notice: bool,
    pub(super) trace: TurnTrace,
}

struct Streaming {
    stream: ResponseStream,
    meter: Meter,
    budgets: Budgets,
    /// Until the end of the response.
    admission: Option<Admission>,
    /// True if the provider has begun to answer.
    has_begun: bool,
    /// The request is not sent yet.
    is_queued: bool,
    span: RequestSpan,
}

impl Response {
    /// Sends a request as soon as the budgets admit it.
    pub(super) fn begin(request: Unsent) -> Self {
        Self(match request.budgets.admit::<model::Usage>(request.size()) {
            Ok(Some(admission)) => State::Streaming(Box::new(request.send(admission))),
            // A refusal is reported by `next`.
            Ok(None) | Err(_) => State::Waiting(Box::new(request)),
        })
    }

    /// The next batch of events; none after the last. Cancel safe.
    pub(in crate::thread) async fn next(&mut self) -> Option<Vec<ModelEvent>> {
        if let State::Waiting(request) = &self.0 {
            let admitted = request.budgets.admitted(request.size()).await;
            let state = std::mem::replace(&mut self.0, State::Ended);
            match (state, admitted) {
                (State::Waiting(request), Ok(admission)) => {
                    self.0 = State::Streaming(Box::new(request.send(admission)));
                }
                (_, Err(failure)) => return Some(vec![ModelEvent::Failed(failure)]),
                (state, Ok(_)) => self.0 = state,
            }
        }
        match &mut self.0 {
            State::Streaming(streaming) => streaming.next().await,
            State::Waiting(_) | State::Ended => None,
        }
    }
}

impl Unsent {
    fn size(&self) -> RequestSize {
        let weight = i64::try_from(self.prompt.weight()).unwrap_or(i64::MAX);
        let output = i64::try_from(self.info.max_output).unwrap_or(i64::MAX);
        let most = (weight / MIN_BYTES_PER_TOKEN).saturating_add(output);
        RequestSize { input: weight / BYTES_PER_TOKEN, most }
    }

    fn send(self, admission: Admission) -> Streaming {
        let Self { client, arrival, mut provider, mut prompt, cache_key, info, .. } = self;
        let (meter, budgets, takes_notice) = (self.meter, self.budgets, self.takes_notice);
        if let Some(notice) = admission.notice.as_deref().filter(|_| takes_notice) {
            prompt.add_notice(notice);
        }
        let span = RequestSpan::begin(&self.trace, &provider.id, &prompt.model);
        if let Some(context) = span.context() {
            Arc::make_mut(&mut provider).traceparent = Some(context.to_string());
        }
        let prompt = convert::model::prompt(prompt, &cache_key, &info);
        let stream = client.stream_prompt_of(&arrival, &provider, &prompt);
        Streaming {
            stream,
            meter,
            budgets,
            admission: Some(admission),
            has_begun: false,
            is_queued: false,
            span,
        }
    }
}

impl Streaming {
    async fn next(&mut self) -> Option<Vec<ModelEvent>> {
        let batch = self.stream.next().await?;
        batch.iter().for_each(|event| self.count(event));
        let events = self.meter.events(batch);
        for event in &events {
            self.span.observe(event);
            match event {
                ModelEvent::Completed { usage } => self.budgets.spend(usage.cost),
                ModelEvent::Failed(session::Failure { usage: Some(usage), .. }) => {
                    self.budgets.spend(usage.cost);
                }
                _ => {}
            }
        }
        Some(events)
    }

    /// Charges the budgets at the end of the response.
    fn count(&mut self, event: &Event) {
        let used = match event {
            Event::Completed { usage, .. } => Some(usage.total),
            Event::Failed(Failure { usage: Some(usage), .. }) => Some(usage.total),
            Event::Failed(_) => None,
            // Not a part of the response.
            event if !event.is_response() => {
                self.is_queued = match event {
                    Event::Held | Event::Queued { .. } => true,
                    Event::Sent => false,
                    _ => self.is_queued,
                };
                return;
            }
            _ => {
                self.has_begun = true;
                let tokens = streamed_bytes(event).div_ceil(BYTES_PER_TOKEN as usize);
                if let Some(admission) = &mut self.admission {
                    admission.receive(i64::try_from(tokens).unwrap_or(i64::MAX));
                }
                return;
            }
        };
        let Some(admission) = self.admission.take() else { return };
        match used {
            Some(tokens) if tokens > 0 => {
                admission.settle(i64::try_from(tokens).unwrap_or(i64::MAX));
            }
            // The provider refused it, or was not reached.
            None if !self.has_begun => admission.settle(0),
            // Dropped, it is charged the estimate.
            Some(_) | None => {}
        }
    }
}

impl Drop for Streaming {
    /// A request that was never sent costs nothing.
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take_if(|_| self.is_queued) {
            admission.settle(0);
        }
    }
}

/// Bytes of the response that an event adds. A finished item repeats its deltas, so of text only the
/// deltas count.
fn streamed_bytes(event: &Event) -> usize {
    match event {
        Event::TextDelta { text, .. }
        | Event::SummaryDelta { text, .. }
        | Event::ReasoningDelta { text, .. }
        | Event::ArgumentsDelta { text, .. }
        | Event::CustomInputDelta { text, .. } => text.len(),
        _ => 0,
    }
}
