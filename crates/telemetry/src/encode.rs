//! The messages of OTLP: what is recorded as their types.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyKind;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1 as resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self as trace, ResourceSpans, ScopeSpans};

use crate::context::TraceContext;
use crate::names::{self, SCHEMA_URL, SCOPE};
use crate::queue::Record;
use crate::span::{Attribute, Operation, Prompt, Span, Value};

/// The sender, and the scope of what it sends.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) resource: resource::Resource,
    pub(crate) scope: InstrumentationScope,
}

impl Resource {
    pub(crate) fn new(attributes: &[(String, String)]) -> Self {
        let pairs = attributes.iter();
        let attributes =
            pairs.map(|(name, value)| key_value(name, Value::Text(value.clone()))).collect();
        let resource = resource::Resource { attributes, ..default() };
        let scope = InstrumentationScope { name: SCOPE.to_owned(), ..default() };
        Self { resource, scope }
    }
}

/// The spans among the records that are sampled, and how many they are.
pub(crate) fn traces(from: &Resource, records: &[Record]) -> (ExportTraceServiceRequest, u64) {
    let spans: Vec<trace::Span> = records
        .iter()
        .filter_map(|record| match record {
            Record::Span(span) if span.context.is_sampled => Some(span_of(span)),
            Record::Span(_) | Record::Prompt(_) => None,
        })
        .collect();
    let count = spans.len() as u64;
    let scope = Some(from.scope.clone());
    let scoped = ScopeSpans { scope, spans, schema_url: SCHEMA_URL.to_owned() };
    let resource_spans = vec![ResourceSpans {
        resource: Some(from.resource.clone()),
        scope_spans: vec![scoped],
        schema_url: SCHEMA_URL.to_owned(),
    }];
    (ExportTraceServiceRequest { resource_spans }, count)
}

/// A log record for each record.
pub(crate) fn logs(from: &Resource, records: &[Record]) -> ExportLogsServiceRequest {
    let log_records = records
        .iter()
        .map(|record| match record {
            Record::Span(span) => log_of_span(span),
            Record::Prompt(prompt) => log_of_prompt(prompt),
        })
        .collect();
    let scope = Some(from.scope.clone());
    let scoped = ScopeLogs { scope, log_records, schema_url: SCHEMA_URL.to_owned() };
    let resource_logs = vec![ResourceLogs {
        resource: Some(from.resource.clone()),
        scope_logs: vec![scoped],
        schema_url: SCHEMA_URL.to_owned(),
    }];
    ExportLogsServiceRequest { resource_logs }
}

fn span_of(span: &Span) -> trace::Span {
    let kind = match span.operation {
        Operation::Chat => SpanKind::Client,
        Operation::InvokeAgent | Operation::ExecuteTool | Operation::Approval => SpanKind::Internal,
    };
    let status = span.failed.as_ref().map(|failed| trace::Status {
        code: StatusCode::Error.into(),
        message: failed.message.clone().unwrap_or_default(),
    });
    let (trace_id, span_id) = ids(span.context);
    trace::Span {
        trace_id,
        span_id,
        parent_span_id: match span.parent {
            0 => Vec::new(),
            parent => parent.to_be_bytes().to_vec(),
        },
        flags: span.context.is_sampled.into(),
        name: span.name(),
        kind: kind.into(),
        start_time_unix_nano: span.began,
        end_time_unix_nano: span.ended.max(span.began),
        attributes: span.all_attributes().map(attribute).collect(),
        status,
        ..default()
    }
}

fn log_of_span(span: &Span) -> LogRecord {
    let severity = match span.failed {
        Some(_) => SeverityNumber::Error,
        None => SeverityNumber::Info,
    };
    let attributes = span.all_attributes();
    let duration = Attribute::new(names::DURATION, span.seconds() * 1e3);
    let attributes = attributes.chain(std::iter::once(duration)).map(attribute).collect();
    let at = span.ended.max(span.began);
    let message = span.failed.as_ref().and_then(|failed| failed.message.clone());
    let body = message.unwrap_or_else(|| span.name());
    log_record(span.operation.event(), severity, span.context, at, (body, attributes))
}

fn log_of_prompt(prompt: &Prompt) -> LogRecord {
    let attributes = prompt.attributes.iter().cloned().map(attribute).collect();
    let body = "prompt".to_owned();
    log_record(Prompt::EVENT, SeverityNumber::Info, prompt.context, prompt.at, (body, attributes))
}

fn log_record(
    event: &str,
    severity: SeverityNumber,
    context: TraceContext,
    at: u64,
    (body, attributes): (String, Vec<KeyValue>),
) -> LogRecord {
    let (trace_id, span_id) = ids(context);
    LogRecord {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: severity.into(),
        severity_text: match severity {
            SeverityNumber::Error => "ERROR".to_owned(),
            _ => "INFO".to_owned(),
        },
        body: Some(AnyValue { value: Some(AnyKind::StringValue(body)) }),
        attributes,
        flags: context.is_sampled.into(),
        trace_id,
        span_id,
        event_name: event.to_owned(),
        ..default()
    }
}

fn ids(context: TraceContext) -> (Vec<u8>, Vec<u8>) {
    (context.trace.to_be_bytes().to_vec(), context.span.to_be_bytes().to_vec())
}

fn attribute(attribute: Attribute) -> KeyValue {
    key_value(attribute.name.text, attribute.value)
}

pub(crate) fn key_value(key: &str, value: Value) -> KeyValue {
    let value = match value {
        Value::Text(text) => AnyKind::StringValue(text),
        Value::Integer(number) => AnyKind::IntValue(number),
        Value::Float(number) => AnyKind::DoubleValue(number),
        Value::Bool(value) => AnyKind::BoolValue(value),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..default() }
}

fn default<T: Default>() -> T {
    T::default()
}
