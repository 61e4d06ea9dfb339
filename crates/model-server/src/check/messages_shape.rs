//! The shape of a Messages request.

use super::shape::{Kind, OPEN, Shape};

use Kind::{Any, Bool, Count, List, Map, Number, Object, OneOf, Tagged, TaggedBy, Text, TextOr};

static MARK: Shape = Shape {
    required: &[("type", OneOf(&["ephemeral"]))],
    optional: &[("ttl", OneOf(&["5m", "1h"]))],
};
const CACHE: (&str, Kind) = ("cache_control", Object(&MARK));

static TEXT: Shape =
    Shape { required: &[("text", Text)], optional: &[CACHE, ("citations", List(&Any))] };

static IMAGE_DATA: Shape = Shape {
    required: &[
        ("media_type", OneOf(&["image/jpeg", "image/png", "image/gif", "image/webp"])),
        ("data", Text),
    ],
    optional: &[],
};
static DATA: Shape = Shape { required: &[("media_type", Text), ("data", Text)], optional: &[] };
static URL: Shape = Shape { required: &[("url", Text)], optional: &[] };
static FILE: Shape = Shape { required: &[("file_id", Text)], optional: &[] };
static CONTENT: Shape = Shape { required: &[("content", Any)], optional: &[] };
static IMAGE: Shape = Shape {
    required: &[("source", Tagged(&[("base64", &IMAGE_DATA), ("url", &URL), ("file", &FILE)]))],
    optional: &[CACHE, ("transformations", Any)],
};
static DOCUMENT: Shape = Shape {
    required: &[(
        "source",
        Tagged(&[
            ("base64", &DATA),
            ("text", &DATA),
            ("url", &URL),
            ("file", &FILE),
            ("content", &CONTENT),
        ]),
    )],
    optional: &[CACHE, ("title", Text), ("context", Text), ("citations", Map)],
};
static SEARCH_RESULT: Shape = Shape {
    required: &[("source", Text), ("title", Text), ("content", List(&Tagged(&[("text", &TEXT)])))],
    optional: &[CACHE, ("citations", Map)],
};
static THINKING: Shape =
    Shape { required: &[("thinking", Text), ("signature", Text)], optional: &[] };
static REDACTED: Shape = Shape { required: &[("data", Text)], optional: &[] };
static TOOL_USE: Shape = Shape {
    required: &[("id", Text), ("name", Text), ("input", Map)],
    optional: &[CACHE, ("caller", Any), ("toolset_name", Text)],
};
static REFERENCE: Shape = Shape { required: &[("tool_name", Text)], optional: &[CACHE] };
static TOOL_RESULT: Shape = Shape {
    required: &[("tool_use_id", Text)],
    optional: &[
        CACHE,
        ("is_error", Bool),
        (
            "content",
            TextOr(&List(&Tagged(&[
                ("text", &TEXT),
                ("image", &IMAGE),
                ("document", &DOCUMENT),
                ("search_result", &SEARCH_RESULT),
                ("tool_reference", &REFERENCE),
            ]))),
        ),
    ],
};
static SERVER_RESULT: Shape = Shape {
    required: &[("tool_use_id", Text), ("content", Any)],
    optional: &[CACHE, ("caller", Any)],
};

fn block(kind: &str) -> Option<&'static Shape> {
    Some(match kind {
        "text" => &TEXT,
        "image" => &IMAGE,
        "document" => &DOCUMENT,
        "search_result" => &SEARCH_RESULT,
        "thinking" => &THINKING,
        "redacted_thinking" => &REDACTED,
        "tool_use" | "server_tool_use" => &TOOL_USE,
        "tool_result" => &TOOL_RESULT,
        "container_upload" => &FILE,
        kind if kind.ends_with("_tool_result") => &SERVER_RESULT,
        _ => return None,
    })
}

static MESSAGE: Shape = Shape {
    required: &[
        ("role", OneOf(&["user", "assistant", "system"])),
        ("content", TextOr(&List(&TaggedBy(block)))),
    ],
    optional: &[],
};

