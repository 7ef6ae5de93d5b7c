//! Shapes: counts of a group's dead letters by topic, cause, masked reason and shape of the record,
//! updated as letters come and go.
//!
//! **Invariant:** while letters are counted without a shape, no shape is added. So each letter is
//! subtracted where it was added.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::api::mask;
use crate::engine::store::Store;
use crate::engine::store::key::{self, GroupNumber, RowKey};
use crate::engine::store::short::ShortBytes;
use crate::journal::EntryRef;
use crate::model::{EntryId, GroupId, WallMs};
use crate::retry::{Disposition, Entry, RecordShape, RetryState, UNKNOWN_SHAPE};

/// Most shapes of one group; letters of further shapes are counted together.
pub(super) const SHAPES_MAX: usize = 10_000;
/// Hours with a count of their own.
const HOURS: usize = 24;
const HOUR_MS: i64 = 3_600_000;
/// Hours before the latest one.
const HOURS_BEFORE: i64 = 23;
/// The number for letters without a shape.
const NO_SHAPE: u32 = 0;

/// The parts that letters of one shape have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    /// The topic of the origin; empty without one.
    pub topic: String,
    /// The cause, as [`Disposition`] names it.
    pub cause: String,
    /// The reason of the application, masked.
    pub reason: String,
    /// The shape of the record, where it is known.
    pub record: Option<RecordShape>,
}

/// The letters of one shape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShapeCount {
    /// The number of the shape in keys.
    number: u32,
    letters: u64,
    /// Times of death of the first and the last letter, since the shape was last empty.
    first: WallMs,
    last: WallMs,
    hours: Hours,
}

/// Letters by the hour of their death.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Hours {
    /// The latest hour, counted from 1970.
    latest: i64,
    /// Letters of the latest hours; hour `h` is at `h % HOURS`.
    letters: [u32; HOURS],
}

/// A shape with its letters, for the admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeView {
    pub shape: Shape,
    pub letters: u64,
    pub first: WallMs,
    pub last: WallMs,
    /// Letters by the hour of their death, the present hour last.
    pub hours: [u32; HOURS],
    /// The latest letter, in the log.
    pub example: Option<EntryRef>,
}

/// Shapes of a group, most letters first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShapeList {
    pub shapes: Vec<ShapeView>,
    /// Letters of shapes that are not listed.
    pub rest: u64,
}

/// The shapes of a group.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    all: BTreeMap<Shape, ShapeCount>,
    /// Letters without a shape, and the count in their row.
    rest: u64,
    written_rest: u64,
    /// Shapes whose rows are out of date, and the numbers of removed shapes.
    stale: BTreeSet<Shape>,
    gone: BTreeSet<u32>,
    /// The greatest number that a shape has had.
    last_number: u32,
}

/// The row of a shape.
pub(super) type ShapeRow = (Shape, ShapeCount);

impl Shape {
    /// The shape of an entry by its present state.
    pub fn of(entry: &Entry) -> Self {
        let topic = entry.origin.as_ref().map(|origin| origin.topic.to_string());
        let cause = entry.disposition.unwrap_or(Disposition::Manual).as_str().to_owned();
        let reason = mask(entry.reason.as_deref().unwrap_or_default());
        Self { topic: topic.unwrap_or_default(), cause, reason, record: entry.shape.clone() }
    }

    /// The pattern of the records' keys.
    pub fn key(&self) -> &str {
        self.record.as_ref().map_or(UNKNOWN_SHAPE, |record| &record.key)
    }

    /// The size class of the records.
    pub fn size(&self) -> &'static str {
        self.record.as_ref().map_or(UNKNOWN_SHAPE, |record| record.size.as_str())
    }

    /// The shape of a dead letter and the time of its death; `None` for an entry that is not dead.
    fn of_dead(entry: &Entry) -> Option<(Self, WallMs)> {
        let RetryState::Dead { at } = entry.state else { return None };
        Some((Self::of(entry), at))
    }
}

impl Hours {
    fn place(&self, hour: i64) -> Option<usize> {
        let is_kept = (self.latest - HOURS_BEFORE..=self.latest).contains(&hour);
        usize::try_from(hour.rem_euclid(HOURS_BEFORE + 1)).ok().filter(|_| is_kept)
    }

    fn forward(&mut self, hour: i64) {
        if hour.saturating_sub(self.latest) > HOURS_BEFORE {
            *self = Self { latest: hour, ..Self::default() };
        }
        while self.latest < hour {
            self.latest += 1;
            let place = self.place(self.latest);
            if let Some(letters) = place.and_then(|place| self.letters.get_mut(place)) {
                *letters = 0;
            }
        }
    }

