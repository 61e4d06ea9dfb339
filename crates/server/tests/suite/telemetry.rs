//! What is exported of turns, to a collector in the process; and traces from clients to providers, MCP
//! servers and commands.

use serde_json::json;
use telemetry::collector::{Behaviour, Collector, LogRecord, Received, Span, text};
use telemetry::names;
use testkit::{Peer, TestEnvironment, TestServer};

use crate::mcp_turns::{Bench, reads};
use crate::{calls, patches, runs, says};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Adds `[otel]` with these keys.
fn configure(env: &TestEnvironment, keys: &str) {
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("{config}\n{keys}\n"));
}

fn all_to(collector: &Collector) -> String {
    let to =
        format!("{{ otlp-http = {{ endpoint = \"{}\", protocol = \"json\" }} }}", collector.url());
    format!("[otel]\nexporter = {to}\ntrace_exporter = {to}\nmetrics_exporter = {to}\n")
}

fn traces_to(collector: &Collector) -> String {
    format!("[otel]\ntrace_exporter.otlp-http.endpoint = \"{}\"\n", collector.url())
}

/// Runs a turn, and returns what the collector got when the server has ended.
async fn exported(
    env: &TestEnvironment,
    collector: &Collector,
    run: impl AsyncFnOnce(&TestServer),
) -> Vec<Received> {
    let server = env.start();
    run(&server).await;
    server.stop().await;
    collector.received(0).await
}

async fn unrestricted(server: &TestServer) -> (Peer, String) {
    let mut peer = server.connect().await;
    let params = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
    let thread = peer.start_thread(params).await;
    (peer, thread)
}

fn spans(received: &[Received]) -> Vec<Span> {
    let mut spans: Vec<Span> = received.iter().flat_map(|one| one.spans.clone()).collect();
    spans.sort_by_key(|span| span.span_id.clone());
    spans
}

fn logs(received: &[Received]) -> Vec<LogRecord> {
    received.iter().flat_map(|one| one.logs.clone()).collect()
}

/// The spans as lines: below its parent, with the attributes that are the same in every run.
fn tree(spans: &[Span]) -> String {
    fn add(spans: &[Span], parent: &[u8], depth: usize, text: &mut String) {
        for span in spans.iter().filter(|span| span.parent_span_id == parent) {
            let attributes = span.attributes.iter().filter(|one| {
                let hidden = ["gen_ai.conversation.id", "agentd.turn.id", "gen_ai.tool.call.id"];
                !hidden.contains(&one.key.as_str())
            });
            let pairs = attributes.map(|one| {
                let value = telemetry::collector::text(&span.attributes, &one.key).unwrap();
                format!(" {}={value}", one.key.replace("gen_ai.", ""))
            });
            let pairs: String = pairs.collect();
            text.push_str(&format!("{}{}:{pairs}\n", "  ".repeat(depth), span.name));
            add(spans, &span.span_id, depth + 1, text);
        }
    }
    let mut text = String::new();
    add(spans, &[], 0, &mut text);
    text
}

