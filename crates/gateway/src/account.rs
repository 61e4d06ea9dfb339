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
                    None => self.as_reserved(status, images, audio),
                }
                .with(outcome.usage_invalid)
            }
            End::Aborted { status, outcome } => match outcome.usage {
                Some(usage) => self.by_usage(status, usage, None, None),
                None => self.as_far_as_it_came(status, outcome.output_chars),
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

    /// Without usage, charges the estimate.
    fn as_reserved(&self, status: u16, images: Option<u64>, audio: Option<u64>) -> Bill {
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

    /// Charges the estimated input and the forwarded output, at most the reservation.
    fn as_far_as_it_came(&self, status: u16, output_chars: u64) -> Bill {
        let output = output_chars.div_ceil(4);
        let tokens = self.input_estimate.saturating_add(output).min(self.demand.tokens);
        let input = self.input_estimate.min(tokens);
        let cost = self.price.map_or(0, |price| price.cost_of(self.input_estimate, 0, output));
        let cost = cost.min(self.demand.cost);
        let taken = Consumed { tokens: Some(tokens), cost: Some(cost), ..Consumed::default() };
        Bill {
            status,
            taken,
            input,
            cached: 0,
            output: tokens - input,
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
