//! What a person sees of one source: errors with file, line and key, and warnings.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;

use config::{Error, Layer, MAX_FILE_BYTES, keys};
use proptest::prelude::*;

fn file(text: &str) -> Result<Layer, String> {
    Layer::parse(Path::new("/home/a/config.toml"), text).map_err(|e| e.to_string())
}

#[test]
fn errors_name_file_line_key_and_expectation() {
    for (text, expected) in [
        ("model = 5", ":1: `model` must be a string, found the number 5"),
        (
            "\n\nallow_login_shell = \"yes\"",
            ":3: `allow_login_shell` must be true or false, found the string \"yes\"",
        ),
        ("sandbox_mode = \"workspaceWrite\"", "did you mean `workspace-write`?"),
        (
            "approval_policy = \"sometimes\"",
            "or a table `granular`, found the string \"sometimes\"",
        ),
        ("[model_providers.x]\nbase_url = 1", ":2: `model_providers.x.base_url` must be a string"),
        (
            "[model_providers.x]\nwire_api = \"chat\"",
            "must be \"responses\", found the string \"chat\"",
        ),
        ("[model_providers.x]\nrequest_max_retries = 101", "from 0 to 100, found the number 101"),
        ("model_context_window = -1", "a whole number from 0 to 1000000000, found the number -1"),
        ("model_context_window = 1.5", "found `1.5`"),
        ("model_providers = 3", ":1: `model_providers` must be a table, found the number 3"),
        (
            "[agents]\nmax_thread = 3",
            "`agents.max_thread` must be a table, found the number 3; did you mean `agents.max_threads`?",
        ),
        (
            "project_root_markers = [\n \".git\",\n 7]",
            ":3: `project_root_markers` must be an array of strings, found the number 7",
        ),
        (
            "shell_environment_policy.set.A = 1",
            ":1: `shell_environment_policy.set` must be a table of strings, found the number 1",
        ),
        ("profiles.fast = 1", "`profiles.fast` must be a table of keys"),
        ("[profiles.\"a.b\"]\nmodel = true", ":2: `profiles.\"a.b\".model` must be a string"),
        ("model = ", "/config.toml:1:9: this is not TOML"),
        ("a = 1\nmodel = 'x", "/config.toml:2:"),
        (
            "approval_policy = { granular = { rules = 1 } }",
            "`approval_policy.granular.rules` must be true or false",
        ),
    ] {
        let message = file(text).unwrap_err();
        assert!(message.contains(expected), "{text:?} gave {message:?}");
        assert!(message.starts_with("/home/a/config.toml:"), "{message}");
    }
}

#[test]
fn warnings_name_what_has_no_effect() {
    for (text, expected) in [
        ("model = \"m\"", vec![]),
        (
            "modle = \"m\"",
            vec![
                "/home/a/config.toml:1: `modle`: no such key, it is ignored; did you mean `model`?",
            ],
        ),
        (
            "colour = 1",
            vec!["/home/a/config.toml:1: `colour`: no such key, it is ignored; remove it"],
        ),
        (
            "review_model = \"m\"",
            vec![
                "/home/a/config.toml:1: `review_model`: this version does not act on this key yet",
            ],
        ),
        (
            "[features]\nundoo = true",
            vec![
                "/home/a/config.toml:2: `features.undoo`: no such key, it is ignored; did you mean `features.undo`?",
            ],
        ),
        (
            "[tools]\nweb_search = true",
            vec![
                "/home/a/config.toml:2: `tools.web_search`: this version does not act on this key yet",
            ],
        ),
        (
            "[tools.web_search]\ncontext_size = \"low\"",
            vec![
                "/home/a/config.toml:2: `tools.web_search.context_size`: this version does not act on this key yet",
            ],
        ),
        (
            "[notice]\nhide_big_migration_prompt = true",
            vec![
                "/home/a/config.toml:2: `notice.hide_big_migration_prompt`: this version does not act on this key yet",
            ],
        ),
        (
            "approval_policy = \"on-failure\"",
            vec![
                "/home/a/config.toml:1: `approval_policy`: `on-failure` is deprecated and counts as `on-request`; write `on-request`, or `never` where nobody can answer",
            ],
        ),
        (
            "experimental_instructions_file = \"a\"",
            vec![
                "/home/a/config.toml:1: `experimental_instructions_file`: was renamed; write `model_instructions_file` instead",
            ],
        ),
        (
            "[profiles.p]\nprofile = \"q\"",
            vec![
                "/home/a/config.toml:2: `profiles.p.profile`: a profile cannot select a profile; remove it",
            ],
        ),
        (
            "[profiles.p]\nlog_dir = \"q\"",
            vec![
                "/home/a/config.toml:2: `profiles.p.log_dir`: this version does not act on this key yet",
            ],
        ),
        (
            "[projects.\"/a/b\"]\ntrust_level = \"trusted\"",
            vec![
                "/home/a/config.toml:2: `projects.\"/a/b\".trust_level`: this version does not act on this key yet",
            ],
        ),
        (
            "[agents]\nmax_threads = 3",
            vec![
                "/home/a/config.toml:2: `agents.max_threads`: this version does not act on this key yet",
            ],
        ),
    ] {
        let layer = file(text).unwrap();
        let warnings: Vec<String> = layer.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(warnings, expected, "{text:?}");
    }
}

