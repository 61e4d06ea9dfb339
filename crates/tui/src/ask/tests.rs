use serde_json::json;

use super::*;

mod answers;

fn open(method: &str, params: Value) -> Ask {
    Ask::new(method, params, Context::default()).unwrap()
}

fn command(extra: Value) -> Ask {
    let mut params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0,
        "command": "cargo test\n--all", "cwd": "/work/project",
    });
    params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    open("item/commandExecution/requestApproval", params)
}

fn all() -> Value {
    json!({
        "reason": "to see\u{1b}[2J whether it works",
        "additionalPermissions": { "network": { "enabled": true }, "fileSystem": { "write": ["/etc"] } },
        "availableDecisions": [
            "accept",
            "acceptForSession",
            { "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["cargo", "test it"] } },
            { "applyNetworkPolicyAmendment": { "network_policy_amendment": { "host": "a.org", "action": "allow" } } },
            "decline",
            "cancel"
        ],
    })
}

fn c(c: char) -> Key {
    Key::plain(Code::Char(c))
}

fn reply(answer: Option<Answer>) -> Value {
    answer.unwrap().reply.unwrap()
}

/// Presses a key, after which nothing is typed.
fn alone(ask: &mut Ask, key: Key, now_ms: u64) -> Option<Answer> {
    ask.key(key, now_ms).or_else(|| ask.settle(now_ms + 300))
}

const ESC: Key = Key::plain(Code::Esc);
const DOWN: Key = Key::plain(Code::Down);

#[test]
fn a_command_is_displayed_whole() {
    let ask = command(all());
    let whole = "\
Run this command?
$ cargo test
  --all
In: /work/project
With more access than the sandbox gives:
  Network: any host
  Write: /etc
Why: to see\\u{1b}[2J whether it works
› 1. Yes, once (y)
  2. Yes, for this session (a)
     You will not be asked again about exactly this command in this session.
  3. Yes, and always allow commands that start with `cargo 'test it'` (p)
     Adds a rule for all later sessions, too: `cargo 'test it'` with any further arguments runs without asking.
  4. Yes, and always allow a.org (h)
     Adds a rule for all later sessions, too: every command may connect to a.org without asking.
  5. No, continue without it (n, Esc)
  6. No, and say what to do instead (s)
  7. No, and stop the turn (c, Ctrl+C)
";
    assert_eq!(ask.view(120, 40).text(), whole);
    assert_eq!(ask.view(80, 24).lines.len(), 20);
    let narrow = "\
Run this command?
$ cargo test
  --all
In: /work/project
With more access than the sandbox gives:
  Network: any host
  Write: /etc
Why: to see\\u{1b}[2J whether it works
› 1. Yes, once (y)
  2. Yes, for this session (a)
     You will not be asked again about
Esc: No, continue without it … 15 more
";
    assert_eq!(ask.view(40, 12).text(), narrow);
    assert_eq!(ask.view(10, 3).text(), "Run this\n… 21 hidd…\n› 1. Yes,\n");
    for columns in 0..30 {
        for rows in 0..20 {
            let view = ask.view(columns, rows);
            assert!(view.lines.len() <= rows, "{columns}x{rows}");
            assert!(view.lines.iter().all(|line| line.width() <= columns), "{columns}x{rows}");
        }
    }
}

#[test]
fn decisions_are_those_of_the_protocol() {
    for (key, expect) in [
        (c('y'), json!("accept")),
        (c('1'), json!("accept")),
        (Key::plain(Code::Enter), json!("accept")),
        (c('a'), json!("acceptForSession")),
        (
            c('p'),
            json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": ["cargo", "test it"] } }),
        ),
        (
            c('4'),
            json!({ "applyNetworkPolicyAmendment":
                { "network_policy_amendment": { "host": "a.org", "action": "allow" } } }),
        ),
        (c('n'), json!("decline")),
        (Key::plain(Code::Esc), json!("decline")),
        (c('c'), json!("cancel")),
        (Key::ctrl('c'), json!("cancel")),
    ] {
        let mut ask = command(all());
        let _ = ask.view(120, 40);
        assert_eq!(reply(alone(&mut ask, key, 1000)), json!({ "decision": expect }), "{key:?}");
    }
    // Only what is offered.
    let mut ask = command(json!({ "availableDecisions": ["accept", "cancel"] }));
    let _ = ask.view(120, 40);
    assert_eq!(alone(&mut ask, c('a'), 1000), None);
    assert_eq!(reply(ask.key(ESC, 1001)), json!({ "decision": "cancel" }));
    // What is offered where the server does not say.
    let ask = command(json!({
        "networkApprovalContext": { "host": "b.org", "protocol": "socks5Tcp" },
        "proposedNetworkPolicyAmendments": [{ "host": "b.org", "action": "deny" }],
    }));
    let text = ask.view(120, 40).text();
    assert!(text.starts_with("Allow a connection to b.org?\n"), "{text}");
    assert!(text.contains("Network: b.org over TCP (SOCKS5)\n"), "{text}");
    assert!(text.contains("  3. No, and always refuse b.org (b)\n"), "{text}");
}

#[test]
fn a_command_that_the_request_leaves_out_is_that_of_the_item() {
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "availableDecisions": [],
    });
    let item = json!({
        "type": "commandExecution", "id": "i", "command": "ls", "cwd": "/x", "status": "inProgress",
        "commandActions": [],
    });
    let item: ThreadItem = serde_json::from_value(item).unwrap();
    let method = "item/commandExecution/requestApproval";
    let context = Context { item: Some(&item), ..Context::default() };
    let mut ask = Ask::new(method, params.clone(), context).unwrap();
    assert_eq!(ask.view(80, 24).text(), "Run this command?\n$ ls\nIn: /x\n");
    // Refusing works even where nothing is offered.
    assert_eq!(reply(ask.key(Key::plain(Code::Esc), 1000)), json!({ "decision": "decline" }));
    let text = open(method, params).view(80, 24).text();
    assert!(text.contains("The server did not name the command."), "{text}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]

    #[test]
    fn nothing_of_a_command_is_cut_off(text in "[ -~\n\u{1b}日é]{0,300}", columns in 8usize..60) {
        let ask = command(json!({ "command": text, "availableDecisions": [] }));
        let shown = ask.view(columns, 5000).text();
        let join = |text: &str| text.split_whitespace().collect::<String>();
        let expect = join(&visible::text(&text));
        proptest::prop_assert!(join(&shown).contains(&expect), "{}", shown);
        // By pages, all of it can be seen and then accepted with one press.
        let mut ask = command(json!({ "command": text }));
        for now in 0..100 {
            let _ = ask.view(columns, 20);
            ask.key(Key::plain(Code::PageDown), 1000 + now);
        }
        let _ = ask.view(columns, 20);
        proptest::prop_assert!(ask.key(Key::plain(Code::Enter), 2000).is_some());
    }
}

#[test]
fn keys_meant_for_something_else_do_nothing() {
    let mut ask = command(json!({}));
    let _ = ask.view(120, 40);
    assert_eq!(ask.key(c('y'), 399), None);
    let text = ask.view(120, 40).text();
    assert!(text.ends_with("This just appeared, so the key was ignored\n"), "{text}");
    assert_eq!(ask.key(c('y'), 600), None);
    assert!(ask.view(120, 40).text().contains("You were still typing"));
    assert_eq!(ask.key(DOWN, 900), None);
    assert_eq!(reply(alone(&mut ask, c('y'), 901)), json!({ "decision": "accept" }));
    // Keys before it appeared count.
    let mut guard = Guard::new(1000, Some(1400), false);
    assert!(guard.refuses(1401, c('y')).is_some() && guard.refuses(1701, c('y')).is_none());
}

#[test]
fn what_was_not_on_the_screen_is_accepted_only_after_a_second_press() {
    let long = || {
        command(json!({ "command": (0..50).map(|n| format!("line {n}\n")).collect::<String>() }))
    };
    let mut ask = long();
    // Never drawn.
    assert_eq!(alone(&mut ask, c('y'), 1000), None);
    let _ = ask.view(80, 24);
    let text = ask.view(80, 24).text();
    assert!(text.contains("lines hidden (0 above, "), "{text}");
    assert_eq!(alone(&mut ask, c('y'), 2000), None);
    let text = ask.view(80, 24).text();
    assert!(text.contains("lines were not on the screen"), "{text}");
    // Another key in between starts again.
    assert_eq!(alone(&mut ask, c('a'), 3000), None);
    assert_eq!(alone(&mut ask, c('y'), 4000), None);
    assert_eq!(reply(alone(&mut ask, c('y'), 5000)), json!({ "decision": "accept" }));
    // Having looked at all of it needs one press.
    let mut ask = long();
    for now in 0..10 {
        let _ = ask.view(80, 24);
        assert_eq!(ask.key(Key::plain(Code::PageDown), 1000 + now), None);
    }
    let text = ask.view(80, 24).text();
    assert!(text.contains("0 below"), "{text}");
    assert_eq!(reply(alone(&mut ask, c('y'), 2000)), json!({ "decision": "accept" }));
    // A choice whose rule was not on the screen.
    let mut ask = command(all());
    for (row, presses) in [(40, 1), (3, 3)] {
        let taken = (0..presses).map(|at| {
            let _ = ask.view(120, row);
            alone(&mut ask, c('p'), 1000 * (at + 1))
        });
        let taken: Vec<bool> = taken.map(|it| it.is_some()).collect();
        let mut expect = vec![false; presses as usize];
        expect[presses as usize - 1] = true;
        assert_eq!(taken, expect, "{row}");
        ask = command(all());
    }
    // Refusing needs no look.
    let mut ask = long();
    let _ = ask.view(80, 24);
    assert_eq!(reply(alone(&mut ask, c('n'), 1000)), json!({ "decision": "decline" }));
}

#[test]
fn file_changes() {
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "grantRoot": "/srv",
    });
    let item: ThreadItem = serde_json::from_value(json!({
        "type": "fileChange", "id": "i", "status": "inProgress", "changes": [
            { "path": "a.rs", "kind": { "type": "update", "move_path": null }, "diff": "@@ -1 +1 @@\n-old\n+new\n" },
            { "path": "b.rs", "kind": { "type": "add" }, "diff": "text\n" },
        ],
    }))
    .unwrap();
    let context = Context { item: Some(&item), ..Context::default() };
    let mut ask = Ask::new("item/fileChange/requestApproval", params.clone(), context).unwrap();
    let text = "\
Change 2 files?
Change a.rs
  @@ -1 +1 @@
  -old
  +new
Create b.rs
  +text
› 1. Yes, once (y)
  2. Yes, and allow edits in /srv (e)
     In this session, the agent may change files there, even with commands, without asking.
  3. No, continue without it (n, Esc)
  4. No, and say what to do instead (s)
  5. No, and stop the turn (c, Ctrl+C)
";
    assert_eq!(ask.view(100, 24).text(), text);
    let answer = alone(&mut ask, c('e'), 1000).unwrap();
    assert_eq!(answer.follow_up, FollowUp::None);
    assert_eq!(answer.reply.unwrap(), json!({ "decision": "acceptForSession" }));
    let ask = open("item/fileChange/requestApproval", params);
    assert!(ask.view(80, 24).text().contains("This client does not have the changes"));
}

