use serde_json::{Value, json};

use super::*;
use crate::history::{message, said};
use crate::port::prompt::PromptInput;

/// A provider that refuses something: whether it refuses a request, and in which words.
struct Strict {
    what: &'static str,
    refuses: fn(&Request) -> Option<usize>,
    /// `N` is the place of the item.
    says: &'static [&'static str],
}

/// A request as a provider reads it.
struct Request {
    items: Vec<Value>,
    tools: Vec<Value>,
    /// Members that not every provider knows.
    parameters: Vec<&'static str>,
}

fn item_of(request: &Request, kind: &str) -> Option<usize> {
    request.items.iter().position(|item| item["type"] == kind)
}

fn item_with(request: &Request, found: impl Fn(&Value) -> bool) -> Option<usize> {
    request.items.iter().position(found)
}

/// The place zero if the request has this member.
fn parameter(request: &Request, name: &str) -> Option<usize> {
    request.parameters.contains(&name).then_some(0)
}

const STRICT: &[Strict] = &[
    Strict {
        what: "reasoning of another key",
        refuses: |request| {
            item_with(request, |it| {
                it["encrypted_content"].as_str().is_some_and(|it| it.starts_with("old"))
            })
        },
        says: &[
            "The encrypted content gAAA… could not be verified. Reason: it could not be decrypted. | error code `invalid_encrypted_content`",
            "Invalid signature in thinking block",
            "input[N].encrypted_content: cannot be decrypted",
        ],
    },
    Strict {
        what: "reasoning",
        refuses: |request| item_of(request, "reasoning"),
        says: &[
            "Unknown item type: reasoning",
            "Invalid value: 'reasoning'. Supported values are: 'message', 'function_call'. | parameter `input[N].type`",
            "reasoning items are not supported by this model",
        ],
    },
    Strict {
        what: "images",
        refuses: |request| item_with(request, |it| it.to_string().contains("input_image")),
        says: &[
            "Provider returned error: supports at most 0 images",
            "This model does not support image input | parameter `input[N].content[0].image_url`",
            "model is not a multimodal model",
        ],
    },
    Strict {
        what: "tool types",
        refuses: |request| request.tools.iter().position(|tool| tool["type"] != "function"),
        says: &[
            "'type' of tool must be 'function'",
            "Unsupported tool type: custom",
            "tools[0].type: Input should be 'function'",
            "unknown variant `web_search`, expected `function`",
            "data did not match any variant of untagged enum ToolUnion",
        ],
    },
    Strict {
        what: "system messages in the middle",
        refuses: |request| {
            item_with(request, |it| matches!(it["role"].as_str(), Some("developer" | "system")))
        },
        says: &[
            "System message must be at the beginning.",
            "Unexpected role 'developer'",
            "Unexpected message role.",
            "Input should be 'user', 'assistant' or 'system'",
            "only one system message is allowed",
            "Invalid value: 'developer' | parameter `input[N].role`",
        ],
    },
    Strict {
        what: "ids",
        refuses: |request| item_with(request, |it| it["id"].is_string()),
        says: &[
            "Invalid 'input[N].id': 'msg_1'. Expected an ID that begins with 'rs'.",
            "Item with id 'msg_1' not found.",
            "Item 'fc_a' of type 'function_call' was provided without its required item: its item id is unknown",
        ],
    },
    Strict {
        what: "call ids",
        refuses: |request| {
            item_with(request, |it| it["call_id"].as_str().is_some_and(|id| id.len() != 9))
        },
        says: &[
            "Tool call id was call_x but must be a-z, A-Z, 0-9, with a length of 9.",
            "invalid input[N].call_id",
        ],
    },
    Strict {
        what: "a member",
        refuses: |request| item_with(request, |it| !it["phase"].is_null()),
        says: &[
            "Unknown parameter: 'input[N].phase'.",
            "input.N.phase: Extra inputs are not permitted",
        ],
    },
    Strict {
        what: "a member of a part",
        refuses: |request| {
            item_with(request, |it| it["content"].to_string().contains("\"annotations\""))
        },
        says: &[
            "Unknown parameter: 'input[N].content[0].annotations'.",
            "input.N.content.0.annotations: Extra inputs are not permitted",
            "unknown field `annotations`, expected `type` or `text`",
        ],
    },
    Strict {
        what: "a member without its place",
        refuses: |request| item_with(request, |it| !it["phase"].is_null()),
        says: &["Extra inputs are not permitted: phase", "Unrecognized key(s) in object: 'phase'"],
    },
    Strict {
        what: "summaries of reasoning",
        refuses: |request| parameter(request, "reasoning.summary"),
        says: &[
            "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
            "Extra inputs are not permitted: reasoning.summary",
        ],
    },
    Strict {
        what: "parallel calls",
        refuses: |request| parameter(request, "parallel_tool_calls"),
        says: &[
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            "Unrecognized request argument supplied: parallel_tool_calls",
            "parallel_tool_calls: Extra inputs are not permitted",
        ],
    },
    Strict {
        what: "a member whose name is a word",
        refuses: |request| parameter(request, "store"),
        says: &[
            "Unknown parameter: 'store'.",
            "Extra inputs are not permitted: store",
            "store is not supported",
            "body.store: Extra inputs are not permitted",
            "[{'type': 'extra_forbidden', 'loc': ('body', 'store'), 'msg': 'Extra inputs are not permitted'}]",
        ],
    },
    Strict {
        what: "encrypted reasoning",
        refuses: |request| parameter(request, "include"),
        says: &[
            "Encrypted content is not supported with this model.",
            "Invalid value: 'reasoning.encrypted_content'. Supported values are: 'a'. | parameter `include[0]`",
        ],
    },
    Strict {
        what: "messages of the model in parts",
        refuses: |request| {
            item_with(request, |it| it["role"] == "assistant" && it["content"].is_array())
        },
        says: &[
            "Invalid value | parameter `input[N].content[0]`",
            "assistant message content must be a string",
            "Input should be a valid string: input.N.content",
            "Invalid 'input[N].content[0].type': expected 'input_text'.",
            "[{'type': 'string_type', 'loc': ('body', 'input', N, 'content'), 'msg': 'Input should be a valid string'}]",
            "'messages.N' : for 'role:assistant' the following must be satisfied[('messages.N.content' : value must be a string)]",
        ],
    },
    Strict {
        what: "messages of the model without members",
        refuses: |request| {
            item_with(request, |it| {
                it["role"] == "assistant" && (it["status"].is_null() || it["id"].is_null())
            })
        },
        says: &[
            "Field required: input.N.ResponseOutputMessage.status",
            "status: Field required",
            "missing field `status`",
        ],
    },
    Strict {
        what: "roles that do not alternate",
        refuses: |request| {
            (1..request.items.len()).find(|at| {
                let [last, item] = [&request.items[at - 1], &request.items[*at]];
                last["role"].is_string() && last["role"] == item["role"]
            })
        },
        says: &[
            "Conversation roles must alternate user/assistant/user/assistant/...",
            "Cannot have 2 or more assistant messages at the end of the list.",
            "consecutive messages of one role",
        ],
    },
    Strict {
        what: "a member of tools",
        refuses: |request| request.tools.iter().position(|tool| !tool["strict"].is_null()),
        says: &[
            "tools.N.strict: Extra inputs are not permitted",
            "Unknown parameter: 'tools[N].strict'.",
            "unknown field `strict`",
            "tools.N.function.strict: Extra inputs are not permitted",
            "Extra inputs are not permitted: tools.N.FunctionTool.strict",
        ],
    },
    Strict {
        what: "a keyword of schemas",
        refuses: |request| {
            request.tools.iter().position(|tool| tool.to_string().contains("\"pattern\":\"^a\""))
        },
        says: &[
            "Unknown name \"pattern\" at 'tools[N].parameters.properties[0].value': Cannot find field.",
            "tools[N].parameters.properties.a.pattern is not supported",
        ],
    },
    Strict {
        what: "custom calls",
        refuses: |request| {
            item_with(request, |it| {
                it["type"].as_str().is_some_and(|it| it.starts_with("custom_tool_call"))
            })
        },
        says: &[
            "unknown variant `custom_tool_call`",
            "unsupported item type | parameter `input[N].type`",
        ],
    },
    Strict {
        what: "searches",
        refuses: |request| item_of(request, "web_search_call"),
        says: &["Unknown item type 'web_search_call'", "input[N]: this item is not supported"],
    },
    Strict {
        what: "calls of tools that are not offered",
        refuses: |request| item_with(request, |it| it["name"] == "mcp__gone__tool"),
        says: &[
            "Function 'mcp__gone__tool' is not defined in tools",
            "input[N].name: not among the tools",
        ],
    },
];

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

