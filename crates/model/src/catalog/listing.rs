//! The answer of a provider's `/models`, and how it changes a catalog. Anything may be in an answer:
//! what is not understood is left out.

use std::collections::HashSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Catalog, Effort, Modality, ModelInfo, Text, is_same_model, names};
use crate::price::{Price, Prices};

/// Most bytes of an answer, or of one of its pages. Routers list hundreds of models with long descriptions.
pub const MAX_LISTING_BYTES: usize = 4 << 20;
/// Most models of an answer that are used.
const MAX_MODELS: usize = 2000;
/// Longest name of a model, in bytes; others are left out.
const MAX_ID: usize = 256;
/// Longest text shown to a person, in bytes; longer ones are left out.
const MAX_TEXT: usize = 4096;
/// Largest context window that is believed.
const MAX_TOKENS: u64 = 1 << 40;

/// A model that a provider reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedModel {
    pub id: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_modalities: Option<Vec<Modality>>,
    /// Efforts that it reasons with; empty for a model that does not reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efforts: Option<Vec<Text>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Arc<Prices>>,
}

impl ListedModel {
    /// A model of which only the name is known.
    #[must_use]
    pub fn named(id: &str) -> Self {
        Self {
            id: id.into(),
            display_name: None,
            description: None,
            context_window: None,
            max_output: None,
            input_modalities: None,
            efforts: None,
            prices: None,
        }
    }
}

/// The models of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    pub models: Vec<ListedModel>,
    /// Entries that are left out, without those that repeat an id.
    pub left_out: usize,
}

/// Reads an answer: an object with an array `data` or `models`, or an array, of objects with `id`.
/// Of entries with one id the first counts; entries whose id is not a name are left out.
///
/// # Errors
/// What the answer is instead.
pub fn parse_listing(body: &[u8]) -> Result<Listing, String> {
    if body.len() > MAX_LISTING_BYTES {
        return Err(format!("it has more than {MAX_LISTING_BYTES} bytes"));
    }
    let answer: Value =
        serde_json::from_slice(body).map_err(|error| format!("it is not JSON: {error}"))?;
    let entries = match &answer {
        Value::Array(entries) => Some(entries),
        Value::Object(members) => {
            members.get("data").or_else(|| members.get("models")).and_then(Value::as_array)
        }
        _ => None,
    };
    let entries = entries.ok_or("it has no array `data`")?;
    let mut ids = HashSet::new();
    let mut listing = Listing { models: Vec::new(), left_out: 0 };
    for value in entries {
        match entry(value) {
            Some(model) if ids.contains(&model.id) => {}
            Some(model) if listing.models.len() < MAX_MODELS => {
                ids.insert(model.id.clone());
                listing.models.push(model);
            }
            _ => listing.left_out += 1,
        }
    }
    if listing.models.is_empty() && !entries.is_empty() {
        return Err("no entry of its list has an `id` that is a name".to_owned());
    }
    Ok(listing)
}

impl ListedModel {
    /// Returns whether it can be shown and asked for.
    pub(super) fn has_name(&self) -> bool {
        let fits = !self.id.is_empty() && self.id.len() <= MAX_ID;
        fits && !self.id.chars().any(visible::is_hidden)
    }
}

fn entry(value: &Value) -> Option<ListedModel> {
    let text = |name: &str, max: usize| {
        let text = value.get(name)?.as_str()?;
        let fits = !text.is_empty() && text.len() <= max && !text.chars().any(char::is_control);
        fits.then(|| Text::from(visible::text(text)))
    };
    let id = Text::from(value.get("id")?.as_str()?);
    let tokens = |name: &str| {
        let tokens = value.get(name)?.as_u64()?;
        (1..=MAX_TOKENS).contains(&tokens).then_some(tokens)
    };
    let windows = ["context_window", "context_length", "max_model_len", "max_context_length"];
    let outputs = ["max_output", "max_output_tokens", "max_completion_tokens"];
    let of_router = value["top_provider"]["max_completion_tokens"].as_u64();
    let of_router = of_router.filter(|tokens| (1..=MAX_TOKENS).contains(tokens));
    let model = ListedModel {
        id,
        display_name: text("display_name", MAX_TEXT).or_else(|| text("name", MAX_TEXT)),
        description: text("description", MAX_TEXT),
        context_window: windows.into_iter().find_map(tokens),
        max_output: outputs.into_iter().find_map(tokens).or(of_router),
        input_modalities: modalities(value),
        efforts: efforts(value),
        prices: prices(&value["pricing"]).map(Arc::new),
    };
    model.has_name().then_some(model)
}

