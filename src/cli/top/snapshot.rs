//! A snapshot of all sidecars, and the rates between two of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::admin::percent_encoded;
use crate::cli::exit::CommandFailure;
use crate::cli::output::show::{cell, of_sidecar};
use crate::cli::sidecars::http::AdminEndpoint;
use crate::cli::sidecars::pages::paged;
use crate::cli::sidecars::{AdminAt, Fleet};
use crate::clock::Clock;
use crate::model::WallMs;

/// Most groups of a sidecar.
const GROUPS_MAX: u64 = 1000;
/// Groups of a sidecar whose suspects are read: those with failures first.
const EXPLAINED_MAX: usize = 32;

/// Everything that a frame shows.
#[derive(Debug, Default)]
pub(super) struct TopSnapshot {
    pub(super) at: WallMs,
    pub(super) overviews: Vec<Value>,
    /// Groups of the API, with added fields for the columns.
    pub(super) groups: Vec<Value>,
    /// Jobs that have not ended.
    pub(super) jobs: Vec<Value>,
    pub(super) fleet: Fleet,
}

/// The answers of one sidecar.
struct Answers {
    overview: Value,
    groups: Vec<Value>,
    jobs: Vec<Value>,
}

impl TopSnapshot {
    pub(super) fn take(at: &AdminAt) -> Result<Self, CommandFailure> {
        let mut look = Self { fleet: at.fleet()?, ..Self::default() };
        let answers = look.fleet.gather(Answers::of)?;
        look.at = Clock::start().now().wall;
        let is_several = look.fleet.is_several();
        for (name, answers) in answers {
            let named = |item: Value| if is_several { of_sidecar(item, &name) } else { item };
            look.overviews.push(answers.overview);
            look.groups.extend(answers.groups.into_iter().map(named));
            look.jobs.extend(answers.jobs.into_iter().map(named));
        }
        Ok(look)
    }

    /// Adds rates per second since the snapshot before.
    pub(super) fn with_rates(mut self, before: &Self) -> Self {
        let ms = u64::try_from(self.at.0.saturating_sub(before.at.0)).unwrap_or(0);
        let key = |group: &Value| (cell(group, "admin"), cell(group, "group"));
        let known: BTreeMap<_, _> = before.groups.iter().map(|group| (key(group), group)).collect();
        for group in &mut self.groups {
            let Some(before) = known.get(&key(group)) else { continue };
            let grown = |now: Option<u64>, then: Option<u64>| {
                now.zip(then).and_then(|(now, then)| rate(now.saturating_sub(then), ms))
            };
            let dead = |group: &Value| group.get("dead_letters").and_then(Value::as_u64);
            let rates = [
                ("produced_rate", advance(group, before, "end").and_then(|n| rate(n, ms))),
                ("committed_rate", advance(group, before, "committed").and_then(|n| rate(n, ms))),
                ("dead_rate", grown(dead(group), dead(before))),
            ];
            if let Some(fields) = group.as_object_mut() {
                fields.extend(rates.map(|(name, rate)| (name.to_owned(), json!(rate))));
            }
        }
        self
    }
}

impl Answers {
    fn of(sidecar: &AdminEndpoint) -> Result<Self, CommandFailure> {
        let overview = sidecar.get("/api/v1/overview")?;
        let (mut groups, _) = paged(sidecar, "/api/v1/groups", &[], GROUPS_MAX)?;
        let drain = sidecar.get("/drain")?;
        let due: BTreeMap<String, Value> = array(&drain, "groups")
            .map(|group| {
                (cell(group, "group"), group.get("next_due_ms").cloned().unwrap_or_default())
            })
            .collect();
        for group in &mut groups {
            let (lag, next) = (lag(group), due.get(&cell(group, "group")).cloned());
            if let Some(fields) = group.as_object_mut() {
                fields.insert("lag".to_owned(), json!(lag));
                fields.insert("next_due_ms".to_owned(), next.unwrap_or_default());
            }
        }
        add_suspects(sidecar, &mut groups)?;
        let jobs = sidecar.get("/api/v1/jobs")?;
        let jobs = array(&jobs, "items").filter(|job| is_open(job)).cloned().collect();
        Ok(Self { overview, groups, jobs })
    }
}

