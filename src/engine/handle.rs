//! The handle: what `route` and `admin` ask, and the wait for durability before they believe it.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use crate::engine::command::{
    Command, ImportBatch, LaneSlot, Query, Reply, Snapshot, TakenEntry, TakenRaw,
};
use crate::engine::error::EngineError;
use crate::engine::finals::FinalLog;
use crate::engine::gates::Gates;
use crate::engine::render::{LaneRecord, Render};
use crate::engine::topic_ids::TopicIds;
use crate::engine::trouble::Trouble;
use crate::engine::view::{EntryView, GroupView};
use crate::engine::wakes::Wakes;
use crate::engine::watches::Watches;
use crate::journal::Journal;
use crate::model::{EntryId, GroupId, LaneOffset, MemberId, Now, Origin, TopicName};
use crate::observe::Metrics;
use crate::retry::{
    Company, Entry, ExportOutcome, ExportStep, ImportOutcome, Input, Policies, Single,
};

#[cfg(test)]
mod tests;

/// Asks the driver. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) commands: Sender<Command>,
    pub(super) journal: Journal,
    pub(super) wakes: Arc<Wakes>,
    pub(super) render: Render,
    pub(super) finals: Arc<FinalLog>,
    pub(super) gates: Arc<Gates>,
    pub(super) trouble: Trouble,
    pub(super) watches: Arc<Watches>,
    pub(super) topic_ids: TopicIds,
    pub(super) metrics: Metrics,
}

/// What a Fetch of a lane got.
#[derive(Debug)]
pub struct Taken {
    /// Ready to send, by lane offset.
    pub records: Vec<LaneRecord>,
    /// The first unacknowledged offset of the slot.
    pub position: LaneOffset,
    /// High watermark and log end.
    pub next: LaneOffset,
    /// Who holds the slot.
    pub member: Option<MemberId>,
    /// Something else of the group is due.
    pub is_due: bool,
    /// A retry that goes alone is due, or out at this slot.
    pub single: Option<Single>,
}

impl Engine {
    /// Hands out up to `max` entries at a lane offset; their hand-outs are durable on return.
    pub async fn take(
        &self,
        group: &GroupId,
        from: LaneOffset,
        (max, company): (usize, Company),
    ) -> Result<Taken, EngineError> {
        let group = group.clone();
        let take = |reply| Command::Take { group, from, max, company, reply };
        let TakenRaw { entries, position, next, member, is_due, single } =
            self.ask_durably(take).await?;
        let records = self.read_whole(entries).await?;
        Ok(Taken { records, position, next, member, is_due, single })
    }

