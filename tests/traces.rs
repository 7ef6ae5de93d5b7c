//! Spans of delivery attempts, as an OpenTelemetry collector gets them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reprise::config::Config;
use support::{Got, Member, Rec, Server, instant, until, wall_ms};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A process of this test with these variables is the sidecar: `yes` where it exports.
const IS_TRUSTED: &str = "TRACES_TEST_IS_TRUSTED";

trait Exchange: Read + Write {}

impl<T: Read + Write> Exchange for T {}

/// A collector that accepts every export.
#[derive(Clone)]
struct Collector {
    addr: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

struct Request {
    head: String,
    message: ExportTraceServiceRequest,
}

impl Collector {
    /// The first answers have these statuses, the others are 200.
    fn start(statuses: &'static [u16]) -> Self {
        Self::behind(statuses, |stream| Box::new(stream))
    }

    /// A collector that speaks TLS.
    fn secure(config: Arc<ServerConfig>) -> Self {
        Self::behind(&[], move |stream| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            Box::new(StreamOwned::new(session, stream))
        })
    }

    fn behind(
        statuses: &'static [u16],
        open: impl Fn(TcpStream) -> Box<dyn Exchange> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let collector = Self { addr, requests: Arc::default() };
        let requests = Arc::clone(&collector.requests);
        let mut statuses = statuses.iter();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = open(stream.unwrap());
                let Some(request) = read(&mut stream) else { continue };
                let status = statuses.next().copied().unwrap_or(200);
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
                if status == 200 {
                    requests.lock().unwrap().push(request);
                }
            }
        });
        collector
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let of = |request: &Request| {
            let resources = request.message.resource_spans.iter();
            let scopes = resources.flat_map(|resource| resource.scope_spans.clone());
            scopes.flat_map(|scope| scope.spans).collect::<Vec<_>>()
        };
        requests.iter().flat_map(of).collect()
    }

    /// Waits for this many spans.
    fn await_spans(&self, count: usize) -> Vec<Span> {
        until("the spans", || {
            std::thread::yield_now();
            self.spans().len() >= count
        });
        let mut spans = self.spans();
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    /// A sidecar that exports to this collector.
    fn sidecar(&self, more: &str) -> Server {
        Server::with(&format!(
            "retry: {{levels: 20ms, max_reconsume_times: 3}}\n\
             traces: {{endpoint: 'http://{}/v1/traces'{more}}}",
            self.addr
        ))
    }
}

/// A request; `None` for a connection that ends before its head.
fn read(stream: &mut impl Read) -> Option<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    Some(Request { head, message: ExportTraceServiceRequest::decode(&body[..]).unwrap() })
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// A member of `shop` beside one record of `orders`, which fails at its first delivery.
fn failing(server: &Server, traceparent: Option<&str>) -> Member {
    let mut member = Member::of_shop(server);
    let record = |value| match traceparent {
        Some(parent) => Rec::new(value).header("traceparent", parent),
        None => Rec::new(value),
    };
    let offset = member.client.put("orders", 0, &[record("a")]);
    let nacked = member.client.nack("shop", &format!("orders-0@{offset}"), record("a"));
    assert_eq!(nacked.error_code, 0, "{:?}", nacked.error_message);
    member
}

/// Nacks a retry.
fn nack(member: &mut Member, got: &Got, traceparent: &str) {
    let place = format!("reprise.retry.shop-0@{}", got.offset);
    let record = Rec::new("a").header("traceparent", traceparent);
    let nacked = member.client.nack("shop", &place, record);
    assert_eq!(nacked.error_code, 0, "{:?}", nacked.error_message);
}

