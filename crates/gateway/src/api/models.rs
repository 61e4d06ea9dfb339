//! `GET /v1/models`, and the limits of fine-tuning (specification: Endpoints, Versioning).

use std::sync::Arc;

use hyper::Response;
use hyper::header::{self, HeaderValue};
use percent_encoding::percent_decode_str;
use serde::Serialize;

use super::{Answered, Exchange};
use crate::answer::AnswerBody;
use gateway_policy::dates;
use gateway_policy::model_access;
use gateway_policy::settings::{LimitSet, Model};
use gateway_policy::tenants::Tier;

/// All models and aliases that can be used.
pub(crate) fn list(exchange: &Exchange) -> Response<AnswerBody> {
    let served = usable(exchange);
    let mut data = Vec::new();
    for model in served {
        data.push(Entry::of_model(model, &model.name));
        data.extend(model.aliases.iter().map(|alias| Entry::of_model(model, alias)));
    }
    json(&List { object: "list", data })
}

/// The models that are served, and that the caller may use.
fn usable(exchange: &Exchange) -> impl Iterator<Item = &Arc<Model>> {
    let is_usable = |model: &&Arc<Model>| {
        model.is_served(exchange.now) && model_access::may_use(&exchange.caller, model)
    };
    exchange.settings.catalog.models().filter(is_usable)
}

/// One model or alias.
pub(crate) async fn get(exchange: &mut Exchange, name: &[&str]) -> Answered {
    let name = decoded(&name.join("/"));
    let resolved = exchange.resolve_model(&name)?;
    model_access::check(&exchange.caller, &resolved.model, &resolved.name)?;
    exchange.show_limits(&resolved).await;
    Ok(json(&Entry::of_model(&resolved.model, &name)))
}

/// The same list in the form of Gemini, on one page.
pub(crate) fn list_for_gemini(exchange: &Exchange) -> Response<AnswerBody> {
    let names = |model: &Arc<Model>| {
        let aliases = model.aliases.iter().map(|alias| alias.to_string());
        let all: Vec<String> = [model.name.to_string()].into_iter().chain(aliases).collect();
        all
    };
    let entry = |model: &Arc<Model>| {
        let entries = names(model).into_iter().map(|name| GeminiEntry::of_model(model, &name));
        entries.collect::<Vec<_>>()
    };
    let models = usable(exchange).flat_map(entry).collect();
    json(&GeminiList { models })
}

/// One model or alias in the form of Gemini.
pub(crate) async fn get_for_gemini(exchange: &mut Exchange, name: &str) -> Answered {
    let name = decoded(name);
    let resolved = exchange.resolve_model(&name)?;
    model_access::check(&exchange.caller, &resolved.model, &resolved.name)?;
    exchange.show_limits(&resolved).await;
    Ok(json(&GeminiEntry::of_model(&resolved.model, &name)))
}

/// The same list in the form of Messages, on one page.
pub(crate) fn list_for_messages(exchange: &Exchange) -> Response<AnswerBody> {
    let mut data = Vec::new();
    for model in usable(exchange) {
        data.push(MessagesEntry::of_model(model, &model.name));
        data.extend(model.aliases.iter().map(|alias| MessagesEntry::of_model(model, alias)));
    }
    let (first_id, last_id) = (data.first().map(|one| one.id), data.last().map(|one| one.id));
    json(&MessagesList { has_more: false, first_id, last_id, data })
}

/// One model or alias in the form of Messages.
pub(crate) async fn get_for_messages(exchange: &mut Exchange, name: &[&str]) -> Answered {
    let name = decoded(&name.join("/"));
    let resolved = exchange.resolve_model(&name)?;
    model_access::check(&exchange.caller, &resolved.model, &resolved.name)?;
    exchange.show_limits(&resolved).await;
    Ok(json(&MessagesEntry::of_model(&resolved.model, &name)))
}

#[derive(Serialize)]
struct MessagesList<'a> {
    data: Vec<MessagesEntry<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct MessagesEntry<'a> {
    r#type: &'static str,
    id: &'a str,
    display_name: &'a str,
    /// The time of the release is unknown: the epoch, as the form has it for that.
    created_at: &'static str,
    max_tokens: u64,
}