    /// The reason why nothing is acknowledged now.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.reason()
    }

    /// The reason why nothing is acknowledged until a restart.
    pub fn restart_reason(&self) -> Option<String> {
        self.trouble.final_reason()
    }

    /// Acknowledges a slot's open hand-outs below `up_to`; how many. Durable on return.
    pub async fn lane_commit(
        &self,
        group: &GroupId,
        up_to: LaneOffset,
    ) -> Result<usize, EngineError> {
        let group = group.clone();
        self.ask_durably(|reply| Command::LaneCommit { group, up_to, reply }).await
    }

    /// Whether a commit of the lane up to `up_to` could be taken; an error says why not.
    pub async fn may_commit_lane(
        &self,
        group: &GroupId,
        up_to: LaneOffset,
    ) -> Result<(), EngineError> {
        let group = group.clone();
        self.ask_durably(|reply| Command::Query(Query::HandedOut { group, up_to, reply })).await
    }

    /// The transaction that was to acknowledge a slot's hand-outs below `up_to` was aborted.
    pub fn lane_aborted(&self, group: &GroupId, up_to: LaneOffset) {
        self.tell(Command::News(Box::new(Input::Aborted { group: group.clone(), up_to })));
    }

    /// Tells the group's committed offsets of real partitions. On return every nack that came
    /// before is durable, so a commit that passes it may be accepted.
    pub async fn origin_commits(
        &self,
        group: &GroupId,
        offsets: Vec<(TopicName, i32, i64)>,
    ) -> Result<(), EngineError> {
        let group = group.clone();
        self.ask_durably(|reply| Command::OriginCommits { group, offsets, reply }).await
    }

    /// A record that was put behind another one was taken back by its transaction: it is nobody's,
    /// and the next of its key need not wait for it.
    pub fn taken_back(&self, group: &GroupId, origin: Origin) {
        let taken_back = Input::TakenBack { group: group.clone(), origin };
        self.tell(Command::News(Box::new(taken_back)));
    }

    /// A record that was put behind another one was taken, and must not leave before its
    /// transaction ends: it was not handed out.
    pub fn undecided(&self, group: &GroupId, origin: Origin) {
        let undecided = Input::Undecided { group: group.clone(), origin };
        self.tell(Command::News(Box::new(undecided)));
    }

    /// The ids of topics.
    pub fn topic_ids(&self) -> TopicIds {
        self.topic_ids.clone()
    }

    /// A topic is no more: what fails in one by the same name fails for the first time. It is in
    /// the driver's queue when this returns; the future ends when it is durable.
    pub fn topic_gone(
        &self,
        topic: &TopicName,
    ) -> impl Future<Output = Result<(), EngineError>> + use<> {
        let topic = topic.clone();
        self.ask_durably(|reply| Command::TopicGone { topic, reply })
    }

    /// The slot of a member, given to it now if it had none. Durable on return.
    pub async fn join(&self, group: &GroupId, member: MemberId) -> Result<LaneSlot, EngineError> {
        let group = group.clone();
        self.ask_durably(|reply| Command::Join { group, member, reply }).await
    }

    /// The slot a member holds, if any.
    pub async fn slot_of(
        &self,
        group: &GroupId,
        member: MemberId,
    ) -> Result<Option<LaneSlot>, EngineError> {
        let group = group.clone();
        self.ask_durably(|reply| Command::Query(Query::SlotOf { group, member, reply })).await
    }

    /// E7: the member is gone; its open hand-outs return to the queue.
    pub fn leave(&self, group: &GroupId, member: MemberId) {
        self.tell(Command::Leave { group: group.clone(), member });
    }

    /// A member is not heard of: what it has open returns to the queue, its slot stays its own.
    pub fn silent(&self, group: &GroupId, member: MemberId) {
        self.tell(Command::Silent { group: group.clone(), member });
    }

    /// Other rules from now on.
    pub fn policies(&self, now: Now, policies: Policies) {
        self.watches.reload(now, &policies);
        self.tell(Command::Policies(Box::new(policies)));
    }

    /// Housekeeping, now and then, after the journal's own checkpoint: forgets silent producers,
    /// releases what is gone from the log and makes a checkpoint of the look-up tables.
    pub async fn keep(&self) -> Result<(), EngineError> {
        let kept = self.ask_durably(Command::Keep).await;
        if matches!(kept, Err(EngineError::Tables(_))) {
            // The driver may sleep: it is to begin with the renewal.
            self.tell(Command::Look);
        }
        kept
    }

    /// Ends the driver after what was asked before.
    pub fn stop(&self) {
        self.tell(Command::Stop);
    }

    /// Wakes `waker` once when something of the group may be due.
    pub fn watch(&self, group: &GroupId, waker: &Arc<Notify>) {
        self.wakes.watch(group, waker);
    }

    /// What waits in a group, for a reader that is no member: how many, and a page of records at
    /// offsets `from`… of that list, oldest due first: at most `limit`, and bytes beyond
    /// `bytes_max` only for the first. Nothing is handed out.
    pub async fn snapshot(
        &self,
        group: &GroupId,
        from: usize,
        (limit, bytes_max): (usize, u64),
    ) -> Result<(usize, Vec<LaneRecord>), EngineError> {
        let group = group.clone();
        let Snapshot { total, mut entries } = self
            .ask_durably(|reply| Command::Query(Query::Waiting { group, from, limit, reply }))
            .await?;
        entries.truncate(fitting(&entries, bytes_max));
        let mut records = self.read(entries)?;
        for (record, offset) in records.iter_mut().zip(from..) {
            record.move_to(i64::try_from(offset).unwrap_or(i64::MAX));
        }
        Ok((total, records))
    }

    /// Entries of a group by id, for people.
    pub async fn page(
        &self,
        group: &GroupId,
        after: Option<EntryId>,
        limit: usize,
    ) -> Result<Vec<EntryView>, EngineError> {
        let group = group.clone();
        self.ask(|reply| Command::Query(Query::Page { group, after, limit, reply })).await
    }

    /// Every group the engine knows, for people and metrics.
    pub async fn groups(&self) -> Result<Vec<GroupView>, EngineError> {
        self.ask(|reply| Command::Query(Query::Groups { reply })).await
    }

    /// Entries of a group that wait or are set aside, by id, with their records' stored forms: at
    /// most `limit`, and bytes beyond `bytes_max` only for the first.
    pub async fn portable(
        &self,
        group: &GroupId,
        after: Option<EntryId>,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Vec<(Entry, Bytes)>, EngineError> {
        let (mut located, seq) = self.located(group, after, limit).await?;
        self.journal.durable(seq).await?;
        located.truncate(fitting(&located, bytes_max));
        let mut found = Vec::with_capacity(located.len());
        for TakenEntry { entry, payload, .. } in located {
            let Some(at) = payload else { return Err(EngineError::PayloadLost(entry.id)) };
            found.push((entry, self.journal.read(at)?.body));
        }
        Ok(found)
    }

    /// The same with the place of their bytes, and what they rest on. A command looks at a few: the
    /// driver does what else there is to do in between.
    pub(super) async fn located(
        &self,
        group: &GroupId,
        mut after: Option<EntryId>,
        limit: usize,
    ) -> Result<(Vec<TakenEntry>, u64), EngineError> {
        let mut located: Vec<TakenEntry> = Vec::new();
        loop {
            let (group, most) = (group.clone(), limit.saturating_sub(located.len()));
            let ask = |reply| Command::Query(Query::Portable { group, after, limit: most, reply });
            let ((found, next), seq) = self.ask_with_seq(ask).await?;
            located.extend(found);
            if next.is_none() || located.len() >= limit {
                return Ok((located, seq));
            }
            after = next;
        }
    }

    /// A step of moving entries to another sidecar; durable on return.
    pub async fn export(
        &self,
        step: ExportStep,
        ids: Vec<EntryId>,
    ) -> Result<Vec<ExportOutcome>, EngineError> {
        self.ask_durably(|reply| Command::Export { step, ids, reply }).await
    }

    /// Takes entries of another sidecar; durable on return.
    pub async fn import(&self, batch: ImportBatch) -> Result<Vec<ImportOutcome>, EngineError> {
        self.ask_durably(|reply| Command::Import(batch, reply)).await
    }

    /// What was handed out, up to the first that cannot be read now. What can never be read has
    /// ended among the dead letters when this returns: a commit that passes it says nothing of it.
    async fn read_whole(&self, entries: Vec<TakenEntry>) -> Result<Vec<LaneRecord>, EngineError> {
        let mut records = Vec::with_capacity(entries.len());
        for taken in entries {
            match self.render.lane_record(&self.journal, &taken) {
                Ok(record) => records.push(record),
                Err(error) if error.is_damage() => {
                    let (id, why) = (taken.entry.id, error.to_string());
                    tracing::error!(entry = %id, %error, "a retry is damaged: to the dead letters");
                    self.ask_durably(|reply| Command::Damaged { id, why, reply }).await?;
                }
                Err(error) if records.is_empty() => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "a retry cannot be read now");
                    break;
                }
            }
        }
        Ok(records)
    }

    fn read(&self, entries: Vec<TakenEntry>) -> Result<Vec<LaneRecord>, EngineError> {
        entries.into_iter().map(|taken| self.render.lane_record(&self.journal, &taken)).collect()
    }

    /// Sends at once; the returned future waits for the answer and its durability.
    pub(super) fn ask_durably<T, C: FnOnce(Reply<T>) -> Command>(
        &self,
        command: C,
    ) -> impl Future<Output = Result<T, EngineError>> + use<T, C> {
        let (reply, answer) = oneshot::channel();
        self.wait_for(self.commands.send(command(reply)).is_ok(), answer)
    }

    /// The same for what only people look at: it is told at once, durable or not.
    pub(super) async fn ask<T, C: FnOnce(Reply<T>) -> Command>(
        &self,
        command: C,
    ) -> Result<T, EngineError> {
        Ok(self.ask_with_seq(command).await?.0)
    }

    async fn ask_with_seq<T, C: FnOnce(Reply<T>) -> Command>(
        &self,
        command: C,
    ) -> Result<(T, u64), EngineError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| EngineError::Stopped)?;
        answer.await.map_err(|_| EngineError::Stopped)?
    }

    fn wait_for<T>(
        &self,
        sent: bool,
        answer: oneshot::Receiver<Result<(T, u64), EngineError>>,
    ) -> impl Future<Output = Result<T, EngineError>> + use<T> {
        let journal = self.journal.clone();
        async move {
            if !sent {
                return Err(EngineError::Stopped);
            }
            let (answer, seq) = answer.await.map_err(|_| EngineError::Stopped)??;
            journal.durable(seq).await?;
            Ok(answer)
        }
    }

    pub(super) fn tell(&self, command: Command) {
        if self.commands.send(command).is_err() {
            tracing::debug!("the retry engine has stopped already");
        }
    }
}

/// How many of these take no more than `bytes_max` in the log, the first whatever it takes.
fn fitting(entries: &[TakenEntry], bytes_max: u64) -> usize {
    let mut bytes = 0_u64;
    let fit = entries.iter().enumerate().take_while(|(place, entry)| {
        bytes = bytes.saturating_add(entry.payload.map_or(0, |at| u64::from(at.len)));
        *place == 0 || bytes <= bytes_max
    });
    fit.count()
}
