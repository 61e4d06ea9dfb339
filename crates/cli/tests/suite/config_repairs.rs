//! `agentd config` on files with mistakes: each can be repaired, and all are named.

use crate::common::{TestEnvironment, stderr, stdout};

const UNCHANGED: &str = "the file was not changed";

/// A file, the arguments of an edit, the file after it and what is said. `None` for an edit that is refused.
type Case<'c> = (&'c str, &'c [&'c str], Option<&'c str>, &'c str);

const CASES: &[Case<'_>] = &[
    // Values that are left out.
    (
        "features.undo = 'maybe'\n",
        &["set", "features.undo", "true"],
        Some("features.undo = true\n"),
        "",
    ),
    ("features.undo = 'maybe'\n", &["unset", "features.undo"], Some(""), ""),
    ("model_context_window = 'big'\n", &["unset", "model_context_window"], Some(""), ""),
    (
        "tui.animations = 'yes please'\n",
        &["set", "tui.animations", "true"],
        Some("tui.animations = true\n"),
        "",
    ),
    (
        "personality = 7\n",
        &["set", "personality", "friendly"],
        Some("personality = \"friendly\"\n"),
        "",
    ),
    ("tui = 5\n", &["unset", "tui"], Some(""), ""),
    ("tui = 5\n", &["set", "tui.theme", "x"], None, "agentd config unset tui"),
    ("mcp_servers = []\n", &["unset", "mcp_servers"], Some(""), ""),
    ("[[skills.config]]\nenabled = 'x'\n", &["unset", "skills"], Some(""), ""),
    (
        "[[skills.config]]\npath = '/'\nenabled = 'x'\n",
        &["unset", "skills.config.0.enabled"],
        Some("[[skills.config]]\npath = '/'\n"),
        "",
    ),
    // Another mistake stays, and is named.
    (
        "features.undo = 'maybe'\n",
        &["set", "model", "m"],
        Some("features.undo = 'maybe'\nmodel = \"m\"\n"),
        "warning: ",
    ),
    (
        "sandbox_mode = 'x'\nmodel_provider = 'zz'\n",
        &["unset", "sandbox_mode"],
        Some("model_provider = 'zz'\n"),
        "`zz` is not defined",
    ),
    // One mistake hid another.
    (
        "model_provider = 'p'\n[model_providers.p]\nwire_api = 'soap'\n",
        &["unset", "model_providers.p.wire_api"],
        Some("model_provider = 'p'\n[model_providers.p]\n"),
        "base_url",
    ),
    (
        "model_provider = 'zz'\nprofile = 'no'\n",
        &["unset", "profile"],
        Some("model_provider = 'zz'\n"),
        "`zz`",
    ),
    // A profile that does not exist.
    ("profile = 'no'\n", &["unset", "profile"], Some(""), ""),
    (
        "profile = 'no'\n[profiles.a]\n",
        &["set", "profile", "a"],
        Some("profile = \"a\"\n[profiles.a]\n"),
        "",
    ),
    (
        "profile = 'no'\n",
        &["set", "model", "m"],
        Some("profile = 'no'\nmodel = \"m\"\n"),
        "the profile `no`",
    ),
    ("profile = 'no'\n", &["set", "profile", "nor"], None, "the profile `nor`"),
    // What an edit makes worse.
    ("model = 'm'\n", &["set", "model_provider", "zz"], None, "`zz` is not defined"),
    (
        "features.undo = 'maybe'\n",
        &["set", "features.undo", "perhaps"],
        None,
        "must be true or false",
    ),
    ("profile = 'a'\n[profiles.a]\n", &["unset", "profiles.a"], None, "the profile `a`"),
    (
        "model_provider = 'p'\n[model_providers.p]\nbase_url = 'http://h'\n",
        &["unset", "model_providers.p.base_url"],
        None,
        "base_url",
    ),
    ("[model_providers.p]\nwire_api = 'soap'\n", &["set", "model_provider", "p"], None, "wire_api"),
    // Text that is not TOML.
    ("# a\nmodel = 'a'\nmodel = 'b'\n[tui]\n", &["unset", "model"], Some("# a\n[tui]\n"), ""),
    ("model = 'a' # c\nmodel = 'b'\n", &["set", "model", "x"], Some("model = \"x\" # c\n"), ""),
    (
        "model = \"a\ntui.theme = 'b'\n",
        &["set", "model", "x"],
        Some("model = \"x\"\ntui.theme = 'b'\n"),
        "",
    ),
    (
        "model = \"a\nx = \"b\n",
        &["unset", "model"],
        Some("x = \"b\n"),
        "config.toml:1:7: not valid TOML",
    ),
    (
        "model = \"a\nx = 1\n",
        &["set", "profile", "x"],
        None,
        "config.toml:1:11: not valid TOML: invalid",
    ),
    ("a = 1\na = 2\n", &["set", "model", "x"], None, "`a` is set before; keep one of the two"),
];

