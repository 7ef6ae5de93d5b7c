//! The delay table and the choice of the next level.

use crate::retry::RequestedDelay;

/// `RocketMQ`'s delay table (`MessageStoreConfig.messageDelayLevel`), levels 1 to 18.
pub const DEFAULT_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";
/// The longest delay a table or a nack may ask for: 366 days.
pub const DELAY_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1000;
/// 1 in the unit of jitter shares and back-off factors.
pub const THOUSAND: u32 = 1_000;
/// Level of a first retry (`RocketMQ`'s `3 + reconsumeTimes`).
const FIRST_LEVEL: u32 = 3;
/// Most rungs of a back-off: the smallest factor gets from 1 ms to 366 days in fewer.
const RUNGS_MAX: usize = 400;

/// Delays by level, from level 1. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelTable {
    first_ms: u64,
    rest_ms: Vec<u64>,
}

/// Outcome of a failure: a delay or a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureOutcome {
    After {
        delay_ms: u64,
        /// The level of the delay; `None` for an exact delay.
        level: Option<u32>,
    },
    /// No further delivery: a dead letter now.
    Never,
}

/// Reasons for which a text is no delay table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    #[error("the delay table is empty; give at least one delay, such as \"10s 30s 1m\"")]
    Empty,
    #[error("\"{0}\" is no delay; write a whole number and one of the units ms s m h d")]
    Item(String),
    #[error("\"{0}\" is not a positive delay")]
    NotPositive(String),
    #[error("\"{0}\" is longer than 366 days")]
    TooLong(String),
}

/// Oddities of a table that are permitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelWarning {
    #[error("the delay \"{0}\" appears more than once")]
    Duplicate(String),
    #[error("the delay \"{0}\" is shorter than the one before it")]
    Order(String),
}

impl Default for LevelTable {
    fn default() -> Self {
        Self::parse(DEFAULT_LEVELS)
            .map_or(Self { first_ms: 10_000, rest_ms: Vec::new() }, |(table, _)| table)
    }
}

impl LevelTable {
    /// Reads `"1s 5s … 2h"`: delays separated by blanks, each a whole number and a unit: `ms`, `s`,
    /// `m`, `h` or `d`. The error names the first bad item.
    pub fn parse(text: &str) -> Result<(Self, Vec<LevelWarning>), LevelError> {
        let mut table: Vec<u64> = Vec::new();
        let mut warnings = Vec::new();
        for item in text.split_whitespace() {
            let delay_ms = parse_delay(item)?;
            if table.contains(&delay_ms) {
                warnings.push(LevelWarning::Duplicate(item.to_owned()));
            } else if table.last().is_some_and(|before| delay_ms < *before) {
                warnings.push(LevelWarning::Order(item.to_owned()));
            }
            table.push(delay_ms);
        }
        let (first_ms, rest_ms) = table.split_first().ok_or(LevelError::Empty)?;
        Ok((Self { first_ms: *first_ms, rest_ms: rest_ms.to_vec() }, warnings))
    }

    /// The rungs of a back-off: levels 1 to 3 wait `initial_ms`. Each further level waits
    /// `factor_milli` thousandths of the one before, up to `max_ms`.
    pub fn backoff(initial_ms: u64, factor_milli: u32, max_ms: u64) -> Self {
        let first_ms = initial_ms.clamp(1, DELAY_MS_MAX);
        let max_ms = max_ms.clamp(first_ms, DELAY_MS_MAX);
        let mut rest_ms = vec![first_ms, first_ms];
        let mut delay_ms = first_ms;
        while delay_ms < max_ms && rest_ms.len() < RUNGS_MAX {
            let grown = u128::from(delay_ms) * u128::from(factor_milli) / u128::from(THOUSAND);
            let grown = u64::try_from(grown).unwrap_or(u64::MAX).min(max_ms);
            if grown == delay_ms && factor_milli <= THOUSAND {
                break;
            }
            // Integer division may hide the growth of a small delay, so it grows by 1 ms at least.
            delay_ms = grown.max(delay_ms.saturating_add(1));
            rest_ms.push(delay_ms);
        }
        Self { first_ms, rest_ms }
    }

