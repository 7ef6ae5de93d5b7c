//! What the sidecar says of one group: never that a record of it has failed.
//!
//! A charge that a commit has passed is forgotten, and no counter tells of it. But whatever is
//! charged is held for a second, before or after: it is seen here as a suspect. What the log holds
//! of each suspect is asked for at the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::scene::Scene;
use crate::sidecar::Sidecar;

/// Of one group, so far.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Records that were suspects at some time: partition and offset.
    pub(super) suspects: BTreeSet<(i32, i64)>,
    /// A part of the suspects was delivered at a time.
    pub(super) was_narrow: bool,
    /// Most times that one record was given out alone; known at the end.
    pub(super) alone: usize,
    /// As last seen.
    pub(super) committed: BTreeMap<i32, i64>,
}

impl Seen {
    /// What is known now; `Err`: somebody was charged.
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

    /// What is left when everything is over.
    pub(super) fn end(&mut self, sidecar: &Sidecar, scene: &Scene) -> Result<(), String> {
        self.look(sidecar, scene)?;
        let letters = sidecar.json(&format!("/api/v1/dead-letters?group={}", scene.group));
        if letters["items"].as_array().is_none_or(|items| !items.is_empty()) {
            return Err(format!("dead letters: {letters}"));
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
            let alone = happened.iter().filter(|one| one["says"] == "given out, alone").count();
            self.alone = self.alone.max(alone);
        }
        Ok(())
    }

    /// Where the group has not committed all, for whoever has to find out why: the partition as it
    /// is, and the last record below its offset and the first above.
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

/// What has happened to a record.
fn past(sidecar: &Sidecar, scene: &Scene, (partition, offset): (i32, i64)) -> Value {
    let Scene { topic, group, .. } = scene;
    sidecar.json(&format!("/api/v1/explain?group={group}&record={topic}-{partition}@{offset}"))
}
