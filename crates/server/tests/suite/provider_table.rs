//! The providers of docs/providers.md: each configuration of that page runs a turn with a command, against a server
//! with the paths, credentials, refusals and oddities of the product.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::TestEnvironment;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use answers::{chat, claude, data, frames, gemini, plain, thought};

mod answers;

const PAGE: &str = include_str!("../../../../docs/providers.md");
const OUTPUT: &str = "said-by-the-command";
/// Of vLLM and of the model servers that check a request by a schema.
const NOT_JSON: &str = "Expecting value: line 1 column 1 (char 0)";

/// What a server does as the product does.
struct Product {
    /// The heading of its configuration, and its name in the table.
    name: &'static str,
    /// The variables of the user, of which the first is the key. `ADDRESS` is the server's origin, `HOST` it without
    /// the scheme.
    variables: &'static [(&'static str, &'static str)],
    /// A line of the configuration besides those of the page.
    more: &'static str,
    /// The path of the requests, with the query.
    path: &'static str,
    /// What the head of a request must have.
    heads: &'static [&'static str],
    /// The path of the list of models, and the list.
    list: (&'static str, &'static str),
    /// The refusal of a request's body.
    refusal: fn(&Value) -> Option<&'static str>,
    /// The answer to the request number `n`, from 0.
    answer: fn(usize) -> String,
}