// Effect of `otel.trace_exporter`, `otel.trace_exporter.<id>.endpoint`.
#[tokio::test]
async fn a_turn_is_a_few_spans_with_the_names_of_the_conventions() {
    let collector = Collector::start([]).await;
    let usage = json!({ "usage": { "input_tokens": 100, "cached_input_tokens": 40,
        "output_tokens": 7, "reasoning_output_tokens": 3 } });
    let responses = [runs("exit 3"), patches("*** Add File: a\n+b"), says("Done.")];
    let responses = responses.map(|mut response| {
        response["steps"].as_array_mut().unwrap().push(usage.clone());
        response
    });
    let env = TestEnvironment::with_responses(json!(responses)).await;
    let catalog = json!({ "models": [{ "id": "gpt-5", "family": "gpt", "is_default": true,
        "prices": { "input": "2.5", "cached_input": "0.25", "output": "10" } }] });
    std::fs::write(env.home().join("models.json"), catalog.to_string()).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!("model_catalog_json = \"models.json\"\n{config}"));
    configure(&env, &traces_to(&collector));
    let received = exported(&env, &collector, async |server| {
        let (mut peer, thread) = unrestricted(server).await;
        peer.run_turn(&thread, "Go.").await;
    })
    .await;
    let spans = spans(&received);
    assert!(spans.len() <= 12);
    let chat = "operation.name=chat provider.name=scripted request.model=gpt-5 \
                response.time_to_first_chunk=0 response.model=gpt-5 usage.input_tokens=100 \
                usage.cache_read.input_tokens=40 usage.cache_creation.input_tokens=0 \
                usage.output_tokens=7 usage.reasoning.output_tokens=3 agentd.cost.usd=0.00023";
    let expected = format!(
        "invoke_agent agentd: operation.name=invoke_agent agent.name=agentd \
         provider.name=scripted request.model=gpt-5 usage.input_tokens=300 \
         usage.cache_read.input_tokens=120 usage.cache_creation.input_tokens=0 \
         usage.output_tokens=21 usage.reasoning.output_tokens=9 agentd.cost.usd=0.00069 \
         agentd.turn.status=completed\n  \
         chat gpt-5: {chat}\n  \
         execute_tool exec_command: operation.name=execute_tool tool.name=exec_command \
         tool.type=function agentd.tool.kind=command process.exit.code=3 error.type=failed\n  \
         chat gpt-5: {chat}\n  \
         execute_tool apply_patch: operation.name=execute_tool tool.name=apply_patch \
         tool.type=function agentd.tool.kind=patch\n  \
         chat gpt-5: {chat}\n"
    );
    assert_eq!(tree(&spans), expected);
}

#[tokio::test]
async fn approvals_are_spans_within_the_call_with_the_decision() {
    let collector = Collector::start([]).await;
    let env = TestEnvironment::with_responses(json!([runs("touch made"), says("Done.")])).await;
    configure(&env, &all_to(&collector));
    let received = exported(&env, &collector, async |server| {
        let mut peer = server.connect().await;
        let params = json!({ "approvalPolicy": "unlessTrusted", "sandbox": "workspaceWrite" });
        let thread = peer.start_thread(params).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        let asked = peer.asked("item/commandExecution/requestApproval").await;
        env.clock.advance(1500);
        peer.decide(&asked, "decline").await;
        peer.turn_end(&turn).await;
    })
    .await;
    let spans = spans(&received);
    let approval = spans.iter().find(|span| span.name == "approval command").unwrap();
    let call = spans.iter().find(|span| span.name == "execute_tool exec_command").unwrap();
    assert_eq!(approval.parent_span_id, call.span_id);
    let decision = text(&approval.attributes, "agentd.approval.decision");
    assert_eq!(decision.as_deref(), Some("decline"));
    assert_eq!(approval.end_time_unix_nano - approval.start_time_unix_nano, 1_500_000_000);
    assert_eq!(text(&call.attributes, "error.type").as_deref(), Some("declined"));
    let metrics: Vec<String> =
        received.iter().flat_map(|one| &one.metrics).map(|metric| metric.name.clone()).collect();
    assert!(metrics.contains(&"agentd.approval.duration".to_owned()), "{metrics:?}");
}

