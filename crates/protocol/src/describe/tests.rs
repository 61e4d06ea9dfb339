//! Every kind of item with its facts.

use serde_json::{Value, json};

use super::*;

fn item(item: &Value) -> ThreadItem {
    serde_json::from_value(item.clone()).unwrap()
}

fn phrase(phrase: &Phrase<'_>) -> String {
    format!("{}|{}", phrase.label, phrase.text)
}

/// All facts of an item; the call with paths from `/w`.
fn facts(item: &ThreadItem) -> [String; 5] {
    let status = match item.failure() {
        None => format!("{:?}", item.status()),
        Some(reason) => format!("{:?}: {reason}", item.status()),
    };
    let body = match item.body() {
        Body::Input(_) => "input".to_owned(),
        Body::Answer(text) => format!("answer {text}"),
        Body::Reasoning(it) => format!("reasoning {}", it.text()),
        Body::Aside(from) => format!("aside {}", phrase(&from)),
        Body::Command(it) => format!("command {}|{}", it.label(), it.succeeded()),
        Body::Changes(it) => format!("changes {}", phrase(&it.headline())),
        Body::Step(step) => {
            let parts = [phrase(&step.done), step.notes.join("+"), step.output];
            format!("step {}", parts.join("|").trim_end_matches('|'))
        }
    };
    let call = match item.call("/w") {
        None => "-".to_owned(),
        Some(Call { title, activity, paths }) => {
            let paths = paths.map(|paths| format!(" {}", paths.join("+"))).unwrap_or_default();
            format!("{activity:?} {title}{paths}")
        }
    };
    let line = item.line().as_ref().map_or("-".to_owned(), phrase);
    [status, phrase(&item.doing()), body, line, call]
}

fn check(json: Value, expect: [&str; 5]) {
    assert_eq!(facts(&item(&json)), expect, "{json}");
}