#[test]
fn the_heading_says_what_happens_to_a_file_of_the_folder() {
    let headed = |path: &str, kind: Value| {
        let params = json!({
            "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "grantRoot": "/work",
        });
        let item: ThreadItem = serde_json::from_value(json!({
            "type": "fileChange", "id": "i", "status": "inProgress",
            "changes": [{ "path": path, "kind": kind, "diff": "@@ -1 +1 @@\n-a\n+b\n" }],
        }))
        .unwrap();
        let context = Context { item: Some(&item), cwd: Path::new("/work"), ..Context::default() };
        Ask::new("item/fileChange/requestApproval", params, context).unwrap()
    };
    for (path, kind, heading) in [
        ("/work/src/a.rs", json!({ "type": "update" }), "Change src/a.rs?"),
        ("/work/src/a.rs", json!({ "type": "add" }), "Create src/a.rs?"),
        ("/work/a\u{202e}", json!({ "type": "delete" }), "Delete a\\u{202e}?"),
        (
            "/work/a",
            json!({ "type": "update", "move_path": "/else/b" }),
            "Change a and move it to /else/b?",
        ),
    ] {
        let text = headed(path, kind).view(80, 24).text();
        assert_eq!(text.lines().next(), Some(heading));
    }
    let mut ask = headed("/work/a", json!({ "type": "update" }));
    let text = ask.view(80, 24).text();
    assert!(text.contains("  2. Yes, and allow edits in this folder (e)\n"), "{text}");
    let answer = alone(&mut ask, c('e'), 1000).unwrap();
    assert_eq!(answer.follow_up, FollowUp::AllowEdits);
    assert_eq!(answer.reply.unwrap(), json!({ "decision": "acceptForSession" }));
}

