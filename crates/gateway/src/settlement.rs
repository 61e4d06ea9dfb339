//! The traces of every settlement: the entry of the ledger, the metrics, and a line in the log about a bad end.

use gateway_store::journal::Figures;
use gateway_store::ledger::{Ended, Endpoint, Entry};

use crate::bill::{Bill, End};
use crate::metrics::{self, Metrics};

/// Where a request came from, and what served it.
pub(crate) struct Origin {
    /// `req_…`.
    pub(crate) request: Box<str>,
    /// `org-…`.
    pub(crate) organization: Box<str>,
    /// `proj_…`.
    pub(crate) project: Box<str>,
    /// `key_…`.
    pub(crate) key: Box<str>,
    /// The model.
    pub(crate) model: Box<str>,
    /// The label of the backend.
    pub(crate) backend: Box<str>,
    /// The usage page that counts it.
    pub(crate) endpoint: Endpoint,
    /// True if it is a line of a batch.
    pub(crate) batch: bool,
}

impl Origin {
    /// The entry of the ledger.
    pub(crate) fn entry(self, end: &End, bill: &Bill, at: ratelimit::Micros) -> Entry {
        let used = &bill.used;
        Entry {
            at,
            request: self.request,
            organization: self.organization,
            project: self.project,
            key: self.key,
            model: self.model,
            backend: self.backend,
            endpoint: self.endpoint,
            status: end.status,
            ended: end.ended,
            batch: self.batch,
            input_tokens: used.input,
            cached_tokens: used.cached,
            cache_write_tokens: used.cache_write,
            cache_write_1h_tokens: used.cache_write_1h,
            output_tokens: used.output,
            web_searches: used.web_searches(),
            images: used.images,
            audio_milliseconds: used.audio_milliseconds,
            cost: bill.cost,
        }
    }
}

/// The figures of a request that would end like this, for the journal. `held` is what it has reserved of the limits of spend.
pub(crate) fn figures(end: &End, bill: &Bill, at: ratelimit::Micros, held: u64) -> Figures {
    let used = &bill.used;
    Figures {
        at,
        status: end.status,
        ended: end.ended,
        input_tokens: used.input,
        cached_tokens: used.cached,
        cache_write_tokens: used.cache_write,
        cache_write_1h_tokens: used.cache_write_1h,
        output_tokens: used.output,
        web_searches: used.web_searches(),
        images: used.images,
        audio_milliseconds: used.audio_milliseconds,
        cost: bill.cost,
        held,
    }
}

/// Counts what a request used.
pub(crate) fn count(metrics: &Metrics, entry: &Entry, bill: &Bill) {
    if bill.usage_invalid {
        metrics.usage_invalid.inc();
    }
    metrics.spend.inc_by(entry.cost);
    let kinds = [
        ("input", entry.input_tokens),
        ("cached_input", entry.cached_tokens),
        ("cache_write", entry.cache_write_tokens + entry.cache_write_1h_tokens),
        ("output", entry.output_tokens),
    ];
    metrics.projects.count(entry, &kinds);
    for (kind, tokens) in kinds {
        if tokens > 0 {
            let labels = metrics::Tokens { model: entry.model.to_string(), kind };
            metrics.tokens.get_or_create(&labels).inc_by(tokens);
        }
    }
}

/// One line for each request that ended badly. The upstream is named where no backend got the request.
pub(crate) fn log(entry: &Entry, upstream: &str, end: &End) {
    let cause = end.cause.as_deref().unwrap_or("it refused the request");
    let upstream = if entry.backend.is_empty() { upstream } else { &entry.backend };
    let cause = match end.ended {
        Ended::ClientGone | Ended::Drained => format!("{cause} while upstream {upstream} answered"),
        _ => format!("upstream {upstream}: {cause}"),
    };
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                request = %entry.request,
                organization = %entry.organization,
                project = %entry.project,
                key = %entry.key,
                model = %entry.model,
                status = end.status,
                ended = end.ended.name(),
                input_tokens = entry.input_tokens,
                output_tokens = entry.output_tokens,
                cost_microdollars = entry.cost,
                "{cause}"
            )
        };
    }
    match end.ended {
        Ended::Complete => {}
        Ended::ClientGone | Ended::Drained => line!(info),
        // The upstream's refusal of a bad request is its client's affair.
        Ended::Failed if (400..429).contains(&end.status) => line!(debug),
        _ => line!(warn),
    }
}