    /// The delays of the first `retries` retries of a record that names no level; of equal ones at
    /// the end of the table one.
    pub fn of_retries(&self, retries: u32) -> impl Iterator<Item = u64> + '_ {
        let levels = FIRST_LEVEL..FIRST_LEVEL.saturating_add(retries);
        let in_table = levels.take_while(|level| *level == FIRST_LEVEL || *level <= self.len());
        in_table.filter_map(|level| self.get(level.min(self.len())))
    }

    pub fn len(&self) -> u32 {
        u32::try_from(self.rest_ms.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Always `false`: a table has at least one level.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The delay of a level in milliseconds; `None` when the table has no such level.
    pub fn get(&self, level: u32) -> Option<u64> {
        match level.checked_sub(1)? {
            0 => Some(self.first_ms),
            n => self.rest_ms.get(usize::try_from(n).ok()?.checked_sub(1)?).copied(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.first_ms).chain(self.rest_ms.iter().copied())
    }

    /// The next delay after `reconsume_times` earlier failures. A level below 0 is the dead
    /// letters, now. Otherwise an exact delay wins, then the requested level, then level
    /// `3+reconsume_times`. A level above the table is its last level.
    pub fn next(&self, want: RequestedDelay, reconsume_times: u32) -> FailureOutcome {
        let asked = want.level.unwrap_or(0);
        if asked < 0 {
            return FailureOutcome::Never;
        }
        if let Some(delay_ms) = want.delay_ms {
            return FailureOutcome::After { delay_ms, level: None };
        }
        let level = match u32::try_from(asked) {
            Ok(level) if level > 0 => level,
            _ => FIRST_LEVEL.saturating_add(reconsume_times),
        };
        let level = level.min(self.len());
        FailureOutcome::After {
            delay_ms: self.get(level).unwrap_or(self.first_ms),
            level: Some(level),
        }
    }
}

fn parse_delay(item: &str) -> Result<u64, LevelError> {
    let bad = || LevelError::Item(item.to_owned());
    let unit_at = item.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = item.split_at_checked(unit_at).ok_or_else(bad)?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(bad()),
    };
    if number.is_empty() {
        return Err(bad());
    }
    // Only digits are left, so a parse error means that the number is too large.
    let number: u64 = number.parse().map_err(|_| LevelError::TooLong(item.to_owned()))?;
    match number.checked_mul(unit_ms) {
        Some(0) => Err(LevelError::NotPositive(item.to_owned())),
        Some(delay_ms) if delay_ms <= DELAY_MS_MAX => Ok(delay_ms),
        _ => Err(LevelError::TooLong(item.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(table: &LevelTable, level: i32, times: u32) -> FailureOutcome {
        table.next(RequestedDelay { level: Some(level), delay_ms: None }, times)
    }

    #[test]
    fn delays_of_retries_begin_at_the_third_level() {
        let delays = |text, retries| -> Vec<u64> {
            let (table, _) = LevelTable::parse(text).unwrap();
            table.of_retries(retries).collect()
        };
        assert_eq!(delays(DEFAULT_LEVELS, 3), [10_000, 30_000, 60_000]);
        assert_eq!(delays(DEFAULT_LEVELS, 100).len(), 16);
        assert_eq!(delays("5ms", 4), [5]);
        assert!(delays("1s 2s 3s", 0).is_empty());
    }

    #[test]
    fn the_default_ladder_is_rocketmqs_with_17140_seconds_in_total() {
        let table = LevelTable::default();
        let seconds: Vec<u64> = (0..16)
            .map(|times| match table.next(RequestedDelay::default(), times) {
                FailureOutcome::After { delay_ms, level } => {
                    assert_eq!(level, Some(3 + times));
                    delay_ms / 1000
                }
                FailureOutcome::Never => panic!("the ladder has 16 steps"),
            })
            .collect();
        assert_eq!(seconds[..4], [10, 30, 60, 120]);
        assert_eq!(seconds[15], 7200);
        assert_eq!(seconds.iter().sum::<u64>(), 17_140);
    }

    #[test]
    fn a_requested_level_is_used_and_capped_by_the_table() {
        let table = LevelTable::default();
        for times in [0, 3, 15] {
            let fifth = FailureOutcome::After { delay_ms: 60_000, level: Some(5) };
            assert_eq!(level(&table, 5, times), fifth);
            let last = FailureOutcome::After { delay_ms: 7_200_000, level: Some(18) };
            assert_eq!(level(&table, 99, times), last);
            assert_eq!(level(&table, -1, times), FailureOutcome::Never);
        }
        assert_eq!(
            level(&table, 0, 40),
            FailureOutcome::After { delay_ms: 7_200_000, level: Some(18) }
        );
    }

    #[test]
    fn an_exact_delay_overrides_a_level_but_no_dead_letter() {
        let table = LevelTable::default();
        let want = |level| RequestedDelay { level, delay_ms: Some(250) };
        let exact = FailureOutcome::After { delay_ms: 250, level: None };
        assert_eq!(table.next(want(None), 3), exact);
        assert_eq!(table.next(want(Some(4)), 3), exact);
        assert_eq!(table.next(want(Some(-1)), 3), FailureOutcome::Never);
    }

    #[test]
    fn every_unit_is_read_and_every_bad_item_named() {
        let (table, warnings) = LevelTable::parse(" 5ms 1s\t2m 3h 4d ").unwrap();
        let read: Vec<u64> = table.iter().collect();
        assert_eq!(read, [5, 1_000, 120_000, 10_800_000, 345_600_000]);
        assert_eq!((table.len(), warnings.len()), (5, 0));
        assert_eq!(LevelTable::parse("  "), Err(LevelError::Empty));
        for bad in ["10", "s", "1x", "1.5h", "-1s", "1S", "1 s", "+1s", "١s"] {
            let error = LevelTable::parse(&format!("1s {bad}")).unwrap_err();
            let item = bad.split(' ').next().unwrap().to_owned();
            assert_eq!(error, LevelError::Item(item), "{bad}");
        }
        assert_eq!(LevelTable::parse("0s"), Err(LevelError::NotPositive("0s".into())));
        for long in ["367d", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(LevelTable::parse(long), Err(LevelError::TooLong(long.into())));
        }
    }

    #[test]
    fn order_and_duplicates_are_only_warned_about() {
        let (_, warnings) = LevelTable::parse("10s 5s 10s").unwrap();
        let expected = [LevelWarning::Order("5s".into()), LevelWarning::Duplicate("10s".into())];
        assert_eq!(warnings, expected);
    }
}