#[test]
fn permissions() {
    let asked = json!({
        "network": { "enabled": true },
        "fileSystem": { "entries": [
            { "path": { "type": "special", "value": { "kind": "root" } }, "access": "read" },
        ] },
    });
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 0, "cwd": "/w", "permissions": asked,
    });
    for (key, expect) in [
        (c('y'), json!({ "permissions": asked })),
        (c('a'), json!({ "permissions": asked, "scope": "session" })),
        (c('n'), json!({ "permissions": {} })),
        (Key::plain(Code::Esc), json!({ "permissions": {} })),
    ] {
        let mut ask = open("item/permissions/requestApproval", params.clone());
        let text = ask.view(80, 24).text();
        assert!(
            text.contains("  Network: any host\n  Read: the whole file system\nIn: /w\n"),
            "{text}"
        );
        assert_eq!(reply(alone(&mut ask, key, 1000)), expect);
    }
}

fn press(ask: &mut Ask, keys: &[Key]) -> Option<Answer> {
    let _ = ask.view(80, 24);
    let last = keys.iter().map(|key| ask.key(*key, 1000)).last().flatten();
    last.or_else(|| ask.settle(1300))
}

const ENTER: Key = Key::plain(Code::Enter);

#[test]
fn questions() {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "questions": [
        { "id": "lang", "header": "Language", "question": "Which one?", "isOther": true, "options": [
            { "label": "Rust", "description": "Quick" }, { "label": "Go", "description": "" },
        ] },
        { "id": "key", "header": "Key", "question": "Which key?", "isSecret": true },
    ] });
    let mut ask = open("item/tool/requestUserInput", params.clone());
    let text = "\
The agent asks you
Language (1 of 2)
Which one?
› ○ 1. Rust
       Quick
  ○ 2. Go
    3. Something else (s)
    4. No, continue without an answer (n, Esc)
    5. No, and stop the turn (c, Ctrl+C)
