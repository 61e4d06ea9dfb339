//! Which keys answer a question, which belong to a message, and the ways to refuse.

use super::*;

#[test]
fn a_message_that_is_typed_into_a_question_answers_nothing() {
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    for (at, key) in "/goal ya".chars().enumerate() {
        assert_eq!(ask.key(c(key), 5_000 + 200 * at as u64), None, "{key}");
    }
    assert_eq!(ask.key(ENTER, 7_000), None);
    assert!(ask.view(80, 24).text().contains("typing your message"));
    // Also after a pause, it goes on with the message.
    assert_eq!(alone(&mut ask, c('n'), 9_500), None);
    assert_eq!(ask.key(ENTER, 12_000), None);
    assert!(ask.view(80, 24).text().contains("typing your message"));
    assert_eq!(ask.key(DOWN, 13_000), None);
    assert_eq!(reply(alone(&mut ask, c('n'), 14_000)), json!({ "decision": "decline" }));
    assert_eq!(ask.take_words(), "/goal yan");
}

#[test]
fn a_letter_answers_only_when_no_other_follows() {
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    assert_eq!(ask.key(c('y'), 5_000), None);
    assert_eq!(ask.settles_at(), Some(5_300));
    assert_eq!(ask.settle(5_299), None);
    assert_eq!(reply(ask.settle(5_300)), json!({ "decision": "accept" }));
    // The first letter of a word, whichever answer it stands for.
    for word in ["yes please", "no, use the other file", "show me", "always", "can you"] {
        let mut ask = command(all());
        let _ = ask.view(80, 24);
        for (at, key) in word.chars().enumerate() {
            let now = 5_000 + 290 * at as u64;
            assert_eq!(ask.settle(now), None);
            assert_eq!(ask.key(c(key), now), None, "{word}");
        }
        assert_eq!(ask.settle(60_000), None);
        assert_eq!(ask.key(ENTER, 60_000), None, "{word}");
        assert_eq!(ask.take_words(), word);
    }
    // Held, or pressed twice, it is one answer; Enter confirms it at once.
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    assert_eq!((ask.key(c('n'), 5_000), ask.key(c('n'), 5_100)), (None, None));
    assert_eq!(reply(ask.settle(5_300)), json!({ "decision": "decline" }));
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    assert_eq!(ask.key(c('a'), 5_000), None);
    assert_eq!(reply(ask.key(ENTER, 5_050)), json!({ "decision": "acceptForSession" }));
}

#[test]
fn keys_belong_to_a_message_that_is_being_written_until_an_arrow_turns_to_the_question() {
    let mut params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "command": "ls", "cwd": "/",
    });
    params["availableDecisions"] = all()["availableDecisions"].take();
    let context = Context { is_writing: true, ..Context::default() };
    let mut ask = Ask::new("item/commandExecution/requestApproval", params, context).unwrap();
    let _ = ask.view(80, 24);
    assert_eq!(alone(&mut ask, c('y'), 60_000), None);
    assert_eq!(ask.key(ENTER, 120_000), None);
    ask.paste(" and more", 130_000);
    assert_eq!(ask.key(DOWN, 140_000), None);
    let answer = alone(&mut ask, c('y'), 150_000);
    assert_eq!(reply(answer), json!({ "decision": "accept" }));
    assert_eq!(ask.take_words(), "y and more");
    // A key that came too early, and again, is no word.
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    for now in [100, 250, 350] {
        assert_eq!(ask.key(c('y'), now), None);
    }
    assert_eq!(reply(alone(&mut ask, c('y'), 1_000)), json!({ "decision": "accept" }));
    assert_eq!(ask.take_words(), "");
}

#[test]
fn a_refusal_can_say_what_to_do_instead() {
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    assert_eq!(alone(&mut ask, c('s'), 1_000), None);
    let text = ask.view(80, 24).text();
    assert!(text.contains("› 6. No, and say what to do instead (s)\n     >\n"), "{text}");
    assert_eq!(ask.key(ENTER, 2_000), None);
    assert!(ask.view(80, 24).text().contains("Nothing is written yet"));
    for key in "use nextest".chars() {
        assert_eq!(ask.key(c(key), 3_000), None);
    }
    ask.paste(" here", 3_001);
    let answer = ask.key(ENTER, 4_000).unwrap();
    assert_eq!(answer.reply.unwrap(), json!({ "decision": "decline" }));
    assert_eq!(answer.follow_up, FollowUp::Instruct("use nextest here".to_owned()));
    assert_eq!(
        answer.summary.text(),
        "Declined `cargo test…`; the agent gets your instructions instead"
    );
    assert_eq!(ask.take_words(), "");
    // Esc means the same as everywhere, and keeps what was written for the message.
    let mut ask = command(all());
    let _ = ask.view(80, 24);
    alone(&mut ask, c('s'), 1_000);
    ask.key(c('x'), 2_000);
    let answer = ask.key(ESC, 3_000).unwrap();
    assert_eq!(answer.follow_up, FollowUp::None);
    assert_eq!(answer.reply.unwrap(), json!({ "decision": "decline" }));
    assert_eq!(ask.take_words(), "x");
}