const PRODUCTS: [Product; 16] = [
    Product {
        name: "The hosted API",
        variables: &[("OPENAI_API_KEY", "sk-hosted")],
        more: "default_provider_base_url = \"ADDRESS/v1\"\n",
        path: "/v1/responses",
        heads: &["authorization: Bearer sk-hosted"],
        list: (
            "/v1/models",
            r#"{"object":"list","data":[{"id":"gpt-5.2-codex","object":"model"}]}"#,
        ),
        refusal: |_| None,
        answer: |n| plain(n, true),
    },
    Product {
        name: "Azure OpenAI",
        variables: &[("AZURE_OPENAI_API_KEY", "azure-key")],
        more: "",
        path: "/openai/v1/responses",
        heads: &["authorization: Bearer azure-key"],
        list: (
            "/openai/v1/models",
            r#"{"data":[{"id":"gpt-4.1-mini-2025-04-14","object":"model"}]}"#,
        ),
        refusal: |body| {
            (body["model"] != "my-deployment")
                .then_some("The API deployment for this resource does not exist.")
        },
        // The last event has the verdicts of the filters.
        answer: |n| {
            plain(n, true)
                .replace("\"usage\"", "\"content_filters\":[{\"blocked\":false}],\"usage\"")
        },
    },
    Product {
        name: "OpenRouter",
        variables: &[("OPENROUTER_API_KEY", "sk-or-v1")],
        more: "",
        path: "/api/v1/chat/completions",
        heads: &["authorization: Bearer sk-or-v1"],
        list: (
            "/api/v1/models",
            r#"{"data":[{"id":"qwen/qwen3-coder","name":"Qwen3 Coder","context_length":262144,
                "pricing":{"prompt":"0.0000002","completion":"0.0000008"}}]}"#,
        ),
        // Some of its models refuse the role.
        refusal: no_developer,
        // Comments keep the connection alive.
        answer: |n| format!(": OPENROUTER PROCESSING\n\n{}", chat(n)),
    },
    Product {
        name: "vLLM",
        variables: &[],
        more: "",
        path: "/v1/responses",
        heads: &[],
        list: ("/v1/models", r#"{"data":[{"id":"openai/gpt-oss-120b","max_model_len":131072}]}"#),
        refusal: |body| functions_only(body).or_else(|| arguments_are_json(body)),
        // Thoughts come as text of their own kind.
        answer: |n| format!("{}{}", thought(), plain(n, true)),
    },
    Product {
        name: "Ollama",
        variables: &[("OLLAMA_HOST", "ADDRESS")],
        more: "",
        path: "/v1/responses",
        heads: &[],
        list: ("/api/tags", r#"{"models":[{"name":"gpt-oss:20b","model":"gpt-oss:20b"}]}"#),
        refusal: |body| {
            let is_stateful = !body["previous_response_id"].is_null();
            is_stateful
                .then_some("previous_response_id is not supported")
                .or_else(|| functions_only(body))
        },
        answer: |n| plain(n, false),
    },
    Product {
        name: "LM Studio",
        variables: &[("AGENT_OSS_BASE_URL", "ADDRESS/v1")],
        more: "",
        path: "/v1/responses",
        heads: &[],
        list: ("/api/v0/models", r#"{"data":[{"id":"openai/gpt-oss-20b","type":"llm"}]}"#),
        refusal: functions_only,
        answer: |n| plain(n, true),
    },
    Product {
        name: "llama.cpp",
        variables: &[],
        more: "",
        path: "/v1/chat/completions",
        heads: &[],
        list: ("/v1/models", r#"{"data":[{"id":"gpt-oss-20b"}]}"#),
        refusal: |body| {
            let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
            let is_system = |item: &Value| item["role"] == "system" || item["role"] == "developer";
            let is_late = messages.iter().skip(1).any(is_system);
            is_late.then_some("System message must be at the beginning.")
        },
        answer: chat,
    },
    Product {
        name: "A company gateway",
        variables: &[("COMPANY_LLM_KEY", "team-key"), ("COMPANY_TEAM", "blue")],
        more: "",
        path: "/v1/responses?tenant=engineering",
        heads: &["authorization: Bearer team-key", "x-client: agentd", "x-team: blue"],
        list: ("/v1/models?tenant=engineering", r#"{"data":[{"id":"team-large"}]}"#),
        refusal: functions_only,
        // A proxy that converts leaves the arguments out of the last event: the deltas had them.
        answer: |n| plain(n, true).replace("\"arguments\":\"{", "\"left_out\":\"{"),
    },
    Product {
        name: "Claude",
        variables: &[("ANTHROPIC_API_KEY", "sk-ant")],
        more: "",
        path: "/v1/messages",
        heads: &["x-api-key: sk-ant", "anthropic-version: 2023-06-01"],
        list: (
            "/v1/models?limit=1000",
            r#"{"data":[{"type":"model","id":"claude-sonnet-5-5","display_name":"Claude Sonnet"}],"has_more":false}"#,
        ),
        refusal: |body| {
            let roles = body["messages"].as_array().into_iter().flatten();
            let roles: Vec<&str> = roles.filter_map(|message| message["role"].as_str()).collect();
            let alternate = roles.windows(2).all(|pair| pair[0] != pair[1]);
            if body["max_tokens"].as_u64().is_none() {
                return Some("max_tokens: Field required");
            }
            (roles.first() != Some(&"user") || !alternate)
                .then_some("messages: roles must alternate between user and assistant")
        },
        answer: claude,
    },
    Product {
        name: "Amazon Bedrock",
        variables: &[
            ("AWS_ACCESS_KEY_ID", "AKID"),
            ("AWS_SECRET_ACCESS_KEY", "aws-secret"),
            ("AWS_SESSION_TOKEN", "aws-session"),
        ],
        more: "",
        path: "/model/us.anthropic.claude-opus-4-6-v1/invoke-with-response-stream",
        // `model/tests/suite/cloud/bedrock.rs` checks signatures.
        heads: &["x-amz-security-token: aws-session"],
        list: ("", ""),
        refusal: |body| {
            let is_extra = !body["model"].is_null() || !body["stream"].is_null();
            (is_extra || body["anthropic_version"] != "bedrock-2023-05-31")
                .then_some("Malformed input request: extraneous key [model] is not permitted")
        },
        answer: claude,
    },
    Product {
        name: "Amazon Bedrock with a key",
        variables: &[("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key")],
        more: "",
        path: "/anthropic/v1/messages",
        heads: &["x-api-key: bedrock-api-key", "anthropic-version: 2023-06-01"],
        list: (
            "/anthropic/v1/models?limit=1000",
            r#"{"data":[{"id":"anthropic.claude-opus-4-6"}]}"#,
        ),
        refusal: |body| {
            (body["model"] != "anthropic.claude-opus-4-6").then_some("The model does not exist")
        },
        answer: claude,
    },
    Product {
        name: "Vertex AI",
        // The machine has an account, and the user no login.
        variables: &[("GCE_METADATA_HOST", "HOST"), ("CLOUDSDK_CONFIG", "/nowhere")],
        more: "",
        path: "/v1/projects/my-project/locations/global/publishers/anthropic/models/claude-opus-4-6:streamRawPredict",
        heads: &["authorization: Bearer ya29.machine"],
        list: (
            "/computeMetadata/v1/instance/service-accounts/default/token",
            r#"{"access_token":"ya29.machine","expires_in":3599,"token_type":"Bearer"}"#,
        ),
        refusal: |body| {
            (!body["model"].is_null() || body["anthropic_version"] != "vertex-2023-10-16")
                .then_some("anthropic_version: Field required")
        },
        answer: claude,
    },
    Product {
        name: "Gemini",
        variables: &[("GEMINI_API_KEY", "AIza")],
        more: "",
        path: "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
        heads: &["x-goog-api-key: AIza"],
        list: (
            "/v1beta/models?pageSize=1000",
            r#"{"models":[{"name":"models/gemini-3.8-flash","inputTokenLimit":1048576}]}"#,
        ),
        // It refuses members that it does not know.
        refusal: |body| {
            let known =
                ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig"];
            let mut members = body.as_object().into_iter().flatten();
            members.any(|(name, _)| !known.contains(&name.as_str())).then_some("Unknown name")
        },
        answer: gemini,
    },
    Product {
        name: "DeepSeek",
        variables: &[("DEEPSEEK_API_KEY", "sk-deep")],
        more: "",
        path: "/chat/completions",
        heads: &["authorization: Bearer sk-deep"],
        list: (
            "/models",
            r#"{"object":"list","data":[{"id":"deepseek-v4-flash","object":"model"}]}"#,
        ),
        refusal: |body| {
            let mut tools = body["tools"].as_array().into_iter().flatten();
            tools
                .any(|tool| tool["function"]["name"].is_null())
                .then_some("missing field `function`")
                .or_else(|| no_developer(body))
        },
        // It thinks first.
        answer: |n| {
            let delta = json!({ "role": "assistant", "content": null, "reasoning_content": "Hm." });
            let choice = json!({ "index": 0, "delta": delta, "finish_reason": null });
            let id = format!("chatcmpl-{n}");
            data(&[json!({ "id": id, "object": "chat.completion.chunk", "choices": [choice] })])
                + &chat(n)
        },
    },
    Product {
        name: "GLM",
        variables: &[("ZAI_API_KEY", "zai-key")],
        more: "",
        path: "/api/paas/v4/chat/completions",
        heads: &["authorization: Bearer zai-key"],
        list: ("/api/paas/v4/models", r#"{"object":"list","data":[{"id":"glm-5.3"}]}"#),
        refusal: |body| {
            let is_auto = body["tool_choice"].is_null() || body["tool_choice"] == "auto";
            (!is_auto).then_some("1210: tool_choice").or_else(|| no_developer(body))
        },
        answer: chat,
    },
    Product {
        name: "Chat Completions",
        variables: &[("MISTRAL_API_KEY", "mistral-key")],
        more: "",
        path: "/v1/chat/completions",
        heads: &["authorization: Bearer mistral-key"],
        list: ("/v1/models", r#"{"object":"list","data":[{"id":"mistral-medium-3-5"}]}"#),
        refusal: no_developer,
        answer: chat,
    },
];

fn no_developer(body: &Value) -> Option<&'static str> {
    let mut messages = body["messages"].as_array().into_iter().flatten();
    messages.any(|message| message["role"] == "developer").then_some("unknown variant `developer`")
}

fn functions_only(body: &Value) -> Option<&'static str> {
    let mut tools = body["tools"].as_array().into_iter().flatten();
    tools.any(|tool| tool["type"] != "function").then_some("'type' of tool must be 'function'")
}

fn arguments_are_json(body: &Value) -> Option<&'static str> {
    let items = body["input"].as_array().into_iter().flatten();
    let mut arguments = items.filter_map(|item| item["arguments"].as_str());
    arguments.any(|text| serde_json::from_str::<Value>(text).is_err()).then_some(NOT_JSON)
}

/// Requests of turns as they arrived: the head and the body.
type Log = Arc<Mutex<Vec<(String, Value)>>>;

async fn serve(product: &'static Product) -> (String, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let log = Log::default();
    let kept = Arc::clone(&log);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let kept = Arc::clone(&kept);
            // An error means that the client went away.
            tokio::spawn(async move { answer(stream, product, &kept).await.unwrap_or(()) });
        }
    });
    (origin, log)
}