Enter continues, Space chooses several, Tab the other questions
";
    assert_eq!(ask.view(80, 24).text(), text);
    assert_eq!(ask.view(120, 40).text(), text);
    assert_eq!(ask.view(10, 3).lines.len(), 3);
    assert_eq!(press(&mut ask, &[ENTER, c('s'), c('é')]), None);
    ask.paste("x", 1001);
    let view = ask.view(40, 12);
    assert!(view.text().contains("›   1. •••\n"), "{}", view.text());
    assert_eq!(view.cursor, Some((3, 10)));
    let answer = press(&mut ask, &[ENTER]).unwrap();
    assert_eq!(answer.summary.text(), "Answered Language: Rust; Key: (hidden)");
    let expect =
        json!({ "answers": { "lang": { "answers": ["Rust"] }, "key": { "answers": ["séx"] } } });
    assert_eq!(answer.reply.unwrap(), expect);
    // Several options and a text; the other question is skipped.
    let mut ask = open("item/tool/requestUserInput", params.clone());
    let answer = press(&mut ask, &[c('1'), c('2'), c('s'), c('Z'), c('1'), ENTER, ENTER]);
    assert_eq!(
        reply(answer),
        json!({ "answers": { "lang": { "answers": ["Rust", "Go", "Z1"] } } })
    );
    let mut ask = open("item/tool/requestUserInput", params);
    assert_eq!(reply(press(&mut ask, &[Key::plain(Code::Esc)])), json!({ "answers": {} }));
}

