//! What is pending before this sidecar goes, and how it gets to another one.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::admin::{
    Base64, Brought, Drain, DrainGroup, ExportCounts, Portable, PortableRecord, Unavailable,
};
use crate::engine::{EngineError, GroupView, ImportBatch, ImportRequest};
use crate::model::{EntryId, GroupId, OriginError, WallMs};
use crate::retry::{Entry, ExportOutcome, ExportStep, Import, ImportOutcome, State};
use crate::server::seen::states;
use crate::server::source::{AdminSource, dead, number};
use crate::wire::batch::{Header, RawRecord, TimestampType};

/// Groups listed at once.
const GROUPS_MAX: usize = 1000;
/// Bytes of records read at once.
const PIECE_BYTES_MAX: u64 = 8 << 20;

impl AdminSource {
    pub(super) async fn pending(&self) -> Result<Drain, Unavailable> {
        let known = self.router.engine.groups().await?;
        let delayed = self.router.engine.delayed_totals().await?;
        let groups = known.iter().map(|known| self.part(known));
        let groups: Vec<DrainGroup> =
            groups.filter(|group| group.states.pending() > 0 || group.dead_letters > 0).collect();
        let due = groups.iter().filter_map(|group| group.next_due_ms);
        Ok(Drain {
            draining: *self.draining.borrow(),
            connections: number(self.acceptor.connections()),
            pending: groups.iter().map(|group| group.states.pending()).sum::<u64>()
                + delayed.records,
            delayed: delayed.records,
            delayed_bytes: delayed.bytes,
            dead_letters: groups.iter().map(|group| group.dead_letters).sum(),
            next_due_ms: due.chain(delayed.first_due.map(|due| due.0)).min(),
            more_groups: number(groups.len().saturating_sub(GROUPS_MAX)),
            groups: groups.into_iter().take(GROUPS_MAX).collect(),
        })
    }

    fn part(&self, known: &GroupView) -> DrainGroup {
        DrainGroup {
            group: known.group.to_string(),
            states: states(&self.router, known),
            dead_letters: dead(known),
            next_due_ms: known.first_due.map(|due| due.0),
        }
    }

    pub(super) async fn carried(
        &self,
        group: &GroupId,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Portable>, Unavailable> {
        let engine = &self.router.engine;
        if group.is_reserved() {
            return Ok(Vec::new());
        }
        let found = engine.portable(group, after.map(EntryId), limit, PIECE_BYTES_MAX).await?;
        let mut carried = Vec::with_capacity(found.len());
        for (entry, stored) in found {
            let record = RawRecord::parse(&stored).map_err(EngineError::from)?;
            carried.extend(portable(entry, record));
        }
        Ok(carried)
    }

    pub(super) async fn step(
        &self,
        step: ExportStep,
        ids: Vec<u64>,
    ) -> Result<ExportCounts, Unavailable> {
        let asked = ids.iter().copied().map(EntryId).collect();
        let outcomes = self.router.engine.export(step, asked).await?;
        let mut counts = ExportCounts::default();
        for (id, outcome) in ids.into_iter().zip(outcomes) {
            match outcome {
                ExportOutcome::Done => counts.done += 1,
                ExportOutcome::Already => counts.already += 1,
                ExportOutcome::Left => counts.left.push(id),
            }
        }
        let (done, already, left) = (counts.done, counts.already, counts.left.len());
        tracing::info!(?step, done, already, left, "an operator moves retries");
        Ok(counts)
    }

    /// A group at a time: what comes of one is one atomic group of the log.
    pub(super) async fn bring(
        &self,
        source: String,
        entries: Vec<Portable>,
    ) -> Result<Vec<Brought>, Unavailable> {
        let mut outcomes = vec![Brought::Known; entries.len()];
        let mut groups: BTreeMap<GroupId, (Vec<usize>, Vec<ImportRequest>)> = BTreeMap::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let group = GroupId::new(&entry.group);
            match request(entry) {
                Ok(request) => {
                    let (places, requests) = groups.entry(group).or_default();
                    places.push(index);
                    requests.push(request);
                }
                Err(why) => put(&mut outcomes, index, Brought::Refused { why: why.to_string() }),
            }
        }
        for (group, (places, entries)) in groups {
            self.router.names.meet(&group);
            let batch = ImportBatch { group, source: source.clone(), entries };
            let judged = self.router.engine.import(batch).await?;
            for (place, judged) in places.into_iter().zip(judged) {
                put(&mut outcomes, place, brought(judged));
            }
        }
        let imported = outcomes.iter().filter(|outcome| **outcome == Brought::Imported).count();
        let entries = outcomes.len();
        tracing::info!(%source, entries, imported, "an operator brings retries");
        Ok(outcomes)
    }
}

