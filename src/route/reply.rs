//! The reply to a request.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::protocol::Encodable;

use crate::route::refusals::Refusals;
use crate::route::{Router, code};
use crate::socket::Admission;
use crate::upstream::UpstreamError;
use crate::wire::api::Api;
use crate::wire::header::RequestHead;
use crate::wire::{DecodeError, EncodeError, ResponseError, encode};

/// The result of a request.
#[derive(Debug)]
pub enum Reply {
    /// A whole frame, length prefix included.
    Frame(Bytes),
    /// A frame beyond its share of the budget, with its memory.
    Large(Bytes, Vec<Admission>),
    /// No answer: a Produce with acks 0.
    Nothing,
    /// The last frame of the connection, and the reason why it ends.
    Last(Bytes, String),
    /// The reason why the connection ends without an answer.
    Close(String),
}

/// The future of an answer.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = Reply> + Send + 'a>>;

/// The reason why a request ends its connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
}

impl AnswerError {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Decode(_) => "undecodable",
            Self::Encode(_) => "unencodable",
            Self::Upstream(_) => "upstream",
        }
    }
}

impl Router {
    /// Counts a request, and ends its connection after an error.
    pub(super) fn finish(
        &self,
        api: Api,
        began: Duration,
        reply: Result<Reply, AnswerError>,
    ) -> Reply {
        let seconds = self.clock.elapsed().saturating_sub(began).as_secs_f64();
        self.metrics.request(api.name(), seconds);
        reply.unwrap_or_else(|error| {
            self.metrics.request_error(api.name(), error.word());
            Reply::Close(format!("{}: {error}", api.name()))
        })
    }

    /// Encodes an answer and counts the errors in it.
    pub(super) fn encoded<Resp: Encodable + Refusals>(
        &self,
        head: &RequestHead,
        answer: &Resp,
    ) -> Result<Reply, AnswerError> {
        answer.each(&mut |code| {
            if let Some(error) = ResponseError::try_from_code(code) {
                self.metrics.request_error(head.api.name(), &code::name(error));
            }
        });
        Ok(Reply::Frame(encode(head, answer)?))
    }
}
