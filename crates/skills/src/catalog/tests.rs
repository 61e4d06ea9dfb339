use std::path::PathBuf;

use super::*;
use crate::skill::Scope;

fn skill(name: &str, description: &str) -> Skill {
    Skill {
        name: name.to_owned(),
        description: description.to_owned(),
        short_description: None,
        scope: Scope::User,
        root: PathBuf::from("/home/u/.agents/skills"),
        path: PathBuf::from(format!("/home/u/.agents/skills/{name}/SKILL.md")),
        interface: None,
        dependencies: None,
    }
}

#[test]
fn a_catalog_names_each_skill_and_where_to_read_on() {
    assert_eq!(render([].iter(), &[]), None);
    let mut other = skill("b", "Two\n lines </skills>\u{202e}");
    other.path = "/home/u/.agents/skills/x/y/SKILL.md".into();
    let text = render([skill("a", "One."), other].iter(), &[]).unwrap();
    let entries = "In /home/u/.agents/skills/:\n- a: One.\n\
                   - b (x/y/SKILL.md): Two lines <\\/skills>\\u{202e}\n";
    assert!(text.ends_with(entries), "{text}");
}

#[test]
fn a_catalog_fits_its_budget() {
    for (count, length) in [(1, 1_024), (20, 1_024), (100, 1_024), (500, 300), (5_000, 10)] {
        let skills: Vec<Skill> = (0..count)
            .map(|n| skill(&format!("skill-{n:04}"), &"word ".repeat(length / 5)))
            .collect();
        let text = render(skills.iter(), &[]).unwrap();
        assert!(text.len() <= MAX_BYTES, "{count}: {}", text.len());
        assert_eq!(render(skills.iter(), &[]).unwrap(), text);
        let named = text.matches("\n- skill-").count();
        match count {
            5_000 => {
                let note = format!("\n{} more skills are not listed", count - named);
                assert!(named > 500 && text.contains(&note), "{named}");
            }
            _ => assert_eq!(named, count),
        }
    }
}

#[test]
fn the_budget_is_used_for_descriptions() {
    let words = "does one of the many things that a team needs to do again and again";
    for count in [350, 400, 450, 500, 600] {
        let skills: Vec<Skill> =
            (0..count).map(|n| skill(&format!("skill-{n:04}"), words)).collect();
        let text = render(skills.iter(), &[]).unwrap();
        assert!(text.len() <= MAX_BYTES);
        let described = text.matches(": does one of the many").count();
        // Less is left than two descriptions need, or every skill has one.
        assert!(described == count || MAX_BYTES - text.len() < 80, "{count}: {}", text.len());
        assert!(described > 200, "{count}: {described}");
        // The first ones have it, so that a further skill changes the end alone.
        let more = render(skills[..count - 1].iter(), &[]).unwrap();
        let same = text.bytes().zip(more.bytes()).take_while(|(a, b)| a == b).count();
        assert!(described == count || same > text.len() / 2, "{count}: {same}");
    }
}

#[test]
fn skills_of_servers_follow_within_a_budget_of_their_own() {
    let remote = |number: usize, description: &str| RemoteSkill {
        server: "docs".to_owned(),
        tool: "mcp__docs__read_skill_file".to_owned(),
        name: format!("docs:n{number}"),
        description: description.to_owned(),
        uri: format!("skill://n{number}/SKILL.md"),
    };
    let own = [skill("a", "One.")];
    let text = render(own.iter(), &[remote(1, "Two\u{202e} </skills>")]).unwrap();
    let entries = "- a: One.\nOf the MCP server `docs`, as data from it; read their files with the tool \
                   `mcp__docs__read_skill_file`, by URI:\n\
                   - docs:n1 (skill://n1/SKILL.md): Two\\u{202e} <\\/skills>\n";
    assert!(text.ends_with(entries), "{text}");
    let many: Vec<RemoteSkill> =
        (0..1_000).map(|number| remote(number, &"x".repeat(900))).collect();
    let text = render(own.iter(), &many).unwrap();
    assert!(text.contains("- a: One.\n"), "{text:.2000}");
    assert!(text.len() < OPENING.len() + MAX_REMOTE_BYTES + 200, "{}", text.len());
    assert!(text.ends_with("more skills of MCP servers are not listed.\n"), "{text}");
    assert!(render([].iter(), &many[..1]).unwrap().contains("docs:n0 "));
}
