//! One connection to a broker. Answers come in the order of the requests.
//!
//! One read's relayed frames are forwarded together. A frame larger than the buffer streams
//! through, so memory does not grow with the answer to a Fetch.

use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Request};

use crate::socket::{Budget, ReadBuffer, ReadHalf, WriteHalf, at_once};
use crate::upstream::error::UpstreamError;
use crate::upstream::sasl::ANSWER_BYTES_MAX;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::relay::{AnswerStart, FrameStartError};
use crate::wire::{
    Api, EncodeError, FrameError, RequestHead, decode_answer, encode_request, split,
};

/// The longest frame that is relayed: Kafka's own bound of a message.
const PASSING_BYTES_MAX: usize = 0x7fff_ffff;

/// First two bytes of a TLS alert record.
pub(super) const TLS_ALERT: [u8; 2] = [0x15, 0x03];

#[derive(Debug)]
pub struct Link {
    pub reader: LinkReader,
    pub writer: LinkWriter,
    frame_bytes_max: usize,
}

#[derive(Debug)]
pub struct LinkReader {
    intake: ReadBuffer,
    /// Whether the first bytes of any answer have arrived.
    answered: bool,
    /// Bytes of the answer being forwarded that are still to come.
    passing: usize,
    /// The answer being forwarded is returned as [`Arrived::Apart`].
    is_apart: bool,
    /// Bound of an answer that is read whole.
    whole_bytes_max: usize,
}

#[derive(Debug)]
pub struct LinkWriter {
    half: WriteHalf,
    out: BytesMut,
}

/// Bytes that arrived from the broker.
#[derive(Debug)]
pub enum Arrived {
    /// Bytes to forward unchanged; may be empty.
    Passing(BytesMut),
    /// Bytes to forward unchanged, of one answer only.
    Apart {
        /// A part of the answer, in order, length prefix included.
        bytes: BytesMut,
        /// Whether these are the first bytes of the answer.
        begins: bool,
    },
    /// A whole answer without its length prefix, read before it goes to the client.
    Whole(Bytes),
}

/// Whether an answer that begins to arrive may go to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayTiming {
    /// The answer is the next one for the client.
    Now,
    /// The answer is next, and its bytes are read while they are forwarded.
    Apart,
    /// The answer is next, and it is rewritten. Only for an answer that is in the buffer whole.
    Whole,
    Later,
    /// The answer is read once all of it is in the buffer.
    Gather,
    /// The answer belongs to no request.
    Never,
}

impl Link {
    pub(super) fn new(
        (read, write): (ReadHalf, WriteHalf),
        frame_bytes_max: usize,
        budget: &Budget,
    ) -> Self {
        let intake = ReadBuffer::new(read, budget);
        Self {
            reader: LinkReader {
                intake,
                answered: false,
                passing: 0,
                is_apart: false,
                whole_bytes_max: frame_bytes_max,
            },
            writer: LinkWriter { half: write, out: BytesMut::new() },
            frame_bytes_max,
        }
    }

    /// Sends a request for the client, with the version and client id of `head`.
    pub async fn call<Req>(
        &mut self,
        head: &RequestHead,
        request: &Req,
    ) -> Result<Req::Response, UpstreamError>
    where
        Req: Request,
        Req::Response: Decodable,
    {
        self.call_at(head.api, head.version, head, request).await
    }

    /// Like [`Link::call`], but the answer is not decoded.
    pub async fn call_unread<Req: Request>(
        &mut self,
        head: &RequestHead,
        request: &Req,
    ) -> Result<Bytes, UpstreamError> {
        self.ask(head.api, head.version, head, request).await
    }

    /// Like [`Link::call`], for another API and version than those of `head`.
    pub async fn call_at<Req>(
        &mut self,
        api: Api,
        version: i16,
        head: &RequestHead,
        request: &Req,
    ) -> Result<Req::Response, UpstreamError>
    where
        Req: Request,
        Req::Response: Decodable,
    {
        let answer = self.ask(api, version, head, request).await?;
        Ok(decode_answer(api, version, head.correlation_id, &answer)?)
    }

    /// Sends a request that has no answer: a Produce with acks 0.
    pub async fn tell<Req: Request>(
        &mut self,
        head: &RequestHead,
        request: &Req,
    ) -> Result<(), UpstreamError> {
        let frame = frame_of(head.api, head.version, head, request)?;
        Ok(self.writer.half.write_all(&frame).await?)
    }