#[test]
fn each_attempt_of_a_retry_is_a_linked_span() {
    let collector = Collector::start(&[]);
    let server = collector.sidecar("");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let before = wall_ms();
    let mut member = failing(&server, Some(&parent));
    let first = member.retry_once();
    nack(&mut member, &first, &parent);
    let second = member.retries_from(first.offset + 1).remove(0);
    member.done(second.offset + 1);
    let spans = collector.await_spans(2);
    let nanos = |ms: i64| u64::try_from(ms).unwrap() * 1_000_000;
    for (span, outcome, times) in [(&spans[0], "failed", "1"), (&spans[1], "acknowledged", "2")] {
        let attribute = |key: &str| text(&span.attributes, key);
        assert_eq!((span.name.as_str(), span.kind), ("process orders", 5));
        assert!(span.parent_span_id.is_empty(), "it is a root");
        assert_ne!(hex(&span.trace_id), TRACE);
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert_eq!(span.links.len(), 1);
        assert_eq!(hex(&span.links[0].trace_id), TRACE);
        assert_eq!(hex(&span.links[0].span_id), PARENT);
        assert_eq!(attribute("reprise.outcome"), outcome);
        assert_eq!(attribute("reprise.reconsume_times"), times);
        assert_eq!(attribute("messaging.system"), "kafka");
        assert_eq!(attribute("messaging.operation.type"), "process");
        assert_eq!(attribute("messaging.destination.name"), "orders");
        assert_eq!(attribute("messaging.destination.partition.id"), "0");
        assert_eq!(attribute("messaging.kafka.offset"), "0");
        assert_eq!(attribute("messaging.consumer.group.name"), "shop");
        assert!(span.start_time_unix_nano >= nanos(before));
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        assert!(span.end_time_unix_nano <= nanos(wall_ms()));
    }
    assert_ne!(spans[0].trace_id, spans[1].trace_id);
    let failed = spans[0].status.clone().unwrap();
    assert_eq!((failed.message.as_str(), failed.code), ("rejected", 2));
    assert_eq!(text(&spans[0].attributes, "error.type"), "rejected");
    assert!(spans[1].status.is_none(), "it has not failed");
    until("the count", || server.metric("reprise_spans_exported_total") >= 2.0);
    let requests = collector.requests.lock().unwrap();
    let resource = requests[0].message.resource_spans[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), "reprise");
}

#[test]
fn the_last_failure_is_a_dead_letter_in_its_span() {
    let collector = Collector::start(&[]);
    let server = collector.sidecar(", service_name: shop-retries");
    let mut member = failing(&server, None);
    let mut from = member.position();
    for _ in 0..3 {
        let got = member.retries_from(from).remove(0);
        from = got.offset + 1;
        nack(&mut member, &got, "-");
    }
    let spans = collector.await_spans(3);
    let outcome = |span: &Span| text(&span.attributes, "reprise.outcome");
    assert_eq!(spans.iter().map(outcome).collect::<Vec<_>>(), ["failed", "failed", "dead_letter"]);
    assert!(spans.iter().all(|span| span.links.is_empty()), "no record names a span");
    let requests = collector.requests.lock().unwrap();
    let resource = requests[0].message.resource_spans[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), "shop-retries");
}

#[test]
fn a_malformed_traceparent_is_no_link() {
    let collector = Collector::start(&[]);
    let server = collector.sidecar("");
    let mut member = failing(&server, Some("00-not-a-parent"));
    let got = member.retry_once();
    member.done(got.offset + 1);
    let spans = collector.await_spans(1);
    assert!(spans[0].links.is_empty());
}

#[test]
fn a_member_that_leaves_is_an_outcome() {
    let collector = Collector::start(&[]);
    let server = collector.sidecar("");
    let mut member = failing(&server, None);
    member.retry_once();
    assert_eq!(member.leave(), 0);
    let spans = collector.await_spans(1);
    assert_eq!(text(&spans[0].attributes, "reprise.outcome"), "member_lost");
    assert_eq!(spans[0].status.clone().unwrap().code, 2);
}

#[test]
fn a_sample_of_nothing_has_no_spans() {
    let collector = Collector::start(&[]);
    let mut server = collector.sidecar(", sample: 0");
    let mut member = failing(&server, None);
    let got = member.retry_once();
    member.done(got.offset + 1);
    server.stop();
    assert!(collector.spans().is_empty());
}

#[test]
fn a_stop_exports_finished_traces() {
    let collector = Collector::start(&[]);
    let mut server = collector.sidecar("");
    let mut member = failing(&server, None);
    let got = member.retry_once();
    member.done(got.offset + 1);
    server.stop();
    assert_eq!(collector.spans().len(), 1);
}

