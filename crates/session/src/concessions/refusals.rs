//! Refusals in the words of real servers and routers, and the concession that each leads to.

use serde_json::{Value, json};

use super::tests::{prompt, refusal};
use super::*;
use crate::history::{message, said};

/// The name of a part of a history.
fn items(names: &str) -> Vec<std::sync::Arc<str>> {
    let call = |kind: &str, name: &str, input: &str| {
        let member = if kind == "custom_tool_call" { "input" } else { "arguments" };
        let mut call = json!({ "type": kind, "call_id": "call_1", "name": name });
        call[member] = input.into();
        let output = format!("{kind}_output");
        [call, json!({ "type": output, "call_id": "call_1", "output": "ok" })]
    };
    let image = json!([{ "type": "input_image", "image_url": "data:image/png;base64,AA" }]);
    let mut items = vec![message("user", "go")];
    for name in names.split_whitespace() {
        let more: Vec<Value> = match name {
            "thought" => vec![json!({ "type": "reasoning", "id": "rs_1", "summary": [],
                "encrypted_content": "e" })],
            "image" => vec![json!({ "type": "message", "role": "user", "content": image })],
            "call" => call("function_call", "gone", "{}").into(),
            "custom" => call("custom_tool_call", "apply_patch", "*").into(),
            "search" => vec![json!({ "type": "web_search_call", "id": "ws_1", "action": {} })],
            "developer" => vec![serde_json::from_str(&message("developer", "Now.")).unwrap()],
            "said" => vec![serde_json::from_str(&said("ok")).unwrap()],
            "empty" => vec![json!({ "type": "function_call_output", "call_id": "call_1",
                "output": "" })],
            other => panic!("{other}"),
        };
        items.extend(more.into_iter().map(|item| item.to_string().into()));
    }
    items
}

