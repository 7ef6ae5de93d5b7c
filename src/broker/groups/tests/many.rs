//! Ten thousand members of a thousand groups of both kinds, in virtual time.

use std::collections::BTreeSet;

use super::consumer::{beat, enters, image};
use super::*;
use crate::group::ConsumerHeartbeat;

const GROUPS: usize = 500;
const MEMBERS: usize = 10;
const LASTING_MS: u64 = 45_000;
/// Between two heartbeats of a member: three intervals are shorter than a session, four are longer.
const PACE_MS: u64 = 14_000;
/// Index of the group and the member that sends no heartbeats, for either kind.
const SILENT: (usize, usize) = (GROUPS - 1, MEMBERS - 1);

fn lasting(id: &str) -> JoinRequest {
    JoinRequest { member_id: id.into(), session_timeout_ms: LASTING_MS, ..join("range") }
}

fn groups(kind: &str) -> Vec<GroupId> {
    (0..GROUPS).map(|n| GroupId::new(&format!("{kind}-{n}"))).collect()
}

/// The next heartbeat of each KIP-848 member, by group.
type Beats = Vec<Vec<ConsumerHeartbeat>>;

impl House {
    /// Makes a stable classic group.
    async fn gather(&mut self, group: &GroupId) -> Vec<JoinResult> {
        let first = self.groups.join(group, lasting(""), |_| None).await.unwrap();
        let others = (1..MEMBERS).map(|_| self.groups.join(group, lasting(""), |_| None));
        let mut waiting: Vec<_> = others.map(Box::pin).collect();
        for join in &mut waiting {
            assert!(poll_immediate(join).await.is_none(), "the first is to join again");
        }
        let again = lasting(first.member_id.as_str());
        let mut joined = vec![self.groups.join(group, again, |_| None).await.unwrap()];
        for join in waiting {
            joined.push(join.await.unwrap());
        }
        let groups = self.groups.clone();
        let mut lead = pin!(groups.sync(group, assign(&joined[0])));
        assert!(poll_immediate(&mut lead).await.is_none(), "answered before it was durable");
        self.writer.step();
        lead.await.unwrap();
        joined
    }

    /// Sends the heartbeats of all members and stores the next ones.
    async fn speak(&mut self, groups: &[GroupId], beats: &mut Beats) {
        let known = self.groups.clone();
        let mut asked = Vec::new();
        for (g, (group, beats)) in groups.iter().zip(beats.iter()).enumerate() {
            for (m, beat) in beats.iter().enumerate().filter(|(m, _)| (g, *m) != SILENT) {
                let mut told =
                    Box::pin(known.consumer_heartbeat(group, beat.clone(), image, |_| None));
                // An answer comes at once, or when the changed state is durable.
                let early = poll_immediate(&mut told).await;
                asked.push((g, m, early, told));
            }
        }
        self.writer.step();
        for (g, m, early, told) in asked {
            let told = match early {
                Some(told) => told,
                None => told.await,
            };
            let id = format!("m{m}");
            let owned = Some(BTreeSet::new());
            beats[g][m] = ConsumerHeartbeat { owned, ..beat(&id, told.unwrap().epoch) };
        }
    }
}

#[tokio::test]
async fn ten_thousand_members_survive_a_power_cut_unless_silent() {
    let mut house = House::new();
    let (classic, consumer) = (groups("classic"), groups("consumer"));
    let mut joined = Vec::new();
    for group in &classic {
        joined.push(house.gather(group).await);
    }
    let all = (0..MEMBERS).map(|m| enters(&format!("m{m}"))).collect();
    let mut beats: Beats = vec![all; GROUPS];
    house.speak(&consumer, &mut beats).await;
    let silent = enters(&format!("m{}", SILENT.1));
    house.kept(&consumer[SILENT.0], silent).await;
    let mut house = house.power_cut();
    assert_eq!(house.groups.list().len(), 2 * GROUPS);
    for round in 0..4 {
        house.pass(PACE_MS);
        for (g, (group, members)) in classic.iter().zip(&joined).enumerate() {
            let is_last = round == 3 && g == SILENT.0;
            let told = if is_last { Err(GroupError::RebalanceInProgress) } else { Ok(()) };
            for (m, member) in members.iter().enumerate().filter(|(m, _)| (g, *m) != SILENT) {
                assert_eq!(house.beat(group, member), told, "{round}: {g}, {m}");
            }
        }
        house.speak(&consumer, &mut beats).await;
    }
    let mut gone = Vec::new();
    while let Ok(event) = house.events.try_recv() {
        if let GroupEvent::MemberGone { group, member_id, cause, .. } = event {
            assert_eq!(cause, GoneCause::Expired);
            gone.push((group, member_id));
        }
    }
    let last = joined[SILENT.0][SILENT.1].member_id.clone();
    let silent = [(&classic, last), (&consumer, "m9".into())];
    assert_eq!(gone, silent.map(|(groups, member)| (groups[SILENT.0].clone(), member)));
}
