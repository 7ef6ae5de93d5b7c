//! Changes that the disk does not have yet, in layers, read as one ordered map.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;

use crate::engine::store::row::Row;
use crate::engine::store::short::Short;

/// By key.
pub(super) type Changes = BTreeMap<Short, Change>;

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is put down, perhaps in place of one on the disk.
    Put(Row),
    /// It is put down, and older layers and the disk have none of its key.
    New(Row),
    /// It goes; hides a row of the disk.
    Gone,
}

impl Change {
    /// The row after it.
    pub(super) fn row(&self) -> Option<&Row> {
        match self {
            Self::Put(row) | Self::New(row) => Some(row),
            Self::Gone => None,
        }
    }
}

/// The changes to keys of a range, each key once.
pub(super) struct Merged<'a> {
    /// The latest first.
    layers: Vec<Peekable<Range<'a, Short, Change>>>,
}

impl<'a> Merged<'a> {
    /// Of these layers, the latest first.
    pub(super) fn of(
        layers: impl Iterator<Item = &'a Changes>,
        bounds: (Bound<&Short>, Bound<&Short>),
    ) -> Self {
        Self { layers: layers.map(|layer| layer.range::<Short, _>(bounds).peekable()).collect() }
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a Short, &'a Change);

    fn next(&mut self) -> Option<Self::Item> {
        let firsts = self.layers.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| *key));
        let first = firsts.min()?;
        let mut latest = None;
        for layer in &mut self.layers {
            let same = layer.next_if(|(key, _)| *key == first);
            latest = latest.or(same);
        }
        latest
    }
}
