//! What skills need besides their texts: environment variables that the user gives, and MCP servers that are
//! installed when the user consents.

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Peer, ReceivedRequest, TestEnvironment, TestServer};

use crate::{runs, says, tool_outputs};

const ASKS: &str = "item/tool/requestUserInput";
const SECRET: &str = "s3cret-value";

/// A server with one tool.
const SCRIPT: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
  *'"method":"initialize"'*)
    say "$id" '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
  *'"method":"tools/list"'*) say "$id" '{"tools":[{"name":"extract","inputSchema":{"type":"object"}}]}';;
  *'"method":"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id";;
  esac
done
"#;

/// An environment with the skill `pdf`, which needs these things.
async fn environment(responses: Value, tools: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    let folder = env.home().join("skills/pdf");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "---\nname: pdf\ndescription: For PDFs.\n---\nThe text.\n";
    std::fs::write(folder.join("SKILL.md"), text).unwrap();
    let needs = json!({ "dependencies": { "tools": tools } });
    std::fs::write(folder.join("SKILL.json"), needs.to_string()).unwrap();
    env
}

fn variable(name: &str) -> Value {
    json!({ "type": "env_var", "value": name, "description": "A key." })
}

/// An MCP server that the script is.
fn program(env_root: &Path) -> String {
    let script = env_root.join("server.sh");
    std::fs::write(&script, SCRIPT).unwrap();
    format!("sh {}", script.display())
}

async fn open(server: &TestServer, policy: &str) -> (Peer, String) {
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let params = json!({ "approvalPolicy": policy, "sandbox": "dangerFullAccess" });
    let thread = peer.start_thread(params).await;
    (peer, thread)
}

async fn answer(peer: &mut Peer, asked: &ReceivedRequest, answers: Value) {
    peer.answer(asked, json!({ "answers": answers })).await;
}

fn asked_count(peer: &Peer) -> usize {
    peer.transcript().iter().filter(|line| line.contains(ASKS)).count()
}

/// The note about needs in the last request to the model.
fn note(env: &TestEnvironment) -> String {
    let request = env.model().requests().pop().unwrap();
    let items = request["input"].as_array().unwrap().clone();
    let mut texts = items.iter().filter_map(|item| item["content"][0]["text"].as_str());
    texts.rfind(|text| text.starts_with("<skill_needs>")).unwrap_or_default().to_owned()
}

/// Whether a file below the folder contains the text.
fn holds(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => holds(&entry.path(), text),
        kind if kind.is_file() => {
            let bytes = std::fs::read(entry.path()).unwrap();
            bytes.windows(text.len()).any(|part| part == text.as_bytes())
        }
        _ => false,
    })
}

#[tokio::test]
async fn variables_are_asked_for_once_and_given_to_commands_only() {
    let counts = || runs("printenv PDF_KEY | wc -c; printenv PDF_USER");
    let mut env = environment(
        json!([counts(), says("1"), counts(), says("2"), counts(), says("3")]),
        json!([variable("PDF_KEY"), variable("PDF_USER"), variable("PATH"), variable("PDF_KEY")]),
    )
    .await;
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let turn = peer.start_turn(&thread, "Use $pdf.").await;
    let asked = peer.asked(ASKS).await;
    let questions = asked.params["questions"].as_array().unwrap().clone();
    let ids: Vec<_> = questions.iter().map(|question| question["id"].clone()).collect();
    assert_eq!(ids, ["PDF_KEY", "PDF_USER"]);
    assert!(questions.iter().all(|question| question["isSecret"] == true));
    let text = questions[0]["question"].as_str().unwrap();
    assert!(text.contains("The skill `pdf` needs the environment variable PDF_KEY (“A key”)"));
    assert_eq!(env.model().requests().len(), 0, "the model waits for the answers");
    let answers = json!({ "PDF_KEY": { "answers": [SECRET] }, "PDF_USER": { "answers": [] } });
    answer(&mut peer, &asked, answers).await;
    peer.turn_end(&turn).await;
    assert_eq!(tool_outputs(&env).concat().matches(&format!("{}", SECRET.len() + 1)).count(), 1);
    let found = note(&env);
    assert!(found.contains("variable PDF_KEY is set for the commands of this thread"), "{found}");
    assert!(found.contains("PDF_USER is not set: the user gave no value"), "{found}");
    // What is set is not asked for again, but the rest is.
    let turn = peer.start_turn(&thread, "Again $pdf.").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(asked.params["questions"].as_array().unwrap().len(), 1);
    answer(&mut peer, &asked, json!({ "PDF_USER": { "answers": ["me"] } })).await;
    peer.turn_end(&turn).await;
    assert!(tool_outputs(&env).pop().unwrap().contains("me"));
    let is_shown = env.model().raw_requests().iter().any(|request| request.contains(SECRET));
    assert!(!is_shown, "the model got the value");
    env.crash();
    assert!(!holds(env.home(), SECRET), "the value is stored");
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    let turn = peer.start_turn(&thread, "And $pdf.").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(asked.params["questions"].as_array().unwrap().len(), 2, "kept for the session");
    answer(&mut peer, &asked, json!({})).await;
    peer.turn_end(&turn).await;
}

