//! Precedence of layers.

use std::path::Path;

use serde_json::json;

use crate::TestHome;

const PROFILES: &str = "[profiles.p]\nmodel = \"profile\"\n";

#[test]
fn later_layers_override_earlier_ones() {
    let mut home = TestHome::new();
    let entry =
        |folder: &Path| format!("[projects.\"{}\"]\ntrust_level = \"trusted\"\n", folder.display());
    let trust = [entry(&home.cwd), entry(&home.cwd.join("deep"))].concat();
    let steps: [(&str, &str); 5] = [
        ("etc/config.toml", "model = \"system\"\n"),
        ("me/.agent/config.toml", "model = \"user\"\n"),
        ("work/.agent/config.toml", "model = \"project\"\n"),
        ("work/deep/.agent/config.toml", "model = \"deep\"\n"),
        ("me/.agent/config.toml", "profile = \"p\"\nmodel = \"user\"\n"),
    ];
    home.user(&trust);
    let deep = home.cwd.join("deep/er");
    std::fs::create_dir_all(&deep).unwrap();
    let now = |home: &TestHome| home.resolved_in(&deep).unwrap().config.model.clone();
    assert_eq!(now(&home), None);
    for ((path, text), expect) in
        steps.into_iter().zip(["system", "user", "project", "deep", "profile"])
    {
        let rest =
            if path.starts_with("me") { format!("{trust}{PROFILES}") } else { String::new() };
        home.write(path, &format!("{text}{rest}"));
        assert_eq!(now(&home).as_deref(), Some(expect));
    }
    home.flags.push("model=\"flag\"".to_owned());
    assert_eq!(now(&home).as_deref(), Some("flag"));
    home.thread = json!({ "model": "thread" });
    assert_eq!(now(&home).as_deref(), Some("thread"));
    home.thread = json!({ "model": null });
    assert_eq!(now(&home), None, "null takes back what lies below");
}

#[test]
fn tables_merge_and_lists_replace() {
    let mut home = TestHome::with(
        "project_doc_fallback_filenames = [\"a\", \"b\"]\n[sandbox_workspace_write]\n\
         network_access = true\nexclude_slash_tmp = true\n",
    );
    home.thread = json!({
        "project_doc_fallback_filenames": ["c"],
        "sandbox_workspace_write": { "network_access": false },
        "sandbox_workspace_write.exclude_tmpdir_env_var": true,
    });
    let config = home.config();
    assert_eq!(config.project_doc_fallback_filenames, ["c"]);
    let write = &config.sandbox_workspace_write;
    assert!(!write.network_access && write.exclude_slash_tmp && write.exclude_tmpdir_env_var);
}

// Effect of `profile`.
#[test]
fn profile() {
    let file = "model = \"file\"\n[profiles.p]\nmodel = \"profile\"\n";
    for (file, flags, thread, expected) in [
        (file, &[][..], json!({}), "file"),
        (file, &["profile=p"], json!({}), "profile"),
        (file, &["model=line"], json!({ "profile": "p" }), "line"),
        (file, &["model=line", "model=last"], json!({}), "last"),
        (file, &["profile=p", "profiles.p.model=\"line\""], json!({}), "line"),
        (file, &["model=line"], json!({ "model": "thread" }), "thread"),
        (file, &["model=line"], json!({ "profile": null, "model": null }), "none"),
        ("profile = \"p\"\n[profiles.p]\nmodel = \"chosen\"", &[], json!({}), "chosen"),
    ] {
        let mut home = TestHome::with(file);
        home.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        home.thread = thread;
        let config = home.config();
        assert_eq!(config.model.as_deref().unwrap_or("none"), expected, "{flags:?}");
    }
    let message = TestHome::with(file).flag("profile=q").error();
    assert_eq!(
        message,
        "-c profile=…: `profile`: the profile `q` is not defined; did you mean `p`? Defined: `p`"
    );
    let message = TestHome::with(file).flag("profile=other").error();
    assert_eq!(
        message,
        "-c profile=…: `profile`: the profile `other` is not defined; use one that is defined (`p`), \
         or define it as `[profiles.other]`"
    );
    let message = TestHome::new().flag("profile=x.y").error();
    assert_eq!(
        message,
        "-c profile=…: `profile`: the profile `x.y` is not defined; define it as \
         `[profiles.\"x.y\"]`, or remove `profile`"
    );
    let nested = TestHome::with("[profiles.p]\nprofile = \"q\"\n");
    assert!(nested.warnings()[0].contains("a profile cannot select"), "{:?}", nested.warnings());
}

#[test]
fn renamed_and_deprecated_keys_work_and_warn() {
    for (text, key, check) in [
        ("experimental_instructions_file = \"a.md\"", "model_instructions_file", "me/.agent/a.md"),
        (
            "model_instructions_file = \"a.md\"\nexperimental_instructions_file = \"b.md\"",
            "model_instructions_file",
            "me/.agent/a.md",
        ),
    ] {
        let home = TestHome::with(text);
        let config = home.config();
        assert_eq!(config.model_instructions_file, Some(home.root.join(check)), "{text}");
        assert!(home.warnings()[0].contains(&format!("write `{key}`")), "{:?}", home.warnings());
    }
    let home = TestHome::with("background_terminal_timeout = 7\n");
    assert_eq!(home.config().background_terminal_max_timeout.milliseconds(), 7);
    let home =
        TestHome::with("experimental_use_unified_exec_tool = false\ntools_view_image = false\n");
    let config = home.config();
    assert!(!config.features.unified_exec && !config.tools.view_image);
    let home = TestHome::with("[profiles.p]\ntools_view_image = false\n").flag("profile=p");
    assert!(!home.config().tools.view_image);
    for (text, part) in [
        ("approval_policy = \"on-failure\"", "`approval_policy`: \"on-failure\" is deprecated"),
        ("features.web_search_request = true", "`features.web_search_request`: is deprecated"),
        ("tools.web_search = true", "`tools.web_search`: true is deprecated"),
    ] {
        let warnings = TestHome::with(text).warnings();
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
}

#[test]
fn relative_paths_start_at_the_folder_of_their_file() {
    let home = TestHome::with("sqlite_home = \"~/state\"\nlog_dir = \"logs\"\n[sandbox_workspace_write]\nwritable_roots = [\"/srv\", \"cache\", \"~/x\"]\n")
        .flag("model_instructions_file=a.md");
    let config = home.config();
    assert_eq!(config.sqlite_home, home.root.join("me/state"));
    assert_eq!(config.log_dir, home.home.join("logs"));
    let roots = ["/srv".into(), home.home.join("cache"), home.root.join("me/x")];
    assert_eq!(config.sandbox_workspace_write.writable_roots, roots);
    assert_eq!(config.model_instructions_file, Some(home.cwd.join("a.md")));
}