/// What one turn adds to a history.
fn turn(number: usize, numbers: &mut Numbers) -> Vec<std::sync::Arc<str>> {
    let text = |value: Value| value.to_string().into();
    let call_id = format!("call_{number}");
    let output = |kind: &str| text(json!({ "type": kind, "call_id": call_id, "output": "ok" }));
    let image = json!([{ "type": "input_image", "image_url": "data:image/png;base64,AA" }]);
    let mut items = vec![message("user", "go")];
    // First each kind, then any.
    match if number < 8 { number } else { numbers.below(8) } {
        0 => items.push(message("developer", "The settings changed.")),
        1 => items.push(text(json!({ "type": "message", "role": "user", "content": image }))),
        2 => items.push(text(json!({ "type": "web_search_call", "id": "ws_1", "action": {} }))),
        3 => {
            items.push(text(json!({ "type": "custom_tool_call", "id": "ct_a", "call_id": call_id, "name": "apply_patch", "input": "*" })));
            items.push(output("custom_tool_call_output"));
        }
        4 => {
            items.push(text(json!({ "type": "function_call", "call_id": call_id, "name": "mcp__gone__tool", "arguments": "{}" })));
            items.push(output("function_call_output"));
        }
        5 => items.push(text(
            json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "new" }),
        )),
        _ => {
            items.push(text(json!({ "type": "function_call", "id": "fc_a", "call_id": call_id, "name": "exec_command", "arguments": "{}" })));
            items.push(output("function_call_output"));
        }
    }
    items.push(text(json!({ "type": "message", "id": "msg_1", "role": "assistant", "phase": "final_answer", "content": [{ "type": "output_text", "text": "ok", "annotations": [] }] })));
    items
}

