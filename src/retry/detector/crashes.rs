//! Crashes: lost deliveries and commits go to the suspects, which limit what a Fetch delivers.

use std::ops::Range;

use crate::model::{MemberId, Moment, MonoMs, TopicPartition};
use crate::retry::detector::RefetchedRecords;
use crate::retry::detector::{
    Detector, DetectorOutput, ExhaustedRecord, FetchDecision, FetchPosition, MemberFetch, Window,
};
use crate::retry::suspects::{
    Decision, EndedRecord, Grant, LostDelivery, LostMember, MemberOutstanding, OffsetRanges,
    Outstanding, SuspectEvent,
};
use crate::retry::{Disposition, Evidence};

impl Detector {
    /// The outstanding records of a member in these partitions are lost with it.
    pub(in crate::retry) fn lose(
        &mut self,
        now: Moment,
        member: &MemberId,
        held: &[TopicPartition],
        (until, end): (MonoMs, LostMember),
    ) {
        if !self.rules.infers_crashes() {
            return;
        }
        let lost = held.iter().filter_map(|of| Some((of.clone(), self.windows.get(of)?.lost()?)));
        let outstanding: OffsetRanges = lost.collect();
        let known = self.members.get(member);
        let lived_ms = known.map_or(0, |known| until.since(known.since));
        let retries = known.map(|known| known.retries.clone()).unwrap_or_default();
        self.suspects.set_rules(self.rules.suspects);
        let member = member.clone();
        let lost = LostDelivery { member, outstanding, lived_ms, end, retries };
        self.tell_suspects(now, SuspectEvent::Lost(lost));
    }

    /// A live member fetches outstanding records again.
    pub(in crate::retry) fn lose_returned(
        &mut self,
        now: Moment,
        member: &MemberId,
        returned: Vec<RefetchedRecords>,
    ) {
        if returned.is_empty() {
            return;
        }
        let known = self.members.get(member);
        let retries = known.map(|known| known.retries.clone()).unwrap_or_default();
        let (member, outstanding) = (member.clone(), returned.into_iter().collect());
        self.tell_suspects(now, SuspectEvent::Returned { member, outstanding, retries });
        self.push(DetectorOutput::Wake);
    }

    /// A member fetches a partition that another member owned, or that had no owner.
    pub(in crate::retry) fn own(&mut self, now: Moment, of: &TopicPartition, member: &MemberId) {
        let before = self.windows.get(of).and_then(|window| window.holder.as_ref());
        let before = before.map(|holder| holder.member.clone()).filter(|known| known != member);
        let partitions = vec![of.clone()];
        if let Some(former) = before.filter(|former| self.members.contains_key(former)) {
            let partitions = partitions.clone();
            self.suspects.handle(now, SuspectEvent::Revoked { member: former, partitions });
        }
        self.suspects.handle(now, SuspectEvent::Assigned { member: member.clone(), partitions });
    }

    /// A member sent a request.
    pub(in crate::retry) fn note_alive(&mut self, now: Moment, member: &MemberId) {
        if let Some(known) = self.members.get_mut(member) {
            known.alive = now.mono;
            self.suspects.note_connected(member);
        }
    }

    /// A member fetches. Only the arrival of its Fetch is a sign of life: a Fetch that waits is
    /// planned again, also after its client has died.
    pub(in crate::retry) fn note_fetch(&mut self, now: Moment, by: &MemberFetch) {
        let Some(known) = self.members.get_mut(&by.member) else { return };
        known.retries.clone_from(&by.retries);
        if known.alive < by.came {
            self.note_alive(now, &by.member);
        }
    }

    /// A connection of a member is closed. A member that lives sends its next heartbeat on another.
    pub(in crate::retry) fn on_disconnected(&mut self, now: Moment, member: MemberId) {
        if self.members.contains_key(&member) && self.rules.infers_crashes() {
            self.suspects.handle(now, SuspectEvent::Disconnected(member));
        }
    }

    /// A commit, or a committed offset that the coordinator returned.
    pub(in crate::retry) fn acquit(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        offset: i64,
        passes_records: bool,
    ) {
        let Some(window) = self.windows.get(of) else { return };
        // No application handles a record between `offset` and the next unsettled one.
        let end = window.end.max(offset);
        let offset = window.unsettled(offset..end).unwrap_or(end);
        let partition = of.clone();
        self.tell_suspects(now, SuspectEvent::Committed { partition, offset, passes_records });
    }

    /// No Fetch delivers these offsets any more.
    pub(in crate::retry) fn drop_suspects(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        offsets: Range<i64>,
    ) {
        let partition = of.clone();
        self.tell_suspects(now, SuspectEvent::Dropped { partition, offsets });
    }

