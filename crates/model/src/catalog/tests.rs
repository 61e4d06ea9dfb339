use proptest::prelude::*;

use super::*;

#[test]
fn built_in_catalogs_are_consistent() {
    for catalog in [Catalog::hosted(), Catalog::offline()] {
        let models = catalog.models();
        assert_eq!(models.iter().filter(|model| model.is_default).count(), 1);
        for model in models {
            let efforts = &model.supported_efforts;
            assert!(model.is_known && model.family.is_some(), "{}", model.id);
            assert_eq!(model.supports_reasoning, !efforts.is_empty(), "{}", model.id);
            let has_default = efforts.iter().any(|option| option.effort == model.default_effort);
            assert!(efforts.is_empty() || has_default, "{}", model.id);
            assert!(model.prices.is_some(), "{}", model.id);
            let upgrade = model.upgrade.as_ref();
            assert!(upgrade.is_none_or(|id| models.iter().any(|other| other.id == *id)));
            // The row of the family that a model names is also the one that its name leads to.
            let by_name = catalog.of_family(&model.id);
            let scripted = model.family.as_deref() == Some("scripted");
            assert!(scripted || by_name.family == model.family, "{}", model.id);
        }
    }
}

#[test]
fn a_list_of_models_of_another_agent_is_read() {
    let text = r#"{ "models": [
        { "slug": "later", "display_name": "Later", "priority": 2, "visibility": "hide", "description": null },
        { "slug": "first", "display_name": "First", "description": "Fast", "priority": 1, "visibility": "list",
          "default_reasoning_level": "medium", "supports_reasoning_summaries": true,
          "supported_reasoning_levels": [
            { "effort": "low", "description": "Less" }, { "effort": "medium", "description": "Some" },
            { "effort": "ultra", "description": "All" } ],
          "shell_type": "shell_command", "minimal_client_version": "0.98.0", "supported_in_api": true,
          "base_instructions": "You are.", "support_verbosity": true, "default_verbosity": "low",
          "apply_patch_tool_type": "freeform", "context_window": 272000, "upgrade": null,
          "truncation_policy": { "mode": "tokens", "limit": 10000 }, "supports_parallel_tool_calls": false,
          "input_modalities": ["text", "image", "audio"], "experimental_supported_tools": [] }
    ] }"#;
    let catalog = parse(text).unwrap();
    let ids: Vec<&str> = catalog.models().iter().map(|model| &*model.id).collect();
    assert_eq!(ids, ["first", "later"]);
    let [first, later] = catalog.models() else { panic!("{ids:?}") };
    assert_eq!((&*first.display_name, &*first.description), ("First", "Fast"));
    assert_eq!((first.context_window, first.supports_parallel_tool_calls), (272_000, false));
    let efforts: Vec<&str> = first.supported_efforts.iter().map(|it| &*it.effort).collect();
    assert_eq!((efforts, &*first.default_effort), (vec!["low", "medium"], "medium"));
    assert_eq!((first.patch_tool, first.supports_verbosity), (PatchTool::Custom, true));
    assert_eq!(first.instructions.as_deref(), Some("You are."));
    assert_eq!(first.input_modalities.len(), 2);
    assert!(!first.hidden && later.hidden);
    let small =
        r#"{"models":[{"slug":"llama3","context_window":8192,"supported_reasoning_levels":[]}]}"#;
    let small = parse(small).unwrap();
    assert_eq!((small.models()[0].max_output, small.models()[0].max_input()), (2048, 6144));
    // A mistake is named as in any catalog.
    let mixed = r#"[{ "slug": "a" }, { "id": "b" }]"#;
    assert!(parse(mixed).unwrap_err().contains("unknown field `slug`"));
    assert!(parse(r#"[{ "slug": "a" }, { "slug": "a" }]"#).is_err());
}

#[test]
fn names_on_no_list_get_the_row_of_their_family() {
    let check = |id: &str, family: Option<&str>, window: u64, reasoning: bool, patch: PatchTool| {
        let catalog = if id.starts_with('/') { Catalog::offline() } else { Catalog::hosted() };
        let model = catalog.find(id);
        assert_eq!(&*model.id, id);
        assert!(!model.is_default && !model.hidden && model.upgrade.is_none());
        assert_eq!((model.family.as_deref(), model.is_known), (family, family.is_some()), "{id}");
        let found = (model.context_window, model.supports_reasoning, model.patch_tool);
        assert_eq!(found, (window, reasoning, patch), "{id}");
    };
    use PatchTool::{Custom, Function};
    check("gpt-5-mini-2025-08-07", Some("gpt"), 400_000, true, Custom);
    check("router/gpt-5.1", Some("gpt"), 400_000, true, Custom);
    check("gpt-5.4-nano", Some("gpt-5.4"), 400_000, true, Custom);
    check("gpt-6-luna", Some("gpt-5.4"), 400_000, true, Custom);
    check("gpt-7-codex", Some("gpt-codex"), 400_000, true, Custom);
    check("gpt-5-chat-latest", Some("gpt-chat"), 128_000, false, Function);
    check("gpt-4.1-2025-04-14", Some("gpt-4.1"), 1_047_576, false, Function);
    check("gpt-4.1-nano", Some("gpt-4.1"), 1_047_576, false, Function);
    check("o3-2025-04-16", Some("o-series"), 200_000, true, Function);
    check("gpt-4o", Some("gpt-4o"), 128_000, false, Function);
    check("openai/gpt-oss-120b", Some("gpt-oss"), 131_072, true, Function);
    check("llama-4", None, 128_000, false, Function);
    check("", None, 128_000, false, Function);
    check("/scripts/my.json", Some("scripted"), 128_000, false, Custom);
}

#[test]
fn only_models_that_have_it_are_offered_the_native_search_for_tools() {
    let kind = |id: &str| Catalog::hosted().find(id).tool_search;
    for id in ["gpt-5.4", "gpt-5.4-mini-2026-03-17", "router/gpt-5.5", "gpt-6-sol"] {
        assert_eq!(kind(id), SearchTool::Native, "{id}");
    }
    for id in ["gpt-5.2-codex", "gpt-5.2", "gpt-5", "gpt-5.3-codex", "o3", "llama-4"] {
        assert_eq!(kind(id), SearchTool::Function, "{id}");
    }
}

#[test]
fn a_snapshot_costs_what_its_model_does_and_a_relative_is_unknown() {
    let hosted = Catalog::hosted();
    assert_eq!(hosted.find("gpt-5-2025-08-07").prices, hosted.find("gpt-5").prices);
    assert_eq!(hosted.find("gpt-5-pro").prices, None);
    assert_eq!(hosted.without_prices().find("gpt-5").prices, None);
}

#[test]
fn an_effort_that_is_not_supported_has_a_nearest_one() {
    let nearest = |model: &str, effort: &str| {
        Catalog::hosted().find(model).nearest_effort(effort).map(ToString::to_string)
    };
    assert_eq!(nearest("gpt-5.2-codex", "xhigh"), None);
    assert_eq!(nearest("gpt-5.1-codex", "xhigh").as_deref(), Some("high"));
    assert_eq!(nearest("gpt-5.1-codex-mini", "none").as_deref(), Some("medium"));
    assert_eq!(nearest("gpt-5.2", "minimal").as_deref(), Some("none"));
    assert_eq!(nearest("gpt-4.1", "high"), None);
    assert_eq!(nearest("gpt-5", "odd"), None);
}

#[test]
fn a_catalog_lists_only_deviations() {
    let json = r#"{"families": [{"id": "f", "names": ["m*"], "context_window": 50000, "max_output": 7,
                       "patch_tool": "shell", "command_tool": "one_shot", "withheld_tools": ["view_image"],
                       "instructions": "Hi", "supports_web_search": false}],
        "models": [{"id": "m"}, {"id": "n", "family": "gpt", "context_window": 200000, "display_name": null},
            {"id": "old", "supports_custom_apply_patch": true, "input_modalities": ["text"],
             "upgrade_info": {"model": "m", "upgrade_copy": "Move"}, "hidden": true}]}"#;
    let catalog = parse(json).unwrap();
    let m = catalog.find("m");
    assert_eq!((m.context_window, m.max_output, m.patch_tool), (50_000, 7, PatchTool::Shell));
    assert_eq!(
        (m.command_tool, &*m.withheld_tools),
        (CommandTool::OneShot, &["view_image".into()][..])
    );
    assert_eq!((m.instructions.as_deref(), m.supports_web_search), (Some("Hi"), false));
    assert_eq!(&*m.display_name, "m");
    assert_eq!(&*m.input_modalities, [Modality::Text, Modality::Image]);
    let n = catalog.find("n");
    assert_eq!((n.context_window, n.supports_reasoning, n.prices), (200_000, true, None));
    let old = catalog.find("old");
    assert_eq!((old.patch_tool, old.accepts_images()), (PatchTool::Custom, false));
    assert_eq!(old.upgrade.as_deref(), Some("m"));
    let moved = r#"{"families": [{"id": "f", "names": ["*"], "upgrade": "n"}],
        "models": [{"id": "m"}, {"id": "n"}]}"#;
    let moved = parse(moved).unwrap();
    assert_eq!(moved.find("m").upgrade.as_deref(), Some("n"));
    assert_eq!(moved.find("n").upgrade, None, "a family's upgrade is not one of itself");
    // Its families come first, and the built-in ones serve other names.
    assert_eq!(catalog.find("mine").family.as_deref(), Some("f"));
    assert_eq!(catalog.find("gpt-6").family.as_deref(), Some("gpt-5.4"));
    assert_eq!(&*catalog.default_model().unwrap().id, "m");
}

