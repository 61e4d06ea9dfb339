use super::*;

fn read_text(text: &str) -> Definition {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(DEFINITION_FILE), text).unwrap();
    read(folder.path())
}

fn faults(text: &str) -> Vec<String> {
    read_text(text).problems.iter().map(|problem| problem.fault.to_string()).collect()
}

#[test]
fn a_definition_is_read_in_both_spellings() {
    let read = read_text(
        r##"{"interface": {"display_name": "A", "shortDescription": "B", "brand_color": "#12aBff",
             "iconSmall": "./assets/a.png", "default_prompt": null, "later": 1},
            "dependencies": {"tools": [{"type": "env_var", "value": "API_KEY", "description": "K"},
             {"type": "mcp", "value": "docs", "transport": "streamable_http", "url": "https://x.test"}]},
            "later": {}}"##,
    );
    assert_eq!(read.problems, []);
    let interface = read.interface.unwrap();
    assert_eq!(interface.display_name.as_deref(), Some("A"));
    assert_eq!(interface.short_description.as_deref(), Some("B"));
    assert!(interface.icon_small.unwrap().is_absolute());
    assert_eq!(read.dependencies.unwrap().tools.len(), 2);
}

#[test]
fn what_cannot_be_used_is_left_out_with_a_reason() {
    let check = |text: &str, expected: &[&str]| assert_eq!(faults(text), expected, "{text}");
    check("[]", &["line 1: the file must hold a JSON object"]);
    check(
        "{",
        &["line 1: the file is not valid JSON: EOF while parsing an object at line 1 column 1"],
    );
    let colour = "`interface.brandColor` must be a colour such as `#1a2b3c`";
    check(r#"{"interface": {"brandColor": "red"}}"#, &[colour]);
    let outside = "`interface.iconLarge` must be a relative path in the skill's folder";
    check(r#"{"interface": {"iconLarge": "../a.png"}}"#, &[outside]);
    check(r#"{"interface": {"iconLarge": "/a.png"}}"#, &[outside]);
    let tools = |tool: &str| format!(r#"{{"dependencies": {{"tools": [{tool}]}}}}"#);
    let check = |tool: &str, member: &str, expected: &str| {
        let expected = format!("`dependencies.tools[0]{member}`{expected}");
        assert_eq!(faults(&tools(tool)), [expected], "{tool}");
    };
    check(r#"{"value": "x"}"#, "", ": missing field `type`");
    check(
        r#"{"type": "skill", "value": "me"}"#,
        "",
        ": a skill cannot depend on a skill, here on `me`, be it another one or itself; name it in the instructions instead",
    );
    let variable = ": `A=B` is not the name of an environment variable";
    check(r#"{"type": "env_var", "value": "A=B"}"#, ".value", variable);
    check(r#"{"type": "mcp", "value": "s"}"#, "", ": an MCP server has either `url` or `command`");
    check(r#"{"type": "other", "value": "s"}"#, ".type", ": it is `other`, not `env_var` or `mcp`");
    let steers = ": a skill cannot ask for `LD_PRELOAD`: it changes which programs or code run, or where programs \
                  connect; give the value a name of its own";
    check(r#"{"type": "env_var", "value": "LD_PRELOAD"}"#, ".value", steers);
    let scheme =
        ": it must begin with `https://` or `http://`: MCP servers have no other addresses";
    check(r#"{"type": "mcp", "value": "s", "url": "file:///etc/passwd"}"#, ".url", scheme);
    let user = ": it must not have a user or a password before the host";
    check(r#"{"type": "mcp", "value": "s", "url": "https://u:p@good@evil/"}"#, ".url", user);
    let hidden = ": it has the character `\\u{202e}`, which is not visible";
    check(r#"{"type": "mcp", "value": "s", "command": "a\u202eb"}"#, ".command", hidden);
    check(
        r#"{"type": "mcp", "value": "s", "command": "x", "args": ["y"]}"#,
        ".args",
        " is not known and has no effect; known are type, value, description, transport, url, command",
    );
}

#[test]
fn misspelt_members_and_those_that_are_there_twice_are_reported() {
    let check = |text: &str, expected: &str| {
        let faults = faults(text);
        assert!(faults.iter().any(|fault| fault.contains(expected)), "{text}: {faults:?}");
    };
    check(
        r#"{"dependancies": {}}"#,
        "`dependancies` is not known and has no effect; did you mean `dependencies`?",
    );
    check(
        r#"{"interface": {"displayNam": "x"}}"#,
        "`interface.displayNam` is not known and has no effect; did you mean `displayName`?",
    );
    check(r#"{"dependencies": {"tool": [], "tools": []}}"#, "`dependencies.tool` is not known");
    check(
        r#"{"dependencies": {"tools": [{"type": "env_var", "value": "A", "descripton": "x"}]}}"#,
        "`dependencies.tools[0].descripton` is not known and has no effect; did you mean `description`?",
    );
    check("{\"interface\": {},\n\"interface\": {}}", "line 2: ");
    check(r#"{"interface": {}, "interface": {}}"#, "the member `interface` is there twice");
    let twice = r#"{"dependencies": {"tools": [{"type": "mcp", "value": "s", "command": "a", "command": "b"}]}}"#;
    check(twice, "the member `command` is there twice");
}
