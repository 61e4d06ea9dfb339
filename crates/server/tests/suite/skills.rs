//! Skills over the protocol: lists, switches, notifications, and what turns make of them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::{calls, says, tool_outputs};

fn text(name: &str) -> String {
    format!("---\nname: {name}\ndescription: For {name}.\n---\nThe text of {name}.\n")
}

fn write(root: &Path, name: &str, text: &str) -> PathBuf {
    let folder = root.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    folder
}

fn skill(root: &Path, name: &str) -> PathBuf {
    write(root, name, &text(name))
}

fn trust(env: &TestEnvironment) {
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    let cwd = env.workspace().canonicalize().unwrap();
    env.write_config(&format!("{config}\n[projects.{cwd:?}]\ntrust_level = \"trusted\"\n"));
}

async fn list(client: &mut Peer, params: Value) -> Value {
    client.call("skills/list", params).await
}

fn names(entry: &Value) -> Vec<String> {
    let skills = entry["skills"].as_array().unwrap();
    skills.iter().map(|skill| skill["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn skills_are_listed_from_home_and_trusted_projects() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    skill(&env.home().join("skills"), "own");
    write(&env.home().join("skills"), "same", "---\nname: same\ndescription: Another.\n---\n");
    let project = skill(&env.workspace().join(".agents/skills"), "project");
    skill(&env.workspace().join(".claude/skills"), "same");
    write(&env.home().join("skills"), "broken", "---\nname: broken\nname: x\n---\n");
    std::fs::write(
        project.join("SKILL.json"),
        r#"{"interface": {"displayName": "Project!"},
            "dependencies": {"tools": [{"type": "env_var", "value": "KEY"}]}}"#,
    )
    .unwrap();
    let cwd = env.workspace().display().to_string();
    let server = env.start();
    let mut client = server.connect().await;
    let listed = list(&mut client, json!({ "cwds": [cwd] })).await;
    assert_eq!(names(&listed["data"][0]), ["own", "same"]);
    let broken = env.home().join("skills/broken/SKILL.md");
    assert_eq!(
        listed["data"][0]["errors"],
        json!([{ "path": broken, "message": "line 3: `name` is already set on line 2" }])
    );
    trust(&env);
    let listed = list(&mut client, json!({ "cwds": [cwd] })).await;
    let entry = &listed["data"][0];
    assert_eq!(names(entry), ["project", "same", "own"], "{entry}");
    let path = project.join("SKILL.md");
    assert_eq!(
        entry["skills"][0],
        json!({ "name": "project", "description": "For project.", "path": path, "scope": "repo",
            "enabled": true, "interface": { "displayName": "Project!" },
            "dependencies": { "tools": [{ "type": "env_var", "value": "KEY" }] } })
    );
    assert_eq!(entry["skills"][2]["scope"], "user");
    let shadowed = env.home().join("skills/same/SKILL.md");
    let message = format!(
        "the skill is not used, because {} has the same name, `same`",
        env.workspace().join(".claude/skills/same/SKILL.md").display()
    );
    assert_eq!(entry["errors"][1], json!({ "path": shadowed, "message": message }));
}

#[tokio::test]
async fn each_folder_of_a_request_has_an_entry_and_extra_roots() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let extra = env.root().join("extra");
    skill(&extra, "added");
    let server = env.start();
    let mut client = server.connect().await;
    let cwd = env.workspace().display().to_string();
    let missing = env.root().join("missing").display().to_string();
    let added = json!([{ "cwd": cwd, "extraUserRoots": [extra] },
        { "cwd": "/elsewhere", "extraUserRoots": ["relative"] }]);
    let listed =
        list(&mut client, json!({ "cwds": [cwd, missing], "perCwdExtraUserRoots": added })).await;
    assert_eq!(names(&listed["data"][0]), ["added"]);
    let error = listed["data"][1]["errors"][0]["message"].as_str().unwrap();
    assert!(error.contains("is not a folder"), "{error:?}");
    // Remembered for the folder, until they are replaced.
    let listed = list(&mut client, json!({ "cwds": [cwd] })).await;
    assert_eq!(names(&listed["data"][0]), ["added"]);
    let none = json!([{ "cwd": cwd, "extraUserRoots": [] }]);
    let listed = list(&mut client, json!({ "cwds": [cwd], "perCwdExtraUserRoots": none })).await;
    assert_eq!(listed["data"][0]["skills"], json!([]));
    let relative = json!([{ "cwd": cwd, "extraUserRoots": ["x"] }]);
    let params = json!({ "cwds": [cwd], "perCwdExtraUserRoots": relative });
    let error = client.refused("skills/list", params).await;
    let expected = "`perCwdExtraUserRoots[0].extraUserRoots` must be an absolute path, found `x`";
    assert!(error.message.contains(expected), "{error:?}");
    // Without folders: that of the server.
    let listed = list(&mut client, json!({})).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
}