#[test]
fn every_key_of_the_table_is_accepted_with_a_value_of_its_kind() {
    use keys::Kind;
    for key in keys::KEYS {
        let value = match key.kind {
            Kind::Boolean | Kind::Loose => "true".to_owned(),
            Kind::Whole(max) => max.to_string(),
            Kind::Text | Kind::Path => "\"a\"".to_owned(),
            Kind::Choice(names) => format!("{:?}", names[0]),
            Kind::Texts => "[\"a\"]".to_owned(),
            Kind::TextMap => "{ a = \"b\" }".to_owned(),
            Kind::Tables => "[{ path = \"a\", enabled = true }]".to_owned(),
        };
        let path: Vec<String> = key
            .path
            .split('.')
            .map(|part| format!("\"{}\"", part.replace(['<', '>'], "_")))
            .collect();
        let layer =
            file(&format!("{} = {value}", path.join("."))).unwrap_or_else(|e| panic!("{e}"));
        let ignored = layer.warnings().iter().any(|w| w.message.contains("no such key"));
        assert!(!ignored, "{}: {:?}", key.path, layer.warnings());
        assert_eq!(layer.warnings().is_empty(), key.acted_on, "{}", key.path);
    }
}

#[test]
fn paths_in_the_table_are_distinct() {
    let mut paths: Vec<&str> = keys::KEYS.iter().map(|key| key.path).collect();
    paths.sort_unstable();
    paths.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
}

#[test]
fn arguments_are_toml_or_text() {
    for (argument, expected) in [
        ("model", "-c model: there is no `=`; write it as `-c key=value`"),
        ("=x", "a part of the key is empty"),
        ("a..b=x", "a part of the key is empty"),
        ("model=5", "-c model=…: `model` must be a string, found the number 5"),
        ("sandbox_mode=full", "-c sandbox_mode=…: `sandbox_mode` must be one of"),
    ] {
        let message = Layer::command_line(&[argument]).unwrap_err().to_string();
        assert!(message.contains(expected), "{argument:?} gave {message:?}");
    }
    let layer = Layer::command_line(&["model=gpt x", "modl=1"]).unwrap();
    assert_eq!(
        layer.warnings()[0].to_string(),
        "-c modl=…: `modl`: no such key, it is ignored; did you mean `model`?"
    );
}

#[test]
fn a_thread_s_map_is_checked_like_a_file() {
    let map = |json: serde_json::Value| Layer::thread(json.as_object().unwrap());
    let message =
        map(serde_json::json!({"sandbox_workspace_write.network_access": 1})).unwrap_err();
    assert_eq!(
        message.to_string(),
        "the thread's `config`: `sandbox_workspace_write.network_access` must be true or false, found the number 1"
    );
    assert!(map(serde_json::json!({"a..b": 1})).is_err());
    assert!(map(serde_json::json!({"model": null, "model_providers": {"x": null}})).is_ok());
}

#[test]
fn reading_a_file_reports_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    assert!(Layer::read(&path).unwrap().warnings().is_empty());

    std::fs::write(&path, b"model = \"a\"\nx = \"\xff\"").unwrap();
    let message = Layer::read(&path).unwrap_err().to_string();
    assert!(
        message.contains("config.toml:2:6: this is not TOML: a byte that is not UTF-8"),
        "{message}"
    );

    std::fs::write(&path, vec![b'\n'; usize::try_from(MAX_FILE_BYTES).unwrap() + 1]).unwrap();
    assert!(matches!(Layer::read(&path).unwrap_err(), Error::TooLarge { .. }));
    assert!(matches!(Layer::read(folder.path()).unwrap_err(), Error::Read { .. }));
}

proptest! {
    #[test]
    fn no_text_makes_the_parsers_panic(text in "[a-z_.\\[\\]{}=\"', \n0-9<>-]{0,80}") {
        let _ = file(&text);
        let _ = Layer::command_line(&[&text]);
    }

    #[test]
    fn any_value_of_a_known_key_is_taken_or_refused(index in 0..keys::KEYS.len(), value in "(true|-?[0-9]{1,25}|\"[a-z]{0,5}\"|\\[1\\]|\\{a=1\\}|1979-05-27|nan)") {
        let _ = file(&format!("{} = {value}", keys::KEYS[index].path.replace(['<', '>'], "")));
    }
}
