//! Records by fingerprint: a table over all groups, sections of one group, and forms that act on
//! all records that look alike.

use maud::{Markup, html};

use super::jobs::target_fields;
use super::letters::list_path;
use super::table::{breakable, moment, scroll_table};
use super::{group_path, letter_path, retry_path};
use crate::admin::access::caller_guard::Caller;
use crate::admin::answer::Refusal;
use crate::admin::operator_actions::{operator, retry_request};
use crate::admin::state::Admin;
use crate::api::{ActionReport, COUNTED_MAX, Fingerprint, FingerprintKey, FingerprintList};
use crate::engine::OPERATE_MAX;
use crate::operations::EntryNames;

/// The note in place of counts that are not known yet.
pub(super) const COUNTING: &str = "Further retries are being counted; load the page again.";
/// Age below which a kind is marked as new.
const NEW_MS: i64 = 3_600_000;

/// The records that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KindOf {
    Letters,
    Retries,
}

/// The terms of a page that shows kinds.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindView {
    pub(super) of: KindOf,
    /// Whether `admin.payloads` allows records to be shown.
    pub(super) show: bool,
    pub(super) now_ms: i64,
}

impl KindOf {
    fn title(self) -> &'static str {
        match self {
            Self::Letters => "Dead letters by cause",
            Self::Retries => "Retries by cause",
        }
    }

    /// The page of the example.
    fn example(self, group: &str, example: i64) -> String {
        match self {
            Self::Letters => letter_path(group, example),
            Self::Retries => retry_path(group, u64::try_from(example).unwrap_or_default()),
        }
    }
}

impl KindView {
    /// The error and the mark of a kind that is new.
    fn error(self, kind: &Fingerprint) -> Markup {
        let error = kind.key.error.as_deref().unwrap_or_default();
        let is_new = self.of == KindOf::Letters
            && kind.first_ms.is_some_and(|first| self.now_ms.saturating_sub(first) < NEW_MS);
        html! {
            @if self.show { (error) " " }
            @if is_new { span.chip { "new" } }
        }
    }

    /// The count. It leads to its letters where the list may tell them apart, or to one retry.
    fn count(self, group: &str, kind: &Fingerprint) -> Markup {
        let path = match self.of {
            KindOf::Letters => self.show.then(|| list_path(group, &kind.key.selector(), None)),
            KindOf::Retries => kind.example.map(|example| self.of.example(group, example)),
        };
        html! { a href=[path] { (kind.records) } }
    }

    /// The kinds of all groups.
    pub(super) fn table(self, kinds: &[(String, Fingerprint)]) -> Markup {
        html! {
            @if !kinds.is_empty() {
                h2 { (self.of.title()) }
                (scroll_table(self.of.title(), &html! {
                    thead { tr {
                        th.number { "Count" } th { "Group" } th { "Error" } th { "Cause" }
                        th { "Topic" } th { "Key" } th { "Size" } th { "First, last" }
                        th { "24 hours" } th { "Act" }
                    } }
                    tbody { @for (group, kind) in kinds { (self.row(group, kind)) } }
                }))
            }
        }
    }

    fn row(self, group: &str, kind: &Fingerprint) -> Markup {
        html! {
            tr {
                td.number { (self.count(group, kind)) }
                td { a href=(group_path(group)) { (breakable(group)) } }
                td.text { (self.error(kind)) }
                td { (kind.key.cause) }
                td { (breakable(&kind.key.topic)) }
                td { @if self.show { (kind.key.key_shape.as_deref().unwrap_or_default()) } }
                td.short { (kind.key.size) }
                td {
                    @for at in [kind.first_ms, kind.last_ms].into_iter().flatten() {
                        (moment(at)) " "
                    }
                }
                td { (spark(&kind.hours)) }
                td { @if let Some(example) = kind.example { (self.form(group, example, false)) } }
            }
        }
    }

    /// The kinds of one group.
    pub(super) fn sections(self, group: &str, kinds: &FingerprintList) -> Markup {
        html! {
            @if kinds.is_counting { p { (COUNTING) } }
            @for kind in &kinds.items {
                section.cause {
                    h3 {
                        (self.count(group, kind)) " × " (kind.key.cause) " of " (kind.key.topic)
                        ": " (self.error(kind))
                    }
                    p {
                        @if self.show {
                            "Keys: " (kind.key.key_shape.as_deref().unwrap_or_default()) ". "
                        }
                        "Size: " (kind.key.size) ". "
                        @if let Some((first, last)) = kind.first_ms.zip(kind.last_ms) {
                            "First " (moment(first)) ", last " (moment(last)) ". "
                        }
                        (spark(&kind.hours))
                        @if let Some(example) = kind.example {
                            " " a href=(self.of.example(group, example)) { "Look at one" }
                        }
                    }
                    @if let Some(example) = kind.example { (self.form(group, example, true)) }
                }
            }
            @if kinds.rest > 0 { p { (kinds.rest) " records of further kinds." } }
            @if kinds.is_cut { p { "Of the first " (COUNTED_MAX) " retries that wait." } }
        }
    }

    /// The form that acts on all records that look like one; a job on letters is planned first.
    fn form(self, group: &str, example: i64, has_patch: bool) -> Markup {
        let path = group_path(group);
        match self.of {
            KindOf::Letters => html! {
                form method="post" action={ (path) "/jobs" } {
                    input type="hidden" name="like" value=(example);
                    button name="action" value="redrive" { "Redrive…" }
                    button.danger name="action" value="discard" { "Discard…" }
                    @if has_patch {
                        details {
                            summary { "Change the records" }
                            label {
                                "Set header " input name="set_header" placeholder="name=value";
                            }
                            label {
                                "JSON merge patch "
                                input name="merge" placeholder="{\"paid\": true}";
                            }
                            (target_fields())
                        }
                    }
                }
            },
            KindOf::Retries => html! {
                form method="post" action={ (path) "/act" } {
                    input type="hidden" name="like" value=(example);
                    label { "Note " input name="note" required maxlength="1000"; }
                    button name="verb" value="now" { "Retry now" }
                    button.danger name="verb" value="dead-letter" { "Dead-letter now" }
                }
            },
        }
    }
}

/// Records of the last 24 hours, a bar for each hour.
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

/// Acts on the retries that look like one.
pub(super) async fn act_on_like(
    admin: &Admin,
    group: &str,
    (verb, example): (&str, u64),
    (caller, note): (Caller, String),
) -> Result<ActionReport, Refusal> {
    let example = admin.operations.retry(group, example).await?.map(|found| found.row);
    let gone = || Refusal::missing("the retry waits no more; load the page of the group");
    let selector = Box::new(FingerprintKey::of_retry(example.ok_or_else(gone)?).selector());
    let by = operator(caller, Some(note), OPERATE_MAX)?;
    let (mut report, mut after) = (ActionReport::default(), None);
    loop {
        let names = EntryNames::Selected { selector: selector.clone(), after, is_dry: false };
        let request = retry_request(group, (verb, None), names, by.clone())?;
        let done = admin.operations.operate(request).await?;
        report.changed += done.changed;
        report.left.extend(done.left);
        after = done.next;
        if after.is_none() {
            return Ok(report);
        }
    }
}
