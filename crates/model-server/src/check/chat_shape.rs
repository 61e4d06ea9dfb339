//! The shape of a Chat Completions request: OpenAI's, with the members for reasoning that other servers add.

use super::shape::{Kind, OPEN, Shape};

use Kind::{
    Any, Bool, Count, Integer, List, Map, MapOf, NullableTextOr, Number, Object, OneOf, Tagged,
    Text, TextOr,
};

static TEXT: Shape = Shape { required: &[("text", Text)], optional: &[CACHE] };
static REFUSAL: Shape = Shape { required: &[("refusal", Text)], optional: &[] };
static URL: Shape = Shape {
    required: &[("url", Text)],
    optional: &[("detail", OneOf(&["auto", "low", "high", "original"]))],
};
static IMAGE: Shape = Shape { required: &[("image_url", Object(&URL))], optional: &[CACHE] };
static SOUND: Shape =
    Shape { required: &[("data", Text), ("format", OneOf(&["wav", "mp3"]))], optional: &[] };
static AUDIO: Shape = Shape { required: &[("input_audio", Object(&SOUND))], optional: &[] };
static FILE_DATA: Shape = Shape {
    required: &[],
    optional: &[("file_data", Text), ("file_id", Text), ("filename", Text)],
};
static FILE: Shape = Shape { required: &[("file", Object(&FILE_DATA))], optional: &[] };

const CACHE: (&str, Kind) = ("cache_control", Map);
const NAME: (&str, Kind) = ("name", Text);
const PLAIN: Kind = TextOr(&List(&Tagged(&[("text", &TEXT)])));

pub(super) static SYSTEM: Shape =
    Shape { required: &[("role", Text), ("content", PLAIN)], optional: &[NAME, CACHE] };
pub(super) static USER: Shape = Shape {
    required: &[
        ("role", Text),
        (
            "content",
            TextOr(&List(&Tagged(&[
                ("text", &TEXT),
                ("image_url", &IMAGE),
                ("input_audio", &AUDIO),
                ("file", &FILE),
            ]))),
        ),
    ],
    optional: &[NAME, CACHE],
};

static FUNCTION_CALL: Shape =
    Shape { required: &[("name", Text), ("arguments", Text)], optional: &[] };
static FUNCTION: Shape = Shape {
    required: &[("id", Text), ("function", Object(&FUNCTION_CALL))],
    optional: &[("index", Count), ("extra_content", Map)],
};
static CUSTOM_CALL: Shape = Shape { required: &[("name", Text), ("input", Text)], optional: &[] };
static CUSTOM: Shape = Shape {
    required: &[("id", Text), ("custom", Object(&CUSTOM_CALL))],
    optional: &[("index", Count)],
};
pub(super) static ASSISTANT: Shape = Shape {
    required: &[("role", Text)],
    optional: &[
        NAME,
        CACHE,
        ("content", NullableTextOr(&List(&Tagged(&[("text", &TEXT), ("refusal", &REFUSAL)])))),
        ("refusal", Text),
        ("annotations", List(&Map)),
        ("audio", Map),
        ("tool_calls", List(&Tagged(&[("function", &FUNCTION), ("custom", &CUSTOM)]))),
        ("function_call", Object(&FUNCTION_CALL)),
        ("reasoning_content", Text),
        ("reasoning", Text),
        ("reasoning_details", List(&Map)),
    ],
};
pub(super) static TOOL: Shape = Shape {
    required: &[("role", Text), ("content", PLAIN), ("tool_call_id", Text)],
    optional: &[NAME, CACHE],
};

/// The roles and the shapes of their messages.
pub(super) const ROLES: [(&str, &Shape); 5] = [
    ("system", &SYSTEM),
    ("developer", &SYSTEM),
    ("user", &USER),
    ("assistant", &ASSISTANT),
    ("tool", &TOOL),
];

static FUNCTION_DEFINITION: Shape = Shape {
    required: &[("name", Text)],
    optional: &[("description", Text), ("parameters", Map), ("strict", Bool)],
};
static FUNCTION_TOOL: Shape =
    Shape { required: &[("function", Object(&FUNCTION_DEFINITION))], optional: &[CACHE] };
