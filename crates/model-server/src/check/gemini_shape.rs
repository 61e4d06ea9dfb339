//! The shape of a `generateContent` request.

use super::shape::{Kind, OPEN, Shape};

use Kind::{Any, Bool, Count, Integer, List, Map, MapOf, Number, Object, OneOf, Text};

static BLOB: Shape =
    Shape { required: &[("mimeType", Text), ("data", Text)], optional: &[("displayName", Text)] };
static FILE: Shape = Shape {
    required: &[("fileUri", Text)],
    optional: &[("mimeType", Text), ("displayName", Text)],
};
static CALL: Shape =
    Shape { required: &[("name", Text)], optional: &[("id", Text), ("args", Map)] };
static RESPONSE_PART: Shape = Shape { required: &[("inlineData", Object(&BLOB))], optional: &[] };
static RESPONSE: Shape = Shape {
    required: &[("name", Text), ("response", Map)],
    optional: &[
        ("id", Text),
        ("parts", List(&Object(&RESPONSE_PART))),
        ("scheduling", Text),
        ("willContinue", Bool),
    ],
};
static PART: Shape = Shape {
    required: &[],
    optional: &[
        ("text", Text),
        ("thought", Bool),
        ("thoughtSignature", Text),
        ("inlineData", Object(&BLOB)),
        ("fileData", Object(&FILE)),
        ("functionCall", Object(&CALL)),
        ("functionResponse", Object(&RESPONSE)),
        ("executableCode", Map),
        ("codeExecutionResult", Map),
        ("videoMetadata", Map),
        ("mediaResolution", Any),
    ],
};
static CONTENT: Shape =
    Shape { required: &[("parts", List(&Object(&PART)))], optional: &[("role", Text)] };

const LIST: Kind = List(&Text);

/// The part of OpenAPI's schemas that `parameters` and `responseSchema` may have.
static SCHEMA: Shape = Shape {
    required: &[],
    optional: &[
        ("type", Text),
        ("format", Text),
        ("title", Text),
        ("description", Text),
        ("nullable", Bool),
        ("enum", LIST),
        ("maxItems", Any),
        ("minItems", Any),
        ("properties", MapOf(&Object(&SCHEMA))),
        ("required", LIST),
        ("minProperties", Any),
        ("maxProperties", Any),
        ("minLength", Any),
        ("maxLength", Any),
        ("pattern", Text),
        ("example", Any),
        ("anyOf", List(&Object(&SCHEMA))),
        ("propertyOrdering", LIST),
        ("default", Any),
        ("items", Object(&SCHEMA)),
        ("minimum", Any),
        ("maximum", Any),
    ],
};

static FUNCTION: Shape = Shape {
    required: &[("name", Text)],
    optional: &[
        ("description", Text),
        ("parameters", Object(&SCHEMA)),
        ("parametersJsonSchema", Any),
        ("response", Object(&SCHEMA)),
        ("responseJsonSchema", Any),
        ("behavior", Text),
    ],
};
static TOOL: Shape = Shape {
    required: &[],
    optional: &[
        ("functionDeclarations", List(&Object(&FUNCTION))),
        ("googleSearch", Object(&OPEN)),
        ("googleSearchRetrieval", Map),
        ("urlContext", Map),
        ("codeExecution", Map),
        ("googleMaps", Map),
        ("fileSearch", Map),
        ("computerUse", Map),
    ],
};
static CALLING: Shape = Shape {
    required: &[],
    optional: &[
        ("mode", OneOf(&["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"])),
        ("allowedFunctionNames", LIST),
        ("streamFunctionCallArguments", Bool),
    ],
};
static TOOL_CONFIG: Shape = Shape {
    required: &[],
    optional: &[("functionCallingConfig", Object(&CALLING)), ("retrievalConfig", Map)],
};
/// The documentation writes them in both cases.
const THINKING_LEVELS: &[&str] = &[
    "THINKING_LEVEL_UNSPECIFIED",
    "MINIMAL",
    "LOW",
    "MEDIUM",
    "HIGH",
    "XHIGH",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
];
static THINKING: Shape = Shape {
    required: &[],
    optional: &[
        ("includeThoughts", Bool),
        ("thinkingBudget", Integer),
        ("thinkingLevel", OneOf(THINKING_LEVELS)),
    ],
};
static CONFIG: Shape = Shape {
    required: &[],
    optional: &[
        ("stopSequences", LIST),
        ("responseMimeType", Text),
        ("responseSchema", Object(&SCHEMA)),
        ("responseJsonSchema", Any),
        ("responseModalities", LIST),
        ("candidateCount", Count),
        ("maxOutputTokens", Count),
        ("temperature", Number(0.0, 2.0)),
        ("topP", Number(0.0, 1.0)),
        ("topK", Any),
        ("seed", Integer),
        ("presencePenalty", Number(-2.0, 2.0)),
        ("frequencyPenalty", Number(-2.0, 2.0)),
        ("responseLogprobs", Bool),
        ("logprobs", Count),
        ("speechConfig", Map),
        ("thinkingConfig", Object(&THINKING)),
        ("imageConfig", Map),
        ("mediaResolution", Text),
        ("enableEnhancedCivicAnswers", Bool),
    ],
};
static SAFETY: Shape =
    Shape { required: &[("category", Text), ("threshold", Text)], optional: &[("method", Text)] };

/// The body of a request for content.
pub(super) static BODY: Shape = Shape {
    required: &[("contents", List(&Object(&CONTENT)))],
    optional: &[
        ("model", Text),
        ("systemInstruction", Object(&CONTENT)),
        ("tools", List(&Object(&TOOL))),
        ("toolConfig", Object(&TOOL_CONFIG)),
        ("safetySettings", List(&Object(&SAFETY))),
        ("generationConfig", Object(&CONFIG)),
        ("cachedContent", Text),
        ("serviceTier", OneOf(&["SERVICE_TIER_UNSPECIFIED", "STANDARD", "FLEX", "PRIORITY"])),
        ("store", Bool),
        ("labels", MapOf(&Text)),
    ],
};
