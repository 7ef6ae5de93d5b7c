//! Observations of one group at the sidecar: no record may count as failed.
//!
//! A failure that a commit has passed is forgotten, and no counter shows it. But a record with a
//! failure is held for a second, and so is observed as a suspect. The sidecar's history of each
//! suspect is read at the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::rig::scene::Scene;
use crate::rig::sidecar::Sidecar;

#[derive(Debug, Default)]
pub(super) struct Observations {
    /// Partition and offset of every record that was ever a suspect.
    pub(super) suspects: BTreeSet<(i32, i64)>,
    /// Only a part of the suspects was delivered at some time.
    pub(super) was_narrow: bool,
    /// Most isolated deliveries of one record; known at the end.
    pub(super) alone: usize,
    /// Committed offset by partition, as last observed.
    pub(super) committed: BTreeMap<i32, i64>,
}

impl Observations {
    /// Reads the state of the group; `Err`: a record has a failure or is skipped.
    pub(super) fn look(&mut self, sidecar: &Sidecar, scene: &Scene) -> Result<(), String> {
        let known = sidecar.json(&format!("/api/v1/explain?group={}", scene.group));
        let mut sets = known["suspects"].as_array().into_iter().flatten();
        self.was_narrow |= sets.any(|set| set["stage"] != "counted");
        for window in known["partitions"].as_array().into_iter().flatten() {
            let partition = i32::try_from(window["partition"].as_i64().unwrap()).unwrap();
            if let Some(committed) = window["committed"].as_i64() {
                self.committed.insert(partition, committed);
            }
            for suspect in window["suspects"].as_array().unwrap() {
                let place = (partition, suspect["offset"].as_i64().unwrap());
                self.suspects.insert(place);
                if suspect["reconsume_times"] != 0 {
                    return Err(format!("charged: {window}\n{}", past(sidecar, scene, place)));
                }
            }
            if window["skipped"].as_array().is_none_or(|skipped| !skipped.is_empty()) {
                return Err(format!("cut: {window}"));
            }
        }
        Ok(())
    }

    /// Checks dead letters, metrics and the history of each suspect.
    pub(super) fn end(&mut self, sidecar: &Sidecar, scene: &Scene) -> Result<(), String> {
        self.look(sidecar, scene)?;
        let letters = sidecar.letters(&scene.group);
        if !letters.is_empty() {
            return Err(format!("dead letters: {letters:?}"));
        }
        let (metrics, group) = (sidecar.get("/metrics"), format!("group=\"{}\"", scene.group));
        let failed = |line: &&str| {
            line.starts_with("reprise_records_failed_total{") && !line.ends_with(" 0")
        };
        if let Some(failed) = metrics.lines().filter(failed).find(|line| line.contains(&group)) {
            return Err(failed.to_owned());
        }
        for place in &self.suspects {
            let past = past(sidecar, scene, *place);
            let happened = past["past"].as_array().filter(|past| !past.is_empty());
            let happened = happened.ok_or_else(|| format!("no trace of {place:?}: {past}"))?;
            if happened.iter().any(|one| one["reconsume_times"].as_u64() > Some(0)) {
                return Err(format!("was charged: {past}"));
            }
            let says = |one: &Value| {
                one["says"].as_str().is_some_and(|says| says.starts_with("suspected"))
            };
            let alone = happened.iter().filter(|one| says(one)).count();
            self.alone = self.alone.max(alone);
        }
        Ok(())
    }

    /// Text for the message of a failed script, for partitions not committed to their ends. The
    /// text is the history of the last record below the committed offset, and of the first above.
    pub(super) fn behind(&self, sidecar: &Sidecar, scene: &Scene, ends: &[i64]) -> String {
        let lines = (0..).zip(ends).flat_map(|(partition, end)| {
            let committed = self.committed.get(&partition).copied().unwrap_or(0);
            let around = if committed < *end { committed - 1..committed + 1 } else { 0..0 };
            around.filter(|at| (0..*end).contains(at)).map(move |offset| {
                let past = past(sidecar, scene, (partition, offset));
                format!("{partition}@{offset}: {past}\n")
            })
        });
        lines.collect()
    }
}

/// The sidecar's history of a record.
fn past(sidecar: &Sidecar, scene: &Scene, (partition, offset): (i32, i64)) -> Value {
    let Scene { topic, group, .. } = scene;
    sidecar.json(&format!("/api/v1/explain?group={group}&record={topic}-{partition}@{offset}"))
}