    /// Handles offsets granted to a member that hold no record. Returns true if a withheld record
    /// is among them.
    pub(in crate::retry) fn empty(
        &mut self,
        now: Moment,
        of: &TopicPartition,
        offsets: Range<i64>,
    ) -> bool {
        let has_withheld = self.suspects.withheld(of).is_some_and(|at| offsets.contains(&at));
        let partition = of.clone();
        self.tell_suspects(now, SuspectEvent::Empty { partition, offsets });
        has_withheld
    }

    /// The topic was recreated under its name, or the group is new to it.
    pub(in crate::retry) fn clear_suspects(&mut self, now: Moment, of: &TopicPartition) {
        self.tell_suspects(now, SuspectEvent::Cleared(of.clone()));
    }

    fn tell_suspects(&mut self, now: Moment, event: SuspectEvent) {
        self.suspects.handle(now, event);
        self.decide();
    }

    /// The parts of a member's Fetch that the suspects allow, one for each partition.
    pub(in crate::retry) fn limits(
        &mut self,
        now: Moment,
        member: &MemberId,
        asked: &[FetchPosition],
    ) -> Vec<Grant> {
        if self.suspects.is_unlimited() && self.waits_until <= now.mono {
            return asked.iter().map(|ask| Grant::From(ask.offset)).collect();
        }
        let outstanding = self.outstanding(member);
        let (windows, suspects) = (&self.windows, &mut self.suspects);
        let limit = |FetchPosition { partition, offset }: &FetchPosition| {
            let window = windows.get(partition);
            if window.is_some_and(|window| window.waits_until > now.mono) {
                return Grant::Nothing;
            }
            let first = window.map_or(*offset, |window| window.first_given(*offset));
            suspects.grant(now, member, partition, first, &outstanding)
        };
        asked.iter().map(limit).collect()
    }

    fn outstanding(&self, member: &MemberId) -> MemberOutstanding {
        let held = self.windows.iter().filter(|(_, window)| window.is_held_by(member));
        let open = held.filter(|(_, window)| window.is_open());
        let of = |(of, window): (&TopicPartition, &Window)| {
            let offsets = window.first_open()..window.end;
            (of.clone(), Outstanding { offsets, delivered_at: window.handed_at })
        };
        open.map(of).collect()
    }

    /// Turns decisions of the suspects into outputs.
    pub(in crate::retry) fn decide(&mut self) {
        while let Some(decision) = self.suspects.poll_output() {
            match decision {
                Decision::Changed => self.push(DetectorOutput::Wake),
                Decision::TestBegins
                | Decision::Isolated(_)
                | Decision::Failed { .. }
                | Decision::Retry { .. }
                | Decision::DeadLetter { .. }
                | Decision::Exempted(_) => self.push(DetectorOutput::Suspicion(decision)),
            }
        }
        self.keep_suspects();
    }

    /// Journals suspects that differ from their last record.
    fn keep_suspects(&mut self) {
        let record = self.suspects.record();
        if record != self.kept_suspects {
            self.kept_suspects.clone_from(&record);
            self.push(DetectorOutput::Suspects(record));
        }
    }

    /// The record at or above `from` whose last failed delivery counts.
    pub(in crate::retry) fn crash_settling(
        &self,
        (of, window): (&TopicPartition, &Window),
        from: i64,
        is_retried: bool,
    ) -> Option<ExhaustedRecord> {
        let ended = self.suspects.ended(of, from)?;
        let (disposition, evidence) = ended.cause();
        let EndedRecord { offset, failures, failed_at, .. } = ended;
        let history = failed_at.into_iter().map(|at| (at, disposition)).collect();
        Some(ExhaustedRecord {
            partition: of.clone(),
            offset,
            reconsume_times: failures.saturating_sub(1),
            disposition,
            evidence,
            history,
            is_retried,
            window: window.record_after(offset),
        })
    }

    /// The record that no commit passes: its partition waits for it, or the detector withholds it.
    pub fn commit_bound(&self, of: &TopicPartition) -> Option<i64> {
        self.awaited(of).into_iter().chain(self.suspects.withheld(of)).min()
    }

    /// Whether a record may bind commits.
    pub fn binds_commits(&self) -> bool {
        self.rules.in_order || self.withholds()
    }

    /// Whether a record may be withheld.
    pub fn withholds(&self) -> bool {
        !self.suspects.is_unlimited()
    }

    /// The withheld record of a partition.
    pub fn withheld(&self, of: &TopicPartition) -> Option<i64> {
        self.suspects.withheld(of)
    }

