//! Sentences for the operator that follow from a group's figures.

use crate::api::{ElsewhereView, GroupView};

impl GroupView {
    /// The topic of an origin `<topic>-<partition>@<offset>`.
    pub(super) fn topic_of(origin: &str) -> &str {
        origin.rsplit_once('@').and_then(|(place, _)| place.rsplit_once('-')).map_or("", |p| p.0)
    }

    /// Adds the sentences that follow from the figures.
    pub fn advise(&mut self) {
        let takers = self.takers();
        if takers.is_none() && self.dead_letters > 0 {
            let says = |why| format!("`reprise dlq redrive` is refused: {why}");
            self.advice.extend(self.no_receiver.as_ref().map(says));
        }
        self.advice.extend(takers);
        self.advice.extend(self.refusal.as_ref().map(|why| match self.refused {
            1 => format!("1 record is blocked and tried again every 30 s: {why}"),
            n => format!("{n} records are blocked and tried again every 30 s, one since {why}"),
        }));
        self.advice.extend(self.disconnected());
        if !self.policy.keep_dead_letters {
            self.advice.push("exhausted records are dropped: dead_letters.keep is off".to_owned());
        }
        self.advice.extend(self.room());
        self.advice.extend(self.letter_trouble.as_ref().map(|why| {
            let (blocked, topic) = (self.states.blocked, &self.dead_letter_topic);
            format!(
                "{blocked} exhausted records wait here for {topic} of the cluster: {why}. They are \
                 kept, and written as soon as it takes them"
            )
        }));
    }

    /// Adds the sentence for due retries whose topic nobody reads, while another one is read.
    pub fn advise_reader(&mut self, count: u64, topic: &str) {
        let wait = wait(count);
        self.advice.push(format!(
            "{wait}: {topic} has no reader. Add it to the subscription of the listener that reads \
             its topic"
        ));
    }

    /// The reason why no live member takes the retries that wait, and the remedy; `None` while a
    /// member takes them.
    fn takers(&self) -> Option<String> {
        let owed = self.states.owed();
        let is_taken_elsewhere = self.elsewhere.is_some_and(|away| away.subscribed > 0)
            || self.is_read && self.states.due > 0;
        if owed == 0 || is_taken_elsewhere || self.live_members().any(|member| member.takes_retries)
        {
            return None;
        }
        let topic = &self.retry_topic;
        let wait = wait(owed);
        let live = self.live_members().count();
        let (subject, way_out) = match (live, self.members.len() - live) {
            (0, 0) if self.in_cluster => (
                "the group has no member that is connected through this sidecar".to_owned(),
                format!("Start the application with {topic} in its subscription"),
            ),
            (0, 0) => (
                "the group has no members".to_owned(),
                format!("Start the application with {topic} in its subscription"),
            ),
            (0, n) => (
                format!("{} heard of for the session timeout", not_one(n)),
                "Start the application again; its retries then flow at once".to_owned(),
            ),
            (n, _) => (
                format!("{topic} has no subscriber: {} to it", not_subscribed(n)),
                "Add it to the application's subscription, next to its own topics; they then flow \
                 at once"
                    .to_owned(),
            ),
        };
        let elsewhere = self.elsewhere.map(ElsewhereView::sentence).unwrap_or_default();
        Some(format!("{wait}: {subject}. {way_out}{elsewhere}"))
    }

    /// Members that have ended without leaving: their partitions wait for them.
    fn disconnected(&self) -> Option<String> {
        let members = self.live_members().filter(|member| member.disconnected);
        let sessions: Vec<u64> = members.map(|member| member.session_ms).collect();
        let seconds = sessions.iter().max()?.div_ceil(1_000);
        Some(match sessions.len() {
            1 => format!(
                "a member is gone; the group waits up to {seconds} s for it, because it did not \
                 leave. Close a consumer that ends"
            ),
            n => format!(
                "{n} members are gone; the group waits up to {seconds} s for them, because they \
                 did not leave. Close a consumer that ends"
            ),
        })
    }

    /// Advice on the room for dead letters.
    fn room(&self) -> Option<String> {
        let most = self.policy.dead_letters_max_bytes.filter(|_| self.policy.keep_dead_letters)?;
        let (bytes, topic) = (self.dead_letter_bytes, &self.dead_letter_topic);
        let is_near = bytes.saturating_mul(5) >= most.saturating_mul(4);
        let without_room = if self.dead_letters_full {
            self.states.blocked.saturating_sub(self.refused)
        } else {
            0
        };
        let blocked = match without_room {
            0 if is_near => {
                return Some(format!(
                    "{topic} takes {bytes} of {most} bytes (dead_letters.max_bytes): when it is \
                     full, exhausted records are blocked. Raise the bound in time"
                ));
            }
            0 => return None,
            1 => "1 exhausted record is blocked".to_owned(),
            n => format!("{n} exhausted records are blocked"),
        };
        let why = if is_near { "is full" } else { "has no room for a record of that size" };
        Some(format!(
            "{blocked}, not handed out again: {topic} {why} ({bytes} of {most} bytes, \
             dead_letters.max_bytes). Raise the bound and reload (SIGHUP): they become dead \
             letters at once; with dead_letters.keep off they are dropped"
        ))
    }
}

