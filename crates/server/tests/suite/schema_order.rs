//! JSON keeps the order that its author gave it: schemas, arguments and results reach the model and the client as
//! they were written. A model fills a schema in its order, so "reasoning before the answer" must stay so.

use serde_json::{Map, Value, json};
use testkit::TestEnvironment;

use crate::mcp_turns::{Bench, reads};
use crate::{calls, says};

/// Default number of schemas from each way in; `AGENTD_TEST_SCHEMAS` overrides it.
const SCHEMAS: u64 = 60;
/// Tools of one thread: more are deferred until the model searches for them.
const AT_ONCE: usize = 20;

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn shuffled<T>(&mut self, mut list: Vec<T>) -> Vec<T> {
        for end in (1..list.len()).rev() {
            list.swap(end, self.below(end + 1));
        }
        list
    }
}

/// A schema of an object whose members and keywords stand in no order of the alphabet.
fn object(random: &mut Random, depth: usize) -> Value {
    let names = ["reasoning", "answer", "zeta", "alpha", "Middle", "_id", "n10", "n9"];
    let names = random.shuffled(names.to_vec());
    let count = 1 + random.below(4);
    let properties: Map<String, Value> =
        names.iter().take(count).map(|name| ((*name).to_owned(), schema(random, depth))).collect();
    let required: Vec<&str> = names[..1 + random.below(count)].to_vec();
    let mut keywords = vec![
        ("type", json!("object")),
        ("properties", properties.into()),
        ("required", json!(required)),
        ("description", json!("An object.")),
    ];
    if random.below(2) == 0 {
        keywords.push(("additionalProperties", false.into()));
    }
    random.shuffled(keywords).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn schema(random: &mut Random, depth: usize) -> Value {
    let keywords = match random.below(if depth == 0 { 3 } else { 5 }) {
        0 => vec![("type", json!("string")), ("enum", json!(["z", "a", "m"]))],
        1 => vec![("type", json!("integer")), ("minimum", json!(-1)), ("maximum", json!(20))],
        2 => vec![("title", json!("A text")), ("type", json!("string"))],
        3 => vec![("type", json!("array")), ("items", schema(random, depth - 1))],
        _ => return object(random, depth - 1),
    };
    random.shuffled(keywords).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn schemas() -> Vec<Value> {
    let count =
        std::env::var("AGENTD_TEST_SCHEMAS").map_or(SCHEMAS, |count| count.parse().unwrap());
    (0..count).map(|seed| object(&mut Random(seed), 3)).collect()
}

/// The parameters of the tools of the first request, by the end of their names.
fn offered(env: &TestEnvironment, prefix: &str) -> Vec<String> {
    let requests = env.model().requests();
    let tools = requests.last().unwrap()["tools"].as_array().unwrap().clone();
    let mut own: Vec<(usize, String)> = tools
        .iter()
        .filter_map(|tool| {
            let number = tool["name"].as_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, tool["parameters"].to_string()))
        })
        .collect();
    own.sort();
    own.into_iter().map(|(_, parameters)| parameters).collect()
}

fn texts(schemas: &[Value]) -> Vec<String> {
    schemas.iter().map(Value::to_string).collect()
}