impl<'a> MessagesEntry<'a> {
    fn of_model(model: &Model, name: &'a str) -> Self {
        Self {
            r#type: "model",
            id: name,
            display_name: name,
            created_at: "1970-01-01T00:00:00Z",
            max_tokens: model.max_output_tokens,
        }
    }
}

#[derive(Serialize)]
struct GeminiList {
    models: Vec<GeminiEntry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiEntry {
    name: String,
    display_name: String,
    output_token_limit: u64,
    supported_generation_methods: [&'static str; 2],
}

impl GeminiEntry {
    fn of_model(model: &Model, name: &str) -> Self {
        Self {
            name: format!("models/{name}"),
            display_name: name.to_owned(),
            output_token_limit: model.max_output_tokens,
            supported_generation_methods: ["generateContent", "countTokens"],
        }
    }
}

/// Decodes the percent escapes of a path segment or a query value; `+` stays unchanged.
pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[derive(Serialize)]
struct List<T> {
    object: &'static str,
    data: Vec<T>,
}

#[derive(Serialize)]
struct Entry<'a> {
    id: &'a str,
    object: &'static str,
    /// The creation time is unknown: 0.
    created: i64,
    owned_by: &'a str,
    alias_of: Option<&'a str>,
    shutdown_date: Option<&'a str>,
    deprecated_since: Option<i64>,
    successor: Option<&'a str>,
}

impl<'a> Entry<'a> {
    fn of_model(model: &'a Arc<Model>, name: &'a str) -> Self {
        let shutdown = model.shutdown.as_ref();
        Self {
            id: name,
            object: "model",
            created: 0,
            owned_by: "system",
            alias_of: (*model.name != *name).then_some(&*model.name),
            shutdown_date: shutdown.map(|shutdown| &*shutdown.date),
            deprecated_since: shutdown.map(|shutdown| dates::seconds(shutdown.deprecated_from)),
            successor: shutdown.and_then(|shutdown| shutdown.successor.as_deref()),
        }
    }
}

/// `GET /v1/fine_tuning/model_limits`: the organization's limits by model in its tier. The
/// specification leaves the shape open.
pub(crate) fn fine_tuning_limits(exchange: &Exchange) -> Response<AnswerBody> {
    let tier = exchange.caller.organization.tier;
    let data = usable(exchange).map(|model| FineTuning::of_model(model, tier)).collect();
    json(&List { object: "list", data })
}

#[derive(Serialize)]
struct FineTuning<'a> {
    object: &'static str,
    model: &'a str,
    shared_limit: Option<&'a str>,
    max_requests_per_1_minute: Option<u64>,
    max_requests_per_1_day: Option<u64>,
    max_tokens_per_1_minute: Option<u64>,
    max_tokens_per_1_day: Option<u64>,
    batch_queue_tokens: Option<u64>,
}

impl<'a> FineTuning<'a> {
    fn of_model(model: &'a Arc<Model>, tier: Tier) -> Self {
        let (own, group) = (model.limits(tier), model.group_limits(tier));
        let least = |get: fn(&LimitSet) -> Option<u64>| match (get(&own), get(&group)) {
            (Some(own), Some(group)) => Some(own.min(group)),
            (own, group) => own.or(group),
        };
        Self {
            object: "fine_tuning.model_limit",
            model: &model.name,
            shared_limit: model.shared_limit.as_deref(),
            max_requests_per_1_minute: least(|set| set.rpm),
            max_requests_per_1_day: least(|set| set.rpd),
            max_tokens_per_1_minute: least(|set| set.tpm),
            max_tokens_per_1_day: least(|set| set.tpd),
            batch_queue_tokens: least(|set| set.batch_queue_tokens),
        }
    }
}

/// A JSON response.
pub(super) fn json(value: &impl Serialize) -> Response<AnswerBody> {
    // These types have only string keys, so that encoding cannot fail.
    let body = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(AnswerBody::from(bytes::Bytes::from(body)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