#[test]
fn a_collector_that_is_busy_is_asked_again() {
    let collector = Collector::start(&[503, 429]);
    let server = collector.sidecar("");
    let mut member = failing(&server, None);
    let got = member.retry_once();
    member.done(got.offset + 1);
    collector.await_spans(1);
    until("the count", || server.metric("reprise_spans_exported_total") >= 1.0);
}

#[test]
fn spans_that_are_refused_are_counted() {
    let collector = Collector::start(&[400]);
    let server = collector.sidecar("");
    let mut member = failing(&server, None);
    let got = member.retry_once();
    member.done(got.offset + 1);
    let series = "reprise_spans_dropped_total{reason=\"not_exported\"}";
    until("the count", || server.metric(series) >= 1.0);
    assert!(collector.spans().is_empty());
}

#[test]
fn a_collector_that_is_away_delays_nothing() {
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::with(&format!(
        "retry: {{levels: 20ms}}\ntraces: {{endpoint: 'http://{away}/v1/traces'}}"
    ));
    let mut member = failing(&server, None);
    let began = instant();
    let mut from = member.position();
    for _ in 0..5 {
        let got = member.retries_from(from).remove(0);
        from = got.offset + 1;
        nack(&mut member, &got, "-");
    }
    assert!(began.elapsed().as_secs() < 10, "retries go on");
    let series = "reprise_spans_dropped_total{reason=\"not_exported\"}";
    until("the count", || server.metric(series) >= 1.0);
}

#[test]
fn headers_of_the_configuration_are_sent_and_masked() {
    let collector = Collector::start(&[]);
    let yaml = format!(
        "retry: {{levels: 20ms}}\ntraces: {{endpoint: 'http://{}', \
         headers: {{X-Token: '${{env:TOKEN}}'}}}}",
        collector.addr
    );
    let env = [("TOKEN".to_owned(), "hush".to_owned())];
    let traces = Config::parse("t", &yaml, &env, &[]).unwrap().config.traces;
    let mut server = Server::with("retry: {levels: 20ms}");
    server.restart_with(|config| config.traces = traces);
    let shown = server.get("/config");
    assert!(shown.contains("X-Token") && !shown.contains("hush"), "{shown}");
    let mut member = failing(&server, None);
    let got = member.retry_once();
    member.done(got.offset + 1);
    collector.await_spans(1);
    let head = collector.requests.lock().unwrap()[0].head.clone();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nX-Token: hush\r\n"), "{head}");
}

/// The authorities of the system are read from a file that a variable names, so the sidecar of this
/// test runs in a process of its own: this test again.
#[test]
fn a_collector_under_https_must_be_trusted() {
    if let Ok(is_trusted) = std::env::var(IS_TRUSTED) {
        return export_under_https(is_trusted == "yes");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    for name in ["collector", "other"] {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(file(&format!("{name}.pem")), made.cert.pem()).unwrap();
        std::fs::write(file(&format!("{name}.der")), made.cert.der()).unwrap();
        std::fs::write(file(&format!("{name}.key")), made.signing_key.serialize_der()).unwrap();
    }
    for (trusted, is_trusted) in [("collector.pem", "yes"), ("other.pem", "no")] {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "a_collector_under_https_must_be_trusted"]).current_dir(&dir);
        again.env("SSL_CERT_FILE", file(trusted)).env(IS_TRUSTED, is_trusted);
        let output = again.output().unwrap();
        assert!(output.status.success(), "{trusted}: {output:?}");
    }
}

/// Exports a span to a collector whose certificate is in this directory.
fn export_under_https(is_trusted: bool) {
    let certificate = CertificateDer::from(std::fs::read("collector.der").unwrap());
    let key = PrivateKeyDer::try_from(std::fs::read("collector.key").unwrap()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let collector = Collector::secure(Arc::new(config));
    let server = Server::with(&format!(
        "retry: {{levels: 20ms}}\ntraces: {{endpoint: 'https://{}'}}",
        collector.addr
    ));
    let mut member = failing(&server, None);
    let got = member.retry_once();
    member.done(got.offset + 1);
    if is_trusted {
        collector.await_spans(1);
    } else {
        let series = "reprise_spans_dropped_total{reason=\"not_exported\"}";
        until("the count", || server.metric(series) >= 1.0);
        assert!(collector.spans().is_empty());
    }
}