// Effect of `otel.exporter`, `otel.exporter.<id>.endpoint`, `otel.exporter.<id>.protocol`.
// Effect of `otel.log_user_prompt`, `otel.environment`.
#[tokio::test]
async fn prompts_are_exported_only_when_they_are_asked_for_and_secrets_never() {
    const SECRET: &str = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Njc4OTA";
    for wanted in [false, true] {
        let collector = Collector::start([]).await;
        let script = json!([runs(&format!("true {SECRET}")), says("Done.")]);
        let env = TestEnvironment::with_responses(script).await;
        let keys = format!("log_user_prompt = {wanted}\nenvironment = \"staging\"\n");
        configure(&env, &format!("{}{keys}", all_to(&collector)));
        let received = exported(&env, &collector, async |server| {
            let (mut peer, thread) = unrestricted(server).await;
            peer.run_turn(&thread, &format!("Käse with {SECRET} please.")).await;
        })
        .await;
        let sent: String =
            received.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
        assert!(!sent.contains("sk-proj"), "{sent}");
        assert_eq!(sent.contains("Käse"), wanted, "{sent}");
        let logs = logs(&received);
        let prompt = logs.iter().find(|log| log.event_name == "agentd.user_prompt").unwrap();
        let value = |name: names::Name| text(&prompt.attributes, name.text);
        let length = format!("Käse with {SECRET} please.").chars().count();
        assert_eq!(value(names::PROMPT_LENGTH), Some(length.to_string()));
        let expected = r#"[{"role":"user","parts":[{"type":"text","content":"Käse with [redacted] please."}]}]"#;
        assert_eq!(value(names::PROMPT).as_deref(), wanted.then_some(expected));
        let events: Vec<&str> = logs.iter().map(|log| log.event_name.as_str()).collect();
        let (request, call) = ("agentd.model_request", "agentd.tool_call");
        assert_eq!(events, ["agentd.user_prompt", request, call, request, "agentd.turn"]);
        let environment = text(&received[0].resource, "deployment.environment.name");
        assert_eq!(environment.as_deref(), Some("staging"));
        assert_eq!(received[0].headers["content-type"], "application/json");
    }
}

// Effect of `otel.trace_exporter.<id>.protocol`.
// Effect of `otel.metrics_exporter.<id>.endpoint`, `otel.metrics_exporter.<id>.protocol`.
#[tokio::test]
async fn traces_and_metrics_go_to_their_endpoints_in_the_encoding_of_each() {
    for (protocol, content) in [("json", "application/json"), ("binary", "application/x-protobuf")]
    {
        let (traces, metrics) = (Collector::start([]).await, Collector::start([]).await);
        let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
        let to = |collector: &Collector| {
            let url = collector.url();
            format!("{{ otlp-http = {{ endpoint = \"{url}\", protocol = \"{protocol}\" }} }}")
        };
        let (of_traces, of_metrics) = (to(&traces), to(&metrics));
        let keys = format!("trace_exporter = {of_traces}\nmetrics_exporter = {of_metrics}");
        configure(&env, &format!("[otel]\n{keys}\n"));
        let received = exported(&env, &traces, async |server| {
            let (mut peer, thread) = unrestricted(server).await;
            peer.run_turn(&thread, "Go.").await;
        })
        .await;
        let measured = metrics.received(0).await;
        assert!(measured.iter().any(|one| !one.metrics.is_empty()));
        assert!(received.iter().any(|one| !one.spans.is_empty()));
        for one in received.iter().chain(&measured) {
            assert_eq!(one.headers["content-type"], content);
        }
    }
}

// Effect of `otel.metrics_exporter`, `analytics.enabled`.
#[tokio::test]
async fn metrics_go_to_the_hosted_service_only_with_analytics() {
    for (keys, messages) in [
        ("", 0),
        ("[analytics]\nenabled = false\n", 0),
        ("[analytics]\nenabled = true\n", 1),
        ("[analytics]\nenabled = true\n[otel]\nmetrics_exporter = \"none\"\n", 0),
    ] {
        let collector = Collector::start([]).await;
        let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
        let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
        let base = format!("hosted_base_url = \"{}/base/\"\n", collector.url());
        env.write_config(&format!("{base}{config}\n{keys}"));
        let received = exported(&env, &collector, async |server| {
            let (mut peer, thread) = unrestricted(server).await;
            peer.run_turn(&thread, "Go.").await;
        })
        .await;
        assert_eq!(received.len(), messages, "{keys}");
        assert!(received.iter().all(|one| one.path == "/base/v1/metrics"));
    }
}

