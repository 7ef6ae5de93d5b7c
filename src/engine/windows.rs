//! Windows of partitions of groups in the log, and the end of what inference has charged.
//!
//! A window is journalled as it is told and nobody waits for it; with a record that is settled it
//! is one atomic group.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use uuid::Uuid;

use crate::engine::command::Command;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::kind;
use crate::journal::{Encoded, Entry, NewEntry};
use crate::model::{GroupId, TopicName, TopicPartition};
use crate::retry::watch::{Settling, WindowRecord};
use crate::retry::{Answer, Input, NackOutcome, Token};
use crate::wire::batch::RawRecord;

/// The version byte of a stored window.
const VERSION: u8 = 2;
/// A window of a topic of which the name is known alone, and not whether its group ever committed.
const NAMED: u8 = 1;

/// A window, and of which topic by that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptWindow {
    /// As the watch told it.
    pub window: WindowRecord,
    /// Nil: its id is not known.
    pub topic_id: Uuid,
}

/// Bytes of windows in one group of the log, unless a single one has more: a group is bounded.
pub(super) const GROUP_BYTES: usize = 16 << 20;

/// Windows by partition; `None`: it need not be remembered.
pub(super) type Latest = BTreeMap<TopicPartition, Option<KeptWindow>>;

/// The last ones of each that wait to be journalled.
pub(super) type Unkept = BTreeMap<(GroupId, TopicPartition), Option<KeptWindow>>;

/// The latest windows of one group, until they are taken to be journalled. Whoever takes them has
/// the latest ones, so the log never gets an older one behind a newer.
#[derive(Clone, Debug, Default)]
pub struct WindowNews(Arc<Mutex<Latest>>);

impl WindowNews {
    /// Whether there was nothing to take before.
    fn put(&self, windows: Latest) -> bool {
        let mut latest = self.lock();
        let is_first = latest.is_empty();
        latest.extend(windows);
        is_first
    }

    pub(super) fn take(&self) -> Latest {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells what is to be settled when it is its turn, with the window as it is by then: a charge of
/// another record of it may come first. `None`: nothing any more. The engine's thread asks: it must
/// not wait for an answer of the engine.
pub struct Present(pub Box<dyn FnOnce() -> Option<Settling> + Send>);

impl fmt::Debug for Present {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Present").finish_non_exhaustive()
    }
}

/// What the log remembers, by group and partition.
pub type Windows = BTreeMap<(GroupId, TopicPartition), KeptWindow>;

impl Engine {
    /// Journals windows of a group, which `news` has until then. Not waited for.
    pub fn windows(&self, group: &GroupId, news: &WindowNews, windows: Latest) {
        // Otherwise the driver is told already, and has not come to it.
        if news.put(windows) {
            self.tell(Command::Windows { group: group.clone(), news: news.clone() });
        }
    }

    /// A record that inference has charged becomes a dead letter, or waits in the group's queue.
    /// Durable on return, with the window it leaves behind. `topic_id`: as of a kept window.
    /// `None`: there was nothing to settle.
    pub async fn settle(
        &self,
        group: &GroupId,
        (present, topic_id): (Present, Uuid),
        record: &RawRecord,
    ) -> Result<Option<NackOutcome>, EngineError> {
        let (group, record) = (group.clone(), record.to_bytes());
        self.ask_durably(|reply| Command::Settle { group, present, topic_id, record, reply }).await
    }
}

impl Driver {
    pub(super) fn windows(&mut self, group: &GroupId, news: &WindowNews) {
        self.unkept
            .extend(news.take().into_iter().map(|(of, window)| ((group.clone(), of), window)));
        if let Err(error) = self.keep_windows() {
            tracing::warn!(
                %group, %error,
                "R0408 the progress of a group could not be journalled: it is tried again with \
                 the next progress; check the disk"
            );
        }
    }

    /// Journals the windows that are not yet, behind those that were staged before; an error: they
    /// still are not.
    pub(super) fn keep_windows(&mut self) -> Result<(), EngineError> {
        if self.unkept.is_empty() && self.unstaged.is_empty() {
            return Ok(());
        }
        self.usable()?;
        let unkept =
            self.unkept.iter().map(|((group, of), window)| entry(group, of, window.as_ref()));
        let entries = self.unstaged.iter().cloned().chain(unkept).collect();
        for entries in in_groups(entries, self.group_bytes) {
            self.last_seq = self.journal.append_reserved(entries)?.seq();
        }
        self.unstaged.clear();
        self.unkept.clear();
        Ok(())
    }