/// The kinds of input, where the answer has text among them.
fn modalities(value: &Value) -> Option<Vec<Modality>> {
    let own = value.get("input_modalities").and_then(Value::as_array);
    let kinds = own.or_else(|| value["architecture"]["input_modalities"].as_array())?;
    let has = |kind: &str| kinds.iter().any(|it| it == kind);
    let known = [("text", Modality::Text), ("image", Modality::Image)];
    let found = known.into_iter().filter(|(name, _)| has(name)).map(|(_, kind)| kind);
    has("text").then(|| found.collect())
}

/// The efforts, or those that a router with a switch for reasoning takes for every such model.
fn efforts(value: &Value) -> Option<Vec<Text>> {
    if let Some(efforts) = value.get("efforts").and_then(Value::as_array) {
        let named = efforts.iter().filter_map(Value::as_str);
        let known = named.filter(|effort| super::read::EFFORTS.contains(effort));
        return Some(known.map(Text::from).collect());
    }
    let parameters = value.get("supported_parameters")?.as_array()?;
    let reasons = parameters.iter().any(|parameter| parameter == "reasoning");
    let efforts: &[&str] = if reasons { &["low", "medium", "high"] } else { &[] };
    Some(efforts.iter().map(|effort| Text::from(*effort)).collect())
}

/// The prices of a router, in dollars for a token. A negative one stands for a price that is not fixed.
fn prices(pricing: &Value) -> Option<Prices> {
    let price = |name: &str| Price::of_token(pricing.get(name)?.as_str()?);
    Some(Prices {
        input: price("prompt")?,
        cached_input: price("input_cache_read"),
        cache_write: price("input_cache_write"),
        output: price("completion")?,
        tiers: std::collections::BTreeMap::new(),
        cache_write_1h: None,
    })
}

impl Catalog {
    /// The catalog for a provider that reports these models:
    ///
    /// - What the catalog says of a model holds, whatever the provider says of it.
    /// - A model that the provider does not report is hidden.
    /// - A model that the catalog does not have is added after the others, with what its family
    ///   provides and the name, description and context window that the provider reports. It is hidden
    ///   when the catalog knows any of the reported models: then the catalog is that of this provider,
    ///   and the rest are snapshots and models for other purposes.
    ///
    /// An empty report changes nothing.
    #[must_use]
    pub fn with_listing(&self, listed: &[ListedModel]) -> Self {
        let mut merged = self.clone();
        if listed.is_empty() {
            return merged;
        }
        let is_reported =
            |model: &ModelInfo| listed.iter().any(|other| is_same_model(&other.id, &model.id));
        let reported: Vec<bool> = self.models.iter().map(is_reported).collect();
        let is_of_provider = reported.contains(&true);
        let all_hidden = !merged.models.iter().zip(&reported).any(|(m, is)| *is && !m.hidden);
        for (model, is_reported) in merged.models.iter_mut().zip(reported) {
            // A key without any of the models for the picker still has those that it can use.
            model.hidden = !is_reported || (model.hidden && !all_hidden);
            model.is_default &= is_reported;
        }
        let known: HashSet<&str> = self.models.iter().map(|model| &*model.id).collect();
        let added = listed.iter().filter(|model| !known.contains(&*model.id)).map(|model| {
            let mut info = match self.unlisted.is_empty() {
                true => self.of_family(&model.id),
                false => self.find(&model.id),
            };
            info.hidden |= is_of_provider;
            model.write_over(&mut info);
            info
        });
        merged.models.extend(added);
        merged.choose_preferred();
        if !merged.models.iter().any(|model| model.is_default)
            && let Some(first) = merged.models.iter_mut().find(|model| !model.hidden)
        {
            first.is_default = true;
        }
        merged
    }
}

