//! A request's account: its reservation, and the one place that settles it, either with the actual
//! usage or when the account is dropped (specification: What the service does).

use std::sync::Arc;

use ratelimit::RequestId;

use crate::metrics;
use crate::state::Gateway;
use crate::traces;
use gateway_policy::plan::{Consumed, Demand, Plan};
use gateway_policy::settings::{Model, Price};
use gateway_policy::tenants::Caller;
use gateway_store::ledger::{Endpoint, Entry};

/// The reservation of a request. It is settled once: by [`Account::close`], or when it is dropped.
pub(crate) struct Account {
    gateway: Arc<Gateway>,
    facts: Facts,
    settled: bool,
}

/// The properties of a reservation.
pub(crate) struct Facts {
    /// The caller.
    pub(crate) caller: Arc<Caller>,
    /// The model that serves it.
    pub(crate) model: Arc<Model>,
    /// The meters that it draws on.
    pub(crate) plan: Arc<Plan>,
    /// The reserved amounts.
    pub(crate) demand: Demand,
    /// The id of the request.
    pub(crate) request: RequestId,
    /// The usage page that counts it.
    pub(crate) endpoint: Endpoint,
    /// Estimated input tokens.
    pub(crate) input_estimate: u64,
    /// Most output tokens that the request allows, if it says so.
    pub(crate) most_output: Option<u64>,
    /// The price of its tokens.
    pub(crate) price: Option<Price>,
    /// True if it is a line of a batch.
    pub(crate) batch: bool,
    /// Its span, if it is traced.
    pub(crate) trace: Option<Traced>,
}

/// A traced request.
pub(crate) struct Traced {
    /// The context of its span.
    pub(crate) context: traces::TraceContext,
    /// `POST /v1/responses`.
    pub(crate) name: String,
    /// When it was received.
    pub(crate) began: ratelimit::Micros,
}

/// The end of a request.
#[derive(Debug)]
pub(crate) enum End {
    /// The upstream failed or refused it.
    Failed {
        /// Status of the response.
        status: u16,
    },
    /// The gateway answered it itself: only the request counts.
    Served,
    /// The response is complete.
    Answered {
        /// Status of the response.
        status: u16,
        /// Observations of the response.
        outcome: gateway_body::Outcome,
    },
    /// The client or the upstream disconnected in the middle of the response.
    Aborted {
        /// Status of the response.
        status: u16,
        /// Observations of the response so far.
        outcome: gateway_body::Outcome,
    },
}

impl Account {
    /// Opens an account for a reservation.
    #[must_use]
    pub(crate) fn open(gateway: &Arc<Gateway>, facts: Facts) -> Self {
        gateway.metrics.open.inc();
        Self { gateway: Arc::clone(gateway), facts, settled: false }
    }

    /// Settles the account.
    pub(crate) fn close(mut self, end: End) {
        self.settle(end);
    }

    /// The properties of the reservation.
    #[must_use]
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    fn settle(&mut self, end: End) {
        if std::mem::replace(&mut self.settled, true) {
            return;
        }
        let (gateway, facts) = (&self.gateway, &self.facts);
        gateway.metrics.open.dec();
        let bill = facts.bill(end);
        if bill.usage_invalid {
            gateway.metrics.usage_invalid.inc();
        }
        let now = gateway.clock.now();
        let settlement = facts.plan.settlement(&facts.demand, &bill.taken);
        let organization = &*facts.caller.organization.id;
        gateway.limits.settle(organization, facts.request, &settlement, now);
        self.count(&bill);
        let entry = facts.entry(&bill, now);
        if let Some(traced) = &facts.trace {
            gateway.traces.record(traced.span(&entry));
        }
        gateway.spend.settled(&facts.caller, entry.cost);
        gateway.ledger.record(entry);
    }

    fn count(&self, bill: &Bill) {
        let metrics = &self.gateway.metrics;
        metrics.spend.inc_by(bill.cost);
        for (kind, tokens) in
            [("input", bill.input), ("cached_input", bill.cached), ("output", bill.output)]
        {
            if tokens > 0 {
                let labels = metrics::Tokens { model: self.facts.model.name.to_string(), kind };
                metrics.tokens.get_or_create(&labels).inc_by(tokens);
            }
        }
    }
}

impl Drop for Account {
    /// The request was dropped; the upstream may have started.
    fn drop(&mut self) {
        self.settle(End::Aborted { status: 499, outcome: gateway_body::Outcome::default() });
    }
}

impl Traced {
    /// The span of a request that never had an account.
    #[must_use]
    pub(crate) fn refused(self, status: u16, ended: ratelimit::Micros) -> traces::Span {
        let Self { context, name, began } = self;
        traces::Span {
            context,
            name,
            is_upstream: false,
            began,
            ended,
            status,
            attributes: Vec::new(),
        }
    }

    fn span(&self, entry: &Entry) -> traces::Span {
        let tokens = |count: u64| count.to_string();
        traces::Span {
            context: self.context,
            name: self.name.clone(),
            is_upstream: false,
            began: self.began,
            ended: entry.at,
            status: entry.status,
            attributes: vec![
                ("request.id", entry.request.to_string()),
                ("organization.id", entry.organization.to_string()),
                ("project.id", entry.project.to_string()),
                ("gen_ai.request.model", entry.model.to_string()),
                ("gen_ai.usage.input_tokens", tokens(entry.input_tokens)),
                ("gen_ai.usage.output_tokens", tokens(entry.output_tokens)),
            ],
        }
    }
}

/// The charge for a request.
struct Bill {
    status: u16,
    taken: Consumed,
    input: u64,
    cached: u64,
    output: u64,
    images: u64,
    audio_milliseconds: u64,
    cost: u64,
    usage_invalid: bool,
}

