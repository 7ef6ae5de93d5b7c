//! One HTTP/1.1 POST to a collector, on its own connection.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tokio::net::TcpStream;

use crate::config::{Endpoint, Traces};
use crate::socket::{Budget, ClientTls, ConnectError, ReadHalf, plain};

/// Timeout of a whole exchange, as in the OTLP specification.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Largest body of an answer that is read, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;
/// Bytes that TLS buffers while the collector reads slowly.
const TLS_BYTES: usize = 512 << 10;
/// Longest wait that a collector may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The collector and its connection settings.
pub(super) struct Collector {
    endpoint: Endpoint,
    /// The request's head without its length.
    head: String,
    /// An error says why the system's authorities cannot be read.
    tls: Result<Option<ClientTls>, String>,
    budget: Budget,
}

/// The reason why spans were not accepted.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error("{0}")]
    Connection(#[from] io::Error),
    #[error("{0}")]
    Tls(#[from] ConnectError),
    #[error("{0}")]
    Authorities(String),
    #[error("no answer within {}s", PATIENCE.as_secs())]
    TooSlow,
    #[error("the answer is not HTTP/1.1")]
    Strange,
    #[error("it answers with HTTP status {status}")]
    Refused {
        status: u16,
        /// The value of `Retry-After`.
        after: Option<Duration>,
    },
}

impl PostError {
    /// Whether another attempt may succeed.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Refused { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            _ => true,
        }
    }

    /// The wait that the collector asks for.
    pub(super) fn retry_after(&self) -> Duration {
        match self {
            Self::Refused { after, .. } => after.unwrap_or_default().min(RETRY_AFTER_MAX),
            _ => Duration::ZERO,
        }
    }
}

impl Collector {
    pub(super) fn new(traces: &Traces) -> Self {
        let endpoint = traces.endpoint.clone();
        let tls = endpoint.client_tls();
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nUser-Agent: reprise/{}\r\n\
             Content-Type: application/x-protobuf\r\n",
            endpoint.path,
            endpoint.address,
            env!("CARGO_PKG_VERSION"),
        );
        for (name, value) in &traces.headers {
            head.extend([name, ": ", value.reveal(), "\r\n"]);
        }
        Self { endpoint, head, tls, budget: Budget::new(TLS_BYTES) }
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Posts spans and returns the number that the collector rejected.
    pub(super) async fn post(&self, body: &[u8]) -> Result<u64, PostError> {
        let exchanged = tokio::time::timeout(PATIENCE, self.exchange(body)).await;
        exchanged.unwrap_or(Err(PostError::TooSlow))
    }

    async fn exchange(&self, body: &[u8]) -> Result<u64, PostError> {
        let address = &self.endpoint.address;
        let tls = self.tls.as_ref().map_err(|says| PostError::Authorities(says.clone()))?;
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        let (mut read, mut write) = match tls {
            Some(tls) => tls.connect(&address.host, stream, &self.budget).await?,
            None => plain(stream),
        };
        let head = format!("{}Content-Length: {}\r\n\r\n", self.head, body.len());
        write.write_all(head.as_bytes()).await?;
        write.write_all(body).await?;
        let (head, mut answer) = read_head(&mut read).await?;
        let status = status(&head).ok_or(PostError::Strange)?;
        if !(200..300).contains(&status) {
            let after = field(&head, "retry-after").and_then(|seconds| seconds.parse().ok());
            return Err(PostError::Refused { status, after: after.map(Duration::from_secs) });
        }
        let length = field(&head, "content-length").and_then(|length| length.parse().ok());
        let length = length.filter(|length| *length <= BODY_BYTES_MAX).unwrap_or(0);
        while answer.len() < length && read.read_buf(&mut answer).await? > 0 {}
        Ok(rejected(&answer))
    }
}

/// The head of an answer, and the bytes after it.
async fn read_head(read: &mut ReadHalf) -> Result<(String, BytesMut), PostError> {
    let mut answer = BytesMut::with_capacity(1 << 10);
    loop {
        if let Some(end) = memchr::memmem::find(&answer, b"\r\n\r\n") {
            let body = answer.split_off(end.saturating_add(4));
            return Ok((String::from_utf8_lossy(&answer).into_owned(), body));
        }
        answer.reserve(1 << 10);
        if answer.len() > HEAD_BYTES_MAX || read.read_buf(&mut answer).await? == 0 {
            return Err(PostError::Strange);
        }
    }
}

fn status(head: &str) -> Option<u16> {
    let line = head.strip_prefix("HTTP/1.1 ").or_else(|| head.strip_prefix("HTTP/1.0 "))?;
    line.get(..3)?.parse().ok()
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The number of spans that the collector rejected, in its answer of partial success.
fn rejected(answer: &[u8]) -> u64 {
    let decoded = ExportTraceServiceResponse::decode(answer).ok();
    let partial = decoded.and_then(|answer| answer.partial_success);
    partial.and_then(|partial| u64::try_from(partial.rejected_spans).ok()).unwrap_or(0)
}
