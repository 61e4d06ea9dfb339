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
    let check = |tool: &str, expected: &str| {
        assert_eq!(
            faults(&tools(tool)),
            [format!("`dependencies.tools[0]`: {expected}")],
            "{tool}"
        );
    };
    check(r#"{"value": "x"}"#, "missing field `type`");
    check(
        r#"{"type": "skill", "value": "me"}"#,
        "a skill cannot depend on a skill, here on `me`, be it another one or itself; name it in the instructions instead",
    );
    let variable = "`A=B` is not the name of an environment variable";
    check(r#"{"type": "env_var", "value": "A=B"}"#, variable);
    check(r#"{"type": "mcp", "value": "s"}"#, "an MCP server has either `url` or `command`");
}