pub(super) fn prompt(items: &[std::sync::Arc<str>]) -> Prompt {
    let tools = json!([
        { "type": "custom", "name": "apply_patch", "description": "d", "format": {} },
        { "type": "web_search" },
        {
            "type": "function",
            "name": "exec_command",
            "strict": false,
            "parameters": { "properties": { "pattern": { "type": "string", "pattern": "^a" } } },
        },
    ]);
    Prompt {
        provider: "p".into(),
        model: "m".into(),
        instructions: "Be brief.".into(),
        input: PromptInput::new(items.to_vec()),
        tools: tools.to_string().into(),
        effort: None,
        summary: Some("auto".into()),
        verbosity: Some("low".into()),
        output_schema: None,
        service_tier: Some("flex".into()),
        reasoning_member: false,
        left_out: Vec::new(),
    }
}

fn read(prompt: &Prompt) -> Request {
    let items: Vec<Value> =
        prompt.input.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    // Every output has its call, as providers demand.
    for (at, item) in items.iter().enumerate() {
        if item["type"].as_str().unwrap().ends_with("_output") {
            assert!(items[..at].iter().any(|call| call["call_id"] == item["call_id"]));
        }
    }
    let mut parameters = vec!["store", "parallel_tool_calls", "prompt_cache_key", "include"];
    parameters.retain(|name| prompt.left_out.iter().all(|left_out| left_out != name));
    let options = [
        ("reasoning.summary", &prompt.summary),
        ("text.verbosity", &prompt.verbosity),
        ("service_tier", &prompt.service_tier),
    ];
    parameters.extend(options.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name));
    Request { items, tools: serde_json::from_str(&prompt.tools).unwrap(), parameters }
}

pub(super) fn refusal(says: &str, place: usize) -> Failure {
    let (says, details) = says.split_once(" | ").unwrap_or((says, ""));
    let place = |text: &str| text.replace('N', &place.to_string());
    let message = format!("POST http://host/image answered 400 Bad Request: {}", place(says));
    Failure {
        http_status: Some(400),
        details: Some(place(details).into()),
        ..Failure::new(FailureKind::BadRequest, message)
    }
}

#[test]
fn no_provider_that_refuses_a_kind_of_item_loses_the_thread() {
    let mut numbers = Numbers(7);
    for strict in STRICT {
        for says in strict.says {
            let mut concessions = Concessions::default();
            let old = json!({ "type": "reasoning", "summary": [], "encrypted_content": "old key" });
            let mut history = vec![message("developer", "Settings."), old.to_string().into()];
            let (mut refused, turns) = (0, 25);
            for number in 0..turns {
                history.extend(turn(number, &mut numbers));
                let mut sent = prompt(&history);
                concessions.apply(&mut sent);
                let Some(place) = (strict.refuses)(&read(&sent)) else { continue };
                refused += 1;
                let told = concessions.learn(&refusal(says, place), &sent);
                let told = told.unwrap_or_else(|| panic!("{}: {says}", strict.what));
                assert!(told.contains("`p` refused"), "{told}");
                let mut again = prompt(&history);
                concessions.apply(&mut again);
                assert_eq!(
                    (strict.refuses)(&read(&again)),
                    None,
                    "{}: {says}: {told}",
                    strict.what
                );
            }
            assert_eq!(refused, 1, "{}: {says}: requests beyond one a turn", strict.what);
        }
    }
}