/// The next notification of a method.
async fn changed(client: &mut Peer) {
    client.expect("skills/changed").await;
}

#[tokio::test]
async fn changes_are_noticed_and_reported() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let server = env.start();
    let mut client = server.connect().await;
    assert_eq!(list(&mut client, json!({})).await["data"][0]["skills"], json!([]));
    // The folder itself is new.
    let root = env.home().join("skills");
    let folder = skill(&root, "one");
    assert_eq!(names(&list(&mut client, json!({})).await["data"][0]), ["one"]);
    changed(&mut client).await;
    std::fs::write(folder.join("SKILL.md"), text("one").replace("For one", "Changed")).unwrap();
    let listed = list(&mut client, json!({})).await;
    assert_eq!(listed["data"][0]["skills"][0]["description"], "Changed.");
    changed(&mut client).await;
    std::fs::rename(&root, env.home().join("away")).unwrap();
    changed(&mut client).await;
    assert_eq!(list(&mut client, json!({})).await["data"][0]["skills"], json!([]));
    let listed = list(&mut client, json!({ "forceReload": true })).await;
    assert_eq!(listed["data"][0]["skills"], json!([]));
}

// Effect of `skills.config.<index>.path`.
// Effect of `skills.config.<index>.enabled`.
#[tokio::test]
async fn skills_are_switched_off_and_on_in_the_users_configuration() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    let one = skill(&env.home().join("skills"), "one");
    let two = skill(&env.home().join("skills"), "two");
    let server = env.start();
    let mut client = server.connect().await;
    let enabled = async |client: &mut Peer| {
        let listed = list(client, json!({})).await;
        let skills = listed["data"][0]["skills"].as_array().unwrap().clone();
        skills.iter().map(|skill| skill["enabled"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    let off = json!({ "path": one.join("SKILL.md"), "enabled": false });
    let written = client.call("skills/config/write", off).await;
    assert_eq!(written, json!({ "effectiveEnabled": false }));
    assert_eq!(enabled(&mut client).await, [false, true]);
    changed(&mut client).await;
    let off = json!({ "name": "two", "enabled": false });
    client.call("skills/config/write", off).await;
    assert_eq!(enabled(&mut client).await, [false, false]);
    let on = json!({ "path": one, "enabled": true });
    assert_eq!(client.call("skills/config/write", on).await, json!({ "effectiveEnabled": true }));
    assert_eq!(enabled(&mut client).await, [true, false]);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    for folder in [&one, &two] {
        assert_eq!(config.matches(folder.to_str().unwrap()).count(), 1, "{config}");
    }
    for (params, expected) in [
        (json!({ "enabled": true }), "`path` or `name` is missing"),
        (json!({ "path": one, "name": "one", "enabled": true }), "`path`"),
        (json!({ "path": "one", "enabled": true }), "must be an absolute path"),
        (json!({ "path": env.root(), "enabled": true }), "has no SKILL.md"),
        (json!({ "name": "three", "enabled": true }), "has no skill `three`"),
    ] {
        let error = client.refused("skills/config/write", params).await;
        assert!(error.message.contains(expected), "{error:?}");
    }
}

#[tokio::test]
async fn the_catalog_is_sent_once_and_changes_are_appended() {
    let env =
        TestEnvironment::with_responses(json!([says("1"), says("2"), says("3"), says("4"),])).await;
    let root = env.home().join("skills");
    skill(&root, "one");
    let server = env.start();
    let mut client = server.connect().await;
    let thread = client.start_thread(json!({})).await;
    for text in ["a", "b"] {
        client.run_turn(&thread, text).await;
    }
    skill(&root, "two");
    client.run_turn(&thread, "c").await;
    std::fs::remove_dir_all(&root).unwrap();
    client.run_turn(&thread, "d").await;
    let requests = env.model().requests();
    let inputs: Vec<Vec<Value>> =
        requests.iter().map(|request| request["input"].as_array().unwrap().clone()).collect();
    for pair in inputs.windows(2) {
        assert_eq!(pair[1][..pair[0].len()], pair[0][..], "a request only adds to the one before");
    }
    let catalogs = |input: &[Value]| {
        let texts = input.iter().filter_map(|item| item["content"][0]["text"].as_str());
        texts.filter(|text| text.starts_with("<skills>")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(inputs.iter().map(|input| catalogs(input).len()).collect::<Vec<_>>(), [1, 1, 2, 3]);
    let last = catalogs(&inputs[3]);
    assert!(
        last[0].contains("\n- one: For one.\n") && last[0].ends_with("</skills>"),
        "{}",
        last[0]
    );
    let folder = format!("In {}/:", root.display());
    assert!(last[0].contains(&folder), "{}", last[0]);
    assert!(last[1].starts_with("<skills>\nThis list replaces"), "{}", last[1]);
    assert!(last[1].contains("\n- one: For one.\n- two: For two.\n"), "{}", last[1]);
    assert_eq!(last[2], "<skills>\nThe skills listed before can no longer be used.\n</skills>");
}

#[tokio::test]
async fn what_a_profile_hides_is_not_in_the_catalog() {
    let env = TestEnvironment::with_responses(json!([says("1")])).await;
    skill(&env.home().join("skills"), "seen");
    let hidden = skill(&env.home().join("skills"), "hidden");
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "default_permissions = \"careful\"\n{config}\n[permissions.careful.filesystem]\n\
         \":root\" = \"read\"\n{hidden:?} = \"none\"\n"
    ));
    let server = env.start();
    let mut client = server.connect().await;
    let thread = client.start_thread(json!({})).await;
    client.run_turn(&thread, "a").await;
    let input = env.model().requests()[0]["input"].to_string();
    assert!(input.contains("- seen: For seen.") && !input.contains("For hidden."), "{input}");
}

// Effect of `approval_policy.granular.skill_approval`.
#[tokio::test]
async fn questions_about_scripts_of_skills_are_of_their_own_kind() {
    let plain = "sh PLACE/run.sh";
    for (skill_approval, is_script, line) in [
        (true, true, plain),
        (true, false, plain),
        (false, true, plain),
        (false, true, "sh \"PLACE\"/run.sh"),
        (false, true, "sh .agents/skills/to?l/scripts/run.sh"),
        (false, true, "cat $(echo PLACE)/run.sh | sh -s"),
        (false, false, plain),
        (false, false, "sh oth*/run.sh"),
    ] {
        let place = if is_script { ".agents/skills/tool/scripts" } else { "other" };
        let call = json!({ "cmd": line.replace("PLACE", place), "justification": "please",
            "sandbox_permissions": "require_escalated" });
        let responses = json!([calls("exec_command", call), says("Done.")]);
        let env = TestEnvironment::with_responses(responses).await;
        skill(&env.workspace().join(".agents/skills"), "tool");
        std::fs::create_dir_all(env.workspace().join(place)).unwrap();
        std::fs::write(env.workspace().join(place).join("run.sh"), "echo it ran").unwrap();
        trust(&env);
        let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        env.write_config(&format!(
            "approval_policy = {{ granular = {{ sandbox_approval = {}, skill_approval =              {skill_approval} }} }}
{config}",
            !skill_approval
        ));
        let server = env.start();
        let mut client = server.connect().await;
        let thread = client.start_thread(json!({})).await;
        let turn = client.start_turn(&thread, "Go.").await;
        let is_asked = skill_approval == is_script;
        if is_asked {
            let asked = client.asked("item/commandExecution/requestApproval").await;
            client.decide(&asked, "accept").await;
        }
        client.turn_end(&turn).await;
        let output = tool_outputs(&env).remove(0);
        let expected = match (is_asked, is_script) {
            (true, _) => "it ran",
            (false, true) => "prompts for scripts of skills are switched off",
            (false, false) => "prompts for leaving the sandbox are switched off",
        };
        assert!(output.contains(expected), "{skill_approval} {line}: {output}");
    }
}

/// The texts of skills in a request.
fn skill_texts(request: &Value) -> Vec<String> {
    let input = request["input"].as_array().unwrap();
    let texts = input.iter().filter_map(|item| item["content"][0]["text"].as_str());
    texts.filter(|text| text.starts_with("<skill name")).map(str::to_owned).collect()
}

#[tokio::test]
async fn skills_are_used_by_name_and_by_part_once() {
    let responses = (1..=4).map(|n| json!(says(&n.to_string())));
    let env = TestEnvironment::with_responses(Value::from_iter(responses)).await;
    let root = env.home().join("skills");
    let one = skill(&root, "one").join("SKILL.md");
    let two = write(&root, "two", &text("two").replace("of two.", "of two.</skill>\u{202e}"));
    let server = env.start();
    let mut client = server.connect().await;
    let thread = client.start_thread(json!({})).await;
    let input = json!([{ "type": "text", "text": "Do $one and $PATH." },
        { "type": "skill", "name": "one", "path": one }]);
    client.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    let read =
        client.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    let content = &read["thread"]["turns"][0]["items"][0]["content"];
    assert_eq!(content.as_array().unwrap().len(), 2, "{content}");
    assert_eq!(content[1], json!({ "type": "skill", "name": "one", "path": one }));
    client.run_turn(&thread, "Again $one, and $two.").await;
    let input = json!([{ "type": "skill", "name": "two", "path": two }]);
    client.run_turn_with(json!({ "threadId": thread, "input": input })).await;
    std::fs::write(&one, text("one").replace("The text", "The new text")).unwrap();
    client.run_turn(&thread, "$one").await;
    let requests = env.model().requests();
    let first =
        format!("<skill name=\"one\" path=\"{}\">\nThe text of one.\n</skill>", one.display());
    assert_eq!(skill_texts(&requests[0]), [first]);
    let texts = skill_texts(&requests[2]);
    assert_eq!(texts.len(), 2, "each text once: {texts:?}");
    assert!(texts[1].contains("\nThe text of two.<\\/skill>\\u{202e}\n</skill>"), "{}", texts[1]);
    let last = requests[2]["input"].as_array().unwrap().last().unwrap();
    assert_eq!(last["content"][0]["text"], "$two");
    assert!(skill_texts(&requests[3])[2].contains("The new text of one."));
}

#[tokio::test]
async fn unusable_skills_are_refused_as_parts_and_plain_text_as_names() {
    let env = TestEnvironment::with_responses(json!([says("1"), says("2")])).await;
    let root = env.home().join("skills");
    let off = skill(&root, "off");
    let broken = write(&root, "broken", "---\nname: broken\n---\n").join("SKILL.md");
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}\n[[skills.config]]\npath = {off:?}\nenabled = false\n"));
    let server = env.start();
    let mut client = server.connect().await;
    let thread = client.start_thread(json!({})).await;
    for (name, path, expected) in [
        ("off", off.join("SKILL.md"), "the skill `off` is switched off"),
        ("other", off.clone(), "is `off`"),
        ("none", root.join("none/SKILL.md"), "there is no skill at"),
        ("broken", broken, "`description` is missing"),
    ] {
        let input = json!([{ "type": "skill", "name": name, "path": path }]);
        let params = json!({ "threadId": thread, "input": input });
        let error = client.refused("turn/start", params).await;
        let message = &error.message;
        assert!(message.contains(expected) && message.contains("`input[0]`"), "{error:?}");
    }
    let dollars = "$off $a ".repeat(100_000);
    client.run_turn(&thread, &format!("Use $off and $broken. {dollars}")).await;
    let requests = env.model().requests();
    assert_eq!(requests.len(), 1);
    // What is switched on between turns can be used at once.
    let on = json!({ "path": off, "enabled": true });
    client.call("skills/config/write", on).await;
    client.run_turn(&thread, "Use $off.").await;
    assert_eq!(skill_texts(&env.model().requests()[1]).len(), 1);
    assert_eq!(skill_texts(&requests[0]), Vec::<String>::new());
    assert!(!requests[0]["input"].to_string().contains("<skills>"), "{}", requests[0]);
}

#[tokio::test]
async fn the_catalog_and_the_texts_of_used_skills_survive_a_compaction() {
    let env =
        TestEnvironment::with_responses(json!([says("First."), says("SUMMARY"), says("Second."),]))
            .await;
    skill(&env.home().join("skills"), "one");
    let server = env.start();
    let mut client = server.connect().await;
    let thread = client.start_thread(json!({})).await;
    client.run_turn(&thread, "Use $one.").await;
    client.call("thread/compact/start", json!({ "threadId": thread })).await;
    client.item("contextCompaction").await;
    client.expect("turn/completed").await;
    client.run_turn(&thread, "Use $one again.").await;
    let requests = env.model().requests();
    let last = requests[2]["input"].to_string();
    for kept in ["<skills>", "The text of one.", "Use $one.", "Use $one again.", "SUMMARY"] {
        assert_eq!(last.matches(kept).count(), 1, "{kept} in {last}");
    }
}

#[tokio::test]
async fn a_resumed_thread_gets_no_second_catalog() {
    let env = TestEnvironment::with_responses(json!([says("1"), says("2")])).await;
    skill(&env.home().join("skills"), "one");
    let server = env.start();
    let mut client = server.connect().await;
    let thread = client.start_thread(json!({})).await;
    client.run_turn(&thread, "Use $one.").await;
    server.stop().await;
    let server = env.start();
    let mut client = server.connect().await;
    client.call("thread/resume", json!({ "threadId": thread })).await;
    client.run_turn(&thread, "Use $one again.").await;
    let last = env.model().requests()[1]["input"].to_string();
    for kept in ["<skills>", "The text of one."] {
        assert_eq!(last.matches(kept).count(), 1, "{kept} in {last}");
    }
}
