//! The markup that fingerprints of dead letters and of waiting retries share.

use maud::{Markup, html};

use crate::admin::views::fingerprint::FingerprintKey;

/// The heads of a table of fingerprints; `count` names its entries.
pub(super) fn heads(count: &str) -> Markup {
    html! {
        thead { tr {
            th.number { (count) } th { "Group" } th { "Cause" } th { "Topic" } th { "Reason" }
            th { "Key" } th { "Size" }
            th { "First" } th { "Last" } th { "24 hours" } th { "Act" }
        } }
    }
}

/// The cells of a table from the cause to the size.
pub(super) fn cells(key: &FingerprintKey, show: bool) -> Markup {
    html! {
        td { (key.cause) }
        td { (key.topic) }
        td { @if show { (key.reason.as_deref().unwrap_or_default()) } }
        td { @if show { (key.key_shape.as_deref().unwrap_or_default()) } }
        td { (key.size) }
    }
}

/// The head of a section: the count, the cause, the topic and the reason.
pub(super) fn title(count: u64, key: &FingerprintKey, show: bool) -> Markup {
    let reason = key.reason.as_deref().filter(|reason| show && !reason.is_empty());
    html! {
        h3 {
            (count) " × " (key.cause) " of " (key.topic)
            @if let Some(reason) = reason { ": " (reason) }
        }
    }
}

/// The sentences on the records of a section.
pub(super) fn records(key: &FingerprintKey, show: bool) -> Markup {
    html! {
        @if show { "Keys: " (key.key_shape.as_deref().unwrap_or_default()) ". " }
        "Size: " (key.size) ". "
    }
}
