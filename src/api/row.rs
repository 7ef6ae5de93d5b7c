//! Lists as tables: the columns of each kind of item, whose titles also name the order of a list.

use serde::{Deserialize, Serialize};

use super::acts::AuditView;
use super::fingerprint::Fingerprint;
use super::groups::GroupView;
use super::jobs::JobView;
use super::records::{DelayedView, LetterView, RetryView};

/// One piece of a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The `after` of the next page; absent on the last page.
    #[serde(default)]
    pub next: Option<String>,
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A text; absent where the item has none.
    Text(Option<String>),
    /// The word of a state.
    State(String),
    /// A moment in Unix milliseconds.
    Time(Option<i64>),
}

/// A column: its title, and the cell of an item.
pub type Column<T> = (&'static str, fn(&T) -> Cell);

/// An item of a list.
pub trait ListRow: Sized + 'static {
    const COLUMNS: &'static [Column<Self>];
}

fn text<T: ToString + ?Sized>(text: &T) -> Cell {
    Cell::Text(Some(text.to_string()))
}

fn known<T: ToString>(text: Option<&T>) -> Cell {
    Cell::Text(text.map(ToString::to_string))
}

/// The name of an operator, marked where the caller has claimed it.
pub fn named(name: &str, is_claimed: bool) -> String {
    if is_claimed { format!("{name} (claimed)") } else { name.to_owned() }
}

impl ListRow for GroupView {
    const COLUMNS: &'static [Column<Self>] = &[
        ("GROUP", |v| text(&v.group)),
        ("PHASE", |v| Cell::State(v.phase.clone())),
        ("MEMBERS", |v| text(&v.members_text())),
        ("LAG", |v| known(v.lag().as_ref())),
        ("WAITING", |v| text(&v.states.waiting)),
        ("DUE", |v| text(&v.states.due)),
        ("UNREAD", |v| text(&v.states.unread)),
        ("PENDING", |v| text(&v.pending)),
        ("DEAD", |v| text(&v.dead_letters)),
        ("BREAKER", |v| text(&v.breaker)),
    ];
}

impl GroupView {
    /// The number of live members, and of silent ones if there are some.
    fn members_text(&self) -> String {
        let live = self.live_members().count();
        let silent = self.members.len() - live;
        if silent == 0 { live.to_string() } else { format!("{live} (+{silent} silent)") }
    }

    /// Records between the committed offsets of the group and the known ends of its partitions.
    fn lag(&self) -> Option<u64> {
        let lags = self
            .offsets
            .iter()
            .filter_map(|offset| u64::try_from(offset.end?.saturating_sub(offset.committed)).ok());
        lags.reduce(u64::saturating_add)
    }
}

impl ListRow for LetterView {
    const COLUMNS: &'static [Column<Self>] = &[
        ("GROUP", |v| text(&v.group)),
        ("OFFSET", |v| text(&v.offset)),
        ("ORIGIN", |v| known(v.origin.as_ref())),
        ("FAILURES", |v| text(&v.reconsume_times)),
        ("CAUSE", |v| text(&v.cause)),
        ("AT", |v| Cell::Time(Some(v.at_ms))),
        ("KEY", |v| known(v.key.as_ref())),
        ("ERROR", |v| known(v.error.as_ref())),
    ];
}

impl ListRow for RetryView {
    const COLUMNS: &'static [Column<Self>] = &[
        ("GROUP", |v| text(&v.group)),
        ("ID", |v| text(&v.id)),
        ("ORIGIN", |v| known(v.origin.as_ref())),
        ("STATE", |v| Cell::State(v.state.as_str().to_owned())),
        ("FAILURES", |v| text(&format!("{}/{}", v.reconsume_times, v.max_reconsume_times))),
        ("LEVEL", |v| known(v.level.as_ref())),
        ("DUE", |v| Cell::Time(v.due_ms)),
        ("CAUSE", |v| known(v.cause.as_ref())),
        ("ERROR", |v| known(v.refusal.as_ref().or(v.error.as_ref()))),
    ];
}

impl ListRow for DelayedView {
    const COLUMNS: &'static [Column<Self>] = &[
        ("ID", |v| text(&v.id)),
        ("DUE", |v| Cell::Time(Some(v.due_ms))),
        ("KEY", |v| known(v.key.as_ref())),
        ("BYTES", |v| known(v.value_bytes.as_ref())),
    ];
}

impl ListRow for JobView {
    const COLUMNS: &'static [Column<Self>] = &[
        ("JOB", |v| text(&v.id)),
        ("GROUP", |v| text(&v.group)),
        ("ACTION", |v| text(&v.action)),
        ("STATE", |v| Cell::State(v.state.as_str().to_owned())),
        ("CHANGED", |v| text(&v.changed)),
        ("FAILED", |v| text(&v.failed)),
        ("STARTED", |v| Cell::Time(Some(v.started_ms))),
        ("NOTE", |v| text(&v.note)),
    ];
}

impl ListRow for AuditView {
    const COLUMNS: &'static [Column<Self>] = &[
        ("AT", |v| Cell::Time(Some(v.at_ms))),
        ("NAME", |v| text(&named(&v.name, v.claimed))),
        ("PEER", |v| text(&v.peer)),
        ("ACTION", |v| text(&v.action)),
        ("GROUP", |v| text(&v.group)),
        ("CHANGED", |v| text(&v.changed)),
        ("LEFT", |v| text(&v.left)),
        ("NOTE", |v| text(&v.note)),
    ];
}

impl ListRow for Fingerprint {
    const COLUMNS: &'static [Column<Self>] = &[
        ("RECORDS", |v| text(&v.records)),
        ("TOPIC", |v| text(&v.key.topic)),
        ("CAUSE", |v| text(&v.key.cause)),
        ("KEY", |v| known(v.key.key_shape.as_ref())),
        ("SIZE", |v| text(&v.key.size)),
        ("FIRST", |v| Cell::Time(v.first_ms)),
        ("LAST", |v| Cell::Time(v.last_ms)),
        ("EXAMPLE", |v| known(v.example.as_ref())),
        ("FINGERPRINT", |v| known(v.key.error.as_ref())),
    ];
}
