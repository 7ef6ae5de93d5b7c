//! Transactional producers in a simulation with power cuts, beside a model of all decisions. A
//! `read_committed` reader sees a transaction whole, offsets included, or not at all. No open
//! transaction delays readers for longer than its timeout.
//!
//! After a crash all answered steps are there. Of the others a prefix is there, in order, and each
//! step whole.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use reprise::broker::offsets::CommitItem;
use reprise::broker::transactions::{Incarnation, Joining, part};

use crate::cluster::{Cluster, Cut, PARTITIONS, View, batch};
use crate::mem_disk::MemDisk;

const IDS: [&str; 3] = ["a", "b", "c"];
pub const GROUPS: [&str; 2] = ["g", "h"];
const TIMEOUT_MS: i32 = 10_000;
/// The most disk operations until the power is cut.
const CUT_WITHIN: u64 = 200;
const NEVER: u64 = u64::MAX >> 1;

/// The expected state.
#[derive(Clone, Default)]
struct Model {
    producers: BTreeMap<&'static str, Producer>,
    logs: Vec<Vec<WrittenRecord>>,
    /// Outcome of each transaction; true: committed.
    ends: BTreeMap<u64, bool>,
    committed: BTreeMap<&'static str, StagedOffset>,
    /// Number of requests so far with offsets of transactions.
    staged: u64,
}

/// An offset in a transaction; the later of two requests counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StagedOffset {
    order: u64,
    offset: i64,
}

#[derive(Clone)]
struct Producer {
    by: Incarnation,
    /// The next sequence number in each partition.
    next: BTreeMap<i32, i32>,
    open: Option<Open>,
}

#[derive(Clone, Default)]
struct Open {
    number: u64,
    since: i64,
    parts: BTreeSet<i32>,
    offsets: BTreeMap<&'static str, StagedOffset>,
}

#[derive(Clone)]
enum WrittenRecord {
    Record(u64, String),
    End,
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

fn at(index: i32) -> usize {
    usize::try_from(index).unwrap()
}

impl Model {
    fn new() -> Self {
        Self { logs: vec![Vec::new(); at(PARTITIONS)], ..Self::default() }
    }

    fn view(&self) -> View {
        let mut view = View::default();
        for log in &self.logs {
            let open = |written: &WrittenRecord| match written {
                WrittenRecord::Record(of, _) => !self.ends.contains_key(of),
                WrittenRecord::End => false,
            };
            let stable = log.iter().position(open).unwrap_or(log.len());
            let committed = log[..stable].iter().filter_map(|written| match written {
                WrittenRecord::Record(of, text) if self.ends[of] => Some(text.clone()),
                _ => None,
            });
            view.given.push(committed.collect());
            view.ends.push((int(stable), int(log.len())));
        }
        for group in GROUPS {
            let mut open = self.producers.values().filter_map(|known| known.open.as_ref());
            let pending = open.any(|open| open.offsets.contains_key(group));
            let committed = self.committed.get(group).map(|staged| staged.offset);
            view.offsets.push((committed, pending));
        }
        for (id, known) in &self.producers {
            let open = known.open.as_ref().map(|open| {
                let offsets = open.offsets.iter();
                let offsets = offsets.map(|(group, staged)| ((*group).to_owned(), staged.offset));
                (open.since, open.parts.iter().copied().collect(), offsets.collect())
            });
            view.producers.push(((*id).to_owned(), known.by, open));
        }
        view
    }

    /// Ends the open transaction; `by`: the producer id and epoch afterwards.
    fn end(&mut self, id: &str, commits: bool, by: Incarnation) {
        let known = self.producers.get_mut(id).unwrap();
        if known.by != by {
            (known.by, known.next) = (by, BTreeMap::new());
        }
        let Some(open) = known.open.take() else { return };
        for part in &open.parts {
            self.logs[at(*part)].push(WrittenRecord::End);
        }
        self.ends.insert(open.number, commits);
        if commits {
            for (group, staged) in open.offsets {
                let committed = self.committed.entry(group).or_insert(staged);
                *committed = staged.max(*committed);
            }
        }
    }