#[tokio::test]
async fn without_an_answer_the_turn_goes_on_and_the_model_learns_why() {
    for (policy, experimental, why) in [
        ("never", true, "PDF_KEY is not set: the approval policy is `never`"),
        ("on-request", false, "PDF_KEY is not set: not answered: no client that can answer"),
    ] {
        let env = environment(json!([says("1")]), json!([variable("PDF_KEY")])).await;
        let server = env.start();
        let mut peer = server.connect_with(json!({ "experimentalApi": experimental })).await;
        let params = json!({ "approvalPolicy": policy, "sandbox": "dangerFullAccess" });
        let thread = peer.start_thread(params).await;
        let turn = peer.run_turn(&thread, "Use $pdf.").await;
        assert_eq!(turn["status"], "completed");
        let found = note(&env);
        assert!(found.contains(why), "{found}");
        assert_eq!(asked_count(&peer), 0);
    }
}

#[tokio::test]
async fn more_needs_than_a_request_has_questions_are_asked_one_request_after_the_other() {
    let names = ["A1", "A2", "A3", "A4", "A5"];
    let tools = names.map(variable);
    let env = environment(json!([runs("echo $A1$A5"), says("1")]), json!(tools)).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let turn = peer.start_turn(&thread, "Use $pdf.").await;
    for count in [3, 2] {
        let asked = peer.asked(ASKS).await;
        let questions = asked.params["questions"].as_array().unwrap().clone();
        assert_eq!(questions.len(), count);
        let answers: serde_json::Map<String, Value> = questions
            .iter()
            .map(|question| question["id"].as_str().unwrap().to_owned())
            .map(|id| (id.clone(), json!({ "answers": [format!("<{id}>")] })))
            .collect();
        answer(&mut peer, &asked, Value::Object(answers)).await;
    }
    peer.turn_end(&turn).await;
    assert!(tool_outputs(&env).concat().contains("<A1><A5>"));
}