#[tokio::test]
async fn the_output_schema_of_a_turn_keeps_its_order() {
    let script = json!({ "responses": [says("{}")], "on_exhausted": "repeat_last" });
    let env = TestEnvironment::with_script(&script).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let schemas = schemas();
    let mut strict = 0;
    for chunk in schemas.chunks(AT_ONCE) {
        let thread = peer.start_thread(json!({})).await;
        for schema in chunk {
            let input = json!([{ "type": "text", "text": "Go." }]);
            let params = json!({ "threadId": thread, "input": input, "outputSchema": schema });
            peer.run_turn_with(params).await;
            let requests = env.model().requests();
            let format = &requests.last().unwrap()["text"]["format"];
            // An object that requires all its members is closed, which changes nothing else.
            let without = |text: String| text.replace(r#","additionalProperties":false"#, "");
            let is_strict = format["strict"] == true;
            let (sent, written) = (format["schema"].to_string(), schema.to_string());
            if is_strict {
                strict += 1;
                assert_eq!(without(sent), without(written));
            } else {
                assert_eq!(sent, written);
            }
        }
    }
    assert!(strict > 3 && strict + 3 < schemas.len(), "both kinds: {strict}");
}

#[tokio::test]
async fn parameters_of_the_tools_of_a_client_keep_their_order() {
    let script = json!({ "responses": [says("{}")], "on_exhausted": "repeat_last" });
    let env = TestEnvironment::with_script(&script).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    for chunk in schemas().chunks(AT_ONCE) {
        let numbered = chunk.iter().enumerate();
        let tools: Vec<Value> = numbered
            .map(|(n, schema)| json!({ "name": format!("own_{n}"), "description": "", "inputSchema": schema }))
            .collect();
        let thread = peer.start_thread(json!({ "dynamicTools": tools })).await;
        peer.run_turn(&thread, "Go.").await;
        assert_eq!(offered(&env, "own_"), texts(chunk));
    }
}

#[tokio::test]
async fn parameters_of_the_tools_of_an_mcp_server_keep_their_order() {
    for chunk in schemas().chunks(AT_ONCE) {
        let numbered = chunk.iter().enumerate();
        let tools: Vec<Value> = numbered
            .map(|(n, schema)| {
                let mut tool = reads(&format!("own_{n}"));
                tool["inputSchema"] = schema.clone();
                tool
            })
            .collect();
        let bench = Bench::new(json!([says("Done.")]), &tools).await;
        let server = bench.env.start();
        let (mut peer, thread) = bench.thread(&server, json!({})).await;
        peer.run_turn(&thread, "Go.").await;
        assert_eq!(offered(&bench.env, "mcp__one__own_"), texts(chunk));
    }
}

#[tokio::test]
async fn arguments_and_results_keep_their_order() {
    let arguments = json!({ "zeta": { "b": 1, "a": [{ "d": 1, "c": 2 }] }, "alpha": null });
    let call = |name: &str| calls(name, arguments.clone());
    let env = TestEnvironment::with_responses(json!([call("own"), says("Done.")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let tool = json!({ "name": "own", "description": "", "inputSchema": { "type": "object" } });
    let thread = peer.start_thread(json!({ "dynamicTools": [tool] })).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let asked = peer.asked("item/tool/call").await;
    assert_eq!(asked.params["arguments"].to_string(), arguments.to_string());
    let answer = json!({ "contentItems": [{ "type": "inputText", "text": "x" }], "success": true });
    peer.answer(&asked, answer).await;
    let item = peer.item("dynamicToolCall").await;
    assert_eq!(item["arguments"].to_string(), arguments.to_string());
    peer.turn_end(&turn).await;
    let requests = env.model().requests();
    let history = requests[1]["input"].as_array().unwrap();
    let sent = history.iter().find(|item| item["type"] == "function_call").unwrap();
    let sent: Value = serde_json::from_str(sent["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(sent.to_string(), arguments.to_string());

    let bench = Bench::new(json!([call("mcp__one__own"), says("Done.")]), &[reads("own")]).await;
    let server = bench.env.start();
    let (mut peer, thread) = bench.thread(&server, json!({})).await;
    let turn = peer.start_turn(&thread, "Go.").await;
    let item = peer.item("mcpToolCall").await;
    assert_eq!(item["arguments"].to_string(), arguments.to_string());
    peer.turn_end(&turn).await;
    let log = bench.log();
    let sent = log.lines().find(|line| line.contains("tools/call")).unwrap();
    let sent: Value = serde_json::from_str(sent).unwrap();
    assert_eq!(sent["params"]["arguments"].to_string(), arguments.to_string());
}

#[tokio::test]
async fn numbers_keep_their_digits_and_texts_their_escapes() {
    const SCHEMA: &str = r#"{"type":"object","properties":{"z":{"type":"number","default":123456789012345678901234567890},"a":{"enum":["\u00e9",1e2,0.10]}}}"#;
    const ARGUMENTS: &str = r#"{"id":123456789012345678901234567890,"rate":1.50}"#;
    let env =
        TestEnvironment::with_responses(json!([calls("own", ARGUMENTS.into()), says("{}")])).await;
    let server = env.start();
    let mut peer = server.connect_with(json!({ "experimentalApi": true })).await;
    let tool = format!(r#"{{"name":"own","description":"","inputSchema":{SCHEMA}}}"#);
    let line =
        format!(r#"{{"id":901,"method":"thread/start","params":{{"dynamicTools":[{tool}]}}}}"#);
    peer.send_line(line.as_bytes()).await;
    let thread = peer.response(901).await.unwrap()["thread"]["id"].as_str().unwrap().to_owned();
    let input = r#"[{"type":"text","text":"Go."}]"#;
    let params = format!(r#"{{"threadId":"{thread}","input":{input},"outputSchema": {SCHEMA}}}"#);
    let line = format!(r#"{{"id":902,"method":"turn/start","params":{params}}}"#);
    peer.send_line(line.as_bytes()).await;
    peer.response(902).await.unwrap();
    let asked = peer.asked("item/tool/call").await;
    let answer = json!({ "contentItems": [{ "type": "inputText", "text": "x" }], "success": true });
    peer.answer(&asked, answer).await;
    peer.expect("turn/completed").await;
    let request = &env.model().raw_requests()[0];
    assert_eq!(request.matches(SCHEMA).count(), 2, "the tool's and the answer's: {request}");
    let lines = peer.raw_lines();
    let shown = |kind: &str| lines.iter().any(|it| it.contains(kind) && it.contains(ARGUMENTS));
    assert!(shown("item/tool/call") && shown("item/completed"), "{lines:?}");
    // Also as they are stored.
    server.stop().await;
    let mut later = env.start().connect().await;
    later.call("thread/read", json!({ "threadId": thread, "includeTurns": true })).await;
    assert!(
        later.raw_lines().iter().any(|line| line.contains(ARGUMENTS)),
        "{:?}",
        later.raw_lines()
    );
}
