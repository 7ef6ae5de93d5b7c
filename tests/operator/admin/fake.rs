//! An admin source without a sidecar: two groups with an item of every view.

use reprise::admin::{
    ActionReport, ActionRequest, DeadLetterView, DelayedView, DrainView, EntryImportOutcome,
    FailedRecord, FailedRefused, FailedTaken, Fingerprint, FingerprintKey, FingerprintList,
    GroupExplanation, GroupView, JobPlan, JournalView, LeftEntry, MemberView, Overview,
    PartitionView, PastView, PolicyView, Portable, PortableLetters, Readiness, RecordHistory,
    RetryFingerprint, RetryFingerprintList, RetryRecord, RetryView, RuleView, SeekBackView,
    Selected, Source, StateCounts, SuspectView, SuspectsView, Unavailable,
};
use reprise::api::{RecordFacts, RecordStage, Selector};
use reprise::engine::{AuditRecord, Job, JobChange, JobError, JobTerms, Operator};
use reprise::model::{Origin, WallMs};
use reprise::observe::GroupGauges;
use serde_json::Value;

/// Two groups, five retries in the first, three dead letters in each.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) readiness: Readiness,
}

pub(crate) const GROUPS: [&str; 2] = ["bar/é", "shop"];

/// The items that a selector admits; `facts` tells place, cause and state of one.
fn selected<T>(
    all: Vec<T>,
    facts: impl Fn(&T) -> (i64, (&'static str, RecordStage)),
    (selector, after, limit): (&Selector, Option<i64>, usize),
) -> Selected<T> {
    let admits = |one: &T| {
        let (place, (cause, state)) = facts(one);
        let facts = RecordFacts {
            topic: "orders",
            cause,
            error: "",
            key_shape: "",
            size: "",
            at: None,
            state,
            level: None,
        };
        after.is_none_or(|after| place > after) && selector.admits(&facts, WallMs(0))
    };
    let looked_at = all.len();
    let items: Vec<T> = all.into_iter().filter(admits).take(limit).collect();
    let next = (items.len() == limit).then(|| facts(items.last().unwrap()).0);
    Selected { items, looked_at, bytes: 0, next }
}

impl Source for Fake {
    fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }
    fn config(&self) -> Result<Value, Unavailable> {
        Ok(serde_json::json!({ "node_id": 1 }))
    }
    async fn overview(&self) -> Result<Overview, Unavailable> {
        Ok(Overview { groups: 2, ..Overview::default() })
    }
    async fn journal(&self) -> Result<JournalView, Unavailable> {
        Ok(JournalView { bytes: 5, ..JournalView::default() })
    }
    async fn group_ids(&self) -> Result<Vec<String>, Unavailable> {
        Ok(GROUPS.map(str::to_owned).to_vec())
    }
    async fn group(&self, group: &str) -> Result<Option<GroupView>, Unavailable> {
        let policy = PolicyView {
            levels_ms: vec![1000, 60_000],
            delays_ms: vec![60_000],
            max_reconsume_times: 5,
            keep_dead_letters: true,
            ..PolicyView::default()
        };
        Ok(GROUPS.contains(&group).then(|| GroupView {
            group: group.into(),
            phase: "Stable".into(),
            retry_topic: format!("reprise.retry.{group}"),
            members: vec![MemberView { member_id: "m-1".into(), ..MemberView::default() }],
            states: StateCounts { due: 2, ..StateCounts::default() },
            pending: 2,
            policy,
            ..GroupView::default()
        }))
    }
    async fn delayed(&self, after: Option<u64>, _: usize) -> Result<Vec<DelayedView>, Unavailable> {
        let record = |number, topic: &str| DelayedView {
            id: format!("{topic}-0@{number}"),
            number,
            topic: topic.into(),
            key: Some(b"secret-key".to_vec()),
            value: Some(b"secret-value".to_vec()),
            ..DelayedView::default()
        };
        let all = [record(3, "orders"), record(5, "carts"), record(8, "orders")];
        Ok(all.into_iter().filter(|record| after < Some(record.number)).collect())
    }
    async fn cancel_delayed(&self, records: Vec<Origin>) -> Result<Vec<bool>, Unavailable> {
        Ok(records.iter().map(|record| record.offset == 3).collect())
    }
    async fn operate(&self, request: ActionRequest) -> Result<ActionReport, Unavailable> {
        let left = LeftEntry { entry: 3, why: request.by.note };
        Ok(ActionReport { changed: 1, left: vec![left], ..ActionReport::default() })
    }
    async fn fingerprints(&self, _: &str, limit: usize) -> Result<FingerprintList, Unavailable> {
        let item = Fingerprint {
            key: FingerprintKey {
                topic: "orders".to_owned(),
                cause: "rejected".to_owned(),
                error: Some("no stock".to_owned()),
                ..FingerprintKey::default()
            },
            letters: 2,
            example: Some(7),
            ..Fingerprint::default()
        };
        Ok(FingerprintList { items: vec![item; limit.min(1)], rest: 0 })
    }
    async fn plan_job(&self, terms: JobTerms) -> Result<JobPlan, Unavailable> {
        let is_refused = terms.group.as_str() == "unread";
        Ok(JobPlan { matched: 3, is_refused, receivers: "nobody".into(), ..JobPlan::default() })
    }
    async fn receivers(
        &self,
        group: &str,
        _: Vec<i64>,
    ) -> Result<Result<String, String>, Unavailable> {
        Ok(if group == "unread" { Err("nobody".to_owned()) } else { Ok("1 member".to_owned()) })
    }
    async fn start_job(
        &self,
        _: JobTerms,
        _: Operator,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        Ok(Err(JobError::Busy(1)))
    }
    async fn change_job(
        &self,
        id: u64,
        _: JobChange,
        _: Operator,
    ) -> Result<Result<Job, JobError>, Unavailable> {
        Ok(Err(JobError::Unknown(id)))
    }
    async fn jobs(&self, _: Option<u64>) -> Result<Vec<Job>, Unavailable> {
        Ok(Vec::new())
    }
    fn audit_end(&self) -> i64 {
        3
    }
    async fn audit(
        &self,
        group: Option<String>,
        from: i64,
        limit: usize,
    ) -> Result<Vec<(i64, AuditRecord)>, Unavailable> {
        let record = AuditRecord {
            at: WallMs(5_000),
            by: Operator { name: "kim".into(), peer: "::1".into(), note: "INC-1".into() },
            action: "redrive".into(),
            group: "shop".into(),
            changed: 2,
            left: 0,
            places: vec!["orders-3@57".into()],
            job: None,
            target: None,
        };
        let all = (0..3).filter(|number| *number >= from && group.as_deref() != Some("bar/é"));
        Ok(all.map(|number| (number, record.clone())).take(limit).collect())
    }
    fn in_force(&self, group: &str, topic: Option<&str>) -> Vec<RuleView> {
        let (key, from) = ("levels".to_owned(), format!("groups[0] (match: {group})"));
        vec![RuleView { key, value: topic.unwrap_or("1s 2s").to_owned(), from }]
    }
    async fn explain(&self, group: &str) -> Result<Option<GroupExplanation>, Unavailable> {
        let suspect = SuspectView {
            offset: 57,
            reconsume_times: 2,
            max_reconsume_times: 6,
            stands: "held, served alone in 400 ms".into(),
            history: vec![(5_000, "crashed".into()), (9_000, "crashed".into())],
        };
        let partition = PartitionView {
            topic: "orders".into(),
            partition: 3,
            member: Some("m-1".into()),
            committed: Some(50),
            handed_out: 58,
            unjudged: Some("no commit of this partition was seen".into()),
            seek_backs: vec![SeekBackView { offset: 53, times: 2 }],
            suspects: vec![suspect],
            skipped: vec![51, 52],
        };
        Ok(GROUPS.contains(&group).then(|| GroupExplanation {
            group: group.into(),
            rules: Vec::new(),
            advice: Vec::new(),
            watched: true,
            breaker: "closed".into(),
            suspects: vec![SuspectsView {
                stage: "tested".into(),
                records: 12,
                offsets: vec!["orders-3@58..69".into()],
                granted: vec!["orders-3@58..59".into()],
                members: vec!["m-1".into()],
                losses: 3,
                since_ms: 35_400,
                last_loss_ms: 5_000,
                failures: 0,
                failures_max: 4,
                why: "outstanding at 3 lost deliveries".into(),
                next: "in 400 ms the next are delivered".into(),
            }],
            partitions: vec![partition],
        }))
    }
    async fn past(
        &self,
        group: Option<&str>,
        record: &Origin,
    ) -> Result<RecordHistory, Unavailable> {
        let mut past = vec![
            PastView {
                group: "shop".into(),
                says: "a commit has passed it".into(),
                ..PastView::default()
            },
            PastView {
                group: "shop".into(),
                at: Some(5_000),
                evidence: Some("nack".into()),
                says: "the application says that it failed: it comes back after 10 ms".into(),
                until: Some(9_000),
                reconsume_times: Some(1),
                error: Some("no \u{1b}stock".into()),
                member: Some("m-1".into()),
                client: Some("app".into()),
            },
        ];
        let of = group.unwrap_or("shop");
        past.retain(|_| record.offset == 57 && ["shop", "gone"].contains(&of));
        for past in &mut past {
            past.group = of.into();
        }
        Ok(RecordHistory { record: record.to_string(), past, ..RecordHistory::default() })
    }
    async fn retries(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<RetryView>, Unavailable> {
        let of = |id| RetryView {
            id,
            group: group.into(),
            origin: Some(format!("orders-0@{id}")),
            state: if id % 2 == 0 { "waiting" } else { "due" }.into(),
            cause: Some("rejected".into()),
            due_ms: Some(0),
            ..RetryView::default()
        };
        let all = if group == "bar/é" { (1..=5).map(of).collect() } else { Vec::new() };
        let facts = |one: &RetryView| {
            let state = if one.state == "due" { RecordStage::Due } else { RecordStage::Waiting };
            (i64::try_from(one.id).unwrap(), ("rejected", state))
        };
        Ok(selected(all, facts, (selector, after, limit)))
    }
    async fn waiting(
        &self,
        group: &str,
        after: Option<(i64, u64)>,
        limit: usize,
    ) -> Result<Vec<RetryView>, Unavailable> {
        let after = after.map(|(_, id)| i64::try_from(id).unwrap());
        Ok(self.retries(group, &Selector::default(), after, limit).await?.items)
    }
    async fn retry_fingerprints(
        &self,
        _: &str,
        limit: usize,
    ) -> Result<RetryFingerprintList, Unavailable> {
        let item = RetryFingerprint { retries: 2, example: 7, ..RetryFingerprint::default() };
        let items = vec![item; limit.min(1)];
        Ok(RetryFingerprintList { items, ..RetryFingerprintList::default() })
    }
    fn now_ms(&self) -> i64 {
        5_000
    }
    async fn retry(&self, group: &str, id: u64) -> Result<Option<RetryRecord>, Unavailable> {
        let all = self.retries(group, &Selector::default(), None, 9).await?;
        let retry = all.items.into_iter().find(|retry| retry.id == id);
        Ok(retry.map(|retry| RetryRecord {
            retry,
            value: Some(b"{\"card\":{\"number\":4111}}".to_vec()),
            ..RetryRecord::default()
        }))
    }
    async fn dead_letters(
        &self,
        group: &str,
        selector: &Selector,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Selected<DeadLetterView>, Unavailable> {
        let of = |offset| DeadLetterView {
            state: "dead".into(),
            group: group.into(),
            offset,
            origin: Some(format!("orders-1@{offset}")),
            cause: "max_attempts".into(),
            reconsume_times: 6,
            key: Some(b"order-7".to_vec()),
            value_bytes: Some(2),
            value: Some(vec![0xff, 0]),
            headers: vec![("RECONSUME_TIME".into(), Some(b"6".to_vec()))],
            ..DeadLetterView::default()
        };
        let facts = |one: &DeadLetterView| (one.offset, ("max_attempts", RecordStage::Dead));
        Ok(selected((0..3).map(of).collect(), facts, (selector, after, limit)))
    }
    async fn dead_letter(
        &self,
        group: &str,
        offset: i64,
    ) -> Result<Option<DeadLetterView>, Unavailable> {
        let all = self.dead_letters(group, &Selector::default(), None, 9).await?;
        Ok(all.items.into_iter().find(|one| one.offset == offset))
    }
    async fn drain(&self) -> Result<DrainView, Unavailable> {
        Ok(DrainView { pending: 5, ..DrainView::default() })
    }
    fn cluster_id(&self) -> String {
        "here".into()
    }
    async fn portable_letters(
        &self,
        _: &str,
        _: &Selector,
        _: Option<i64>,
        _: usize,
    ) -> Result<PortableLetters, Unavailable> {
        Ok(PortableLetters::default())
    }
    async fn import(
        &self,
        _: String,
        entries: Vec<Portable>,
        _: Operator,
    ) -> Result<Vec<EntryImportOutcome>, Unavailable> {
        Ok(vec![EntryImportOutcome::Imported; entries.len()])
    }
    async fn nack(
        &self,
        failed: FailedRecord,
    ) -> Result<Result<FailedTaken, FailedRefused>, Unavailable> {
        let says = format!("{:?} {:?}", failed.want, failed.error);
        Ok(match failed.record.offset {
            0 => Ok(FailedTaken::Scheduled { id: 7, due_ms: 9_000 }),
            1 => Err(FailedRefused::Conflict(says)),
            2 => Err(FailedRefused::Missing(says)),
            3 => Err(FailedRefused::Bad(says)),
            _ => Err(FailedRefused::NotNow(says)),
        })
    }
    async fn gauges(&self) -> Result<Vec<GroupGauges>, Unavailable> {
        Ok(vec![GroupGauges { group: "shop".into(), due: 2, ..GroupGauges::default() }])
    }
}