fn form(properties: Value, required: Value) -> Ask {
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    let params = json!({
        "threadId": "t", "serverName": "maps", "mode": "form", "message": "Where to?", "requestedSchema": schema,
    });
    open("mcpServer/elicitation/request", params)
}

#[test]
fn forms() {
    let properties = json!({
        "a": { "type": "string", "title": "Town", "minLength": 2 },
        "b": { "type": "integer", "minimum": 1, "default": 3 },
        "c": { "type": "boolean", "description": "by night" },
        "d": { "type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"] },
        "e": { "type": "array", "items": { "type": "string", "enum": ["p", "q"] }, "maxItems": 1 },
    });
    let mut ask = form(properties.clone(), json!(["a", "d"]));
    let text = "\
maps asks
Where to?
› Town (required)

    3
  c by night
    [ ] not set
  d (required)
    ‹ not set › (2 options)
  e
     [ ] p  [ ] q
  1. Send (y)
  2. No, continue without it (n, Esc)
Tab moves, Space changes
";
    assert_eq!(ask.view(80, 24).text().replace("\n  b\n", "\n"), text);
    let space = c(' ');
    // Sent with a text that is too short.
    let to_send = [ENTER; 5];
    press(&mut ask, &[c('X')]);
    press(&mut ask, &to_send);
    assert_eq!(press(&mut ask, &[ENTER]), None);
    let text = ask.view(80, 24).text();
    assert!(text.ends_with("Town needs at least 2 characters\n"), "{text}");
    press(&mut ask, &[c('Y'), ENTER, c('0'), ENTER, space, ENTER]);
    press(&mut ask, &[space, Key::plain(Code::Right), ENTER]);
    press(&mut ask, &[space, Key::plain(Code::Right), space, ENTER]);
    assert_eq!(press(&mut ask, &[ENTER]), None);
    assert!(ask.view(80, 24).text().ends_with("e takes at most 1 of its options\n"));
    press(&mut ask, &[space, ENTER]);
    let content = json!({ "a": "XY", "b": 30, "c": true, "d": "y", "e": ["p"] });
    assert_eq!(reply(press(&mut ask, &[ENTER])), json!({ "action": "accept", "content": content }));
    let mut ask = form(properties.clone(), json!([]));
    assert_eq!(reply(press(&mut ask, &[ESC])), json!({ "action": "decline" }));
    let mut ask = form(properties, json!([]));
    let decline = [Key::plain(Code::Up), DOWN, ENTER];
    assert_eq!(reply(press(&mut ask, &decline)), json!({ "action": "decline" }));
    let mut ask = form(json!({}), json!([]));
    assert_eq!(reply(press(&mut ask, &[c('y')])), json!({ "action": "accept", "content": {} }));
}

#[test]
fn pages() {
    let page = |url: &str| {
        open(
            "mcpServer/elicitation/request",
            json!({
                "threadId": "t", "turnId": null, "serverName": "bank", "mode": "url", "message": "Log in",
                "url": url, "elicitationId": "e",
            }),
        )
    };
    let mut ask = page("https://bank.org@evil.org:8080/a?b=c");
    let view = ask.view(80, 24);
    let text = "\
Open a page for bank?
Log in
  https://bank.org@evil.org:8080/a?b=c
The part before the @ is not the host: the page is on evil.org:8080
› 1. Yes, open the page in the browser (y)
  2. Yes, I open it myself (d)
  3. No, continue without it (n, Esc)
";
    assert_eq!(view.text(), text);
    assert_eq!(view.lines[2].spans[1].text(), "evil.org:8080");
    let answer = press(&mut ask, &[c('y')]).unwrap();
    assert_eq!(answer.open.as_deref(), Some("https://bank.org@evil.org:8080/a?b=c"));
    assert_eq!(answer.reply.unwrap(), json!({ "action": "accept" }));
    for url in [
        "javascript:alert(1)",
        "https://a.org\\@b.org",
        "https://",
        "https://a.org/\u{202e}",
        "file:///x",
    ] {
        let text = page(url).view(80, 24).text();
        assert!(text.contains("This is not a web address"), "{text}");
        assert!(!text.contains("open the page"), "{text}");
    }
}