#[test]
fn every_question_has_the_same_ways_to_refuse() {
    let tool = json!({
        "threadId": "t", "turnId": "u", "serverName": "maps", "mode": "form", "message": "Where to?",
        "requestedSchema": { "type": "object", "properties": { "a": { "type": "string" } } },
    });
    let questions = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "questions": [
        { "id": "q", "header": "Q", "question": "?", "options": [{ "label": "A", "description": "" }] },
    ] });
    let permissions = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "cwd": "/w",
        "permissions": { "network": { "enabled": true } },
    });
    let change = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0 });
    let approval = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "command": "ls", "cwd": "/",
    });
    for (method, params) in [
        ("item/commandExecution/requestApproval", approval),
        ("item/fileChange/requestApproval", change),
        ("item/permissions/requestApproval", permissions),
        ("mcpServer/elicitation/request", tool),
        ("item/tool/requestUserInput", questions),
    ] {
        let text = open(method, params.clone()).view(100, 40).text();
        assert!(text.contains("(n, Esc)") && text.contains("(c, Ctrl+C)"), "{text}");
        let answered = |keys: &[Key]| {
            let mut ask = open(method, params.clone());
            let _ = ask.view(100, 40);
            keys.iter().find_map(|key| alone(&mut ask, *key, 1_000)).unwrap()
        };
        // From the list of answers: a form begins with its fields.
        let turn = if method.starts_with("mcp") { vec![Key::plain(Code::Tab)] } else { vec![] };
        let with = |key: Key| [&turn[..], &[key]].concat();
        assert_eq!(answered(&[ESC]), answered(&with(c('n'))), "{method}");
        let stop = answered(&with(c('c')));
        assert_eq!(stop, answered(&[Key::ctrl('c')]), "{method}");
        assert_ne!(stop, answered(&[ESC]), "{method}");
        let stops = stop.follow_up == FollowUp::StopTurn
            || stop.reply == Ok(json!({ "decision": "cancel" }));
        assert!(stops, "{method}");
    }
}

#[test]
fn a_tool_of_a_server_is_asked_about_like_a_command() {
    let request = |properties: Value| {
        open(
            "mcpServer/elicitation/request",
            json!({
                "threadId": "t", "turnId": "u", "serverName": "tickets", "mode": "form",
                "message": "Allow the agent to call the tool \"create\" of the MCP server \"tickets\"?\nArguments: {}",
                "requestedSchema": { "type": "object", "properties": properties },
                "_meta": { "agentd/toolCall": { "itemId": "i", "tool": "create", "arguments": {} } },
            }),
        )
    };
    let remember = json!({ "allowForSession": { "type": "boolean" } });
    let mut ask = request(remember.clone());
    let text = "\
Call the tool create of tickets?
Allow the agent to call the tool \"create\" of the MCP server \"tickets\"?
  Arguments: {}
› 1. Yes, once (y)
  2. Yes, for this session (a)
     You will not be asked again about this tool in this session.
  3. No, continue without it (n, Esc)
  4. No, and say what to do instead (s)
  5. No, and stop the turn (c, Ctrl+C)
";
    assert_eq!(ask.view(80, 24).text(), text);
    let accepted = |for_session: bool| json!({ "action": "accept", "content": { "allowForSession": for_session } });
    assert_eq!(reply(alone(&mut ask, c('y'), 1_000)), accepted(false));
    assert_eq!(reply(press(&mut request(remember), &[c('a')])), accepted(true));
    let mut ask = request(json!({}));
    assert_eq!(reply(press(&mut ask, &[c('y')])), json!({ "action": "accept", "content": {} }));
    // A server that asks for more than that shows its own form.
    let ask = request(json!({ "password": { "type": "string" } }));
    assert!(ask.view(80, 24).text().starts_with("tickets asks\n"));
}
