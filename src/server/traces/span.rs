//! A delivery attempt as a span, by OpenTelemetry's conventions for messaging.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use uuid::Uuid;

use crate::engine::Attempt;
use crate::model::WallMs;
use crate::wire::TraceParent;

/// W3C flag: the trace is sampled.
const SAMPLED: u32 = 1;
/// OTLP flags: the linked span is known to be in another process.
const REMOTE: u32 = 0x300;
/// The operation, in the span's name and its attributes.
const OPERATION: &str = "process";

/// The attempt as the root span of a trace of its own.
pub(super) fn span(attempt: &Attempt) -> Span {
    let error = attempt.outcome.error();
    let status =
        error.map(|why| Status { message: why.to_owned(), code: i32::from(StatusCode::Error) });
    let topic = attempt.origin.as_ref().map(|origin| origin.topic.as_str());
    Span {
        trace_id: Uuid::new_v4().into_bytes().to_vec(),
        span_id: Uuid::new_v4().into_bytes().iter().copied().take(8).collect(),
        flags: SAMPLED,
        name: topic.map_or(OPERATION.to_owned(), |topic| format!("{OPERATION} {topic}")),
        kind: i32::from(SpanKind::Consumer),
        start_time_unix_nano: nanoseconds(attempt.began),
        end_time_unix_nano: nanoseconds(attempt.ended.max(attempt.began)),
        attributes: attributes(attempt),
        links: attempt.parent.as_ref().map(link).into_iter().collect(),
        status,
        ..Span::default()
    }
}

fn attributes(attempt: &Attempt) -> Vec<KeyValue> {
    let mut all = vec![
        text("messaging.system", "kafka"),
        text("messaging.operation.type", OPERATION),
        text("messaging.operation.name", OPERATION),
        text("messaging.consumer.group.name", attempt.group.as_str()),
        number("reprise.reconsume_times", i64::from(attempt.reconsume_times)),
        text("reprise.outcome", attempt.outcome.as_str()),
        number("reprise.entry", i64::try_from(attempt.entry.0).unwrap_or(i64::MAX)),
    ];
    if let Some(origin) = &attempt.origin {
        all.push(text("messaging.destination.name", origin.topic.as_str()));
        all.push(text("messaging.destination.partition.id", &origin.partition.to_string()));
        all.push(number("messaging.kafka.offset", origin.offset));
    }
    all.extend(attempt.outcome.error().map(|why| text("error.type", why)));
    all
}

fn link(to: &TraceParent) -> Link {
    Link {
        trace_id: to.trace_id.to_vec(),
        span_id: to.span_id.to_vec(),
        flags: u32::from(to.flags) | REMOTE,
        ..Link::default()
    }
}

/// The request that carries spans.
pub(super) fn request(service_name: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let version = env!("CARGO_PKG_VERSION");
    let scope = InstrumentationScope {
        name: "reprise".to_owned(),
        version: version.to_owned(),
        ..InstrumentationScope::default()
    };
    let resource = Resource {
        attributes: vec![text("service.name", service_name), text("service.version", version)],
        ..Resource::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn nanoseconds(at: WallMs) -> u64 {
    u64::try_from(at.0).unwrap_or(0).saturating_mul(1_000_000)
}
