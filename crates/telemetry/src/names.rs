//! The names of everything that is exported: those of the OpenTelemetry semantic conventions for generative
//! AI of one released version, and, where they have none, names below `agentd.`. `docs/telemetry.md` lists
//! them, and a test compares.

/// The conventions that the names are from.
pub const VERSION: &str = "1.41.0";
/// Names that version in every message.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";
/// The instrumentation scope.
pub const SCOPE: &str = "agentd";

/// An attribute of spans, log records and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// As it is sent.
    pub text: &'static str,
    /// Its meaning, for the reference page.
    pub meaning: &'static str,
    /// Where it appears, for the reference page.
    pub on: &'static str,
}

macro_rules! names {
    ($($name:ident = $text:literal, $on:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: Name = Name { text: $text, meaning: $meaning, on: $on };
        )*
        /// All attributes.
        pub const ATTRIBUTES: &[Name] = &[$($name),*];
    };
}

names! {
    OPERATION = "gen_ai.operation.name", "every span", "`invoke_agent`, `chat`, `execute_tool` or `approval`";
    PROVIDER = "gen_ai.provider.name", "turn, model request", "id of the model provider in the configuration";
    REQUEST_MODEL = "gen_ai.request.model", "turn, model request", "model that was asked";
    RESPONSE_MODEL = "gen_ai.response.model", "model request", "model that answered";
    AGENT_NAME = "gen_ai.agent.name", "turn", "`agentd`, or the name of the sub-agent";
    CONVERSATION = "gen_ai.conversation.id", "every span", "id of the thread";
    TURN = "agentd.turn.id", "every span", "id of the turn";
    TURN_STATUS = "agentd.turn.status", "turn", "`completed`, `interrupted` or `failed`";
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk", "model request",
        "seconds from the request to the first event of the response";
    INPUT_TOKENS = "gen_ai.usage.input_tokens", "turn, model request", "input tokens; of a turn, those of all its requests";
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens", "turn, model request", "input tokens read from the provider's cache";
    CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens", "turn, model request", "input tokens written to the provider's cache";
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens", "turn, model request", "output tokens";
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens", "turn, model request", "output tokens spent on reasoning";
    COST = "agentd.cost.usd", "turn, model request", "price in US dollars; absent where the price is not known";
    TOOL_NAME = "gen_ai.tool.name", "tool call, approval", "name of the tool";
    TOOL_TYPE = "gen_ai.tool.type", "tool call", "`function`; `extension` where a client, an MCP server or the provider runs it";
    TOOL_KIND = "agentd.tool.kind", "tool call",
        "`command`, `patch`, `image`, `agent`, `web_search`, `image_generation`, `client` or `mcp`";
    TOOL_CALL = "gen_ai.tool.call.id", "tool call, approval", "id of the item";
    MCP_METHOD = "mcp.method.name", "tool call", "`tools/call`, for the tool of an MCP server";
    MCP_SERVER = "agentd.mcp.server", "tool call", "name of the MCP server in the configuration";
    EXIT_CODE = "process.exit.code", "tool call", "exit code of a command";
    APPROVAL_KIND = "agentd.approval.kind", "approval", "`command`, `network`, `patch`, `permissions` or `server_tool`";
    APPROVAL_DECISION = "agentd.approval.decision", "approval",
        "`accept`, `accept_for_session`, `accept_with_amendment`, `grant`, `decline`, `cancel`, `undecided` or `withdrawn`";
    ERROR_TYPE = "error.type", "every span that failed", "kind of the error";
    PROMPT = "gen_ai.input.messages", "the prompt's log record",
        "text of the user, without secrets; only with `otel.log_user_prompt`";
    PROMPT_LENGTH = "agentd.prompt.length", "the prompt's log record", "characters of the user's text";
    TOKEN_TYPE = "gen_ai.token.type", "the metric of tokens", "`input` or `output`";
    DURATION = "agentd.duration_ms", "the log record of a span", "milliseconds that the operation took";
    DROPPED_SIGNAL = "agentd.telemetry.signal", "the metric of what was dropped", "`queue`, `traces`, `logs` or `metrics`";
    OVERFLOW = "otel.metric.overflow", "metrics", "`true`: stands for attributes beyond the bound of a metric";
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    pub text: &'static str,
    pub unit: &'static str,
    pub kind: MetricKind,
    pub meaning: &'static str,
}

/// The aggregation of a metric; both kinds are cumulative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// With the upper bounds of the buckets.
    Histogram(&'static [f64]),
    /// A sum that only grows.
    Counter,
}

impl Metric {
    /// Its name for Prometheus, with the unit, as collectors translate it; a counter gets `_total` too.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let name = prometheus(self.text);
        if self.unit == "s" { format!("{name}_seconds") } else { name }
    }
}

/// A name in the spelling of Prometheus.
#[must_use]
pub fn prometheus(name: &str) -> String {
    name.replace('.', "_")
}

