//! Whose turn it is, where one record goes at a time.

use reprise::model::TopicPartition;
use reprise::retry::detector::{Asked, Serve};

/// Of which partition one record is given, where partitions wait in line.
pub(crate) fn by_turn<'a>(
    asked: &'a [Asked],
    serve: &[Serve],
    end: impl Fn(&Asked) -> i64,
) -> Option<&'a TopicPartition> {
    let line = asked.iter().zip(serve).filter_map(|(ask, serve)| match serve {
        Serve::Turn { place, .. } => Some((place, ask)),
        _ => None,
    });
    let with_records = line.filter(|(_, ask)| ask.offset < end(ask));
    with_records.min_by_key(|(place, _)| *place).map(|(_, ask)| &ask.partition)
}