impl Catalog {
    /// Makes the best of the preferred models the default one.
    fn choose_preferred(&mut self) {
        if self.models.iter().any(|model| model.is_default) {
            return;
        }
        let matching = |pattern: &Text| {
            let mut models = self.models.iter();
            models.position(|model| !model.hidden && names::matches(pattern, &model.id))
        };
        if let Some(best) = self.preferred.iter().find_map(matching) {
            self.models[best].is_default = true;
        }
    }
}

impl ListedModel {
    /// Writes the reported facts over those that are known of the model. Facts with prices are those of this very
    /// provider, and hold.
    fn write_over(&self, info: &mut ModelInfo) {
        info.display_name = self.display_name.clone().unwrap_or(info.display_name.clone());
        info.description = self.description.clone().unwrap_or(info.description.clone());
        if info.prices.is_some() {
            return;
        }
        if let Some(window) = self.context_window {
            info.context_window = window;
            info.max_output = info.max_output.min(window / 4).max(1);
        }
        if let Some(output) = self.max_output {
            // Some state the window as the longest output, too.
            info.max_output = output.min((info.context_window / 2).max(1));
        }
        if let Some(modalities) = &self.input_modalities {
            info.input_modalities = modalities.as_slice().into();
        }
        if let Some(efforts) = &self.efforts {
            info.supports_reasoning = !efforts.is_empty();
            let described = |effort: &Text| {
                let mut known = info.supported_efforts.iter();
                let known = known.find(|option| option.effort == *effort).cloned();
                let new = || Effort { effort: effort.clone(), description: Text::default() };
                known.unwrap_or_else(new)
            };
            info.supported_efforts = efforts.iter().map(described).collect();
            if !efforts.contains(&info.default_effort) {
                let medium = efforts.iter().find(|effort| &***effort == "medium");
                info.default_effort = medium.or(efforts.first()).cloned().unwrap_or_default();
            }
        }
        info.prices.clone_from(&self.prices);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(body: &str) -> Vec<String> {
        let models = parse_listing(body.as_bytes()).unwrap().models;
        models.iter().map(|model| model.id.to_string()).collect()
    }

    fn listed(ids: &[&str]) -> Vec<ListedModel> {
        ids.iter().map(|id| ListedModel::named(id)).collect()
    }

    #[test]
    fn answers_of_several_forms_are_read_and_odd_entries_left_out() {
        assert_eq!(
            ids(r#"{"object":"list","data":[{"id":"a"},{"id":"b"},{"id":"a"}]}"#),
            ["a", "b"]
        );
        assert_eq!(ids(r#"{"models":[{"id":"a"}]}"#), ["a"]);
        assert_eq!(ids(r#"[{"id":"a"}]"#), ["a"]);
        assert_eq!(ids(r#"{"data":[]}"#), [""; 0]);
        assert_eq!(
            ids(r#"{"data":[null,1,"x",[],{},{"id":1},{"id":""},{"id":"a\nb"},{"id":"ok"}]}"#),
            ["ok"]
        );
        let model = &parse_listing(
            br#"[{"id":"m","name":"M","description":5,"context_length":"8","max_model_len":8192}]"#,
        )
        .unwrap()
        .models[0];
        assert_eq!((model.display_name.as_deref(), model.context_window), (Some("M"), Some(8192)));
        let many: Vec<Value> =
            (0..5000).map(|n| serde_json::json!({ "id": n.to_string() })).collect();
        let many = parse_listing(Value::from(many).to_string().as_bytes()).unwrap();
        assert_eq!((many.models.len(), many.left_out), (2000, 3000));
    }

    #[test]
    fn entries_without_a_name_that_can_be_shown_are_counted_and_texts_are_made_visible() {
        let body =
            r#"[{"id":"a","name":"A\u202eB"},{"id":"a"},{"id":"b\u202ec"},{"id":"d\u200b"},5]"#;
        let listing = parse_listing(body.as_bytes()).unwrap();
        let names: Vec<_> =
            listing.models.iter().map(|m| (&*m.id, m.display_name.as_deref())).collect();
        assert_eq!(names, [("a", Some(r"A\u{202e}B"))]);
        assert_eq!(listing.left_out, 3);
    }

    #[test]
    fn what_is_no_list_says_so() {
        let check = |body: &[u8], part: &str| {
            let error = parse_listing(body).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(b"", "not JSON");
        check(b"<!doctype html><html>", "not JSON");
        check(b"{\"data\":[{\"id\":\"a\"}", "not JSON");
        check(b"null", "no array");
        check(b"{\"data\":{}}", "no array");
        check(b"{\"error\":{}}", "no array");
        check(b"{\"data\":[1]}", "no entry");
        check(&vec![b' '; 10 << 20], "more than");
        check("[".repeat(100_000).as_bytes(), "not JSON");
    }

    #[test]
    fn the_catalog_decides_about_a_model_that_both_know() {
        let hosted = Catalog::hosted();
        let report = listed(&["gpt-5.2-2025-12-11", "gpt-5-mini", "o3", "whisper-1"]);
        let merged = hosted.with_listing(&report);
        let model = |id: &str| merged.models().iter().find(|model| &*model.id == id).unwrap();
        assert!(model("gpt-5.2-codex").hidden && !model("gpt-5.2-codex").is_default);
        assert!(!model("gpt-5.2").hidden && model("gpt-5.2").is_default);
        assert_eq!(
            *model("gpt-5-mini"),
            *hosted.models().iter().find(|m| &*m.id == "gpt-5-mini").unwrap()
        );
        assert!(model("o3").hidden, "as in the catalog");
        assert!(model("whisper-1").hidden && !model("whisper-1").is_known);
        assert_eq!(&*merged.default_model().unwrap().id, "gpt-5.2");
        assert_eq!(merged.models().iter().filter(|model| model.is_default).count(), 1);
        let only_old = hosted.with_listing(&listed(&["o3", "x"]));
        assert_eq!(&*only_old.default_model().unwrap().id, "o3");
        assert_eq!(hosted.with_listing(&[]), *hosted);
    }

    #[test]
    fn another_providers_models_replace_those_of_the_catalog() {
        let mut report = listed(&["qwen", "gpt-oss:20b"]);
        report[0].context_window = Some(8000);
        let merged = Catalog::hosted().with_listing(&report);
        let visible: Vec<&str> =
            merged.models().iter().filter(|m| !m.hidden).map(|m| &*m.id).collect();
        assert_eq!(visible, ["qwen", "gpt-oss:20b"]);
        let qwen = merged.find("qwen");
        assert_eq!((qwen.context_window, qwen.max_output, qwen.is_known), (8000, 2000, false));
        assert_eq!(merged.find("gpt-oss:20b").family.as_deref(), Some("gpt-oss"));
        assert_eq!(&*merged.default_model().unwrap().id, "qwen");
    }

    #[test]
    fn models_of_the_catalog_are_listed_for_another_provider_only_when_it_reports_them() {
        let elsewhere = Catalog::hosted().without_prices().without_listing();
        assert!(elsewhere.models().is_empty() && elsewhere.default_model().is_none());
        let known = Catalog::hosted().find("gpt-5-mini");
        let found = elsewhere.find("gpt-5-mini");
        assert_eq!((found.context_window, found.is_known), (known.context_window, true));
        assert!(!elsewhere.find("qwen").is_known);
        let merged = elsewhere.with_listing(&listed(&["qwen", "gpt-5-mini"]));
        let all: Vec<(&str, bool)> =
            merged.models().iter().map(|model| (&*model.id, model.hidden)).collect();
        assert_eq!(all, [("qwen", false), ("gpt-5-mini", false)]);
        assert_eq!(merged.find("gpt-5-mini").context_window, known.context_window);
        assert_eq!(&*merged.default_model().unwrap().id, "qwen");
        let own = elsewhere.with_listing(&[ListedModel::named("gpt-5-mini")]);
        assert_eq!(own.models().len(), 1);
        assert_eq!(own.models()[0].supported_efforts, known.supported_efforts);
    }

    #[test]
    fn a_routers_list_has_windows_prices_and_kinds_of_input() {
        let body = serde_json::json!({ "data": [
            { "id": "z-ai/glm-9", "name": "GLM 9", "context_length": 200_000,
              "architecture": { "input_modalities": ["text"] },
              "pricing": { "prompt": "0.0000006", "completion": "0.0000022", "input_cache_read": "0.00000011" },
              "top_provider": { "max_completion_tokens": 65_536 },
              "supported_parameters": ["tools", "reasoning"] },
            { "id": "auto", "pricing": { "prompt": "-1", "completion": "-1" },
              "architecture": { "input_modalities": ["image"] }, "supported_parameters": [] },
            { "id": "anthropic/claude-opus-4.6", "context_length": 1_000_000, "pricing": {} } ] });
        let listing = parse_listing(body.to_string().as_bytes()).unwrap();
        let merged = Catalog::of_host("openrouter.ai").with_listing(&listing.models);
        let glm = merged.find("z-ai/glm-9");
        assert_eq!((glm.context_window, glm.max_output), (200_000, 65_536));
        assert!(!glm.accepts_images() && glm.supports_reasoning);
        let efforts: Vec<&str> = glm.supported_efforts.iter().map(|it| &*it.effort).collect();
        assert_eq!((efforts, &*glm.default_effort), (vec!["low", "medium", "high"], "high"));
        let prices = glm.prices.unwrap();
        assert_eq!(
            (prices.input.to_string(), prices.output.to_string()),
            ("0.6".into(), "2.2".into())
        );
        assert_eq!(prices.cached_input.unwrap().to_string(), "0.11");
        let auto = merged.find("auto");
        assert_eq!((auto.prices.clone(), auto.accepts_images()), (None, true));
        assert!(!auto.supports_reasoning);
        assert_eq!(merged.find("anthropic/claude-opus-4.6").supported_efforts.len(), 3);
    }

    #[test]
    fn a_window_with_a_price_is_not_widened_by_the_list() {
        let mut listed = listed(&["claude-haiku-5-5", "claude-opus-9"]);
        for model in &mut listed {
            (model.context_window, model.max_output) = (Some(2_000_000), Some(200_000));
            model.efforts = Some(vec!["low".into(), "xhigh".into()]);
        }
        let merged = Catalog::of_host("api.anthropic.com").with_listing(&listed);
        let haiku = merged.find("claude-haiku-5-5");
        assert_eq!((haiku.context_window, haiku.max_input()), (228_000, 100_000));
        let new = merged.find("claude-opus-9");
        assert_eq!((new.context_window, new.max_output, new.prices), (2_000_000, 200_000, None));
        assert_eq!((new.supported_efforts.len(), &*new.default_effort), (2, "low"));
    }

    proptest! {
        #[test]
        fn no_answer_panics(body in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(listing) = parse_listing(&body) {
                let _ = Catalog::hosted().with_listing(&listing.models);
            }
        }

        #[test]
        fn any_report_leaves_one_default(ids in prop::collection::vec("[a-z0-9.-]{1,12}", 1..20)) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let merged = Catalog::hosted().with_listing(&listed(&ids));
            let visible = merged.models().iter().filter(|model| !model.hidden);
            prop_assert!(visible.count() > 0);
            prop_assert_eq!(merged.models().iter().filter(|model| model.is_default).count(), 1);
        }
    }
}