/// Buckets of durations and of tokens: those that the conventions advise.
const SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: &[f64] = &[
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// The durations of operations.
pub const OPERATION_DURATION: Metric = Metric {
    text: "gen_ai.client.operation.duration",
    unit: "s",
    kind: MetricKind::Histogram(SECONDS),
    meaning: "duration of turns, model requests and tool calls",
};
/// See its meaning.
pub const TOKEN_USAGE: Metric = Metric {
    text: "gen_ai.client.token.usage",
    unit: "{token}",
    kind: MetricKind::Histogram(TOKENS),
    meaning: "tokens of a model request, by `gen_ai.token.type`",
};
/// See its meaning.
pub const FIRST_CHUNK: Metric = Metric {
    text: "gen_ai.client.operation.time_to_first_chunk",
    unit: "s",
    kind: MetricKind::Histogram(SECONDS),
    meaning: "time from a model request to the first event of its response",
};
/// See its meaning.
pub const APPROVAL_DURATION: Metric = Metric {
    text: "agentd.approval.duration",
    unit: "s",
    kind: MetricKind::Histogram(SECONDS),
    meaning: "time that approvals waited, by kind and decision",
};
/// See its meaning.
pub const COST_TOTAL: Metric = Metric {
    text: "agentd.cost",
    unit: "{USD}",
    kind: MetricKind::Counter,
    meaning: "price of the model requests whose price is known",
};
/// See its meaning.
pub const DROPPED: Metric = Metric {
    text: "agentd.telemetry.dropped",
    unit: "{item}",
    kind: MetricKind::Counter,
    meaning: "spans and log records that were not delivered, by `agentd.telemetry.signal`",
};

/// All metrics.
pub const METRICS: &[Metric] =
    &[OPERATION_DURATION, TOKEN_USAGE, FIRST_CHUNK, APPROVAL_DURATION, COST_TOTAL, DROPPED];

/// A value of the page of metrics that no span gives (see [`Page`](crate::Page)).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// In the spelling of Prometheus, without the `_total` of counters.
    pub text: &'static str,
    pub kind: ReadingKind,
    /// Names of its labels, for the reference page.
    pub labels: &'static str,
    pub meaning: &'static str,
}

/// The development of a [`Reading`]'s values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingKind {
    /// Grows while the process lives.
    Counter,
    /// Rises and falls.
    Gauge,
}

macro_rules! readings {
    ($($name:ident = $kind:ident $text:literal, $labels:literal, $meaning:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $name: Reading = Reading {
                text: $text, kind: ReadingKind::$kind, labels: $labels, meaning: $meaning,
            };
        )*
        /// All readings.
        pub const READINGS: &[Reading] = &[$($name),*];
    };
}

readings! {
    BUILD_INFO = Gauge "agentd_build_info", "`version`, `os`, `arch`", "always 1";
    PROCESS_START = Gauge "process_start_time_seconds", "", "Unix time of the start of the process";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes", "", "memory of the process, on Linux";
    PROCESS_CPU = Counter "process_cpu_seconds", "", "processor time of the process, on Linux";
    CONNECTIONS = Gauge "agentd_connections", "", "clients that are connected, over all transports";
    CONNECTIONS_PENDING = Gauge "agentd_connections_pending", "`stage`",
        "connections in the HTTP `handshake`, or before `initialize`";
    CONNECTIONS_REFUSED = Counter "agentd_connections_refused", "`status`",
        "HTTP requests of the listeners that were refused, by status";
    THREADS = Gauge "agentd_threads_loaded", "", "threads that are loaded";
    TURNS_STARTED = Counter "agentd_turns_started", "", "turns that began";
    TURNS_ENDED = Counter "agentd_turns_ended", "`status`", "turns that ended: `completed`, `interrupted` or `failed`";
    TURNS_RUNNING = Gauge "agentd_turns_running", "", "turns under way";
    REQUESTS_RUNNING = Gauge "agentd_requests_running", "", "requests of clients without an answer yet";
    REQUESTS_REFUSED = Counter "agentd_requests_refused", "`code`",
        "requests of clients that were answered with an error, by JSON-RPC code";
    INCOMING_MESSAGES = Gauge "agentd_incoming_messages", "", "messages of WebSocket clients that wait; 4,096 at most";
    INCOMING_BYTES = Gauge "agentd_incoming_bytes", "", "their bytes, unfinished messages included; 128 MiB at most";
    OUTGOING_BYTES = Gauge "agentd_outgoing_bytes", "`place`",
        "bytes that clients have not read, in `memory` and on `disk`, summed over the connections";
    OUTGOING_BYTES_MAX = Gauge "agentd_outgoing_bytes_max", "", "the same of the connection with the most";
    THREAD_COMMANDS = Gauge "agentd_thread_commands", "", "commands that wait for their threads, summed over the threads";
    THREAD_COMMANDS_MAX = Gauge "agentd_thread_commands_max", "", "the same of the thread with the most";
    TELEMETRY_RECORDS = Gauge "agentd_telemetry_queue_records", "", "spans and prompts that wait for export; 2,048 an exporter at most";
    TELEMETRY_BYTES = Gauge "agentd_telemetry_queue_bytes", "", "their bytes; 4 MiB an exporter at most";
}
