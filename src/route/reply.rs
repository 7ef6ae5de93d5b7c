//! The reply to a request.

use std::pin::Pin;

use bytes::Bytes;

use crate::socket::Admission;
use crate::upstream::UpstreamError;
use crate::wire::{DecodeError, EncodeError};

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
