//! The outcome of one partition of a Produce, known now or once the partition's batch is durable.

use std::pin::Pin;

use crate::broker::error::BrokerError;
use crate::route::code;
use crate::wire::ResponseError;

/// The result of one partition.
pub(super) struct ProduceOutcome {
    pub(super) error: Option<ResponseError>,
    pub(super) message: Option<String>,
    pub(super) record_errors: Vec<(i32, String)>,
    pub(super) base_offset: i64,
    pub(super) log_start: i64,
}

impl ProduceOutcome {
    pub(super) fn refused(error: ResponseError, message: impl Into<String>) -> Self {
        Self {
            error: Some(error),
            message: Some(message.into()),
            record_errors: Vec::new(),
            base_offset: -1,
            log_start: -1,
        }
    }

    pub(super) fn taken(base_offset: i64, log_start: i64) -> Self {
        Self { error: None, message: None, record_errors: Vec::new(), base_offset, log_start }
    }

    pub(super) fn of_broker(error: &BrokerError) -> Self {
        Self::refused(code::of_broker(error), error.to_string())
    }
}

/// The result of an appended partition, once it is durable.
pub(super) type PendingOutcome<'a> = Pin<Box<dyn Future<Output = ProduceOutcome> + Send + 'a>>;

pub(super) fn done<'a>(outcome: ProduceOutcome) -> PendingOutcome<'a> {
    Box::pin(std::future::ready(outcome))
}
