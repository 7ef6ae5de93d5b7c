//! Changes that the disk does not have yet, in layers, read as one ordered map.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
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

/// In which order keys are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The least first.
    Up,
    /// The greatest first.
    Down,
}

impl Way {
    /// This key is not read after that one.
    pub(super) fn is_by(self, key: &[u8], that: &[u8]) -> bool {
        match self {
            Self::Up => key <= that,
            Self::Down => key >= that,
        }
    }
}

/// The changes to keys of a range, each key once.
pub(super) struct Merged<'a> {
    /// The latest first.
    layers: Vec<Layer<'a>>,
    way: Way,
}

/// What is left of one.
struct Layer<'a> {
    next: Option<(&'a Short, &'a Change)>,
    rest: Range<'a, Short, Change>,
}

impl<'a> Merged<'a> {
    /// Of these layers, the latest first.
    pub(super) fn of(
        layers: impl Iterator<Item = &'a Changes>,
        bounds: (Bound<&Short>, Bound<&Short>),
        way: Way,
    ) -> Self {
        let layers = layers.map(|layer| {
            let mut layer = Layer { next: None, rest: layer.range::<Short, _>(bounds) };
            layer.step(way);
            layer
        });
        Self { layers: layers.collect(), way }
    }
}

impl<'a> Layer<'a> {
    fn step(&mut self, way: Way) -> Option<(&'a Short, &'a Change)> {
        let next = match way {
            Way::Up => self.rest.next(),
            Way::Down => self.rest.next_back(),
        };
        std::mem::replace(&mut self.next, next)
    }
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a Short, &'a Change);

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
