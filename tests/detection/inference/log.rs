//! The topic's log, with transactions: the last stable offset, and offsets without visible records.

use std::collections::{BTreeMap, BTreeSet};

use reprise::model::OffsetRuns;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Record,
    /// A record in this transaction.
    Of(u32),
    /// A transaction marker.
    Marker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionEnd {
    Not,
    Committed,
    Aborted,
}

#[derive(Debug)]
pub(crate) struct Logs {
    all: Vec<Vec<Item>>,
    transactions: Vec<TransactionEnd>,
    /// Open transactions, with their partitions.
    open: BTreeMap<u32, BTreeSet<usize>>,
}

impl Logs {
    pub(crate) fn new(partitions: usize) -> Self {
        let all = vec![Vec::new(); partitions];
        Self { all, transactions: Vec::new(), open: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, partition: usize) {
        self.all[partition].push(Item::Record);
    }

    pub(crate) fn open(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    pub(crate) fn begin(&mut self) -> u32 {
        let id = u32::try_from(self.transactions.len()).unwrap();
        self.transactions.push(TransactionEnd::Not);
        self.open.insert(id, BTreeSet::new());
        id
    }

    pub(crate) fn put_in(&mut self, id: u32, partition: usize) {
        self.all[partition].push(Item::Of(id));
        self.open.get_mut(&id).unwrap().insert(partition);
    }

    pub(crate) fn end(&mut self, id: u32, commits: bool) {
        for partition in self.open.remove(&id).unwrap() {
            self.all[partition].push(Item::Marker);
        }
        let ended = if commits { TransactionEnd::Committed } else { TransactionEnd::Aborted };
        self.transactions[usize::try_from(id).unwrap()] = ended;
    }

    fn ended(&self, id: u32) -> TransactionEnd {
        self.transactions[usize::try_from(id).unwrap()]
    }

    pub(crate) fn aborted(&self) -> usize {
        self.transactions.iter().filter(|ended| **ended == TransactionEnd::Aborted).count()
    }

    /// The last stable offset: nothing at or above it is delivered yet.
    pub(crate) fn stable_end(&self, partition: usize) -> i64 {
        let is_open =
            |item: &Item| matches!(item, Item::Of(id) if self.ended(*id) == TransactionEnd::Not);
        let log = &self.all[partition];
        let first = log.iter().position(is_open).unwrap_or(log.len());
        i64::try_from(first).unwrap()
    }

    /// Whether an application sees a record at this offset.
    pub(crate) fn is_shown(&self, partition: usize, offset: i64) -> bool {
        match self.all[partition][usize::try_from(offset).unwrap()] {
            Item::Record => true,
            Item::Of(id) => self.ended(id) == TransactionEnd::Committed,
            Item::Marker => false,
        }
    }

    pub(crate) fn hidden(&self, partition: usize) -> OffsetRuns {
        let all = 0..self.stable_end(partition);
        let hidden = all.filter(|offset| !self.is_shown(partition, *offset));
        hidden.map(|offset| offset..offset + 1).collect()
    }
}
