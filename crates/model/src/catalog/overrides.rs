//! The user's own facts about single models, in place of those of the catalog and of the provider's list (the member
//! `overrides` of `model_catalog_json`).

use super::Catalog;
use super::entry::Overrides;

impl Catalog {
    /// This catalog of a provider with the user's facts in place of its own.
    #[must_use]
    pub fn with_overrides(&self, overrides: &Overrides, provider: &str) -> Self {
        let mut catalog = self.clone();
        catalog.overrides = overrides.of_provider(provider);
        let was_default: Vec<bool> = catalog.models.iter().map(|model| model.is_default).collect();
        let Self { models, unlisted, overrides, .. } = &mut catalog;
        models.iter_mut().chain(unlisted).for_each(|model| overrides.apply(model));
        // The user's default is the only one.
        let chosen = models.iter().zip(was_default).position(|(it, was)| it.is_default && !was);
        if let Some(chosen) = chosen {
            for (at, model) in models.iter_mut().enumerate() {
                model.is_default = at == chosen;
            }
        }
        catalog
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{CatalogFile, ListedModel, parse_file};

    fn overrides(json: &str) -> Overrides {
        match parse_file(json) {
            Ok(CatalogFile::Overrides(overrides)) => overrides,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_users_facts_come_before_those_of_the_catalog_and_the_provider() {
        let own = overrides(
            r#"{"overrides": [
                {"id": "claude-*", "max_image_side": 900},
                {"id": "claude-haiku-5-5", "context_window": 1000000,
                 "prices": {"input": "0.5", "output": "2.5"}},
                {"id": "acme-*", "supported_efforts": [{"effort": "low", "description": ""}]},
                {"id": "claude-haiku-5-5", "provider": "other", "context_window": 9}]}"#,
        );
        let mut listed = ["claude-haiku-5-5", "acme-1", "acme-2"].map(ListedModel::named);
        listed[1].context_window = Some(5000);
        let catalog = Catalog::of_host("api.anthropic.com").with_listing(&listed);
        let catalog = catalog.with_overrides(&own, "anthropic");
        let haiku = catalog.find("claude-haiku-5-5");
        assert_eq!((haiku.context_window, haiku.max_output), (1_000_000, 128_000));
        assert_eq!(haiku.prices.unwrap().input.to_string(), "0.5");
        assert_eq!(haiku.max_image_side, Some(900));
        // Members that no override names stay.
        assert_eq!(haiku.supported_efforts.len(), 4);
        let acme = catalog.find("acme-1");
        assert_eq!((acme.context_window, acme.is_known), (5000, true));
        assert!(acme.supports_reasoning && &*acme.default_effort == "low");
        // A name that is on no list.
        assert!(catalog.find("router/acme-9").supports_reasoning);
        assert!(!catalog.find("absent-1").is_known);
        assert_eq!(catalog.find("claude-haiku-5-5-20261007").context_window, 1_000_000);
    }

    /// The limit that the user states is asked for on every wire; those of the built-in facts are not.
    #[test]
    fn a_limit_of_the_output_is_the_users() {
        let limits = |catalog: &Catalog, id: &str| {
            let info = catalog.find(id);
            (info.max_output, info.output_limit)
        };
        let known = Catalog::of_host("api.anthropic.com");
        assert_eq!(limits(&known, "claude-haiku-5-5"), (128_000, None));
        assert_eq!(limits(&known, "nobody"), (16_384, None));
        let own = overrides(
            r#"{"overrides": [{"id": "claude-*", "max_output": 32000},
                {"id": "small-*", "context_window": 8000, "max_output": 9000}]}"#,
        );
        let own = known.with_overrides(&own, "anthropic");
        assert_eq!(limits(&own, "claude-haiku-5-5"), (32_000, Some(32_000)));
        assert_eq!(limits(&own, "claude-haiku-5-5-20261007"), (32_000, Some(32_000)));
        // There is room for the input.
        assert_eq!(limits(&own, "small-1"), (2000, Some(2000)));
        let whole = r#"{"families": [{"id": "f", "names": ["m*"], "max_output": 7000}],
            "models": [{"id": "m1"}, {"id": "m2", "max_output": 5}, {"id": "x"}, {"id": "gpt-5-mini"}]}"#;
        let CatalogFile::Whole(whole) = parse_file(whole).unwrap() else { panic!() };
        assert_eq!(limits(&whole, "m1"), (7000, Some(7000)));
        assert_eq!(limits(&whole, "m2"), (5, Some(5)));
        assert_eq!(limits(&whole, "m3"), (7000, Some(7000)));
        assert_eq!(limits(&whole, "x"), (16_384, None));
        assert_eq!(limits(&whole, "gpt-5-mini"), (128_000, None));
        let hosted = Catalog::hosted();
        assert!(hosted.models().iter().all(|model| model.output_limit.is_none()));
    }

    #[test]
    fn a_default_of_the_user_is_the_only_one() {
        let own = overrides(r#"{"overrides": [{"id": "gpt-5-mini", "is_default": true}]}"#);
        let catalog = Catalog::hosted().with_overrides(&own, "default");
        assert_eq!(&*catalog.default_model().unwrap().id, "gpt-5-mini");
        assert_eq!(catalog.models().iter().filter(|model| model.is_default).count(), 1);
    }

    #[test]
    fn an_override_that_cannot_be_used_says_why() {
        let check = |json: &str, part: &str| {
            let error = parse_file(json).err().unwrap();
            assert!(error.contains(part), "{json}: {error}");
        };
        check(r#"{"overrides": []}"#, "no `models`");
        check(r#"{"overrides": [{}]}"#, "no `id`");
        check(r#"{"overrides": [{"id": "m", "family": "gpt"}]}"#, "override `m`");
        check(r#"{"overrides": [{"id": "m", "context_window": 0}]}"#, "context_window");
        check(r#"{"overrides": [{"id": "m", "prices": {"input": "-1", "output": 1}}]}"#, "decimal");
        check(r#"{"overrides": [{"id": "m"}], "models": [{"id": "m"}]}"#, "and `overrides`");
        check(r#"{"models": [{"id": "m", "provider": "p"}]}"#, "only overrides");
    }
}
