//! Makers of models other than the default provider: their APIs, the variables of their keys, and the facts about their
//! models. They are data, `makers/*.json`, which is read when a provider other than the default one is first used.
//! Prices hold at the maker's own hosts only.

use std::sync::{Arc, LazyLock, OnceLock};

use serde::{Deserialize, Deserializer, de};
use wire::Wire;

use super::entry::Entry;
use super::read::resolved_all;
use super::{Catalog, Text};

const FILES: [&str; 8] = [
    include_str!("makers/claude.json"),
    include_str!("makers/gemini.json"),
    include_str!("makers/openrouter.json"),
    include_str!("makers/deepseek.json"),
    include_str!("makers/glm.json"),
    include_str!("makers/kimi.json"),
    include_str!("makers/mistral.json"),
    include_str!("makers/open_weights.json"),
];

/// A maker of models, or a router of requests to many.
#[derive(Debug)]
pub struct Maker {
    /// For people.
    pub name: Text,
    /// The day for which the source confirms the prices: `2026-10-24`.
    pub checked: Text,
    /// The page with the prices.
    pub source: Text,
    /// `None` for models that others serve.
    pub api: Option<MakerApi>,
    /// Its families and models alone.
    own: Catalog,
    /// The catalog of its API.
    complete: OnceLock<Arc<Catalog>>,
}

/// A maker's own API.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakerApi {
    /// Id of the provider that is made for it.
    pub provider: Text,
    pub base_url: Text,
    #[serde(deserialize_with = "wire_of_name")]
    pub wire_api: Wire,
    /// Environment variables that hold its key; the first one that is set applies.
    pub env_keys: Vec<Text>,
    pub hosts: Vec<Text>,
    /// Patterns of models for a first start, the best one first: cheap ones that work with tools.
    pub preferred: Vec<Text>,
}

/// All makers, in the order in which they are offered.
#[must_use]
pub fn makers() -> &'static [Maker] {
    static MAKERS: LazyLock<Vec<Maker>> =
        LazyLock::new(|| FILES.map(|file| read(file).expect("a test reads the makers")).into());
    &MAKERS
}

/// The maker whose API has this host.
#[must_use]
pub fn maker_of_host(host: &str) -> Option<&'static Maker> {
    makers().iter().find(|maker| maker.has_host(host))
}

impl Maker {
    /// The models of which facts are known, the latest first.
    #[must_use]
    pub fn models(&self) -> &[super::ModelInfo] {
        &self.own.models
    }

    fn has_host(&self, host: &str) -> bool {
        let mut hosts = self.api.iter().flat_map(|api| &api.hosts);
        hosts.any(|known| known.eq_ignore_ascii_case(host))
    }
}

impl Catalog {
    /// The facts for a provider at this host, of which it is not known yet what models it has: none is listed. The
    /// prices are those of the host's own maker.
    #[must_use]
    pub fn of_host(host: &str) -> Arc<Self> {
        static OTHERS: OnceLock<Arc<Catalog>> = OnceLock::new();
        let maker = maker_of_host(host);
        let complete = maker.map_or(&OTHERS, |maker| &maker.complete);
        complete.get_or_init(|| Arc::new(complete_catalog(maker))).clone()
    }
}

/// The facts of all makers, with those of `first` before the others, and its prices.
fn complete_catalog(first: Option<&Maker>) -> Catalog {
    let is_first = |maker: &Maker| first.is_some_and(|first| std::ptr::eq(first, maker));
    let own = first.map(|maker| maker.own.clone());
    let others = makers().iter().filter(|maker| !is_first(maker));
    let others = others.map(|maker| maker.own.without_prices());
    let hosted = Catalog::hosted().without_prices();
    let mut catalog = Catalog { families: Vec::new(), ..Catalog::empty() };
    for one in own.into_iter().chain(std::iter::once(hosted)).chain(others) {
        let one = one.without_listing();
        catalog.families.extend(one.families);
        catalog.unlisted.extend(one.unlisted);
    }
    let api = first.and_then(|maker| maker.api.as_ref());
    catalog.preferred = api.map(|api| api.preferred.clone().into()).unwrap_or_default();
    catalog
}

fn read(file: &str) -> Result<Maker, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        name: Text,
        checked: Text,
        source: Text,
        #[serde(default)]
        api: Option<MakerApi>,
        families: Vec<Entry>,
        models: Vec<Entry>,
    }
    let File { name, checked, source, api, families, models } =
        serde_json::from_str(file).map_err(|error| error.to_string())?;
    let own = resolved_all(models, families, Vec::new())?;
    Ok(Maker { name, checked, source, api, own, complete: OnceLock::new() })
}

