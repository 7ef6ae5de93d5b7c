//! A connection to the demo's sidecar: one request at a time, as plain Kafka frames.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::demo::demo_error::DemoError;
use crate::wire::{Api, decode_answer, encode_request};

/// The name under which the sidecar knows the connection.
const CLIENT_ID: &str = "reprise-demo";
/// The largest answer of the demo: twenty small orders are below 16 KiB.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// One connection to the sidecar.
#[derive(Debug)]
pub(super) struct DemoConnection {
    stream: TcpStream,
    correlation_id: i32,
}

impl DemoConnection {
    pub(super) async fn open(kafka: &str) -> Result<Self, DemoError> {
        Ok(Self { stream: TcpStream::connect(kafka).await?, correlation_id: 0 })
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call<Req>(
        &mut self,
        api: Api,
        version: i16,
        request: &Req,
    ) -> Result<Req::Response, DemoError>
    where
        Req: Request,
        Req::Response: Decodable,
    {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let id = self.correlation_id;
        let frame = encode_request(api, version, id, Some(CLIENT_ID), request)?;
        self.stream.write_all(&frame).await?;
        let answer = self.read_frame().await?;
        Ok(decode_answer(api, version, id, &answer)?)
    }

    async fn read_frame(&mut self) -> Result<Bytes, DemoError> {
        let length = usize::try_from(self.stream.read_i32().await?)
            .ok()
            .filter(|length| *length <= ANSWER_BYTES_MAX)
            .ok_or(DemoError::AnswerTooLarge)?;
        let mut frame = BytesMut::zeroed(length);
        self.stream.read_exact(&mut frame).await?;
        Ok(frame.freeze())
    }
}
