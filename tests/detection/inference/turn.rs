//! Delivery of one record at a time, in the order of turns.

use reprise::model::TopicPartition;
use reprise::retry::detector::{FetchDecision, FetchPosition};

/// The partition that delivers its record: the first in line with one.
pub(crate) fn by_turn<'a>(
    asked: &'a [FetchPosition],
    serve: &[FetchDecision],
    end: impl Fn(&FetchPosition) -> i64,
) -> Option<&'a TopicPartition> {
    let line = asked.iter().zip(serve).filter_map(|(ask, serve)| match serve {
        FetchDecision::Turn { place, .. } => Some((place, ask)),
        _ => None,
    });
    let with_records = line.filter(|(_, ask)| ask.offset < end(ask));
    with_records.min_by_key(|(place, _)| *place).map(|(_, ask)| &ask.partition)
}