fn command(more: Value) -> Value {
    let mut item = json!({ "type": "commandExecution", "id": "i", "command": "make", "cwd": "/w",
        "status": "completed", "commandActions": [] });
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

#[test]
fn messages() {
    check(
        json!({ "type": "userMessage", "id": "i", "content": [{ "type": "text", "text": "Hi" }] }),
        ["Completed", "Message|", "input", "-", "-"],
    );
    check(
        json!({ "type": "hookPrompt", "id": "i", "fragments": [
            { "hookRunId": "1", "text": "a" }, { "hookRunId": "2", "text": "b" }] }),
        ["Completed", "Message|", "aside Hook|a\nb", "hook|a\nb", "Other A hook added text"],
    );
    check(
        json!({ "type": "agentMessage", "id": "i", "text": "T", "reason": "cut" }),
        ["Completed", "Writes|", "answer T", "agent|T", "-"],
    );
    check(
        json!({ "type": "plan", "id": "i", "text": "P" }),
        ["Completed", "Writes|", "answer P", "plan|P", "-"],
    );
    check(
        json!({ "type": "reasoning", "id": "i", "summary": ["a", "b"], "content": ["c"] }),
        ["Completed", "Writes|", "reasoning a\n\nb", "-", "-"],
    );
    check(
        json!({ "type": "reasoning", "id": "i", "summary": [], "content": ["c"] }),
        ["Completed", "Writes|", "reasoning c", "-", "-"],
    );
}

#[test]
fn commands() {
    let check = |more: Value, status: &str, body: &str, call: &str| {
        check(command(more), [status, "Runs |make", body, "$|make", call]);
    };
    let execute = "Execute make";
    check(json!({ "status": "inProgress" }), "InProgress", "command Runs |false", execute);
    check(json!({ "exitCode": 0 }), "Completed", "command Ran |true", execute);
    check(json!({ "exitCode": 1 }), "Completed", "command Ran |false", execute);
    let user = json!({ "exitCode": 0, "source": "userShell" });
    check(user, "Completed", "command You ran: |true", execute);
    check(json!({ "status": "failed" }), "Failed", "command Failed: |false", execute);
    check(json!({ "status": "declined" }), "Declined", "command Not run: |false", execute);
    let read = json!({ "type": "read", "command": "cat a", "name": "a", "path": "/w/a" });
    let search = json!({ "type": "search", "command": "rg" });
    let actions = |actions: Value| json!({ "exitCode": 0, "commandActions": actions });
    check(actions(json!([read])), "Completed", "command Ran |true", "Read make");
    check(actions(json!([read, search])), "Completed", "command Ran |true", "Search make");
}

#[test]
fn changes_of_files() {
    let change =
        |path: &str, kind: Value, diff: &str| json!({ "path": path, "kind": kind, "diff": diff });
    let check = |status: &str, changes: Value, expect: [&str; 5]| {
        check(
            json!({ "type": "fileChange", "id": "i", "status": status, "changes": changes }),
            expect,
        );
    };
    let (add, delete) = (json!({ "type": "add" }), json!({ "type": "delete" }));
    let moved = json!({ "type": "update", "move_path": "/w/b" });
    check(
        "completed",
        json!([change("/w/a", add.clone(), "x\n")]),
        ["Completed", "Changed |/w/a", "changes Changed |/w/a", "change|1 file", "Edit Add a"],
    );
    check(
        "declined",
        json!([change("/w/a", delete.clone(), ""), change("/b", delete, "")]),
        [
            "Declined",
            "Not changed, since it was declined: |2 files",
            "changes Not changed, since it was declined: |2 files",
            "change|2 files",
            "Delete Delete a, /b",
        ],
    );
    check(
        "inProgress",
        json!([change("a", moved.clone(), "")]),
        ["InProgress", "Changes |a", "changes Changes |a", "change|1 file", "Move Move a"],
    );
    check(
        "failed",
        json!([change("a", moved, "@@"), change("b", add, "")]),
        [
            "Failed",
            "Not changed: |2 files",
            "changes Not changed: |2 files",
            "change|2 files",
            "Edit Change a, b",
        ],
    );
}

#[test]
fn calls_of_tools() {
    check(
        json!({ "type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "completed",
            "arguments": { "a": 1 },
            "result": { "content": [{ "type": "text", "text": "T" }, { "type": "image" }, 1] } }),
        [
            "Completed",
            "Calls |s.t({\"a\":1})",
            "step Called |s.t({\"a\":1})||T\n[image]\n[content]",
            "tool|s/t",
            "Other s: t",
        ],
    );
    check(
        json!({ "type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": "failed",
            "arguments": null, "error": { "message": "no" } }),
        ["Failed: no", "Calls |s.t()", "step Called |s.t()", "tool|s/t: no", "Other s: t"],
    );
    check(
        json!({ "type": "dynamicToolCall", "id": "i", "tool": "t", "status": "completed",
            "arguments": [], "success": true, "contentItems": [
                { "type": "inputText", "text": "T" }, { "type": "inputImage", "imageUrl": "data:" }] }),
        ["Completed", "Calls |t", "step Called |t([])||T\n[inputImage]", "tool|t", "Other t"],
    );
    check(
        json!({ "type": "dynamicToolCall", "id": "i", "tool": "t", "status": "completed",
            "arguments": [], "success": false }),
        ["Failed", "Calls |t", "step Called |t([])", "tool|t: failed", "Other t"],
    );
    let long = "é".repeat(kinds::MAX_ARGUMENTS);
    let cut = format!("t(\"{} … 3 bytes more)", "é".repeat(kinds::MAX_ARGUMENTS - 1));
    assert_eq!(named_call("t", &json!(long).into()), cut);
}

#[test]
fn calls_between_agents() {
    let call = |tool: &str, more: Value| {
        let mut item = json!({ "type": "collabToolCall", "id": "i", "tool": tool,
            "status": "completed", "senderThreadId": "a" });
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    check(
        call(
            "spawnAgent",
            json!({ "prompt": "Look\nhere", "agentsStates": {
                "b": { "status": "running" }, "c": { "status": "completed", "message": "x\ny" } } }),
        ),
        [
            "Completed",
            "|Starts an agent: Look",
            "step |Starts an agent: Look|b: Running+c: Completed  x",
            "agents|Look\nhere",
            "Think Start an agent",
        ],
    );
    for (tool, doing, title) in [
        ("sendInput", "Writes to an agent", "Write to an agent"),
        ("resumeAgent", "Goes on with an agent", "Resume an agent"),
        ("wait", "Waits for agents", "Wait for agents"),
        ("closeAgent", "Closes an agent", "End an agent"),
    ] {
        let (doing, call_title) = (format!("|{doing}"), format!("Think {title}"));
        let (step, line) = (format!("step {doing}"), format!("agents|{title}: gone"));
        let item = call(tool, json!({ "status": "failed", "reason": "gone" }));
        check(item, ["Failed: gone", &doing, &step, &line, &call_title]);
    }
}

#[test]
fn steps() {
    let search =
        |action: Value| json!({ "type": "webSearch", "id": "i", "query": "q", "action": action });
    let doing = "Searches the web: |q";
    check(
        search(Value::Null),
        ["Completed", doing, "step Web: |q", "search|q", "Search Search the web: q"],
    );
    check(
        search(json!({ "type": "openPage", "url": "u" })),
        ["Completed", doing, "step Web: |opened u", "search|q", "Fetch Open u"],
    );
    check(
        search(json!({ "type": "findInPage", "url": "u", "pattern": "p" })),
        ["Completed", doing, "step Web: |looked for p in u", "search|q", "Search Find p in u"],
    );
    check(
        json!({ "type": "imageView", "id": "i", "path": "/w/a", "reason": "none" }),
        [
            "Failed: none",
            "Looks at |/w/a",
            "step Looked at |/w/a",
            "image|/w/a: none",
            "Read View /w/a /w/a",
        ],
    );
    check(
        json!({ "type": "imageGeneration", "id": "i", "status": "in_progress", "result": "" }),
        [
            "InProgress",
            "Makes an image|",
            "step Made an image: ",
            "image|generated",
            "Other Draw an image ",
        ],
    );
    check(
        json!({ "type": "imageGeneration", "id": "i", "status": "completed", "result": "AA==",
            "revisedPrompt": "a cat", "savedPath": "/c" }),
        [
            "Completed",
            "Makes an image|",
            "step Made an image: |/c",
            "image|a cat",
            "Other Draw a cat /c",
        ],
    );
}

#[test]
fn marks_of_the_conversation() {
    check(
        json!({ "type": "enteredReviewMode", "id": "i", "review": "R" }),
        ["Completed", "Reviews |R", "step Reviews |R", "review|R", "Think Review R"],
    );
    check(
        json!({ "type": "exitedReviewMode", "id": "i", "review": "R" }),
        ["Completed", "Ends the review|", "answer R", "review|R", "-"],
    );
    let step = "step Summarised the conversation to free the context";
    let doing = "Summarises the conversation|";
    check(
        json!({ "type": "contextCompaction", "id": "i" }),
        [
            "Completed",
            doing,
            step,
            "history|replaced by a summary, to fit the model's context",
            "-",
        ],
    );
    check(
        json!({ "type": "contextCompaction", "id": "i", "reason": "no" }),
        ["Failed: no", doing, step, "history|left as it is: no", "-"],
    );
}

#[test]
fn a_thread_as_markdown() {
    let items = json!([
        { "type": "userMessage", "id": "1", "content": [
            { "type": "text", "text": "Fix it" }, { "type": "localImage", "path": "/a.png" },
        ] },
        { "type": "reasoning", "id": "2", "summary": ["**Looking**"], "content": [] },
        { "type": "commandExecution", "id": "3", "command": "cat `x`", "cwd": "/", "status": "failed",
          "commandActions": [], "aggregatedOutput": "```\n\u{1b}[1mno", "exitCode": 2 },
        { "type": "fileChange", "id": "4", "status": "declined", "changes": [
            { "path": "a.rs", "kind": { "type": "update", "move_path": "b`.rs" }, "diff": "-x\n+y\n" },
        ] },
        { "type": "mcpToolCall", "id": "5", "server": "maps", "tool": "find", "status": "completed",
          "arguments": {}, "result": { "content": [{ "type": "text", "text": "here" }, { "type": "image" }] } },
        { "type": "agentMessage", "id": "6", "text": "Done.\n" },
    ]);
    let items: Vec<ThreadItem> = serde_json::from_value(items).unwrap();
    let expect = "\
# A title

## User

Fix it

Image `/a.png`

### Reasoning

**Looking**

### Command

```sh
cat `x`
```

````
```
\\u{1b}[1mno
````

*Exit code 2.*

### Changed file `a.rs`, moved to `` b`.rs ``

```diff
-x
+y
```

*Declined.*

### Tool `find` of `maps`

```json
{}
```

```
here
```

*Content of type `image`.*

## Agent

Done.

";
    assert_eq!(markdown(Some("A\ntitle"), &items), expect);
    assert_eq!(markdown(None, &[]), "");
}

#[test]
fn the_other_kinds_as_markdown() {
    let check = |json: Value, expect: &str| {
        assert_eq!(markdown(None, &[item(&json)]), format!("{expect}\n\n"), "{json}");
    };
    check(
        json!({ "type": "hookPrompt", "id": "i", "fragments": [{ "hookRunId": "1", "text": "a" }] }),
        "### Hook\n\na",
    );
    check(
        json!({ "type": "plan", "id": "i", "text": "P", "reason": "it\nended" }),
        "### Plan\n\nP\n\n*Cut off:* it ended",
    );
    check(
        json!({ "type": "dynamicToolCall", "id": "i", "tool": "t", "status": "completed", "arguments": [] }),
        "### Tool `t`\n\n```json\n[]\n```",
    );
    check(
        json!({ "type": "collabToolCall", "id": "i", "tool": "sendInput", "status": "failed",
            "senderThreadId": "a", "prompt": "p", "reason": "gone" }),
        "### A sub-agent was sent a message\n\n```\np\n```\n\n*Failed:* gone",
    );
    let page = json!({ "type": "openPage", "url": "u" });
    check(json!({ "type": "webSearch", "id": "i", "query": "q", "action": page }), "Opened `u`");
    check(
        json!({ "type": "webSearch", "id": "i", "query": "q", "reason": "no" }),
        "Searched the web for `q`\n\n*Failed:* no",
    );
    check(json!({ "type": "imageView", "id": "i", "path": "/a" }), "Looked at the image `/a`");
    check(
        json!({ "type": "imageGeneration", "id": "i", "status": "completed", "result": "", "savedPath": "/a" }),
        "Made an image `/a`",
    );
    check(json!({ "type": "enteredReviewMode", "id": "i", "review": "a\nb" }), "### Review of a b");
    check(
        json!({ "type": "exitedReviewMode", "id": "i", "review": "R" }),
        "### Result of the review\n\nR",
    );
    check(json!({ "type": "contextCompaction", "id": "i" }), "*The context was compacted.*");
}

#[test]
fn a_page_finds_the_texts_of_notes_in_the_item() {
    for (kind, json) in [
        (ItemKind::WebSearch, json!({ "type": "webSearch", "id": "i", "query": "T" })),
        (ItemKind::ImageView, json!({ "type": "imageView", "id": "i", "path": "T" })),
        (
            ItemKind::ImageGeneration,
            json!({ "type": "imageGeneration", "id": "i", "status": "completed", "result": "",
                "revisedPrompt": "T" }),
        ),
        (
            ItemKind::EnteredReviewMode,
            json!({ "type": "enteredReviewMode", "id": "i", "review": "T" }),
        ),
    ] {
        let item = item(&json);
        assert_eq!(
            (item.kind(), item.id(), kind.name()),
            (kind, "i", json["type"].as_str().unwrap())
        );
        let member = kind.note().and_then(|note| note.member).unwrap();
        assert_eq!(serde_json::to_value(&item).unwrap()[member], "T");
    }
}