#[tokio::test]
async fn an_interruption_withdraws_the_questions() {
    let env = environment(json!([says("1")]), json!([variable("PDF_KEY")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let turn = peer.start_turn(&thread, "Use $pdf.").await;
    peer.asked(ASKS).await;
    let waits = |notice: &Value| notice["status"]["activeFlags"] == json!(["waitingOnUserInput"]);
    peer.expect_where("thread/status/changed", waits).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    peer.expect("serverRequest/resolved").await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    assert_eq!(env.model().requests().len(), 0);
    let ended = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(ended["status"], "completed");
}

// Effect of `features.skill_mcp_dependency_install`.
#[tokio::test]
async fn servers_are_installed_on_consent_only() {
    for (choice, config, requirements, expected) in [
        (Some("Install"), "", "", "was installed; its tools can be called from now on"),
        (Some("Do not install"), "", "", "is not installed: the user declined"),
        (
            None,
            "[features]\nskill_mcp_dependency_install = false\n",
            "",
            "`features.skill_mcp_dependency_install` is off",
        ),
        (
            None,
            "",
            "[mcp_servers.other.identity]\ncommand = \"x\"\n",
            "does not list this name and identity",
        ),
        (
            None,
            "[mcp_servers.reader]\nurl = \"https://example.com/mcp\"\n",
            "",
            "the configuration has another server of this name",
        ),
    ] {
        let env = environment(json!([says("1")]), json!([])).await;
        let command = program(env.root());
        let tool = json!({ "type": "mcp", "value": "reader", "transport": "stdio",
            "command": command });
        let needs = json!({ "dependencies": { "tools": [tool] } });
        std::fs::write(env.home().join("skills/pdf/SKILL.json"), needs.to_string()).unwrap();
        let before = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        env.write_config(&format!("{before}\n{config}"));
        if !requirements.is_empty() {
            std::fs::create_dir_all(env.system_dir()).unwrap();
            std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
        }
        let server = env.start();
        let (mut peer, thread) = open(&server, "on-request").await;
        let turn = peer.start_turn(&thread, "Use $pdf.").await;
        if let Some(choice) = choice {
            let asked = peer.asked(ASKS).await;
            let question = asked.params["questions"][0].clone();
            let text = question["question"].as_str().unwrap();
            assert!(text.contains(&format!("runs the program `{command}` outside")), "{text}");
            assert!(text.contains("environment variables: ") && text.contains("PATH"), "{text}");
            let id = question["id"].as_str().unwrap();
            answer(&mut peer, &asked, json!({ id: { "answers": [choice] } })).await;
        }
        peer.turn_end(&turn).await;
        assert_eq!(asked_count(&peer) > 0, choice.is_some(), "{expected}");
        let found = note(&env);
        assert!(found.contains(expected), "{expected} in {found}");
        let after = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        let is_installed = choice == Some("Install");
        assert_eq!(after.contains("server.sh"), is_installed, "{after}");
        let request = env.model().requests().pop().unwrap();
        let tools = request["tools"].to_string();
        assert_eq!(tools.contains("extract"), is_installed, "{tools}");
    }
}

#[tokio::test]
async fn no_consent_comes_from_the_policy_or_a_reviewer() {
    for (policy, reviewer) in [("never", "user"), ("on-request", "auto_review")] {
        let env = environment(json!([says("1")]), json!([])).await;
        let command = program(env.root());
        let tool = json!({ "type": "mcp", "value": "reader", "command": command });
        let needs = json!({ "dependencies": { "tools": [tool] } });
        std::fs::write(env.home().join("skills/pdf/SKILL.json"), needs.to_string()).unwrap();
        let server = env.start();
        // It cannot be asked.
        let mut peer = server.connect().await;
        let params = json!({ "approvalPolicy": policy, "approvalsReviewer": reviewer,
            "sandbox": "workspaceWrite" });
        let thread = peer.start_thread(params).await;
        peer.run_turn(&thread, "Use $pdf.").await;
        let found = note(&env);
        assert!(found.contains("The MCP server `reader` is not installed: "), "{found}");
        let after = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        assert!(!after.contains("server.sh"), "{after}");
    }
}

#[tokio::test]
async fn a_skill_that_depends_on_itself_is_reported() {
    let itself = json!([{ "type": "skill", "value": "pdf" }, variable("PDF_KEY")]);
    let env = environment(json!([says("1")]), itself).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let cwd = env.workspace();
    let listed = peer.call("skills/list", json!({ "cwds": [cwd] })).await;
    let message = listed["data"][0]["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("a skill cannot depend on a skill, here on `pdf`"), "{message}");
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Use $pdf.").await["status"], "completed");
}

#[tokio::test]
async fn a_fork_and_a_restart_inform_the_model_of_variables_that_are_not_set() {
    let count = || runs("printenv PDF_KEY | wc -c");
    let responses = json!([count(), says("1"), says("2"), says("3"), says("4"), says("5")]);
    let mut env = environment(responses, json!([variable("PDF_KEY")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let turn = peer.start_turn(&thread, "Use $pdf.").await;
    let asked = peer.asked(ASKS).await;
    answer(&mut peer, &asked, json!({ "PDF_KEY": { "answers": [SECRET] } })).await;
    peer.turn_end(&turn).await;
    let lost = "The environment variable PDF_KEY is not set in this thread";
    let fork = peer.call("thread/fork", json!({ "threadId": thread })).await;
    let fork = fork["thread"]["id"].as_str().unwrap().to_owned();
    peer.run_turn(&fork, "Go on.").await;
    assert!(note(&env).contains(lost), "{}", note(&env));
    // The thread itself still has it, also after a rollback.
    peer.run_turn(&thread, "Go on.").await;
    assert!(note(&env).contains("PDF_KEY is set for the commands"), "{}", note(&env));
    peer.call("thread/rollback", json!({ "threadId": thread, "numTurns": 1 })).await;
    peer.run_turn(&thread, "Go on.").await;
    assert!(note(&env).contains("PDF_KEY is set for the commands"), "{}", note(&env));
    env.crash();
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    peer.run_turn(&thread, "And?").await;
    assert!(note(&env).contains(lost), "{}", note(&env));
}

#[tokio::test]
async fn a_server_that_was_consented_to_and_does_not_start_gives_a_warning() {
    let env = environment(json!([says("1")]), json!([])).await;
    let tool = json!({ "type": "mcp", "value": "reader", "command": "/missing/program" });
    let needs = json!({ "dependencies": { "tools": [tool] } });
    std::fs::write(env.home().join("skills/pdf/SKILL.json"), needs.to_string()).unwrap();
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let turn = peer.start_turn(&thread, "Use $pdf.").await;
    let asked = peer.asked(ASKS).await;
    answer(&mut peer, &asked, json!({ "mcp:reader": { "answers": ["Install"] } })).await;
    peer.turn_end(&turn).await;
    let warns =
        |line: &&String| line.contains("\"method\":\"warning\"") && line.contains("`reader`");
    assert_eq!(peer.raw_lines().iter().filter(warns).count(), 1, "{:?}", peer.raw_lines());
    assert!(note(&env).contains("does not start"), "{}", note(&env));
}

#[tokio::test]
async fn what_a_skill_must_not_ask_for_is_reported_and_never_asked() {
    let tools = json!([
        variable("LD_PRELOAD"),
        { "type": "mcp", "value": "files", "url": "file:///etc/passwd" },
        { "type": "mcp", "value": "hidden", "url": "https://user:pw@good@evil/" },
    ]);
    let env = environment(json!([says("1")]), tools).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let listed = peer.call("skills/list", json!({ "cwds": [env.workspace()] })).await;
    let errors = listed["data"][0]["errors"].as_array().unwrap().clone();
    for (at, part) in ["[0].value`: a skill cannot ask for `LD_PRELOAD`", "[1].url`", "[2].url`"]
        .iter()
        .enumerate()
    {
        let shown = errors[at].to_string();
        assert!(shown.contains(part) && shown.contains("SKILL.json"), "{shown}");
    }
    assert_eq!(peer.run_turn(&thread, "Use $pdf.").await["status"], "completed");
    assert_eq!(asked_count(&peer), 0);
}

#[tokio::test]
async fn a_skill_that_the_model_opens_by_itself_is_asked_for_once() {
    let open_it = || runs("cat ../home/skills/pdf/SKILL.md");
    let count = runs("printenv PDF_KEY | wc -c");
    let responses = json!([open_it(), count, says("1"), open_it(), says("2")]);
    let env = environment(responses, json!([variable("PDF_KEY")])).await;
    let server = env.start();
    let (mut peer, thread) = open(&server, "on-request").await;
    let turn = peer.start_turn(&thread, "Make a PDF.").await;
    let asked = peer.asked(ASKS).await;
    assert_eq!(asked.params["questions"][0]["id"], "PDF_KEY");
    assert_eq!(env.model().requests().len(), 1, "the model waits for the answer");
    answer(&mut peer, &asked, json!({ "PDF_KEY": { "answers": [SECRET] } })).await;
    peer.turn_end(&turn).await;
    assert!(note(&env).contains("PDF_KEY is set for the commands"), "{}", note(&env));
    assert!(tool_outputs(&env).concat().contains(&format!("{}", SECRET.len() + 1)));
    peer.run_turn(&thread, "Again.").await;
    assert_eq!(asked_count(&peer), 1);
}