    /// The withheld record below a commit of `offset`. It becomes a dead letter before the commit
    /// is passed on.
    pub fn settling_before(&mut self, of: &TopicPartition, offset: i64) -> Option<ExhaustedRecord> {
        self.suspects.withheld(of).filter(|withheld| *withheld < offset)?;
        self.suspects.end_withheld(of, offset);
        let window = self.windows.get(of)?;
        self.crash_settling((of, window), i64::MIN, false)
    }

    /// Notes a batch that cannot be decoded; true if the partition had none. No record of it can be
    /// delivered by itself, so a withheld record ends as well.
    pub fn unreadable(&mut self, of: &TopicPartition) -> bool {
        if self.suspects.withheld(of).is_some() {
            self.suspects.end_withheld(of, i64::MAX);
            self.push(DetectorOutput::Wake);
        }
        self.unreadable.insert(of.clone())
    }

    /// Records that become entries without a Fetch: a commit has passed them.
    pub(in crate::retry) fn settlings_passed(&self) -> impl Iterator<Item = ExhaustedRecord> {
        self.suspects.partitions_with_ended().filter_map(|of| {
            let window = self.windows.get(of)?;
            let settling = self.crash_settling((of, window), i64::MIN, false)?;
            window
                .committed
                .is_some_and(|committed| settling.offset < committed)
                .then_some(settling)
        })
    }
}

impl EndedRecord {
    /// The disposition says how the record failed, not `max_attempts`: no application said that.
    pub(in crate::retry) fn cause(&self) -> (Disposition, Evidence) {
        if self.is_seek_back {
            (Disposition::SeekBack, Evidence::SeekBack)
        } else {
            (Disposition::Crashed, Evidence::MemberLost)
        }
    }
}

impl Window {
    /// The outstanding records that are lost with their member.
    pub(in crate::retry) fn lost(&self) -> Option<Range<i64>> {
        self.lost_from(i64::MIN)
    }

    /// The outstanding records from an offset on.
    pub(in crate::retry) fn lost_from(&self, offset: i64) -> Option<Range<i64>> {
        let first = self.unsettled(self.first_open().max(offset)..self.data_end())?;
        // A partition that waits for a reported failure delivers nothing behind it.
        if self.suspects.get(&first).is_some_and(|suspect| suspect.is_awaited) {
            return None;
        }
        Some(first..self.unsettled_end(first))
    }

    /// The offset behind the last outstanding record without a known outcome.
    fn unsettled_end(&self, first: i64) -> i64 {
        let mut end = self.data_end();
        while end > first {
            let last = end.saturating_sub(1);
            let run = self.done.iter().chain(self.hidden.at(last)).find(|run| run.contains(&last));
            end = match run {
                Some(run) => run.start.max(first),
                None if self.is_settled(last) => last,
                None => return end,
            };
        }
        end
    }
}

/// A Fetch of one partition within the limit of the suspects; `first`: the first offset that it
/// may deliver.
pub(in crate::retry) fn limited(serve: FetchDecision, grant: &Grant, first: i64) -> FetchDecision {
    let (start, end) = match grant {
        Grant::Nothing => return FetchDecision::Nothing,
        Grant::From(start) => (*start, None),
        Grant::Range(range) => (range.start, Some(range.end)),
    };
    let withheld = (first < start).then_some(first);
    match (serve, withheld, end) {
        (FetchDecision::Open, Some(withheld), None) => FetchDecision::Without(vec![withheld]),
        (FetchDecision::Open, withheld, Some(below)) => {
            FetchDecision::Below { without: withheld.into_iter().collect(), below }
        }
        (
            FetchDecision::Without(without) | FetchDecision::Turn { without, .. },
            withheld,
            Some(below),
        ) => FetchDecision::Below { without: with(without, withheld), below },
        (FetchDecision::Without(without), withheld, None) => {
            FetchDecision::Without(with(without, withheld))
        }
        (FetchDecision::Below { without, below }, withheld, end) => {
            let below = end.map_or(below, |end| end.min(below));
            FetchDecision::Below { without: with(without, withheld), below }
        }
        (FetchDecision::Turn { without, place }, withheld, None) => {
            FetchDecision::Turn { without: with(without, withheld), place }
        }
        (
            serve @ (FetchDecision::Nothing | FetchDecision::Again | FetchDecision::Settle(_)),
            _,
            _,
        )
        | (serve @ FetchDecision::Open, None, None) => serve,
    }
}

fn with(mut offsets: Vec<i64>, more: Option<i64>) -> Vec<i64> {
    offsets.extend(more);
    offsets.sort_unstable();
    offsets
}