#[test]
fn what_cannot_be_asked_is_refused_with_the_reason() {
    let refused = |method: &str, params: Value| {
        *Ask::new(method, params, Context::default()).expect_err("refused")
    };
    let answer = refused("item/unknown", json!({}));
    assert_eq!(answer.reply.unwrap_err().code, -32601);
    let answer = refused("item/commandExecution/requestApproval", json!({ "threadId": 3 }));
    let error = answer.reply.unwrap_err();
    assert_eq!(error.code, -32602);
    assert!(error.message.contains("item/commandExecution/requestApproval"), "{}", error.message);
    let call =
        json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "draw", "arguments": null });
    let answer = refused("item/tool/call", call);
    let expect = "the terminal has no tools of its own, so `draw` is unavailable";
    let content = json!([{ "type": "inputText", "text": expect }]);
    assert_eq!(answer.reply.unwrap(), json!({ "contentItems": content, "success": false }));
    // Of a newer version.
    let params =
        json!({ "threadId": "t", "serverName": "maps", "mode": "voice", "message": "Say it" });
    let mut ask = open("mcpServer/elicitation/request", params);
    assert!(ask.view(80, 24).text().contains("the mode `voice`"));
    assert_eq!(reply(press(&mut ask, &[ESC])), json!({ "action": "decline" }));
}

#[test]
fn every_request_of_the_server_is_asked_or_refused() {
    for info in protocol::SERVER_REQUESTS {
        for params in [json!(null), json!([]), json!({}), json!("x")] {
            if let Err(answer) = Ask::new(info.name, params, Context::default()) {
                assert!(!answer.summary.text().is_empty(), "{}", info.name);
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_keys_at_any_size_lead_to_a_view_that_fits(
        kind in 0usize..4,
        steps in proptest::collection::vec((0usize..16, 0usize..70, 0usize..30), 0..60),
    ) {
        let mut ask = match kind {
            0 => command(all()),
            1 => open("item/tool/requestUserInput", json!({
                "threadId": "t", "turnId": "u", "itemId": "i", "questions": [
                    { "id": "a", "header": "A", "question": "b\n日", "isOther": true,
                      "options": [{ "label": "x", "description": "y" }] },
                    { "id": "b", "header": "B", "question": "c" },
                ],
            })),
            2 => form(json!({
                "a": { "type": "string", "default": "日" },
                "b": { "type": "string", "enum": ["x", "y"] },
                "c": { "type": "array", "items": { "type": "string", "enum": [] } },
                "d": { "type": "boolean" },
            }), json!(["a", "b", "c", "d"])),
            _ => form(json!({}), json!([])),
        };
        let codes = [
            Code::Up, Code::Down, Code::Left, Code::Right, Code::Tab, Code::Enter, Code::Backspace,
            Code::Delete, Code::Home, Code::End, Code::PageUp, Code::PageDown, Code::Char(' '),
            Code::Char('2'), Code::Char('é'), Code::Insert,
        ];
        for (at, (code, columns, rows)) in steps.into_iter().enumerate() {
            if ask.key(Key::plain(codes[code]), at as u64 * 1000).is_some() {
                break;
            }
            let view = ask.view(columns, rows);
            proptest::prop_assert!(view.lines.len() <= rows);
            proptest::prop_assert!(view.lines.iter().all(|line| line.width() <= columns));
            proptest::prop_assert!(view.cursor.is_none_or(|(row, _)| row < rows));
        }
    }
}
