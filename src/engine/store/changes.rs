//! Changes that are not on disk yet, in layers that are read as one ordered map.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

use crate::engine::store::row::Row;
use crate::engine::store::short::ShortBytes;

pub(super) type Changes = BTreeMap<ShortBytes, RowChange>;

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RowChange {
    /// Writes the row, which may replace one on disk.
    Put(Row),
    /// Writes the row; neither older layers nor the disk have its key.
    New(Row),
    /// Removes the row, and hides it on disk.
    Gone,
}

impl RowChange {
    /// The row after the change.
    pub(super) fn row(&self) -> Option<&Row> {
        match self {
            Self::Put(row) | Self::New(row) => Some(row),
            Self::Gone => None,
        }
    }
}

/// Order in which keys are read: ascending or descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScanOrder {
    Up,
    Down,
}

impl ScanOrder {
    /// True when `key` is read at or before `that`.
    pub(super) fn is_by(self, key: &[u8], that: &[u8]) -> bool {
        match self {
            Self::Up => key <= that,
            Self::Down => key >= that,
        }
    }
}

/// Iterator over the changes to a range of keys; the newest layer wins.
pub(super) struct Merged<'a> {
    /// Layers, the newest first.
    layers: Vec<Layer<'a>>,
    way: ScanOrder,
}

/// The unread part of one layer.
struct Layer<'a> {
    next: Option<(&'a ShortBytes, &'a RowChange)>,
    rest: Range<'a, ShortBytes, RowChange>,
}

impl<'a> Merged<'a> {
    /// Merges `layers`, newest first.
    pub(super) fn of(
        layers: impl Iterator<Item = &'a Changes>,
        bounds: (Bound<&ShortBytes>, Bound<&ShortBytes>),
        way: ScanOrder,
    ) -> Self {
        let layers = layers.map(|layer| {
            let mut layer = Layer { next: None, rest: layer.range::<ShortBytes, _>(bounds) };
            layer.step(way);
            layer
        });
        Self { layers: layers.collect(), way }
    }
}

impl<'a> Layer<'a> {
    fn step(&mut self, way: ScanOrder) -> Option<(&'a ShortBytes, &'a RowChange)> {
        let next = match way {
            ScanOrder::Up => self.rest.next(),
            ScanOrder::Down => self.rest.next_back(),
        };
        std::mem::replace(&mut self.next, next)
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a ShortBytes, &'a RowChange);

    fn next(&mut self) -> Option<Self::Item> {
        let way = self.way;
        let nexts = self.layers.iter().filter_map(|layer| layer.next.map(|(key, _)| key));
        let first = nexts.reduce(|a, b| if way.is_by(a, b) { a } else { b })?;
        let mut latest = None;
        for layer in &mut self.layers {
            if layer.next.is_some_and(|(key, _)| key == first) {
                let same = layer.step(way);
                latest = latest.or(same);
            }
        }
        latest
    }
}