async fn answer(mut stream: TcpStream, product: &Product, log: &Log) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
    });
    while bytes.len() < end + length.unwrap_or(0) {
        stream.read_buf(&mut bytes).await?;
    }
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, kind, body) = if head.starts_with("POST ") && path == product.path {
        respond(product, &head, &bytes[end..], log)
    } else if head.starts_with("GET ") && path == product.list.0 {
        ("200 OK", "application/json", product.list.1.to_owned())
    } else {
        ("404 Not Found", "application/json", r#"{"error":{"message":"Not Found"}}"#.to_owned())
    };
    let (kind, body) = match kind {
        "text/event-stream" if product.path.starts_with("/model/") => {
            ("application/vnd.amazon.eventstream", frames(&body))
        }
        kind => (kind, body.into_bytes()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}

fn respond(
    product: &Product,
    head: &str,
    body: &[u8],
    log: &Log,
) -> (&'static str, &'static str, String) {
    let error = |message: &str| json!({ "error": { "message": message, "code": 400 } }).to_string();
    let lines: BTreeSet<String> = head.lines().map(str::to_lowercase).collect();
    if !product.heads.iter().all(|line| lines.contains(&line.to_lowercase())) {
        return ("401 Unauthorized", "application/json", error("Incorrect credentials"));
    }
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return ("400 Bad Request", "application/json", error("no JSON"));
    };
    if let Some(message) = (product.refusal)(&body) {
        log.lock().unwrap().push((format!("refused: {message}"), body));
        return ("400 Bad Request", "application/json", error(message));
    }
    let mut log = log.lock().unwrap();
    let answer = (product.answer)(log.len());
    log.push((head.to_owned(), body));
    ("200 OK", "text/event-stream", answer)
}

/// The configuration below a heading of the page.
fn configuration(heading: &str) -> &'static str {
    let section = PAGE.split(&format!("\n### {heading}\n")).nth(1);
    let section = section.unwrap_or_else(|| panic!("no heading {heading}"));
    let block = section.split("\n##").next().and_then(|text| text.split("```toml\n").nth(1));
    block.and_then(|text| text.split("```").next()).unwrap_or_else(|| panic!("no block: {heading}"))
}

