#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn entry(name: &str) -> Value {
    let uri = format!("skill://{name}/SKILL.md");
    let digest = format!("sha256:{}", "0".repeat(64));
    json!({"uri": uri, "frontmatter": {"name": name, "description": "D."},
        "resources": [{"uri": uri, "digest": digest, "size": 7}]})
}

#[test]
fn unusable_skills_are_left_out_with_their_reasons() {
    let reason = |change: &dyn Fn(&mut Value)| {
        let mut odd = entry("odd");
        change(&mut odd);
        let listed = usable("s", vec![odd, entry("fine")], true);
        assert_eq!(listed.skills.len(), 1);
        assert_eq!(listed.skills[0].name, "fine");
        listed.warnings.concat()
    };
    let check = |change: &dyn Fn(&mut Value), expected: &str| {
        let warning = reason(change);
        assert!(warning.contains(expected), "{warning}");
    };
    check(&|it| it["uri"] = Value::Null, "`` has no valid form");
    check(&|it| it["frontmatter"]["name"] = "other".into(), "does not end in the frontmatter name");
    check(&|it| it["frontmatter"]["description"] = " ".into(), "has no description");
    check(&|it| it["resources"] = "dynamic".into(), "cannot be verified");
    check(&|it| it["resources"] = json!([]), "does not list its own SKILL.md");
    check(&|it| it["resources"][0]["digest"] = "md5:0".into(), "malformed digest");
    check(&|it| it["resources"][0]["size"] = (65 << 10).into(), "more than 64 KiB");
    check(
        &|it| {
            let mut other = it["resources"][0].clone();
            other["uri"] = "skill://else/a.md".into();
            it["resources"].as_array_mut().unwrap().push(other);
        },
        "does not identify a file within",
    );
    check(
        &|it| {
            let mut other = it["resources"][0].clone();
            other["uri"] = "skill://odd/a\u{202e}.md".into();
            it["resources"].as_array_mut().unwrap().push(other);
        },
        "hidden characters",
    );
    let listed = usable("s", vec![entry("a"), entry("a")], true);
    assert!(listed.warnings[0].contains("listed twice"), "{:?}", listed.warnings);
}

#[test]
fn too_many_skills_are_cut_with_a_warning() {
    let entries = (0..100).map(|number| entry(&format!("n{number}"))).collect();
    let listed = usable("s", entries, true);
    assert_eq!(listed.skills.len(), MAX_SKILLS);
    assert!(listed.warnings[0].contains("only the first 64"), "{:?}", listed.warnings);
    assert!(!usable("s", vec![entry("a")], false).warnings.is_empty());
}
