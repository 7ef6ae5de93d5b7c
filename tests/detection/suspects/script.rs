//! Scripts of the model: the consumers of one group and the trouble they meet.

use super::world::{MINUTE_US, SECOND_US, Us};

/// When a consumer commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitHabit {
    Never,
    EachRecord,
    EachBatch,
    EverySeconds(u64),
    EveryRecords(u64),
    OnClose,
    Auto,
}

pub(crate) const HABITS: [CommitHabit; 9] = [
    CommitHabit::Never,
    CommitHabit::EachRecord,
    CommitHabit::EachBatch,
    CommitHabit::EverySeconds(1),
    CommitHabit::EverySeconds(5),
    CommitHabit::EverySeconds(60),
    CommitHabit::EveryRecords(1000),
    CommitHabit::OnClose,
    CommitHabit::Auto,
];

/// The Fetch pattern of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// 500 records a poll, one Fetch of 2 000 ahead.
    Java,
    /// 100 000 records ahead.
    Librdkafka,
}

/// The end of a consumer whose handler kills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The session expires after 45 s.
    Killed,
    Leaves,
}

/// The pause before a consumer starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    AfterOneSecond,
    /// 10 s doubling to 300 s, as Kubernetes does.
    BackOff,
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) partitions: usize,
    pub(crate) topics: usize,
    pub(crate) members: usize,
    pub(crate) client: Client,
    pub(crate) handling_us: Us,
    pub(crate) habit: CommitHabit,
    pub(crate) exit: Exit,
    pub(crate) restart: Restart,
    /// Records of each partition at the start.
    pub(crate) backlog: i64,
    /// Records a second that each partition gets.
    pub(crate) rate: f64,
    pub(crate) end_us: Us,
    pub(crate) poison: Vec<(usize, i64)>,
    /// Everything fails from the first to the second moment.
    pub(crate) outage: Option<(Us, Us)>,
    /// The outage concerns one topic only.
    pub(crate) outage_topic: Option<usize>,
    /// Bounds of the time between random kills of members.
    pub(crate) kills: Option<(Us, Us)>,
    /// Bounds of the time between restarts of members in turn.
    pub(crate) deploys: Option<(Us, Us)>,
    pub(crate) seed: u64,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            partitions: 1,
            topics: 1,
            members: 1,
            client: Client::Java,
            handling_us: 5_000,
            habit: CommitHabit::EachBatch,
            exit: Exit::Killed,
            restart: Restart::AfterOneSecond,
            backlog: 20_000,
            rate: 0.0,
            end_us: 120 * MINUTE_US,
            poison: Vec::new(),
            outage: None,
            outage_topic: None,
            kills: None,
            deploys: None,
            seed: 1,
        }
    }
}

/// Trouble that a family of scripts has in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Healthy,
    Evictions,
    RandomKills,
    OutageMinutes(u64),
    TopicOutage,
    Poison,
    TwoPoisons,
}

/// Every script of a family, thinned to one in `step`.
pub(crate) fn scripts(family: Family, step: usize) -> Vec<Script> {
    let mut all = Vec::new();
    for (partitions, members) in [(1, 1), (6, 2), (50, 5)] {
        for client in [Client::Java, Client::Librdkafka] {
            for handling_us in [100, 5_000, 2_000_000] {
                for habit in HABITS {
                    for exit in [Exit::Killed, Exit::Leaves] {
                        for restart in [Restart::AfterOneSecond, Restart::BackOff] {
                            // 500 records of 2 s each exceed max.poll.interval.ms.
                            if handling_us == 2_000_000 && client == Client::Java {
                                continue;
                            }
                            let seed = u64::try_from(all.len()).unwrap() * 7919 + 1;
                            let script = Script {
                                partitions,
                                members,
                                client,
                                handling_us,
                                habit,
                                exit,
                                restart,
                                seed,
                                ..Script::default()
                            };
                            all.extend(family.apply(script));
                        }
                    }
                }
            }
        }
    }
    all.into_iter().step_by(step).collect()
}

impl Family {
    /// The script with the family's trouble; `None`: the trouble does not apply to it.
    fn apply(self, script: Script) -> Option<Script> {
        let share = script.members as f64 / script.partitions as f64;
        let capacity = 0.3e6 / script.handling_us as f64 * share;
        let rate = capacity.min(20.0 / script.partitions as f64);
        let backlog = 20_000 / script.partitions as i64 + 1000;
        let script = Script { backlog, rate, ..script };
        let poison_at = 100 + (script.seed % 900) as i64;
        let poisoned = script.seed as usize % script.partitions;
        let second = (poisoned + 1) % script.partitions;
        Some(match self {
            Self::Healthy if script.exit == Exit::Leaves => {
                Script { deploys: Some((30 * SECOND_US, 10 * MINUTE_US)), ..script }
            }
            Self::Healthy => Script { deploys: Some((MINUTE_US, 10 * MINUTE_US)), ..script },
            Self::Evictions => match script.habit {
                CommitHabit::OnClose | CommitHabit::EveryRecords(_) => return None,
                _ => Script { deploys: Some((30 * SECOND_US, 2 * MINUTE_US)), ..script },
            },
            Self::RandomKills => Script { kills: Some((20 * SECOND_US, 2 * MINUTE_US)), ..script },
            Self::OutageMinutes(minutes) => {
                let outage = Some((5 * SECOND_US, 5 * SECOND_US + minutes * MINUTE_US));
                Script { outage, rate: 0.0, ..script }
            }
            Self::TopicOutage if script.partitions == 1 => return None,
            Self::TopicOutage => {
                let outage = Some((5 * SECOND_US, 5 * SECOND_US + 60 * MINUTE_US));
                Script { topics: 2, outage, outage_topic: Some(0), ..script }
            }
            Self::Poison => {
                let end_us = 167 * MINUTE_US;
                Script { poison: vec![(poisoned, poison_at)], end_us, ..script }
            }
            Self::TwoPoisons => {
                let poison = vec![(poisoned, poison_at), (second, poison_at + 37)];
                Script { poison, end_us: 167 * MINUTE_US, ..script }
            }
        })
    }
}
