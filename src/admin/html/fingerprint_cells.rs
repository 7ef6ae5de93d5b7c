//! The markup that fingerprints of dead letters and of waiting retries share.

use maud::{Markup, html};

use super::table::breakable;
use crate::api::FingerprintKey;

/// The heads of a table of fingerprints; `count` names its entries.
pub(super) fn heads(count: &str) -> Markup {
    html! {
        thead { tr {
            th.number { (count) } th { "Group" } th { "Cause" } th { "Topic" } th { "Error" }
            th { "Key" } th { "Size" }
            th { "First, last" } th { "24 hours" } th { "Act" }
        } }
    }
}

/// The cells of a table from the cause to the size.
pub(super) fn cells(key: &FingerprintKey, show: bool) -> Markup {
    html! {
        td { (key.cause) }
        td { (breakable(&key.topic)) }
        td.text { @if show { (key.error.as_deref().unwrap_or_default()) } }
        td { @if show { (key.key_shape.as_deref().unwrap_or_default()) } }
        td.short { (key.size) }
    }
}

/// The head of a section: the count, the cause, the topic and the reason.
pub(super) fn title(count: u64, key: &FingerprintKey, show: bool) -> Markup {
    let reason = key.error.as_deref().filter(|reason| show && !reason.is_empty());
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

/// Letters of the last 24 hours, a bar for each hour.
pub(super) fn spark(hours: &[u32]) -> Markup {
    let most = hours.iter().copied().max().unwrap_or(0).max(1);
    let sum: u64 = hours.iter().copied().map(u64::from).sum();
    html! {
        svg.spark role="img" viewBox="0 0 96 20" width="96" height="20" {
            title { (sum) " in the last 24 hours" }
            @for (place, letters) in (0_u32..).zip(hours) {
                @let height = letters.saturating_mul(20).div_ceil(most);
                rect x=(place * 4) y=(20 - height) width="3" height=(height) {}
            }
        }
    }
}