/// The words, the history, and the concession: its name, with what it is about after a colon; empty for none.
const REFUSALS: &[(&str, &str, &str)] = &[
    // OpenAI and Azure.
    ("Unknown parameter: 'prompt_cache_key'.", "", "Parameter:prompt_cache_key"),
    ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", "", ""),
    (
        "Unrecognized request argument supplied: parallel_tool_calls",
        "",
        "Parameter:parallel_tool_calls",
    ),
    (
        "Unsupported parameter: 'text.verbosity' is not supported with this model.",
        "",
        "Parameter:text.verbosity",
    ),
    ("Encrypted content is not supported with this model. | include", "said", "Parameter:include"),
    (
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'. | input[1].content[0].type",
        "said",
        "PlainTexts",
    ),
    ("Unknown parameter: 'input[1].phase'.", "said", "PlainTexts"),
    // Words of a cause that the history does not have.
    ("The signature of the image's bytes is not valid.", "image", "Images"),
    ("Image bytes are missing a thought_signature.", "image", "Images"),
    ("no tool output found for function call call_1.", "call", "ItemType:function_call"),
    (
        "no tool call found for function call output with call_id call_1.",
        "call",
        "ItemType:function_call",
    ),
    (
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "thought call",
        "Ids",
    ),
    (
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64",
        "call",
        "CallIds",
    ),
    ("The encrypted content gAAA could not be verified.", "thought", "EarlierReasoning"),
    (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        "call",
        "ItemType:function_call",
    ),
    (
        "Messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "call",
        "ItemType:function_call",
    ),
    (
        "Invalid type for 'input[1].content': expected a string, but got an array instead.",
        "said",
        "PlainTexts",
    ),
    // vLLM and SGLang.
    (
        "[{'type': 'missing', 'loc': ('body', 'input', 'list[union[A,B]]', 1, 'ResponseOutputMessage', 'id'), 'msg': 'Field required'}]",
        "said",
        "AllMembers",
    ),
    (
        "1 validation error: {'type': 'extra_forbidden', 'loc': ('body', 'service_tier'), 'msg': 'Extra inputs are not permitted'}",
        "",
        "Parameter:service_tier",
    ),
    ("Input should be a valid string: input.1.content", "said", "PlainTexts"),
    ("Field required: input.1.content.0.annotations", "said", "AllMembers"),
    ("Unexpected message role.", "developer", "SystemMessages"),
    (
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "image",
        "AlternatingRoles",
    ),
    ("At most 0 image(s) may be provided in one request.", "image", "Images"),
    ("Unknown item type: custom_tool_call", "custom", "ItemType:custom_tool_call"),
    ("System message must be at the beginning.", "said developer", "SystemMessages"),
    // llama.cpp and Ollama.
    (
        "Cannot have 2 or more assistant messages at the end of the list.",
        "said said",
        "MergedMessages",
    ),
    ("Assistant response prefill is incompatible with enable_thinking.", "said", "UserAtEnd"),
    ("unsupported content[].type", "image", "Images"),
    ("'type' of tool must be 'function'", "", "ToolTypes"),
    ("item['type'] is not supported: web_search_call", "search", "ItemType:web_search_call"),
    ("Cannot determine type of 'item'; unsupported item", "thought", "Reasoning"),
    (
        "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
        "said",
        "PlainTexts",
    ),
    ("registry.ollama.ai/library/x does not support thinking", "", "Parameter:reasoning"),
    // LiteLLM, OpenRouter and Groq.
    (
        "litellm.UnsupportedParamsError: x does not support parameters: ['parallel_tool_calls'], for model=y",
        "",
        "Parameter:parallel_tool_calls",
    ),
    (
        "Provider returned error: tools.0.strict: Extra inputs are not permitted",
        "",
        "ToolMember:strict",
    ),
    (
        "Provider returned error: Input item type is not supported by this endpoint",
        "thought",
        "Reasoning",
    ),
    ("Unrecognized input item", "custom", "ItemType:custom_tool_call"),
    ("unsupported content part", "image", "Images"),
    ("property 'prompt_cache_key' is unsupported", "", "Parameter:prompt_cache_key"),
    (
        "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property 'annotations' is unsupported)]",
        "said",
        "PlainTexts",
    ),
    ("unexpected property: parallel_tool_calls", "", "Parameter:parallel_tool_calls"),
    // Mistral.
    ("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", "call", "CallIds"),
    (
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        "said",
        "UserAtEnd",
    ),
    ("body.store: Extra inputs are not permitted", "", "Parameter:store"),
    ("Unexpected role 'user' after role 'tool'", "call developer", "SystemMessages"),
    // Anthropic and Gemini, by way of routers.
    ("messages.2: text content blocks must be non-empty", "call empty", "NoEmptyTexts"),
    (
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "said",
        "UserAtEnd",
    ),
    (
        "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"user\" roles in a row",
        "image",
        "AlternatingRoles",
    ),
    (
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "thought",
        "EarlierReasoning",
    ),
    (
        "`tool_use` ids were found without `tool_result` blocks immediately after: call_1",
        "call",
        "ItemType:function_call",
    ),
    (
        "Unknown name \"pattern\" at 'tools[0].function_declarations[0].parameters.properties[0].value': Cannot find field.",
        "",
        "ToolMember:parameters.pattern",
    ),
    (
        "Function call is missing a thought_signature in functionCall parts.",
        "call",
        "ItemType:function_call",
    ),
    (
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        "call",
        "ItemType:function_call",
    ),
    (
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "call",
        "ReasoningMember",
    ),
    // Places are those of another wire, and the words name the cause.
    (
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "said thought call developer",
        "EarlierReasoning",
    ),
    ("Thought signature is not valid.", "thought call said", "EarlierReasoning"),
    (
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        "said thought call",
        "Reasoning",
    ),
    (
        "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum",
        "said image developer",
        "Images",
    ),
    (
        "messages.1.content.0.tool_use.name: `gone` is no tool",
        "said call developer",
        "CallsOf:gone",
    ),
    ("unknown field `encrypted_content`", "thought", "Member:encrypted_content"),
    // About something else.
    ("The model `x` does not exist", "said call thought image", ""),
    ("max_tokens is too large: 5", "said call", ""),
    ("Invalid API key", "said call", ""),
];

/// The name of a concession, as in [`REFUSALS`].
fn name(concession: &Concession) -> String {
    let text = format!("{concession:?}").replace("(\"", ":").replace("\")", "");
    text.split('(').next().unwrap_or_default().to_owned()
}