#[test]
fn refusals_of_another_kind_are_not_learned_from() {
    let history = turn(3, &mut Numbers(7));
    let check = |failure: Failure| {
        assert_eq!(Concessions::default().learn(&failure, &prompt(&history)), None, "{failure:?}");
    };
    check(refusal("the model `x` does not exist", 0));
    check(refusal("max_output_tokens is too large", 0));
    for kind in
        [FailureKind::Unauthorized, FailureKind::UsageLimitExceeded, FailureKind::CyberPolicy]
    {
        check(Failure::new(kind, "reasoning"));
    }
    check(Failure::disconnected("reasoning"));
    let busy = Failure { http_status: Some(503), ..refusal("reasoning", 0) };
    check(Failure { kind: FailureKind::HttpConnectionFailed, ..busy });
}

#[test]
fn an_id_that_is_not_in_the_request_names_items_of_its_type() {
    let check = |says: &str, item: Value, expect: Option<Concession>| {
        let mut concessions = Concessions::default();
        concessions.learn(&refusal(says, 0), &prompt(&[item.to_string().into()]));
        assert_eq!(concessions.all().pop().map(|it| it.concession), expect, "{says}");
    };
    let thought = json!({ "type": "reasoning", "summary": [] });
    let search = json!({ "type": "web_search_call", "action": {} });
    check("Item 'rs_0a' not found.", thought.clone(), Some(Concession::Reasoning));
    let searches = Concession::ItemType("web_search_call".into());
    check("Item 'ws_0a' not found.", search.clone(), Some(searches));
    check("Item 'rs_0a' not found.", search, None);
    check("no permission for layers_0", thought, None);
}

#[test]
fn values_that_a_provider_does_not_take_are_no_reason_to_leave_out_their_parameter() {
    for says in [
        "Unsupported value: 'reasoning.effort' does not support 'xhigh' with this model.",
        "Invalid value: 'quick'. Supported values are 'auto' and 'flex'. | parameter `service_tier`",
        "the request must include a message that the server can store",
    ] {
        let history = [message("user", "go")];
        assert_eq!(Concessions::default().learn(&refusal(says, 0), &prompt(&history)), None);
    }
}

#[test]
fn a_concession_is_made_to_its_provider_only() {
    let thought = json!({ "type": "reasoning", "summary": [] }).to_string();
    let history = [std::sync::Arc::from(thought)];
    let mut concessions = Concessions::default();
    concessions.learn(&refusal("Unknown item type: reasoning", 0), &prompt(&history)).unwrap();
    let sent = |provider: &str| {
        let mut sent = Prompt { provider: provider.into(), ..prompt(&history) };
        concessions.apply(&mut sent);
        sent.input.len()
    };
    assert_eq!((sent("p"), sent("other")), (0, 1));
}

#[test]
fn the_advice_names_what_may_be_refused() {
    let history = turn(3, &mut Numbers(7));
    let failure = refusal("no", 0);
    let advice = advice(&failure, &prompt(&history)).unwrap();
    assert!(advice.contains("× `") && advice.contains("thread/rollback"), "{advice}");
    assert_eq!(super::advice(&failure, &prompt(&[message("user", "go")])), None);
}

#[test]
fn what_the_system_says_later_becomes_a_marked_message_of_the_user() {
    let mut sent = prompt(&[
        message("developer", "A"),
        message("user", "go"),
        message("developer", "B"),
        said("ok"),
    ]);
    sent.use_one_system_message();
    assert_eq!(&*sent.instructions, "Be brief.\n\nA");
    let items = read(&sent).items;
    assert_eq!(items.len(), 3);
    assert_eq!(items[1]["role"], "user");
    assert_eq!(items[1]["content"][0]["text"], "<system_message>\nB\n</system_message>");
}

#[test]
fn custom_tools_become_functions() {
    let call = json!({ "type": "custom_tool_call", "id": "x", "call_id": "c", "name": "apply_patch", "input": "*" });
    let output = json!({ "type": "custom_tool_call_output", "call_id": "c", "output": "ok" });
    let mut sent = prompt(&[call.to_string().into(), output.to_string().into()]);
    rewrite::apply(&Concession::ToolTypes, &mut sent);
    let Request { items, tools, .. } = read(&sent);
    assert_eq!(
        items[0],
        json!({ "type": "function_call", "call_id": "c", "name": "apply_patch", "arguments": r#"{"input":"*"}"# })
    );
    assert_eq!(items[1]["type"], "function_call_output");
    let kinds: Vec<&str> = tools.iter().filter_map(|tool| tool["type"].as_str()).collect();
    assert_eq!(kinds, ["function", "function"]);
}