/// The configuration of the page with the address of the server in place of the product's.
fn with_address(configuration: &str, origin: &str) -> String {
    let mut lines = String::new();
    for line in configuration.lines() {
        let address = line.strip_prefix("base_url = \"").and_then(|rest| rest.split('"').next());
        match address {
            Some(address) => {
                let host = address.split('/').take(3).collect::<Vec<_>>().join("/");
                lines += &line.replace(&host, origin);
            }
            None => lines += line,
        }
        lines.push('\n');
    }
    lines
}

#[tokio::test]
async fn each_provider_of_the_table_runs_a_turn() {
    for product in &PRODUCTS {
        let name = product.name;
        let (origin, log) = serve(product).await;
        let mut env = TestEnvironment::with_responses(json!([{ "steps": [] }])).await;
        let more = product.more.replace("ADDRESS", &origin);
        env.write_config(&(more + &with_address(configuration(name), &origin)));
        for (variable, value) in product.variables {
            let host = origin.trim_start_matches("http://");
            let value = value.replace("ADDRESS", &origin).replace("HOST", host);
            env.variables.push(((*variable).into(), value.into()));
        }
        let server = env.start();
        let mut peer = server.connect().await;
        let settings = json!({ "sandbox": "read-only", "approvalPolicy": "never" });
        let thread = peer.start_thread(settings).await;
        let turn = peer.run_turn(&thread, "Say it.").await;
        assert_eq!(turn["status"], "completed", "{name}: {turn} {:?}", log.lock().unwrap());
        server.stop().await;
        let requests = log.lock().unwrap();
        let refused = requests.iter().find(|(head, _)| head.starts_with("refused"));
        assert!(refused.is_none(), "{name}: the configuration avoids refusals: {refused:?}");
        assert_eq!(requests.len(), 2, "{name}");
        let second = &requests[1].1;
        let history = ["input", "messages", "contents"].map(|name| second[name].to_string());
        let results =
            ["\"function_call_output\"", "\"tool_result\"", "\"functionResponse\"", "\"tool\""];
        let has_result = |text: &String| {
            text.contains(OUTPUT) && results.iter().any(|result| text.contains(result))
        };
        assert!(history.iter().any(has_result), "{name}: {second}");
        // Of most models nothing is known; any other warning would be about the configuration.
        let is_warning = |line: &&String| {
            line.contains("\"method\":\"warning\"")
                && !line.contains("nothing is known of the model")
        };
        let warned = peer.raw_lines().iter().find(is_warning);
        assert_eq!(warned, None, "{name}");
    }
}

#[test]
fn each_provider_that_works_has_a_configuration_in_the_page() {
    let table =
        PAGE.split("| provider |").nth(1).and_then(|text| text.split("\n\n").next()).unwrap();
    let own = |row: &str| {
        row.split(']').next().and_then(|cell| cell.strip_prefix("| [")).map(str::to_owned)
    };
    let rows: BTreeSet<String> = table.lines().filter_map(own).collect();
    let mut tested: BTreeSet<String> = PRODUCTS.iter().map(|it| it.name.to_owned()).collect();
    // Run by `cargo xtask recipes`.
    tested.insert("agentd's own gateway".to_owned());
    assert_eq!(rows, tested);
}