    fn open(&mut self, id: &str, number: u64, now: i64) -> &mut Open {
        let known = self.producers.get_mut(id).unwrap();
        known.open.get_or_insert_with(|| Open { number, since: now, ..Open::default() })
    }
}

struct Run {
    rng: Rng,
    disk: MemDisk,
    cluster: Option<Cluster>,
    model: Model,
    /// The states after the last flush and after each step since.
    since_flush: Vec<Model>,
    now: i64,
    transactions: u64,
    cut_at: Option<u64>,
    pub crashes: u32,
}

/// Counts of all runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    pub crashes: u32,
    pub committed: usize,
    pub aborted: usize,
}

pub fn run(seed: u64, steps: u32) -> Ran {
    let disk = MemDisk::new(seed);
    let now = 1_700_000_000_000;
    let cluster = Some(Cluster::start(&disk, now).unwrap());
    let model = Model::new();
    let since_flush = vec![model.clone()];
    let rng = Rng::with_seed(seed);
    let (transactions, crashes, cut_at) = (0, 0, None);
    let mut run =
        Run { rng, disk, cluster, model, since_flush, now, transactions, cut_at, crashes };
    run.arm(CUT_WITHIN);
    for _ in 0..steps {
        if run.step().is_err() {
            run.crash();
        }
    }
    run.crash();
    run.disk.power_cut_at(NEVER);
    run.pass(u64::from(TIMEOUT_MS.unsigned_abs()));
    run.flush().unwrap();
    let stuck = run.model.view().ends.into_iter().find(|(stable, end)| stable < end);
    assert_eq!(stuck, None, "readers are held back though every transaction has ended");
    let committed = run.model.ends.values().filter(|commits| **commits).count();
    Ran { crashes: run.crashes, committed, aborted: run.model.ends.len() - committed }
}

impl Run {
    fn cluster(&mut self) -> &mut Cluster {
        self.cluster.as_mut().unwrap()
    }

    /// Cuts the power in the middle of the n-th disk operation from now.
    fn arm(&mut self, n: u64) {
        self.cut_at = Some(self.disk.operations() + n);
        self.disk.power_cut_at(n);
    }

    /// Notes an appended step, which a crash may keep.
    fn appended(&mut self) {
        self.since_flush.push(self.model.clone());
    }

    fn step(&mut self) -> Result<(), Cut> {
        let id = IDS[self.rng.usize(..IDS.len())];
        if !self.model.producers.contains_key(id) {
            self.begin(id);
            return Ok(());
        }
        match self.rng.u32(..100) {
            0..4 => self.begin(id),
            4..24 => self.join(id),
            24..54 => self.put(id),
            54..64 => self.offset(id),
            64..78 => self.end(id),
            78..82 => {
                let ms = self.rng.u64(..u64::from(TIMEOUT_MS.unsigned_abs()));
                self.pass(ms);
            }
            82..96 => self.flush()?,
            96..97 => self.keep(),
            97..99 => {
                // A crash while an end is written, or while it is made durable.
                self.offset(id);
                self.end(id);
                let n = self.rng.u64(1..3);
                self.arm(n);
                self.flush()?;
            }
            _ => return Err(Cut),
        }
        Ok(())
    }

    /// Housekeeping runs in threads, and its number of disk operations varies: no power cut
    /// meanwhile.
    fn keep(&mut self) {
        self.arm(NEVER);
        self.cluster().keep().unwrap();
        self.flush().unwrap();
        let n = self.rng.u64(1..CUT_WITHIN);
        self.arm(n);
    }

    fn begin(&mut self, id: &'static str) {
        let begun = self.cluster().broker.begin_producer(id, None, TIMEOUT_MS).unwrap();
        if self.model.producers.contains_key(id) {
            self.model.end(id, false, begun.producer);
        } else {
            let next = BTreeMap::new();
            let known = Producer { by: begun.producer, next, open: None };
            self.model.producers.insert(id, known);
        }
        self.appended();
    }

    fn join(&mut self, id: &str) {
        let index = self.rng.i32(0..PARTITIONS);
        let by = self.model.producers[id].by;
        let topic = self.cluster().topic();
        let parts = vec![part(&topic, topic.partition(index).unwrap())];
        let joining = Joining { parts, ..Joining::default() };
        self.cluster().broker.join_transaction(id, by, joining).unwrap();
        self.joins(id).parts.insert(index);
        self.appended();
    }

    fn joins(&mut self, id: &str) -> &mut Open {
        if self.model.producers[id].open.is_none() {
            self.transactions += 1;
        }
        self.model.open(id, self.transactions, self.now)
    }