impl Facts {
    fn bill(&self, end: End) -> Bill {
        match end {
            End::Failed { status } => Bill::nothing(status),
            End::Served => Bill::nothing(200),
            End::Answered { status, outcome } => {
                let audio = outcome.duration_ms.filter(|_| self.demand.audio_milliseconds > 0);
                let images = outcome.data_entries.filter(|_| self.demand.images > 0);
                match outcome.usage {
                    Some(usage) => self.by_usage(status, usage, images, audio),
                    None => self.without_usage(status, &outcome, images, audio),
                }
                .with(outcome.usage_invalid)
            }
            End::Aborted { status, outcome } => match outcome.usage {
                Some(mut usage) => {
                    // Some servers report the usage so far with each event, or first the input alone.
                    let more = tokens(outcome.chars_after_usage);
                    let more = u32::try_from(more).unwrap_or(u32::MAX);
                    usage.output_tokens = usage.output_tokens.saturating_add(more);
                    usage.total_tokens = usage.total_tokens.saturating_add(more);
                    self.by_usage(status, usage, None, None)
                }
                None => self.by_received_text(status, outcome.output_chars),
            }
            .with(outcome.usage_invalid),
        }
    }

    fn by_usage(
        &self,
        status: u16,
        usage: gateway_body::Usage,
        images: Option<u64>,
        audio: Option<u64>,
    ) -> Bill {
        let (input, cached) = (usage.input_tokens.into(), usage.cached_input_tokens.into());
        let output = usage.output_tokens.into();
        let cost = self.price.map_or(0, |price| price.cost_of(input, cached, output));
        let taken = Consumed {
            tokens: Some(usage.total_tokens.into()),
            images,
            audio_milliseconds: audio,
            cost: Some(cost),
        };
        Bill {
            status,
            taken,
            input,
            cached,
            output,
            images: images.unwrap_or(self.demand.images),
            audio_milliseconds: audio.unwrap_or(self.demand.audio_milliseconds),
            cost,
            usage_invalid: false,
        }
    }

    /// Charges a complete response that reports no usage: the reservation, or what the response shows if that is
    /// more. A request that names no maximum reserves its input alone.
    fn without_usage(
        &self,
        status: u16,
        outcome: &gateway_body::Outcome,
        images: Option<u64>,
        audio: Option<u64>,
    ) -> Bill {
        let shown = self.by_received_text(status, outcome.output_chars);
        if shown.output > 0 && shown.input.saturating_add(shown.output) > self.demand.tokens {
            let taken = Consumed { images, audio_milliseconds: audio, ..shown.taken };
            let images = images.unwrap_or(shown.images);
            let audio_milliseconds = audio.unwrap_or(shown.audio_milliseconds);
            return Bill { taken, images, audio_milliseconds, ..shown };
        }
        Bill {
            status,
            taken: Consumed { images, audio_milliseconds: audio, ..Consumed::default() },
            input: self.demand.tokens,
            cached: 0,
            output: 0,
            images: images.unwrap_or(self.demand.images),
            audio_milliseconds: audio.unwrap_or(self.demand.audio_milliseconds),
            cost: self.demand.cost,
            usage_invalid: false,
        }
    }

    /// Charges the estimated input, and the output estimated from the received text in the same way. The
    /// reservation does not bound it, as it does not bound a reported usage; the request's own maximum does.
    fn by_received_text(&self, status: u16, output_chars: u64) -> Bill {
        let input = self.input_estimate;
        let output = tokens(output_chars).min(self.most_output.unwrap_or(u64::MAX));
        let cost = self.price.map_or(0, |price| price.cost_of(input, 0, output));
        let total = input.saturating_add(output);
        Bill {
            status,
            taken: Consumed { tokens: Some(total), cost: Some(cost), ..Consumed::default() },
            input,
            cached: 0,
            output,
            images: self.demand.images,
            audio_milliseconds: self.demand.audio_milliseconds,
            cost,
            usage_invalid: false,
        }
    }

    fn entry(&self, bill: &Bill, at: ratelimit::Micros) -> Entry {
        Entry {
            at,
            request: request_id(self.request).into(),
            organization: self.caller.organization.id.clone(),
            project: self.caller.project.id.clone(),
            key: self.caller.key.clone(),
            model: self.model.name.clone(),
            endpoint: self.endpoint,
            status: bill.status,
            batch: self.batch,
            input_tokens: bill.input,
            cached_tokens: bill.cached,
            output_tokens: bill.output,
            images: bill.images,
            audio_milliseconds: bill.audio_milliseconds,
            cost: bill.cost,
        }
    }
}

impl Bill {
    fn nothing(status: u16) -> Self {
        Self {
            status,
            taken: Consumed::NOTHING,
            input: 0,
            cached: 0,
            output: 0,
            images: 0,
            audio_milliseconds: 0,
            cost: 0,
            usage_invalid: false,
        }
    }

    fn with(self, usage_invalid: bool) -> Self {
        Self { usage_invalid, ..self }
    }
}

/// Estimated tokens of a text, as admission estimates those of a request.
fn tokens(chars: u64) -> u64 {
    chars.div_ceil(4)
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// `req_` and 32 hexadecimal digits.
#[must_use]
pub(crate) fn request_id(request: RequestId) -> String {
    let mut id = String::with_capacity(36);
    id.push_str("req_");
    id.extend((0..32).rev().map(|place| char::from(HEX[(request >> (4 * place)) as usize & 15])));
    id
}

#[cfg(test)]
mod tests {
    #[test]
    fn ids_are_hexadecimal() {
        let request = 0x0123_4567_89ab_cdef_0000_0000_dead_beef;
        assert_eq!(super::request_id(request), "req_0123456789abcdef00000000deadbeef");
    }
}