// Effect of `otel.trace_exporter.<id>.headers`.
#[tokio::test]
async fn grpc_gets_the_configured_headers() {
    let collector = Collector::start([]).await;
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let url = collector.url();
    let keys =
        format!("endpoint = \"{url}\"\nheaders = {{ x-key = \"blue\" }}\nprotocol = \"binary\"");
    configure(&env, &format!("[otel.trace_exporter.otlp-grpc]\n{keys}\n"));
    let received = exported(&env, &collector, async |server| {
        let (mut peer, thread) = unrestricted(server).await;
        peer.run_turn(&thread, "Go.").await;
    })
    .await;
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    assert_eq!(
        (&received[0].headers["x-key"], received[0].spans.len()),
        (&"blue".parse().unwrap(), 2)
    );
}

#[tokio::test]
async fn traces_go_from_clients_to_providers_servers_and_commands() {
    let collector = Collector::start([]).await;
    let script = json!([
        runs("printf %s \"$TRACEPARENT\" > seen"),
        calls("mcp__one__echo", json!({})),
        says("Done."),
    ]);
    for is_exported in [true, false] {
        let bench = Bench::new(script.clone(), &[reads("echo")]).await;
        if is_exported {
            configure(&bench.env, &traces_to(&collector));
        }
        let server = bench.env.start();
        let params = json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" });
        let (mut peer, thread) = bench.thread(&server, params).await;
        let input = json!([{ "type": "text", "text": "Go." }]);
        let params = json!({ "threadId": thread, "input": input });
        let trace = json!({ "traceparent": CALLER, "tracestate": "a=b" });
        let id = peer.send_with("turn/start", params, trace).await;
        let turn = peer.response(id).await.unwrap()["turn"]["id"].as_str().unwrap().to_owned();
        peer.turn_end(&turn).await;
        let seen = std::fs::read_to_string(bench.env.workspace().join("seen")).unwrap();
        let called = bench.log();
        let sent: Vec<String> = bench.env.model().traceparents().into_iter().flatten().collect();
        server.stop().await;
        assert!(called.contains(&format!("\"traceparent\":\"00-{TRACE}-")), "{called}");
        assert_eq!(sent.len(), 3);
        if !is_exported {
            // What is not recorded is passed on as it came.
            assert_eq!(seen, CALLER);
            assert!(called.contains(CALLER) && sent.iter().all(|one| one == CALLER));
            continue;
        }
        let spans = collector.spans_with("invoke_agent agentd").await;
        let of = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        let context = |span: &Span| {
            let id = u64::from_be_bytes(span.span_id.as_slice().try_into().unwrap());
            format!("00-{TRACE}-{id:016x}-01")
        };
        let turn = of("invoke_agent agentd")[0];
        assert_eq!(turn.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        assert_eq!(seen, context(of("execute_tool exec_command")[0]));
        assert!(called.contains(&context(of("execute_tool echo")[0])), "{called}");
        let requests: Vec<String> = of("chat gpt-5").into_iter().map(context).collect();
        assert_eq!(sent, requests);
    }
}

#[tokio::test]
async fn a_trace_that_cannot_be_read_is_no_trace() {
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let server = env.start();
    let (mut peer, thread) = unrestricted(&server).await;
    for trace in [
        json!("00-1-2-3"),
        json!({}),
        json!([]),
        json!({ "traceparent": null }),
        json!({ "traceparent": "ff" }),
        json!({ "traceparent": "x".repeat(100_000) }),
    ] {
        let id = peer.send_with("thread/read", json!({ "threadId": thread }), trace).await;
        peer.response(id).await.unwrap();
    }
    peer.run_turn(&thread, "Go.").await;
    assert!(env.model().traceparents().iter().all(Option::is_none));
}

#[tokio::test]
async fn processes_of_a_trace_pass_it_on() {
    let collector = Collector::start([]).await;
    let mut env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    env.variables.push(("TRACEPARENT".into(), CALLER.into()));
    let url = collector.url();
    env.variables.push(("OTEL_EXPORTER_OTLP_ENDPOINT".into(), url.into()));
    env.variables.push(("OTEL_EXPORTER_OTLP_HEADERS".into(), "x-key=blue".into()));
    configure(&env, "[otel]\ntrace_exporter = \"otlp-http\"\n");
    let received = exported(&env, &collector, async |server| {
        let (mut peer, thread) = unrestricted(server).await;
        peer.run_turn(&thread, "Go.").await;
    })
    .await;
    assert_eq!(received[0].headers["x-key"], "blue");
    let spans = spans(&received);
    let turn = spans.iter().find(|span| span.name == "invoke_agent agentd").unwrap();
    assert_eq!(turn.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(turn.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
}

#[tokio::test]
async fn a_failed_turn_says_why() {
    let collector = Collector::start([]).await;
    let error = json!({ "error": { "status": 401, "code": "bad_key", "message": "Wrong key." } });
    let env = TestEnvironment::with_responses(json!([{ "steps": [error] }])).await;
    configure(&env, &all_to(&collector));
    let received = exported(&env, &collector, async |server| {
        let (mut peer, thread) = unrestricted(server).await;
        let turn = peer.start_turn(&thread, "Go.").await;
        peer.turn_end(&turn).await;
    })
    .await;
    for span in spans(&received) {
        assert_eq!(
            text(&span.attributes, "error.type").as_deref(),
            Some("unauthorized"),
            "{span:?}"
        );
        let status = span.status.unwrap();
        assert!(status.code == 2 && status.message.contains("Wrong key."), "{status:?}");
    }
    let logs = logs(&received);
    assert!(logs.iter().any(|log| log.event_name == "agentd.turn" && log.severity_text == "ERROR"));
}

#[tokio::test]
async fn a_collector_that_hangs_holds_up_neither_turns_nor_the_end() {
    let collector = Collector::start((0..64).map(|_| Behaviour::Hang)).await;
    let env = TestEnvironment::with_responses(json!([says("One."), says("Two.")])).await;
    configure(&env, &all_to(&collector));
    let server = env.start();
    let (mut peer, thread) = unrestricted(&server).await;
    peer.run_turn(&thread, "Go.").await;
    collector.received(1).await;
    peer.run_turn(&thread, "Go on.").await;
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed() < std::time::Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn exporters_that_cannot_be_used_are_reported() {
    let start = async |keys: &str| {
        let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
        configure(&env, &format!("[otel]\n{keys}\n"));
        env
    };
    let env = start("exporter.otlp-http = {}\nexporter.otlp-grpc = {}").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let refused = peer.refused("thread/start", json!({})).await;
    assert!(refused.message.contains("only one exporter can be used"), "{refused:?}");
    // Without the exporter, nothing is sent.
    let env = start("trace_exporter.jaeger.endpoint = \"http://x\"\nexporter = {}").await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    let warning = peer.expect("configWarning").await;
    assert!(warning.to_string().contains("no exporter is called `jaeger`"), "{warning}");
    let env = TestEnvironment::with_responses(json!([says("Done.")])).await;
    let headers = "headers = { \"bad name\" = \"secret1\" }";
    configure(&env, &format!("[otel.trace_exporter.otlp-http]\n{headers}\n"));
    let (server, _guard) = env.start_logged();
    let (mut peer, thread) = unrestricted(&server).await;
    peer.run_turn(&thread, "Go.").await;
    peer.run_turn(&thread, "Go.").await;
    server.stop().await;
    let log = std::fs::read_to_string(env.home().join("log/agentd.log")).unwrap();
    assert_eq!(log.matches("otel.trace_exporter").count(), 1, "{log}");
    assert!(!log.contains("secret1"), "{log}");
}