#[test]
fn refusals_of_real_servers_are_understood() {
    let mut wrong = Vec::new();
    for (says, names, expect) in REFUSALS {
        let says = says.replace(" | ", " | parameter ");
        let mut concessions = Concessions::default();
        let sent = Prompt { summary: Some("auto".into()), ..prompt(&items(names)) };
        let found = concessions.learn(&refusal(&says, 0), &sent);
        let learned = concessions.all().pop().map(|it| name(&it.concession)).unwrap_or_default();
        if learned != *expect {
            wrong.push(format!("{says}: {learned:?}, not {expect:?} ({found:?})"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A refusal that names its cause costs one more request, and no repair of anything else follows.
#[test]
fn a_named_cause_is_repaired_alone() {
    for says in [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "Thought signature is not valid.",
    ] {
        let (mut concessions, history) =
            (Concessions::default(), items("said thought call developer"));
        let mut sent = prompt(&history);
        concessions.learn(&refusal(says, 0), &sent).unwrap();
        concessions.apply(&mut sent);
        let kinds: Vec<Value> =
            sent.input.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
        assert!(kinds.iter().all(|item| item["type"] != "reasoning"), "{says}");
        assert_eq!(sent.input.len(), history.len() - 1, "{says}");
        // Nothing is left that the words could mean.
        assert_eq!(concessions.learn(&refusal(says, 0), &sent), None, "{says}");
    }
}

#[test]
fn a_refusal_in_general_words_leaves_out_one_kind_after_the_other() {
    let (mut concessions, history) = (Concessions::default(), items("search thought custom call"));
    let mut learned = Vec::new();
    for _ in 0..9 {
        let mut sent = prompt(&history);
        concessions.apply(&mut sent);
        let refused = refusal("this item type is not known", 0);
        let Some(message) = concessions.learn(&refused, &sent) else { break };
        learned
            .push(message.split_once("refused ").unwrap().1.split_once(';').unwrap().0.to_owned());
    }
    let kind = |name: &str| format!("items of the type `{name}`");
    let kinds = ["custom_tool_call", "web_search_call", "function_call"].map(kind);
    assert_eq!(learned[0], "reasoning in the history");
    assert_eq!(learned[1..], kinds);
}

#[test]
fn messages_of_the_model_that_are_refused_in_any_form_become_quotes() {
    for says in ["invalid assistant message", "no | parameter `input[1]`"] {
        let mut concessions = Concessions::default();
        let mut sent = prompt(&items("said"));
        for _ in 0..2 {
            concessions.learn(&refusal(says, 0), &sent).unwrap();
            sent = prompt(&items("said"));
            concessions.apply(&mut sent);
        }
        let items: Vec<Value> =
            sent.input.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
        assert_eq!(items[1]["role"], "user", "{says}");
        assert_eq!(items[1]["content"], "<assistant_message>\nok\n</assistant_message>");
    }
}

#[test]
fn a_provider_that_knows_no_instructions_and_no_schemas_gets_them_as_text() {
    let schema = r#"{"type":"object"}"#;
    let sent = || Prompt { output_schema: Some(schema.into()), ..prompt(&items("")) };
    let mut concessions = Concessions::default();
    for says in ["Unknown parameter: 'text.format'.", "instructions is not supported"] {
        concessions.learn(&refusal(says, 0), &sent()).unwrap();
    }
    let mut sent = sent();
    concessions.apply(&mut sent);
    assert_eq!((&*sent.instructions, sent.output_schema), ("", None));
    assert!(sent.input[0].contains("Be brief.") && sent.input[0].contains("\\\"object\\\""));
}

#[test]
fn members_of_a_request_that_a_provider_does_not_know_are_left_out() {
    let names = [
        "store",
        "include",
        "prompt_cache_key",
        "parallel_tool_calls",
        "tool_choice",
        "reasoning.summary",
        "text.verbosity",
        "service_tier",
    ];
    let words = [
        "P: Extra inputs are not permitted",
        "body.P: Extra inputs are not permitted",
        "unexpected property: P",
        "unexpected property \"P\"",
        "unknown field `P`, expected one of `model`, `input`",
        "Unknown parameter: 'P'.",
        "Unrecognized request argument supplied: P",
        "Unsupported parameter: P is not supported with this model.",
        "P is not supported",
        "property 'P' is unsupported",
        "does not support parameters: ['P'], for model=m",
        "does not support the parameter 'P'",
        "got an unexpected keyword argument 'P'",
        "Additional properties are not allowed ('P' was unexpected)",
        "The parameter `P` is not allowed",
        "Unrecognized key(s) in object: 'P'",
        "invalid parameter: P",
        "[{'type': 'extra_forbidden', 'loc': ('body', 'P'), 'msg': 'Extra inputs are not permitted'}]",
    ];
    for name in names {
        for words in words {
            let mut concessions = Concessions::default();
            let sent = prompt(&items("said call"));
            concessions.learn(&refusal(&words.replace('P', name), 0), &sent);
            let learned = concessions.all().pop().map(|it| it.concession);
            assert_eq!(learned, Some(Concession::Parameter(name.into())), "{words}");
        }
    }
}

#[test]
fn what_makes_no_difference_is_not_tried() {
    let mut concessions = Concessions::default();
    let sent = Prompt { verbosity: None, ..prompt(&items("")) };
    for says in
        ["Unknown parameter: 'text.verbosity'.", "tools.0.cache: Extra inputs are not permitted"]
    {
        let sent = Prompt { tools: "[]".into(), ..sent.clone() };
        assert_eq!(concessions.learn(&refusal(says, 0), &sent), None, "{says}");
    }
}