#[test]
fn a_catalog_that_cannot_be_used_says_why() {
    let check = |json: &str, part: &str| {
        let error = parse(json).unwrap_err();
        assert!(error.contains(part), "{json}: {error}");
    };
    check("<html>", "line 1");
    check("", "line 1");
    check("[]", "no model");
    check("{}", "models");
    check(r#"[{"idd": "m"}]"#, "idd");
    check(r#"[{"id": null}]"#, "null");
    check(r#"[{"id": "m"}, {"id": "m"}]"#, "listed twice");
    check(r#"[{}]"#, "model 0 has no `id`");
    check(r#"[{"id": "m", "family": "x"}]"#, "no family `x`");
    check(r#"[{"id": "m", "names": ["x"]}]"#, "only families");
    check(r#"[{"id": "a\nb"}]"#, r"model 0: the id `a\u{a}b` has the hidden character \u{a}");
    check(r#"[{"id": "m"}, {"id": "a\u202eb"}]"#, r"model 1: the id `a\u{202e}b`");
    check(r#"[{"id": "m", "default_effort": "high"}]"#, "`m`: `default_effort` is `high`, but");
    check(
        r#"[{"id": "m", "family": "gpt-codex", "default_effort": "minimal"}]"#,
        "the model supports low, medium, high",
    );
    check(
        r#"[{"id": "m", "upgrade": "n"}]"#,
        "`m`: `upgrade` is `n`, which the catalog does not list",
    );
    check(r#"[{"id": "m", "upgrade": "m"}]"#, "`upgrade` is `m`, the model itself");
    check(
        r#"[{"id": "m", "upgrade": "n", "upgrade_info": {"model": "o"}}, {"id": "n"}]"#,
        "`upgrade_info.model` is `o`",
    );
    check(
        r#"[{"id": "m", "is_default": true}, {"id": "n"}, {"id": "o", "is_default": true}]"#,
        "`m` and `o` both have `is_default`",
    );
    check(
        r#"{"families": [{"id": "f", "names": ["*"], "is_default": true}],
            "models": [{"id": "m"}, {"id": "n"}]}"#,
        "`m` and `n` both have `is_default`",
    );
    check(r#"[{"id": "m", "context_window": 0}]"#, "context_window");
    check(r#"[{"id": "m", "context_window": 1}]"#, "no room");
    check(r#"[{"id": "m", "context_window": -1}]"#, "-1");
    check(r#"[{"id": "m", "context_window": 99999999999999}]"#, "context_window");
    check(r#"[{"id": "m", "patch_tool": "magic"}]"#, "magic");
    check(r#"[{"id": "m", "input_modalities": []}]"#, "empty");
    check(r#"[{"id": "m", "input_modalities": ["smell"]}]"#, "smell");
    check(r#"[{"id": "m", "default_effort": "huge"}]"#, "huge");
    check(
        r#"[{"id": "m", "supported_efforts": [{"effort": "max", "description": ""}]}]"#,
        "the efforts are none",
    );
    check(r#"[{"id": "m", "prices": {"input": 1}}]"#, "output");
    check(r#"[{"id": "m", "prices": {"input": 1.1234567, "output": 1}}]"#, "decimals");
    check(
        r#"{"families": [{"id": "f", "family": "gpt"}], "models": [{"id": "m"}]}"#,
        "has no `family`",
    );
}

proptest! {
    #[test]
    fn no_catalog_panics(text in any::<String>(), id in any::<String>()) {
        let _ = parse(&text);
        let _ = Catalog::hosted().find(&id);
    }

    #[test]
    fn no_change_of_a_catalog_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = include_bytes!("hosted.json").to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}