fn wire_of_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wire, D::Error> {
    let name = String::deserialize(deserializer)?;
    Wire::from_name(&name).ok_or_else(|| de::Error::custom(format!("there is no wire `{name}`")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use wire::Target;

    use super::*;
    use crate::catalog::ListedModel;

    /// `2026-10-24`, of a month and a day that exist.
    fn is_date(text: &str) -> bool {
        let parts: Vec<u32> = text.split('-').filter_map(|part| part.parse().ok()).collect();
        let [year, month, day] = parts[..] else { return false };
        text.len() == 10
            && (2026..2100).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day)
    }

    #[test]
    fn every_file_of_a_maker_is_read_with_a_date_a_source_and_no_duplicates() {
        for file in FILES {
            read(file).unwrap_or_else(|error| panic!("{error}: {file}"));
        }
        let (mut ids, mut hosts, mut providers) = (HashSet::new(), HashSet::new(), HashSet::new());
        let (mut families, mut variables) = (HashSet::new(), HashSet::new());
        for maker in makers() {
            assert!(is_date(&maker.checked), "{}: {}", maker.name, maker.checked);
            assert!(maker.source.starts_with("https://"), "{}", maker.source);
            for family in &maker.own.families {
                assert!(families.insert(family.0.id.clone()), "{}", family.0.id);
                assert!(!family.0.names.is_empty(), "{}", family.0.id);
            }
            for model in maker.models() {
                assert!(ids.insert(model.id.clone()), "{}", model.id);
                assert!(model.is_known && model.family.is_some(), "{}", model.id);
                let prices = model.prices.as_ref().unwrap();
                let cached = prices.cached_input.unwrap_or(prices.input);
                assert!(cached <= prices.input && prices.input <= prices.output, "{}", model.id);
                let write = prices.cache_write.unwrap_or(prices.input);
                assert!(write >= prices.input, "{}", model.id);
            }
            let Some(api) = &maker.api else { continue };
            assert!(providers.insert(api.provider.clone()));
            assert!(api.hosts.iter().all(|host| hosts.insert(host.clone())), "{:?}", api.hosts);
            assert!(api.env_keys.iter().all(|name| variables.insert(name.clone())));
            assert!(!api.env_keys.is_empty() && !api.preferred.is_empty());
            assert_eq!(crate::wire_of_address(&api.base_url), api.wire_api);
            assert!(api.hosts.iter().any(|host| api.base_url.contains(&**host)));
        }
    }

    /// The limit that the wire writes into a request is the one that the catalog leaves room for.
    #[test]
    fn the_output_limit_of_claude_is_that_of_its_wire() {
        let catalog = Catalog::of_host("api.anthropic.com");
        let older = ["claude-3-5-haiku-20241022", "claude-opus-4-1", "claude-3-haiku-20240307"];
        let ids = maker_of_host("api.anthropic.com").unwrap().models().iter().map(|it| &*it.id);
        for id in ids.chain(older).chain(["claude-sonnet-4-20250514", "claude-opus-9"]) {
            let target = Target::of_server(Wire::Messages, "p", "api.anthropic.com", id);
            assert_eq!(target.max_output, Some(catalog.find(id).max_output), "{id}");
        }
    }

    #[test]
    fn prices_hold_at_the_makers_host_only() {
        let own = Catalog::of_host("api.anthropic.com");
        assert!(own.find("claude-haiku-4-5-20251001").prices.is_some());
        assert_eq!(own.find("gpt-5.2").prices, None);
        for host in ["openrouter.ai", "llm.example.com", "api.deepseek.com"] {
            let elsewhere = Catalog::of_host(host);
            assert_eq!(elsewhere.find("claude-haiku-4-5-20251001").prices, None, "{host}");
            let model = elsewhere.find("anthropic/claude-opus-4.6");
            assert_eq!((model.context_window, model.is_known), (1_000_000, true), "{host}");
            assert!(elsewhere.models().is_empty());
        }
        assert!(!own.find("acme-1").is_known);
        // As Bedrock and Vertex name them.
        for id in [
            "us.anthropic.claude-opus-4-6-v1",
            "anthropic.claude-opus-4-6-v1:0",
            "arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-opus-4-6-v1",
            "claude-opus-4-6@20260205",
        ] {
            let model = Catalog::of_host("bedrock-runtime.us-east-1.amazonaws.com").find(id);
            assert_eq!((model.context_window, model.is_known), (1_000_000, true), "{id}");
        }
    }

    #[test]
    fn a_first_start_has_a_cheap_model_of_those_that_the_provider_lists() {
        let check = |host: &str, ids: &[&str], expect: &str| {
            let listed: Vec<ListedModel> = ids.iter().map(|id| ListedModel::named(id)).collect();
            let merged = Catalog::of_host(host).with_listing(&listed);
            assert_eq!(&*merged.default_model().unwrap().id, expect, "{host}");
            assert_eq!(merged.models().iter().filter(|model| model.is_default).count(), 1);
        };
        check(
            "api.anthropic.com",
            &["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-4-5-20251001"],
            "claude-haiku-4-5-20251001",
        );
        check("api.anthropic.com", &["claude-opus-7", "claude-sonnet-7"], "claude-sonnet-7");
        check(
            "generativelanguage.googleapis.com",
            &["gemini-3.1-pro-preview", "gemini-3.8-flash-tts", "gemini-3.5-flash"],
            "gemini-3.5-flash",
        );
        check("openrouter.ai", &["a/b", "z-ai/glm-4.7"], "z-ai/glm-4.7");
        check("openrouter.ai", &["a/b", "c/d"], "a/b");
        check("llm.example.com", &["first", "claude-haiku-4-5"], "first");
    }

    #[test]
    fn models_for_other_purposes_are_hidden() {
        let listed = ["gemini-3.8-flash", "gemini-2.5-flash-image", "imagen-4.0-generate-001"];
        let listed = listed.map(ListedModel::named);
        let merged = Catalog::of_host("generativelanguage.googleapis.com").with_listing(&listed);
        let visible = merged.models().iter().filter(|model| !model.hidden);
        assert_eq!(visible.map(|model| &*model.id).collect::<Vec<_>>(), ["gemini-3.8-flash"]);
    }
}