    fn change(&mut self, at: WallMs, change: impl Fn(u32) -> u32) {
        let place = self.place(at.0.div_euclid(HOUR_MS));
        if let Some(letters) = place.and_then(|place| self.letters.get_mut(place)) {
            *letters = change(*letters);
        }
    }

    fn count(&mut self, at: WallMs) {
        self.forward(at.0.div_euclid(HOUR_MS));
        self.change(at, |letters| letters.saturating_add(1));
    }

    /// Letters per hour up to a time, oldest hour first.
    fn up_to(&self, now: WallMs) -> [u32; HOURS] {
        let mut hours = self.clone();
        hours.forward(now.0.div_euclid(HOUR_MS));
        let mut told = [0; HOURS];
        for (hour, letters) in (hours.latest - HOURS_BEFORE..).zip(&mut told) {
            let place = hours.place(hour);
            *letters = place.and_then(|place| hours.letters.get(place)).copied().unwrap_or(0);
        }
        told
    }
}

impl Shapes {
    pub(super) fn load(&mut self, (shape, count): ShapeRow) {
        self.last_number = self.last_number.max(count.number);
        if count.number == NO_SHAPE {
            (self.rest, self.written_rest) = (count.letters, count.letters);
        } else {
            self.all.insert(shape, count);
        }
    }

    /// Counts a letter; returns the number of its shape.
    fn count(&mut self, shape: Shape, at: WallMs) -> u32 {
        if !self.all.contains_key(&shape) && (self.rest > 0 || self.all.len() >= SHAPES_MAX) {
            self.rest += 1;
            return NO_SHAPE;
        }
        let number = if let Some(count) = self.all.get(&shape) {
            count.number
        } else {
            self.last_number = self.last_number.saturating_add(1);
            self.last_number
        };
        let count = self.all.entry(shape.clone()).or_insert_with(|| ShapeCount {
            number,
            letters: 0,
            first: at,
            last: at,
            ..ShapeCount::default()
        });
        count.letters += 1;
        (count.first, count.last) = (count.first.min(at), count.last.max(at));
        count.hours.count(at);
        self.stale.insert(shape);
        number
    }

    /// Subtracts a letter; returns the number of its shape.
    fn uncount(&mut self, shape: &Shape, at: WallMs) -> u32 {
        let Some(count) = self.all.get_mut(shape) else {
            self.rest = self.rest.saturating_sub(1);
            return NO_SHAPE;
        };
        let number = count.number;
        count.letters = count.letters.saturating_sub(1);
        count.hours.change(at, |letters| letters.saturating_sub(1));
        if count.letters == 0 {
            self.all.remove(shape);
            self.stale.remove(shape);
            self.gone.insert(number);
        } else {
            self.stale.insert(shape.clone());
        }
        number
    }
}

impl Store {
    /// Moves an entry from the shape of its old state to that of its new state.
    pub(super) fn reshape(&mut self, id: EntryId, old: Option<&Entry>, new: Option<&Entry>) {
        let has_shape = |entry: Option<&Entry>| {
            entry.is_some_and(|entry| matches!(entry.state, RetryState::Dead { .. }))
        };
        if !has_shape(old) && !has_shape(new) || old.zip(new).is_some_and(alike) {
            return;
        }
        if let Some((old, (shape, at))) = old.and_then(|old| Some((old, Shape::of_dead(old)?))) {
            let group = self.group_mut(&old.group);
            let (number, shape) = (group.number, group.shapes.uncount(&shape, at));
            self.rows.delete(letter_key(number, shape, id).0);
        }
        if let Some((new, (shape, at))) = new.and_then(|new| Some((new, Shape::of_dead(new)?))) {
            let group = self.group_mut(&new.group);
            let (number, shape) = (group.number, group.shapes.count(shape, at));
            self.rows.put(letter_key(number, shape, id).0, ShortBytes::new());
        }
    }