    /// Produces into any partition, which joins the transaction with its first record.
    fn put(&mut self, id: &str) {
        let index = self.rng.i32(0..PARTITIONS);
        let known = &self.model.producers[id];
        let (by, sequence) = (known.by, known.next.get(&index).copied().unwrap_or(0));
        let number = self.joins(id).number;
        if self.joins(id).parts.insert(index) {
            self.appended();
        }
        let log = &mut self.model.logs[at(index)];
        let text = format!("{number}/{}", log.len());
        let (offset, batch) = (int(log.len()), batch(by, sequence, &text));
        log.push(WrittenRecord::Record(number, text));
        let topic = self.cluster().topic();
        let place = (&*topic, topic.partition(index).unwrap());
        let put = self.cluster().broker.produce_transactional(id, true, place, &batch);
        assert_eq!(put.unwrap().base_offset, offset);
        *self.model.producers.get_mut(id).unwrap().next.entry(index).or_default() += 1;
        self.appended();
    }

    fn offset(&mut self, id: &str) {
        let group = GROUPS[self.rng.usize(..GROUPS.len())];
        let (by, offset) = (self.model.producers[id].by, self.rng.i64(0..1_000));
        let item = CommitItem {
            topic: "t".into(),
            partition: 0,
            offset,
            leader_epoch: -1,
            metadata: String::new(),
        };
        let joining =
            Joining { group: Some(group.into()), items: vec![item], ..Joining::default() };
        self.cluster().broker.commit_in_transaction(id, by, joining, true).unwrap();
        self.model.staged += 1;
        let staged = StagedOffset { order: self.model.staged, offset };
        self.joins(id).offsets.insert(group, staged);
        self.appended();
    }

    fn end(&mut self, id: &str) {
        let known = &self.model.producers[id];
        if known.open.is_none() {
            return;
        }
        let (by, commits, raises) = (known.by, self.rng.bool(), self.rng.bool());
        let ended = self.cluster().broker.end_transaction(id, by, commits, raises).unwrap();
        self.model.end(id, commits, ended.producer);
        self.appended();
    }

    /// Lets time pass: the broker aborts overdue transactions, and no others.
    fn pass(&mut self, ms: u64) {
        self.now += i64::try_from(ms).unwrap();
        self.cluster().hand.advance(ms);
        while let Some((id, by, _)) = self.cluster().broker.abort_overdue().unwrap() {
            let open = self.model.producers[id.as_str()].open.as_ref().unwrap();
            assert!(open.since + i64::from(TIMEOUT_MS) <= self.now, "{id} had time");
            self.model.end(&id, false, (by.0, by.1 + 1));
            self.appended();
        }
        let mut open = self.model.producers.values().filter_map(|known| known.open.as_ref());
        assert!(open.all(|open| self.now < open.since + i64::from(TIMEOUT_MS)), "not aborted");
    }

    /// Flushes: all steps are durable now, and readers see all decisions.
    fn flush(&mut self) -> Result<(), Cut> {
        self.cluster().flush()?;
        let view = self.cluster().view()?;
        assert_eq!(view, self.model.view());
        self.since_flush = vec![self.model.clone()];
        Ok(())
    }

    /// Cuts the power or kills the process. The state after the start must be one of the possible
    /// ones.
    fn crash(&mut self) {
        self.cluster = None;
        let gone = self.cut_at.is_some_and(|at| self.disk.operations() >= at);
        match (gone, self.rng.bool()) {
            (true, _) => {}
            (false, true) => self.disk.power_cut(),
            (false, false) => self.disk.process_crash(),
        }
        self.crashes += 1;
        if self.rng.u8(..8) == 0 {
            // A file that is missing or not durable counts as removed.
            let _ = self.disk.disk().remove("index.redb");
        }
        self.disk.power_cut_at(NEVER);
        self.now += self.rng.i64(0..50);
        let mut cluster = Cluster::start(&self.disk, self.now).unwrap();
        let view = cluster.view().unwrap();
        let fits = |model: &&Model| model.view() == view;
        let Some(model) = self.since_flush.iter().rfind(fits) else {
            let could: Vec<View> = self.since_flush.iter().map(Model::view).collect();
            panic!("came back:\n{view:?}\nof\n{could:#?}");
        };
        self.model = model.clone();
        self.since_flush = vec![self.model.clone()];
        self.cluster = Some(cluster);
        let n = self.rng.u64(1..CUT_WITHIN);
        self.arm(n);
    }
}