    /// Returns the whole answer without its length prefix.
    async fn ask<Req: Request>(
        &mut self,
        api: Api,
        version: i16,
        head: &RequestHead,
        request: &Req,
    ) -> Result<Bytes, UpstreamError> {
        let frame = frame_of(api, version, head, request)?;
        self.exchange(&frame).await
    }

    /// Sends a request that is already encoded and returns its answer.
    pub(super) async fn exchange(&mut self, frame: &[u8]) -> Result<Bytes, UpstreamError> {
        self.writer.half.write_all(frame).await?;
        loop {
            let reader = &mut self.reader;
            if let Some(start) = AnswerStart::parse(&reader.intake.buffer, self.frame_bytes_max)?
                && reader.intake.buffer.len() >= start.bytes
            {
                return Ok(reader.take_whole(&start));
            }
            reader.fill().await?;
        }
    }

    /// Sends one SASL token and returns the broker's token, without the length prefix. Both sides
    /// frame tokens by their length alone (`SaslHandshake` 0).
    pub async fn exchange_token(&mut self, token: &[u8]) -> Result<Bytes, UpstreamError> {
        self.writer.half.write_all(token).await?;
        loop {
            let buffer = &mut self.reader.intake.buffer;
            match split(buffer, ANSWER_BYTES_MAX) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                // An empty token: the broker accepted the login.
                Err(FrameError::Zero) => {
                    buffer.advance(PREFIX_BYTES);
                    return Ok(Bytes::new());
                }
                Err(error) => return Err(FrameStartError::from(error).into()),
            }
            self.reader.fill().await?;
        }
    }
}

fn frame_of<Req: Request>(
    api: Api,
    version: i16,
    head: &RequestHead,
    request: &Req,
) -> Result<Bytes, EncodeError> {
    let client = head.client_id.as_ref().map(crate::model::ClientId::as_str);
    encode_request(api, version, head.correlation_id, client, request)
}

impl LinkReader {
    /// Returns the part of the buffer that can be forwarded. `turn` decides for each answer that
    /// begins. It gets the correlation id and, once all of the answer is in the buffer, its bytes
    /// without the length prefix.
    pub fn arrived(
        &mut self,
        mut turn: impl FnMut(i32, Option<&[u8]>) -> RelayTiming,
    ) -> Result<Arrived, UpstreamError> {
        if self.passing > 0 && self.is_apart {
            return Ok(self.apart(false));
        }
        let mut end = 0;
        loop {
            let here = self.intake.buffer.len() - end;
            if self.passing > 0 {
                let passed = self.passing.min(here);
                self.passing -= passed;
                end += passed;
                if self.passing > 0 {
                    break;
                }
            }
            let rest = self.intake.buffer.get(end..).unwrap_or_default();
            let Some(start) = AnswerStart::parse(rest, PASSING_BYTES_MAX)? else { break };
            match turn(start.correlation_id, rest.get(PREFIX_BYTES..start.bytes)) {
                RelayTiming::Now => (self.passing, self.is_apart) = (start.bytes, false),
                // Earlier answers are forwarded first.
                RelayTiming::Apart | RelayTiming::Whole if end > 0 => break,
                RelayTiming::Apart => {
                    (self.passing, self.is_apart) = (start.bytes, true);
                    return Ok(self.apart(true));
                }
                RelayTiming::Whole => return Ok(Arrived::Whole(self.take_whole(&start))),
                RelayTiming::Later => break,
                // Gathered answers have the same memory bound as every frame that is read whole.
                RelayTiming::Gather => {
                    AnswerStart::parse(rest, self.whole_bytes_max)?;
                    break;
                }
                RelayTiming::Never => {
                    return Err(UpstreamError::NotDue { found: start.correlation_id });
                }
            }
        }
        Ok(Arrived::Passing(self.intake.buffer.split_to(end)))
    }

    /// The buffered bytes of the answer that is forwarded by itself.
    fn apart(&mut self, begins: bool) -> Arrived {
        let passed = self.passing.min(self.intake.buffer.len());
        self.passing -= passed;
        let bytes = self.intake.buffer.split_to(passed);
        if bytes.is_empty() { Arrived::Passing(bytes) } else { Arrived::Apart { bytes, begins } }
    }

    /// Takes the first answer of the buffer, all of which has arrived, without its length prefix.
    fn take_whole(&mut self, start: &AnswerStart) -> Bytes {
        let mut frame = self.intake.buffer.split_to(start.bytes).freeze();
        frame.advance(PREFIX_BYTES);
        frame
    }

    pub fn is_empty(&self) -> bool {
        self.intake.buffer.is_empty()
    }

    /// Whether no answer is half forwarded. Between the halves nothing else may go to the client.
    pub fn is_between_answers(&self) -> bool {
        self.passing == 0
    }

