//! The page of the journal and its disk.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::table::{breakable, scroll_table};
use super::{group_path, page, refused};
use crate::admin::state::Admin;
use crate::api::{JournalView, LetterSpace};

pub(in crate::admin) async fn journal(State(admin): State<Arc<Admin>>) -> Response {
    match admin.operations.journal().await {
        Ok(journal) => page("Journal", &content(&journal)),
        Err(error) => refused(&error.into()),
    }
}

fn content(journal: &JournalView) -> Markup {
    html! {
        h1 { "Journal and disk" }
        @if let Some(lacking) = journal.lacking_bytes {
            p.alarm {
                strong { "The disk is full. " }
                (size(lacking)) " more are needed: until then records and nacks are refused, "
                "clients try again, and nothing is lost."
            }
        }
        (facts(journal))
        h2 { "Room of dead letters" }
        @if journal.dead_letters.is_empty() {
            p.empty {
                "No group has dead letters. They stay until an operator acts on them; "
                code { "retry.dead_letters.max_bytes" } " bounds their room, and "
                code { "retry.dead_letters.retention" } " their time."
            }
        } @else {
            (letters(&journal.dead_letters))
            @if journal.more_groups > 0 { p { "And " (journal.more_groups) " groups more." } }
        }
    }
}

fn facts(journal: &JournalView) -> Markup {
    html! {
        dl {
            dt { "Size" } dd { (size(journal.bytes)) " in " (journal.segments) " segments" }
            dt { "Still needed" } dd { (size(journal.live_bytes)) "; compaction frees the rest" }
            dt { "Room left" } dd { (size(journal.disk_free_bytes)) " on the file system" }
            dt { "Appended" } dd { (journal.appended) " entries since the start" }
            dt { "Waiting for the writer" } dd { (size(journal.queued_bytes)) }
            dt { "fdatasync" }
            dd {
                (journal.fsyncs) " since the start"
                @if let Some(times) = journal.fsync_times {
                    ", mean " (format!("{:.2} ms", times.mean_ms))
                    @if let Some(p99) = times.p99_ms {
                        ", 99 of 100 within " (format!("{p99} ms"))
                    } @else {
                        ", more than 1 of 100 over a second"
                    }
                }
            }
            dt { "Last durable entry" } dd { (journal.durable_seq) }
            dt { "Saved index" } dd { "up to entry " (journal.checkpoint_seq) }
            dt { "Compacted" } dd { (journal.compactions) " segments since the start" }
            @if journal.torn_bytes > 0 {
                dt { "Cut at the start" } dd { (size(journal.torn_bytes)) " of a torn end" }
            }
        }
    }
}

fn letters(groups: &[LetterSpace]) -> Markup {
    html! {
        (scroll_table("Room of dead letters", &html! {
            thead { tr {
                th { "Group" } th { "Topic" } th.number { "First offset" }
                th.number { "Next offset" } th.number { "Size" } th.number { "Limit" }
            } }
            tbody {
                @for of in groups {
                    tr {
                        td { a href=(group_path(&of.group)) { (breakable(&of.group)) } }
                        td { (breakable(&of.topic)) }
                        td.number { (of.start) }
                        td.number { (of.end) }
                        td.number { (size(of.bytes)) }
                        td.number {
                            @if let Some(max) = of.max_bytes {
                                (share(of.bytes, max))
                            } @else {
                                "none"
                            }
                        }
                    }
                }
            }
        }))
    }
}

/// The part of a limit that is used, and the limit.
fn share(bytes: u64, max: u64) -> String {
    let percent = bytes.saturating_mul(100) / max.max(1);
    format!("{percent} % of {}", size(max))
}

/// Bytes in the largest unit of which there are ten at least.
fn size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >> shift >= 10);
    unit.map_or_else(|| format!("{bytes} B"), |(name, shift)| format!("{} {name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_and_shares_are_of_the_limit() {
        assert_eq!(size(9_999), "9999 B");
        assert_eq!(size(10 << 10), "10 KiB");
        assert_eq!(size(u64::MAX), "16777215 TiB");
        assert_eq!(share(u64::MAX, 0), "18446744073709551615 % of 0 B");
        assert_eq!(share(512, 1024), "50 % of 1024 B");
    }
}