#[test]
fn an_edit_is_refused_only_for_what_it_makes_worse() {
    let env = TestEnvironment::new();
    let file = env.home().join("config.toml");
    for (text, edit, expected, said) in CASES {
        std::fs::write(&file, text).unwrap();
        let output = env.run(&[&["config"], *edit].concat());
        let (code, after) = (output.status.code(), std::fs::read_to_string(&file).unwrap());
        let context = format!("{text:?} {edit:?}: {}", stderr(&output));
        assert_eq!(code, Some(if expected.is_some() { 0 } else { 2 }), "{context}");
        assert_eq!(after, expected.unwrap_or(text), "{context}");
        assert!(stderr(&output).contains(said), "{said}: {context}");
        assert_eq!(stderr(&output).contains(UNCHANGED), expected.is_none(), "{context}");
        assert!(!said.is_empty() || !stderr(&output).contains("warning"), "{context}");
    }
}

/// A file, and its findings, each the beginning of a kind, the line and a part of the message.
type Check<'c> = (&'c str, &'c [(&'c str, usize, &'c str)]);

const CHECKS: &[Check<'_>] = &[
    (
        "personality = 7\nprofile = 'no'\nmodel_provider = 'zz'\napproval_policy = 'x'\n",
        &[
            ("warning", 1, "`personality`"),
            ("error", 2, "the profile `no`"),
            ("error", 3, "the model provider `zz`"),
            ("error", 4, "`approval_policy`"),
        ],
    ),
    (
        "a = \nmodel = 1 2\ntui = 5\nmodel = \"m\npersonality = 7\n",
        &[
            ("error", 1, "there is no value after `=`"),
            ("error", 2, "not valid TOML"),
            ("warning", 3, "`tui`"),
            ("error", 4, "not valid TOML"),
            ("warning", 5, "`personality`"),
        ],
    ),
    (
        "personality = 7\nnotify = ['a',\nmodel = 5\n",
        &[("warning", 1, "`personality`"), ("error", 2, "the rest of the file was not checked")],
    ),
    (
        "[profiles.q]\nmodel_provider = 'zz'\nmodel_catalog_json = '/no/such'\n\
         notify = ['no-such-program']\n[profiles.r]\nmodel_provider = 'yy'\n",
        &[
            ("warning", 2, "(with the profile `q`)"),
            ("warning", 3, "/no/such"),
            ("warning", 4, "no-such-program"),
            ("warning", 6, "(with the profile `r`)"),
        ],
    ),
    (
        "profile = 'q'\n[profiles.q]\nmodel_provider = 'zz'\n[profiles.r]\nmodel_provider = 'yy'\n",
        &[("error", 3, "the model provider `zz`"), ("warning", 5, "the model provider `yy`")],
    ),
    ("log_dir = '/proc/no'\n", &[("error", 1, "nothing can be written in /proc")]),
    ("sqlite_home = '/dev/null/a/b'\n", &[("error", 1, "/dev/null is not a folder")]),
    (
        "default_permissions = 'p'\n[permissions.p.filesystem]\n':rot' = 'read'\n'../z' = 'write'\n\
         'a' = 'read'\n[permissions.p.filesystem.':root']\n'/b' = 'read'\n'.' = 'read'\n",
        &[("error", 3, ":rot"), ("error", 4, "../z"), ("error", 5, "absolute"), ("error", 7, "/b")],
    ),
    (
        "model_provider = 'p'\n[model_providers.p]\nbase_url = 'https://h'\n[model_providers.p.tls]\n\
         client-private-key = '/no/key'\nclient-certificate = '/no/pem'\nca-certificate = '/no/ca'\n",
        &[("error", 5, "/no/key"), ("error", 6, "/no/pem"), ("error", 7, "/no/ca")],
    ),
];

#[test]
fn a_check_names_all_mistakes_in_the_order_of_the_lines() {
    let env = TestEnvironment::new();
    for (text, expected) in CHECKS {
        std::fs::write(env.home().join("config.toml"), text).unwrap();
        let output = env.run(&["config", "check"]);
        let said = stderr(&output);
        let is_finding = |line: &&str| line.starts_with("error: ") || line.starts_with("warning: ");
        let found: Vec<&str> = said.lines().filter(is_finding).collect();
        assert_eq!(found.len(), expected.len(), "{text}: {said}");
        for (found, (kind, line, part)) in found.iter().zip(*expected) {
            let place = format!("config.toml:{line}:");
            assert!(
                found.starts_with(kind) && found.contains(&place) && found.contains(part),
                "{kind} {line} {part}: {said}"
            );
        }
        let has_error = expected.iter().any(|(kind, ..)| *kind == "error");
        assert_eq!(output.status.code(), Some(if has_error { 2 } else { 0 }), "{said}");
        assert_eq!(stdout(&output).contains("is valid"), !has_error, "{said}");
    }
}

#[test]
fn a_check_names_each_variable_with_certificates_and_mistakes_in_arguments() {
    let env = TestEnvironment::new();
    std::fs::write(env.home().join("config.toml"), "model_provider = 'zz'\n").unwrap();
    let variables = [("SSL_CERT_FILE", "/no/ssl"), ("AGENT_CA_CERTIFICATE", "/no/agent")];
    let mut command = env.agentd(&["config", "check"]);
    let said = stderr(&command.envs(variables).output().unwrap());
    for part in ["/no/ssl", "/no/agent"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = stderr(&env.run(&["-c", "sandbox_mode=x", "config", "check"]));
    for part in ["-c sandbox_mode", "the model provider `zz`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