    /// Updates the rows of a group's shapes.
    pub(super) fn write_shapes(&mut self, name: &GroupId) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let (of, shapes) = (group.number, &mut group.shapes);
        for number in std::mem::take(&mut shapes.gone) {
            self.rows.delete(shape_key(of, number).0);
        }
        for shape in std::mem::take(&mut shapes.stale) {
            if let Some(count) = shapes.all.get(&shape) {
                self.rows.put_value(shape_key(of, count.number).0, &(&shape, count));
            }
        }
        if shapes.rest == shapes.written_rest {
            return;
        }
        shapes.written_rest = shapes.rest;
        let key = shape_key(of, NO_SHAPE).0;
        if shapes.rest > 0 {
            let count = ShapeCount { letters: shapes.rest, ..ShapeCount::default() };
            self.rows.put_value(key, &(Shape::default(), count));
        } else {
            self.rows.delete(key);
        }
    }

    /// The number of shapes of a group's dead letters.
    pub(in crate::engine) fn count_shapes(&self, group: &GroupId) -> usize {
        self.groups.get(group).map_or(0, |group| group.shapes.all.len())
    }

    /// The shapes of a group's dead letters: at most `limit`, those with most letters. Reads two
    /// rows of the disk for each.
    pub(in crate::engine) fn shapes(
        &self,
        group: &GroupId,
        now: WallMs,
        limit: usize,
    ) -> ShapeList {
        let Some(group) = self.groups.get(group) else { return ShapeList::default() };
        let mut all: Vec<(&Shape, &ShapeCount)> = group.shapes.all.iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(count.letters));
        let beyond: u64 = all.iter().skip(limit).map(|(_, count)| count.letters).sum();
        let shapes = all.into_iter().take(limit).map(|(shape, count)| ShapeView {
            shape: shape.clone(),
            letters: count.letters,
            first: count.first,
            last: count.last,
            hours: count.hours.up_to(now),
            example: self.last_letter(group.number, count.number),
        });
        ShapeList { shapes: shapes.collect(), rest: group.shapes.rest + beyond }
    }

    /// The last dead letter of a shape, in the log.
    fn last_letter(&self, group: GroupNumber, shape: u32) -> Option<EntryRef> {
        let letters = RowKey::of_group(key::LETTER, group).number(shape);
        let mut last = None;
        self.rows.each_back(&letters.0, &letters.clone().end().0, &mut |key, _| {
            last = key::read_id(key);
            ControlFlow::Break(())
        });
        self.payload(last?)
    }
}

/// True when an entry has the same shape in two states.
fn alike((old, new): (&Entry, &Entry)) -> bool {
    old.state == new.state
        && old.disposition == new.disposition
        && old.reason == new.reason
        && old.origin == new.origin
        && old.shape == new.shape
}

fn shape_key(group: GroupNumber, shape: u32) -> RowKey {
    RowKey::of_group(key::SHAPE, group).number(shape)
}

fn letter_key(group: GroupNumber, shape: u32, id: EntryId) -> RowKey {
    RowKey::of_group(key::LETTER, group).number(shape).id(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(reason: &str) -> Shape {
        let (topic, cause) = ("orders".into(), "rejected".into());
        Shape { topic, cause, reason: reason.into(), record: None }
    }

    #[test]
    fn letters_are_subtracted_where_they_were_added() {
        let mut shapes = Shapes::default();
        let at = WallMs(5);
        for number in 0..SHAPES_MAX {
            shapes.count(shape(&number.to_string()), at);
        }
        assert_eq!(shapes.count(shape("late"), at), NO_SHAPE);
        shapes.uncount(&shape("7"), at);
        assert_eq!(shapes.count(shape("7"), at), NO_SHAPE, "others have none");
        assert_eq!((shapes.all.len(), shapes.rest), (SHAPES_MAX - 1, 2));
        shapes.uncount(&shape("late"), at);
        shapes.uncount(&shape("7"), at);
        assert_ne!(shapes.count(shape("late"), at), NO_SHAPE, "all letters have a shape again");
        assert_eq!((shapes.all.len(), shapes.rest), (SHAPES_MAX, 0));
    }

    #[test]
    fn hours_are_those_before_now() {
        let at = |hour: i64| WallMs(hour * HOUR_MS + 7);
        let mut hours = Hours::default();
        for hour in [100, 100, 103, 77] {
            hours.count(at(hour));
        }
        let told = |hours: &Hours, now: i64| {
            let told = hours.up_to(at(now));
            let told = told.iter().enumerate().filter(|(_, letters)| **letters > 0);
            told.map(|(place, letters)| (place, *letters)).collect::<Vec<_>>()
        };
        assert_eq!(told(&hours, 103), [(20, 2), (23, 1)], "hour 77 is too long ago");
        assert_eq!(told(&hours, 123), [(0, 2), (3, 1)]);
        assert_eq!(told(&hours, 124), [(2, 1)]);
        assert_eq!(told(&hours, 200), []);
        hours.change(at(100), |letters| letters - 1);
        assert_eq!(told(&hours, 103), [(20, 1), (23, 1)]);
    }
}