/// Adds the number of suspected records to groups with members.
fn add_suspects(sidecar: &AdminEndpoint, groups: &mut [Value]) -> Result<(), CommandFailure> {
    let has_members = |group: &&mut Value| array(group, "members").next().is_some();
    let mut watched: Vec<&mut Value> = groups.iter_mut().filter(has_members).collect();
    watched.sort_by_key(|group| std::cmp::Reverse(group.get("pending").and_then(Value::as_u64)));
    for group in watched.into_iter().take(EXPLAINED_MAX) {
        let name = percent_encoded(&cell(group, "group"));
        let explained = match sidecar.get(&format!("/api/v1/explain?group={name}")) {
            Ok(explained) => explained,
            Err(failure) if failure.exit == crate::cli::exit::Exit::NothingMatched => continue,
            Err(failure) => return Err(failure),
        };
        let records = array(&explained, "suspects").filter_map(|set| set.get("records")?.as_u64());
        let records: u64 = records.sum();
        if let Some(fields) = group.as_object_mut() {
            fields.insert("suspects".to_owned(), json!(records));
        }
    }
    Ok(())
}

pub(super) fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn is_open(job: &Value) -> bool {
    matches!(job.get("state").and_then(Value::as_str), Some("running" | "paused"))
}

/// Records between the committed offsets of a group and the ends of its partitions.
fn lag(group: &Value) -> Option<u64> {
    let mut lags = array(group, "offsets").filter_map(|offset| {
        let number = |key| offset.get(key).and_then(Value::as_i64);
        u64::try_from(number("end")?.saturating_sub(number("committed")?)).ok()
    });
    lags.next().map(|first| lags.fold(first, u64::saturating_add))
}

/// Offsets that a group gained since the snapshot before; absent without a partition in both.
fn advance(group: &Value, before: &Value, key: &str) -> Option<u64> {
    let offsets = |group: &Value| -> BTreeMap<(String, String), i64> {
        let known = array(group, "offsets").filter_map(|offset| {
            let partition = (cell(offset, "topic"), cell(offset, "partition"));
            Some((partition, offset.get(key)?.as_i64()?))
        });
        known.collect()
    };
    let before = offsets(before);
    let mut steps = offsets(group).into_iter().filter_map(|(partition, now)| {
        // An offset that was reset counts as 0.
        Some(u64::try_from(now.saturating_sub(*before.get(&partition)?)).unwrap_or(0))
    });
    steps.next().map(|first| steps.fold(first, u64::saturating_add))
}

/// A count in so many milliseconds as a rate per second, such as `12.5`.
fn rate(count: u64, ms: u64) -> Option<String> {
    let tenths = u128::from(count).saturating_mul(10_000).checked_div(u128::from(ms))?;
    let (whole, tenth) = (tenths / 10, tenths % 10);
    Some(if whole >= 100 { whole.to_string() } else { format!("{whole}.{tenth}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(committed: &[(i64, i64)], dead: u64) -> Value {
        let offsets = committed.iter().enumerate().map(|(partition, (committed, end))| {
            json!({"topic": "t", "partition": partition, "committed": committed, "end": end})
        });
        json!({"group": "shop", "offsets": offsets.collect::<Vec<_>>(), "dead_letters": dead})
    }

    fn look(at: i64, group: Value) -> TopSnapshot {
        TopSnapshot { at: WallMs(at), groups: vec![group], ..TopSnapshot::default() }
    }

    #[test]
    fn rates_are_the_difference_of_two_looks() {
        let before = look(1000, group(&[(10, 20), (50, 50)], 3));
        let now = look(3000, group(&[(15, 40), (40, 50), (7, 9)], 4)).with_rates(&before);
        let shown = |key| cell(&now.groups[0], key);
        assert_eq!(shown("committed_rate"), "2.5", "a reset and a new partition are none");
        assert_eq!((shown("produced_rate"), shown("dead_rate")), ("10.0".into(), "0.5".into()));
        let first = look(0, group(&[], 0)).with_rates(&TopSnapshot::default());
        assert_eq!(cell(&first.groups[0], "dead_rate"), "-");
    }

    #[test]
    fn looks_at_the_same_moment_have_no_rate() {
        assert_eq!((rate(5, 0), rate(150, 1000)), (None, Some("150".to_owned())));
    }

    #[test]
    fn lag_needs_a_known_end() {
        assert_eq!(lag(&group(&[(10, 20), (50, 50)], 0)), Some(10));
        let unknown = json!({"offsets": [{"committed": 5, "end": null}]});
        assert_eq!(lag(&unknown), None);
    }
}
