//! The start after a change of `names`. Data kept by topic name moves to the new names, and one log
//! line says what applications must do.

use crate::broker::Broker;
use crate::clock::Clock;
use crate::engine::{LetterTopics, Rename};
use crate::journal::{Journal, JournalError};

/// Topics that one line lists.
const LISTED_MAX: usize = 5;

/// Saves the names of this start.
pub(super) fn keep(
    letters: &LetterTopics,
    journal: &Journal,
    broker: &Broker,
    clock: Clock,
    has_retries: bool,
) {
    for rename in &letters.renames {
        let names = (&rename.from, &rename.to);
        let moved = broker.rename_topic(clock.now().wall, names, rename.entry());
        // Consumers see only offsets that are durable.
        let moved = moved.map_err(JournalError::from);
        if let Err(error) = moved.and_then(|seq| journal.durable_blocking(seq)) {
            tracing::error!(
                from = %rename.from, to = %rename.to, group = %rename.group, %error,
                "R0305 offsets that were committed in dead letters have not been moved to the \
                 topic's new name; consumers of it may read dead letters again. The next start \
                 tries again: make room on the disk and restart"
            );
        }
    }
    if let Some(templates) = letters.templates_entry()
        && let Err(error) = journal.append_reserved(vec![templates])
    {
        tracing::debug!(%error, "the names of topics are remembered by the next start");
    }
    tell(letters, has_retries);
}

fn tell(letters: &LetterTopics, has_retries: bool) {
    if let Some((retry, dead_letters)) =
        letters.changed_from.as_ref().filter(|_| has_retries || !letters.renames.is_empty())
    {
        tracing::warn!(
            "R0302 `names` has changed since the last start: consumers that subscribe to the \
             former retry and dead-letter topics get nothing from them. Subscribe to the new \
             names, or bring the former ones back with `names: {{retry: \"{retry}\", dead_letters: \
             \"{dead_letters}\"}}` and a restart"
        );
    }
    if !letters.renames.is_empty() {
        let renamed = listed(letters.renames.iter().map(said));
        tracing::warn!(
            count = letters.renames.len(), topics = %renamed,
            "R0303 dead-letter topics have another name since this start, with the dead letters \
             and committed offsets they had: read them by the new name"
        );
    }
    if !letters.former.is_empty() {
        let former = listed(letters.former.keys().map(ToString::to_string));
        tracing::warn!(
            count = letters.former.len(), topics = %former,
            "R0304 groups have dead letters under two names: these topics of a former \
             configuration are served beside those that `names` gives, and `reprise dlq` does not \
             list them. Read them with any Kafka client"
        );
    }
}

fn said(rename: &Rename) -> String {
    format!("{} is now {}", rename.from, rename.to)
}

fn listed(topics: impl ExactSizeIterator<Item = String>) -> String {
    let count = topics.len();
    let listed: Vec<String> = topics.take(LISTED_MAX).collect();
    let more = if count > listed.len() { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}