/// A tool that the client runs.
pub(super) static CUSTOM_TOOL: Shape = Shape {
    required: &[("name", Text), ("input_schema", Map)],
    optional: &[
        CACHE,
        ("type", OneOf(&["custom"])),
        ("description", Text),
        ("strict", Bool),
        ("defer_loading", Bool),
        ("eager_input_streaming", Bool),
        ("input_examples", List(&Map)),
        ("allowed_callers", List(&Text)),
    ],
};

static AUTO: Shape = Shape { required: &[], optional: &[("disable_parallel_tool_use", Bool)] };
static TOOL: Shape =
    Shape { required: &[("name", Text)], optional: &[("disable_parallel_tool_use", Bool)] };
static EMPTY: Shape = Shape { required: &[], optional: &[] };

const DISPLAY: (&str, Kind) = ("display", OneOf(&["summarized", "omitted"]));
static ADAPTIVE: Shape = Shape { required: &[], optional: &[DISPLAY] };
static ENABLED: Shape = Shape { required: &[("budget_tokens", Count)], optional: &[DISPLAY] };

static FORMAT: Shape = Shape { required: &[("schema", Map)], optional: &[] };
static OUTPUT: Shape = Shape {
    required: &[],
    optional: &[
        ("effort", OneOf(&["low", "medium", "high", "xhigh", "max"])),
        ("format", Tagged(&[("json_schema", &FORMAT)])),
    ],
};
static METADATA: Shape = Shape { required: &[], optional: &[("user_id", Text)] };

const SYSTEM: (&str, Kind) = ("system", TextOr(&List(&Tagged(&[("text", &TEXT)]))));
const TOOLS: (&str, Kind) = ("tools", List(&Map));
const CHOICE: (&str, Kind) =
    ("tool_choice", Tagged(&[("auto", &AUTO), ("any", &AUTO), ("tool", &TOOL), ("none", &EMPTY)]));
const THOUGHT: (&str, Kind) = (
    "thinking",
    Tagged(&[
        ("adaptive", &ADAPTIVE),
        ("enabled", &ENABLED),
        ("disabled", &EMPTY),
        ("between_tools", &ADAPTIVE),
    ]),
);
const MESSAGES: (&str, Kind) = ("messages", List(&Object(&MESSAGE)));

/// The body of a request for a message.
pub(super) static BODY: Shape = Shape {
    required: &[("model", Text), ("max_tokens", Count), MESSAGES],
    optional: &[
        SYSTEM,
        TOOLS,
        CHOICE,
        THOUGHT,
        CACHE,
        ("output_config", Object(&OUTPUT)),
        ("metadata", Object(&METADATA)),
        ("service_tier", OneOf(&["auto", "standard_only"])),
        ("speed", OneOf(&["standard", "fast"])),
        ("stop_sequences", List(&Text)),
        ("stream", Bool),
        ("temperature", Number(0.0, 1.0)),
        ("top_k", Count),
        ("top_p", Number(0.0, 1.0)),
        ("inference_geo", Text),
        ("container", Any),
        ("context_management", Map),
        ("compaction", Map),
        ("diagnostics", Map),
        ("fallbacks", List(&Any)),
        ("mcp_servers", List(&Map)),
        ("thread", Map),
    ],
};

/// The body of a request to count tokens.
pub(super) static COUNT: Shape = Shape {
    required: &[("model", Text), MESSAGES],
    optional: &[
        SYSTEM,
        TOOLS,
        CHOICE,
        THOUGHT,
        CACHE,
        ("output_config", Object(&OUTPUT)),
        ("context_management", Map),
        ("mcp_servers", List(&Map)),
    ],
};

/// The shape of a tool: the provider's own have members of their own.
pub(super) fn tool(kind: Option<&str>) -> &'static Shape {
    match kind {
        None | Some("custom") => &CUSTOM_TOOL,
        Some(_) => &OPEN,
    }
}