static GRAMMAR: Shape = Shape {
    required: &[("definition", Text), ("syntax", OneOf(&["lark", "regex"]))],
    optional: &[],
};
static GRAMMAR_FORMAT: Shape = Shape { required: &[("grammar", Object(&GRAMMAR))], optional: &[] };
static EMPTY: Shape = Shape { required: &[], optional: &[] };
static CUSTOM_DEFINITION: Shape = Shape {
    required: &[("name", Text)],
    optional: &[
        ("description", Text),
        ("format", Tagged(&[("text", &EMPTY), ("grammar", &GRAMMAR_FORMAT)])),
    ],
};
static CUSTOM_TOOL: Shape =
    Shape { required: &[("custom", Object(&CUSTOM_DEFINITION))], optional: &[] };

static NAMED: Shape = Shape { required: &[("name", Text)], optional: &[] };
static CHOSEN_FUNCTION: Shape = Shape { required: &[("function", Object(&NAMED))], optional: &[] };
static CHOSEN_CUSTOM: Shape = Shape { required: &[("custom", Object(&NAMED))], optional: &[] };
static ALLOWED: Shape = Shape {
    required: &[
        ("mode", OneOf(&["auto", "required"])),
        ("tools", List(&Tagged(&[("function", &CHOSEN_FUNCTION), ("custom", &CHOSEN_CUSTOM)]))),
    ],
    optional: &[],
};
static CHOSEN_ALLOWED: Shape =
    Shape { required: &[("allowed_tools", Object(&ALLOWED))], optional: &[] };

static SCHEMA: Shape = Shape {
    required: &[("name", Text)],
    optional: &[("schema", Map), ("strict", Bool), ("description", Text)],
};
static JSON_SCHEMA: Shape = Shape { required: &[("json_schema", Object(&SCHEMA))], optional: &[] };

static STREAM_OPTIONS: Shape =
    Shape { required: &[], optional: &[("include_usage", Bool), ("include_obfuscation", Bool)] };
static ON_OFF: Shape = Shape { required: &[], optional: &[] };

/// The body of a request.
pub(super) static BODY: Shape = Shape {
    required: &[("model", Text), ("messages", List(&Map))],
    optional: &[
        ("audio", Map),
        ("frequency_penalty", Number(-2.0, 2.0)),
        ("logit_bias", MapOf(&Number(-100.0, 100.0))),
        ("logprobs", Bool),
        ("max_completion_tokens", Count),
        ("max_tokens", Count),
        ("metadata", MapOf(&Text)),
        ("modalities", List(&OneOf(&["text", "audio"]))),
        ("moderation", Map),
        ("n", Count),
        ("parallel_tool_calls", Bool),
        ("prediction", Map),
        ("presence_penalty", Number(-2.0, 2.0)),
        ("prompt_cache_key", Text),
        ("prompt_cache_options", Map),
        ("prompt_cache_retention", OneOf(&["in_memory", "in-memory", "24h"])),
        ("reasoning_effort", OneOf(&["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
        (
            "response_format",
            Tagged(&[("text", &EMPTY), ("json_object", &EMPTY), ("json_schema", &JSON_SCHEMA)]),
        ),
        ("safety_identifier", Text),
        ("seed", Integer),
        ("service_tier", OneOf(&["auto", "default", "flex", "scale", "priority", "fast"])),
        ("stop", TextOr(&List(&Text))),
        ("store", Bool),
        ("stream", Bool),
        ("stream_options", Object(&STREAM_OPTIONS)),
        ("temperature", Number(0.0, 2.0)),
        (
            "tool_choice",
            TextOr(&Tagged(&[
                ("function", &CHOSEN_FUNCTION),
                ("custom", &CHOSEN_CUSTOM),
                ("allowed_tools", &CHOSEN_ALLOWED),
            ])),
        ),
        ("tools", List(&Tagged(&[("function", &FUNCTION_TOOL), ("custom", &CUSTOM_TOOL)]))),
        ("top_logprobs", Count),
        ("top_p", Number(0.0, 1.0)),
        ("user", Text),
        ("verbosity", OneOf(&["low", "medium", "high"])),
        ("web_search_options", Object(&OPEN)),
        // Switches for thinking of other servers.
        ("reasoning", Map),
        ("thinking", Tagged(&[("enabled", &ON_OFF), ("disabled", &ON_OFF)])),
        ("enable_thinking", Bool),
        ("thinking_budget", Count),
        ("chat_template_kwargs", Any),
        ("top_k", Count),
    ],
};