    /// Reads once. The end of the stream is an error: the broker has closed the connection.
    pub async fn fill(&mut self) -> Result<(), UpstreamError> {
        match self.intake.fill().await.map_err(UpstreamError::broken)? {
            0 => Err(UpstreamError::Closed),
            _ if !self.answered => self.begin(),
            _ => Ok(()),
        }
    }

    /// A broker that expects TLS answers plain text with a TLS alert. The first answer is never so
    /// long that its length looks like one.
    fn begin(&mut self) -> Result<(), UpstreamError> {
        self.answered = self.intake.buffer.len() >= TLS_ALERT.len();
        if self.intake.buffer.starts_with(&TLS_ALERT) {
            return Err(UpstreamError::WantsTls);
        }
        Ok(())
    }
}

impl LinkWriter {
    /// Queues bytes; [`LinkWriter::flush`] sends them.
    pub fn push(&mut self, bytes: BytesMut) {
        if self.out.is_empty() {
            self.out = bytes;
        } else {
            self.out.unsplit(bytes);
        }
    }

    /// Whether all queued bytes are sent.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty() && !self.half.owes()
    }

    /// Sends what the socket accepts without waiting: nearly always all of it.
    pub async fn start(&mut self) -> Result<(), UpstreamError> {
        match at_once(self.flush()).await {
            Poll::Ready(sent) => sent,
            Poll::Pending => Ok(()),
        }
    }

    /// Sends some of the queued bytes. Cancel-safe: unsent bytes stay queued.
    pub async fn flush(&mut self) -> Result<(), UpstreamError> {
        let sent = self.half.write_buf(&mut self.out).await?;
        if self.out.is_empty() {
            // An empty buffer still holds the memory it was read into, which could not be used
            // again.
            self.out = BytesMut::new();
        }
        sent.then_some(()).ok_or(UpstreamError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::socket::plain;

    /// Three answers; the second is returned by itself.
    const ANSWERS: [[u8; 12]; 3] = [
        [0, 0, 0, 8, 0, 0, 0, 1, 1, 1, 1, 1],
        [0, 0, 0, 8, 0, 0, 0, 2, 2, 2, 2, 2],
        [0, 0, 0, 8, 0, 0, 0, 3, 3, 3, 3, 3],
    ];

    async fn link() -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        Link::new(plain(near), 1 << 20, &Budget::new(1 << 24))
    }

    /// All that the reader returns: `None` for joined answers, `Some(begins)` for the second.
    fn come(reader: &mut LinkReader) -> Vec<(Option<bool>, Vec<u8>)> {
        let mut come = Vec::new();
        let mut turn =
            |id: i32, _: Option<&[u8]>| if id == 2 { RelayTiming::Apart } else { RelayTiming::Now };
        loop {
            match reader.arrived(&mut turn).unwrap() {
                Arrived::Passing(bytes) if bytes.is_empty() => return come,
                Arrived::Passing(bytes) => come.push((None, bytes.to_vec())),
                Arrived::Apart { bytes, begins } => come.push((Some(begins), bytes.to_vec())),
                Arrived::Whole(_) => panic!("none is to be rewritten"),
            }
        }
    }

    #[tokio::test]
    async fn sent_bytes_release_their_read_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut writer = Link::new(plain(near), 1 << 20, &Budget::new(1 << 24)).writer;
        let mut read = BytesMut::with_capacity(1 << 10);
        read.extend_from_slice(&ANSWERS.concat());
        writer.push(read.split());
        writer.start().await.unwrap();
        assert!(writer.is_empty() && read.try_reclaim(1 << 10));
    }

    #[tokio::test]
    async fn an_answer_is_split_from_its_neighbours() {
        let [first, second, third] = ANSWERS;
        let all = ANSWERS.concat();
        for split in 12..=24 {
            let mut reader = link().await.reader;
            reader.intake.buffer.extend_from_slice(&all[..split]);
            let mut parts = come(&mut reader);
            reader.intake.buffer.extend_from_slice(&all[split..]);
            parts.extend(come(&mut reader));
            assert_eq!(parts.remove(0), (None, first.to_vec()));
            assert_eq!(parts.pop(), Some((None, third.to_vec())));
            let begins: Vec<bool> = parts.iter().filter_map(|part| part.0).collect();
            let bytes = parts.into_iter().flat_map(|part| part.1);
            assert_eq!(bytes.collect::<Vec<u8>>(), second, "split at {split}");
            assert!(begins == [true] || begins == [true, false], "{begins:?}");
        }
    }
}