fn not_one(members: usize) -> String {
    match members {
        1 => "its only member was not".to_owned(),
        n => format!("none of its {n} members was"),
    }
}

fn not_subscribed(members: usize) -> String {
    match members {
        1 => "the only member here does not subscribe".to_owned(),
        n => format!("none of the {n} members here subscribes"),
    }
}

impl ElsewhereView {
    fn sentence(self) -> &'static str {
        match self.members {
            0 => "",
            1 => ". 1 member is connected elsewhere, and does not subscribe either",
            _ => ". Members are connected elsewhere, and do not subscribe either",
        }
    }
}

/// Such as `2 failed records wait`.
fn wait(count: u64) -> String {
    match count {
        1 => "1 failed record waits".to_owned(),
        n => format!("{n} failed records wait"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::StateCounts;
    use crate::api::{MemberView, PolicyView};

    /// The advice for two due records of a group with these members: silent, takes retries.
    fn due(members: &[(bool, bool)], in_cluster: bool, elsewhere: Option<(u64, u64)>) -> String {
        let member =
            |(silent, takes_retries)| MemberView { silent, takes_retries, ..MemberView::default() };
        let view = |(members, subscribed)| ElsewhereView { members, subscribed };
        let mut group = GroupView {
            retry_topic: "reprise.retry.shop".into(),
            policy: PolicyView { keep_dead_letters: true, ..PolicyView::default() },
            states: StateCounts { due: 2, ..StateCounts::default() },
            members: members.iter().copied().map(member).collect(),
            in_cluster,
            elsewhere: elsewhere.map(view),
            ..GroupView::default()
        };
        group.advise();
        group.advice.join("; ")
    }

    #[test]
    fn advice_on_due_retries_names_the_reason() {
        let says = |said: &str, part: &str| assert!(said.contains(part), "{said}");
        says(&due(&[], false, None), "wait: the group has no members. Start the application");
        says(&due(&[], true, None), "no member that is connected through this sidecar");
        says(&due(&[(true, true)], true, None), "its only member was not heard of");
        says(&due(&[(true, true); 2], true, None), "none of its 2 members was heard of");
        let one = due(&[(false, false), (true, true)], true, None);
        says(&one, "reprise.retry.shop has no subscriber: the only member here does not");
        let two = due(&[(false, false); 2], true, Some((1, 0)));
        says(&two, "none of the 2 members here subscribes");
        says(&two, "1 member is connected elsewhere, and does not subscribe either");
        assert_eq!(due(&[(false, false)], true, Some((3, 2))), "", "a taker elsewhere");
        assert_eq!(due(&[(false, true), (true, true)], true, None), "", "a live taker");
    }

    #[test]
    fn a_group_that_owes_nothing_gets_no_advice() {
        let policy = PolicyView { keep_dead_letters: true, ..PolicyView::default() };
        let mut idle = GroupView { policy, ..GroupView::default() };
        idle.advise();
        assert_eq!(idle.advice, Vec::<String>::new());
    }

    fn advice(keep: bool, bytes_max: Option<u64>, bytes: u64, blocked: u64) -> String {
        let policy = PolicyView {
            keep_dead_letters: keep,
            dead_letters_max_bytes: bytes_max,
            ..PolicyView::default()
        };
        let mut group = GroupView {
            dead_letter_topic: "reprise.dlq.shop".into(),
            policy,
            dead_letter_bytes: bytes,
            states: StateCounts { blocked, ..StateCounts::default() },
            dead_letters_full: blocked > 0,
            ..GroupView::default()
        };
        group.advise();
        group.advice.join("; ")
    }

    #[test]
    fn advice_names_why_dead_letters_do_not_reach_the_cluster() {
        let told = |trouble: Option<&str>| {
            let policy = PolicyView { keep_dead_letters: true, ..PolicyView::default() };
            let mut group = GroupView {
                policy,
                dead_letter_topic: "failed".to_owned(),
                letter_trouble: trouble.map(str::to_owned),
                states: StateCounts { blocked: 3, ..StateCounts::default() },
                in_cluster: true,
                ..GroupView::default()
            };
            group.advise();
            group.advice.join("; ")
        };
        assert_eq!(told(None), "");
        let waits = told(Some("nobody answers"));
        assert!(
            waits.starts_with("3 exhausted records wait here for failed of the cluster: nobody")
        );
    }

    #[test]
    fn advice_warns_of_a_nearly_full_quota_and_held_records() {
        for silent in [(None, 900, 0), (Some(1000), 799, 0)] {
            assert_eq!(advice(true, silent.0, silent.1, silent.2), "", "{silent:?}");
        }
        assert!(
            advice(true, Some(1000), 800, 0)
                .starts_with("reprise.dlq.shop takes 800 of 1000 bytes")
        );
        let full = advice(true, Some(1000), 900, 3);
        assert!(
            full.starts_with("3 exhausted records are blocked, not handed out again"),
            "{full}"
        );
        assert!(full.contains("reprise.dlq.shop is full (900 of 1000 bytes"), "{full}");
        let large = advice(true, Some(1000), 10, 1);
        assert!(
            large.contains("reprise.dlq.shop has no room for a record of that size"),
            "{large}"
        );
        assert!(!advice(false, Some(1000), 900, 0).contains("max_bytes"));
    }
}