fn put(outcomes: &mut [Brought], index: usize, outcome: Brought) {
    if let Some(place) = outcomes.get_mut(index) {
        *place = outcome;
    }
}

fn brought(outcome: ImportOutcome) -> Brought {
    match outcome {
        ImportOutcome::Imported { .. } => Brought::Imported,
        ImportOutcome::Known => Brought::Known,
        ImportOutcome::Refused(why) => Brought::Refused { why: why.to_string() },
    }
}

/// `None` for an entry that neither waits nor is set aside.
fn portable(entry: Entry, record: RawRecord) -> Option<Portable> {
    let (state, due, delay_ms, level) = match entry.state {
        // In the other sidecar it is behind the same ones.
        State::Waiting { due, delay_ms, level } | State::Behind { due, delay_ms, level, .. } => {
            ("waiting", due, delay_ms, level)
        }
        State::Exported { due, delay_ms, level, .. } => ("exported", due, delay_ms, level),
        _ => return None,
    };
    let base64 = |bytes: Bytes| Base64(bytes.into());
    let headers = record.headers.iter();
    Some(Portable {
        id: entry.id.0,
        group: entry.group.to_string(),
        origin: entry.origin.as_ref().map(ToString::to_string),
        state: state.to_owned(),
        passed: entry.passed.is_some(),
        due_ms: due.0,
        delay_ms,
        level,
        reconsume_times: entry.reconsume_times,
        max_reconsume_times: entry.max_reconsume_times,
        handouts: entry.handouts,
        first_failed_ms: entry.first_failed.map(|at| at.0),
        last_failed_ms: entry.last_failed.map(|at| at.0),
        disposition: entry.disposition,
        reason: entry.reason,
        history: entry.history.into_iter().map(|(at, why)| (at.0, why)).collect(),
        record: PortableRecord {
            timestamp_ms: record.timestamp_ms,
            log_append_time: record.timestamp_type == TimestampType::LogAppendTime,
            headers: headers.map(|h| (base64(h.key), h.value.map(base64))).collect(),
            key: record.key.map(base64),
            value: record.value.map(base64),
            undecided: false,
        },
    })
}

fn request(entry: Portable) -> Result<ImportRequest, OriginError> {
    let origin = entry.origin.as_deref().map(str::parse).transpose()?;
    let bytes = |base64: Base64| Bytes::from(base64.0);
    let header = |(key, value): (Base64, Option<Base64>)| Header {
        key: bytes(key),
        value: value.map(bytes),
    };
    let record = RawRecord {
        timestamp_ms: entry.record.timestamp_ms,
        timestamp_type: if entry.record.log_append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        key: entry.record.key.map(bytes),
        value: entry.record.value.map(bytes),
        headers: entry.record.headers.into_iter().map(header).collect(),
    };
    Ok(ImportRequest {
        id: entry.id,
        import: Import {
            origin,
            passed: entry.passed,
            due: WallMs(entry.due_ms),
            delay_ms: entry.delay_ms,
            level: entry.level,
            reconsume_times: entry.reconsume_times,
            max_reconsume_times: entry.max_reconsume_times,
            handouts: entry.handouts,
            first_failed: entry.first_failed_ms.map(WallMs),
            last_failed: entry.last_failed_ms.map(WallMs),
            disposition: entry.disposition,
            reason: entry.reason,
            history: entry.history.into_iter().map(|(at, why)| (WallMs(at), why)).collect(),
            key: None,
        },
        record: record.to_bytes(),
    })
}