    pub(super) fn settle_charged(
        &mut self,
        group: GroupId,
        (Present(present), topic_id): (Present, Uuid),
        record: Bytes,
    ) -> Result<Option<NackOutcome>, EngineError> {
        self.may_decide()?;
        self.journal.admits()?;
        // A later one is behind it in the log.
        self.keep_windows()?;
        let Some(settling) = present().map(Box::new) else { return Ok(None) };
        let after = KeptWindow { window: settling.window.clone(), topic_id };
        let window = stored(&group, &settling.partition, &after);
        let record_bytes = u64::try_from(record.len()).unwrap_or(u64::MAX);
        self.tell_room(self.clock.now(), &group);
        let (token, of) = (Token(0), group.clone());
        let key = self.order_key(&group, &record);
        let settle = Input::Settle { token, group, settling, record_bytes, key };
        let (answer, facts) = self.handle(settle);
        let Some(Answer::Nacked(outcomes)) = answer else { return Err(EngineError::Stopped) };
        self.persist(&facts, &[record], vec![window])?;
        self.see_room(&of);
        outcomes.first().copied().map(Some).ok_or(EngineError::Stopped)
    }
}

/// Windows of one group as entries of the log.
pub(super) fn stored_all(group: &GroupId, windows: &Latest) -> Vec<NewEntry> {
    windows.iter().map(|(of, window)| entry(group, of, window.as_ref())).collect()
}

/// The same entries in groups of so many bytes, unless a single one has more.
pub(super) fn in_groups(entries: Vec<NewEntry>, most: usize) -> Vec<Vec<NewEntry>> {
    let (mut groups, mut bytes) = (Vec::<Vec<NewEntry>>::new(), 0_usize);
    for entry in entries {
        bytes = bytes.saturating_add(entry.head().len());
        if let Some(group) = groups.last_mut().filter(|_| bytes <= most) {
            group.push(entry);
        } else {
            bytes = entry.head().len();
            groups.push(vec![entry]);
        }
    }
    groups
}

/// One entry of the log.
pub(super) fn replay(windows: &mut Windows, entry: &Entry) {
    match read(entry) {
        Some((group, of, Some(window))) => {
            windows.insert((group, of), window);
        }
        Some((group, of, None)) => {
            windows.remove(&(group, of));
        }
        None => tracing::error!(seq = entry.seq, "a stored window cannot be read"),
    }
}

/// Whose window an entry of the log holds; `None` in it: nothing is remembered from then on.
pub(super) fn read(entry: &Entry) -> Option<(GroupId, TopicPartition, Option<KeptWindow>)> {
    let (group, of) = read_key(entry.key.as_deref()?)?;
    if entry.head.is_empty() {
        return Some((group, of, None));
    }
    Some((group, of, Some(parse(&entry.head)?)))
}

fn entry(group: &GroupId, of: &TopicPartition, window: Option<&KeptWindow>) -> NewEntry {
    match window {
        Some(window) => stored(group, of, window),
        None => NewEntry::tombstone(kind::WINDOW, key(group, of)),
    }
}

pub(super) fn stored(group: &GroupId, of: &TopicPartition, kept: &KeptWindow) -> NewEntry {
    let KeptWindow { window, topic_id } = kept;
    let whole = (topic_id.as_bytes(), window.has_committed, window);
    let head = Encoded::of(postcard::to_extend(&whole, vec![VERSION]));
    NewEntry::keyed(kind::WINDOW, key(group, of), head, Bytes::new())
}

fn parse(head: &[u8]) -> Option<KeptWindow> {
    let (version, rest) = head.split_first()?;
    let (kept, rest) = match *version {
        NAMED => {
            let (window, rest) = postcard::take_from_bytes(rest).ok()?;
            (KeptWindow { window, topic_id: Uuid::nil() }, rest)
        }
        VERSION => {
            let (whole, rest) =
                postcard::take_from_bytes::<([u8; 16], bool, WindowRecord)>(rest).ok()?;
            let (id, has_committed, window) = whole;
            let window = WindowRecord { has_committed, ..window };
            (KeptWindow { window, topic_id: Uuid::from_bytes(id) }, rest)
        }
        _ => return None,
    };
    rest.is_empty().then_some(kept)
}

/// Partition, length of the group's name, group, topic.
fn key(group: &GroupId, of: &TopicPartition) -> Bytes {
    let (group, topic) = (group.as_str().as_bytes(), of.topic.as_str().as_bytes());
    let mut key = of.partition.to_be_bytes().to_vec();
    key.extend(u32::try_from(group.len()).unwrap_or(u32::MAX).to_be_bytes());
    key.extend(group);
    key.extend(topic);
    key.into()
}

pub(super) fn read_key(key: &[u8]) -> Option<(GroupId, TopicPartition)> {
    let (partition, rest) = key.split_first_chunk::<4>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    let (group, topic) = rest.split_at_checked(len)?;
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let topic = TopicName::new(text(topic)?);
    let partition = i32::from_be_bytes(*partition);
    Some((GroupId::new(text(group)?), TopicPartition { topic, partition }))
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::clock::Clock;
    use crate::engine::{NackBatch, Parts, Replay};
    use crate::journal::{self, Journal, MemDisk, Writer};
    use crate::model::{ClientId, WallMs};
    use crate::retry::watch::{OutRecord, SuspectRecord};
    use crate::retry::{Disposition, Evidence, Reporter};
    use crate::wire::batch::{Headers, TimestampType};

    fn window() -> WindowRecord {
        let suspect = SuspectRecord {
            offset: 57,
            reconsume_times: 2,
            due: Some(WallMs(9)),
            history: vec![(WallMs(5), Disposition::Crashed)],
        };
        WindowRecord {
            from: 50,
            end: 58,
            out: Some(OutRecord { offset: 57, alone: true }),
            losses: 4,
            lost_from: 50,
            suspects_end: 100,
            last: None,
            doublings: 1,
            suspects: vec![suspect],
            skipped: vec![51],
            has_committed: true,
        }
    }

    fn kept() -> KeptWindow {
        KeptWindow { window: window(), topic_id: Uuid::from_u128(0x0102_0304) }
    }

    /// A window as every version has written it.
    const WINDOW: [u8; 21] =
        [100, 116, 1, 114, 1, 4, 100, 200, 1, 0, 1, 1, 114, 2, 1, 18, 1, 10, 3, 1, 102];
    const KEY: &[u8] = b"\0\0\0\x03\0\0\0\x04shoporders";

    fn replayed(head: Vec<u8>) -> Windows {
        let mut windows = Windows::new();
        let new = NewEntry::keyed(
            kind::WINDOW,
            Bytes::from_static(KEY),
            Encoded::new(head),
            Bytes::new(),
        );
        replay(&mut windows, &new.clone().read_back());
        windows
    }

    #[test]
    fn a_window_stored_by_version_1_is_read_for_ever() {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let window = WindowRecord { has_committed: false, ..window() };
        let known = KeptWindow { window, topic_id: Uuid::nil() };
        let windows = replayed([&[1][..], &WINDOW].concat());
        assert_eq!(windows, Windows::from([(("shop".into(), of), known)]));
    }

    #[test]
    fn a_window_stored_by_version_2_is_read_for_ever() {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let new = stored(&"shop".into(), &of, &kept());
        let bytes = [&[2][..], &[0; 12], &[1, 2, 3, 4], &[1], &WINDOW].concat();
        assert_eq!(new.head()[..], bytes[..], "the format has changed: give it a new version");
        assert_eq!(new.key.as_deref(), Some(KEY), "the format has changed");
        let mut windows = replayed(bytes);
        assert_eq!(windows, Windows::from([(("shop".into(), of), kept())]));
        let gone = NewEntry::tombstone(kind::WINDOW, new.key.clone().unwrap());
        replay(&mut windows, &gone.clone().read_back());
        assert_eq!(windows, Windows::new());
    }

    /// An engine over a log, driven by hand, and the windows that log remembers.
    fn open(disk: &MemDisk) -> (Engine, Driver, Writer, Windows) {
        let (journal, writer, recovery) =
            Journal::open(disk.disk(), journal::Config::default()).unwrap();
        let parts = Parts::plain(&journal, Clock::told(WallMs(1)).0);
        let mut replay = Replay::new(Some(Replay::tables(&journal).unwrap()), &parts);
        let from = replay.from();
        recovery.replay(from, &mut |entry, at| replay.entry(entry, at)).unwrap();
        let windows = replay.windows();
        let (engine, driver) = replay.finish(parts);
        (engine, driver, writer, windows)
    }

    #[test]
    fn a_window_that_could_not_be_journalled_is_so_before_a_nack_behind_it_is_taken() {
        let disk = MemDisk::new(5);
        let (engine, mut driver, mut writer, _) = open(&disk);
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        driver.ahead = Some("as if".to_owned());
        let idle = KeptWindow::default();
        let news = WindowNews::default();
        for known in [idle, kept()] {
            engine.windows(&"shop".into(), &news, Latest::from([(of.clone(), Some(known))]));
            driver.step();
        }
        driver.ahead = None;
        let by = Reporter { member: None, client: ClientId::new("test") };
        let batch = NackBatch { group: "shop".into(), by, producer: None, nacks: Vec::new() };
        drop(engine.nacks(batch));
        driver.step();
        writer.step();
        drop((engine, driver, writer));
        disk.process_crash();
        let windows = open(&disk).3;
        assert_eq!(windows, Windows::from([(("shop".into(), of), kept())]), "the last one");
    }

    #[test]
    fn a_settled_record_leaves_its_window_as_it_is_when_it_is_its_turn() {
        let disk = MemDisk::new(5);
        let (engine, mut driver, mut writer, _) = open(&disk);
        let (shop, news, record) = (GroupId::new("shop"), WindowNews::default(), record());
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let with_losses = |losses| WindowRecord { losses, ..window() };
        let after = |losses| KeptWindow { window: with_losses(losses), ..kept() };
        let told = |losses| Latest::from([(of.clone(), Some(after(losses)))]);
        let present = Arc::new(Mutex::new(Some(settling(with_losses(1)))));
        let watch = Arc::clone(&present);
        let asked = Present(Box::new(move || watch.lock().unwrap().take()));
        let asked = (asked, kept().topic_id);
        engine.windows(&shop, &news, told(1));
        let settled = engine.settle(&shop, asked, &record);
        let mut context = Context::from_waker(Waker::noop());
        let mut settled = std::pin::pin!(settled);
        assert!(settled.as_mut().poll(&mut context).is_pending());
        // Another record of it is charged meanwhile.
        *present.lock().unwrap() = Some(settling(with_losses(2)));
        engine.windows(&shop, &news, told(2));
        for _ in 0..2 {
            driver.step();
            writer.step();
        }
        let Poll::Ready(Ok(Some(_))) = settled.as_mut().poll(&mut context) else {
            panic!("it is not settled")
        };
        let nothing = engine.settle(&shop, (Present(Box::new(|| None)), Uuid::nil()), &record);
        let mut nothing = std::pin::pin!(nothing);
        assert!(nothing.as_mut().poll(&mut context).is_pending());
        driver.step();
        writer.step();
        assert!(matches!(nothing.as_mut().poll(&mut context), Poll::Ready(Ok(None))));
        drop((driver, writer));
        disk.process_crash();
        let windows = open(&disk).3;
        assert_eq!(windows, Windows::from([((shop.clone(), of.clone()), after(2))]));
    }

    fn settling(window: WindowRecord) -> Settling {
        Settling {
            partition: TopicPartition { topic: "orders".into(), partition: 3 },
            offset: 50,
            reconsume_times: 6,
            disposition: Disposition::Crashed,
            evidence: Evidence::MemberLost,
            history: vec![(WallMs(5), Disposition::Crashed)],
            is_retried: false,
            window,
        }
    }

    fn record() -> RawRecord {
        RawRecord {
            timestamp_ms: 1,
            timestamp_type: TimestampType::CreateTime,
            key: None,
            value: Some("as it was produced".into()),
            headers: Headers::NONE,
        }
    }

    #[test]
    fn windows_are_parted_into_groups_that_the_log_takes() {
        let of = TopicPartition { topic: "orders".into(), partition: 3 };
        let large = |bytes: usize| {
            stored(&"shop".into(), &of, &kept()).with_head(Encoded::new(vec![0; bytes]))
        };
        let sizes = [5 << 20, 11 << 20, 1, 40 << 20, 2];
        let groups = in_groups(sizes.map(large).to_vec(), GROUP_BYTES);
        let counts: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(counts, [2, 1, 1, 1]);
        assert!(in_groups(Vec::new(), GROUP_BYTES).is_empty());
    }

    #[test]
    fn bytes_that_are_no_window_are_left_out() {
        for bad in [&b"\x03\x00"[..], b"\x02\x00", b"\x01\x64", b"\x01"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        for bad in [&b""[..], b"\0\0\0\x03\0\0\0\x09shop", b"\0\0\0\x03\xff\xff\xff\xff"] {
            assert_eq!(read_key(bad), None, "{bad:?}");
        }
    }
}
