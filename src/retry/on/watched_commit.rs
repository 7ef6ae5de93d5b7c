//! E6, E11: a group's commit, as far as its windows go.

use crate::model::{Now, TopicPartition};
use crate::retry::watch::Watch;

impl Watch {
    /// Whatever lies below a commit is acknowledged: no suspicion outlives it. One that goes back
    /// is a suspicion only if the member goes back with it.
    pub(in crate::retry) fn on_committed(&mut self, now: Now, of: &TopicPartition, offset: i64) {
        let window = self.windows.entry(of.clone()).or_default();
        let before = window.committed.replace(offset);
        window.backward = before.filter(|before| offset < *before).map(|_| offset);
        let known = (window.suspects.len(), window.skipped.len(), window.losses);
        window.suspects.retain(|suspect, _| *suspect >= offset);
        window.skipped.retain(|skipped| *skipped >= offset);
        window.nacked.retain(|nacked| *nacked >= offset);
        window.done.clear();
        window.lost.take_if(|lost| lost.end <= offset);
        if window.losses > 0 && offset >= window.suspects_end {
            window.clear();
        }
        let is_out = |out: i64| before.is_none_or(|before| before <= out) && out < offset;
        let holder = window.holder.as_ref().map(|holder| holder.member.clone());
        let is_news = known != (window.suspects.len(), window.skipped.len(), window.losses);
        let turn = holder.and_then(|member| self.members.get(&member)?.turn.as_ref());
        let of_turn = turn.is_some_and(|turn| {
            turn.partition == *of && turn.out.is_some_and(|out| is_out(out.offset))
        });
        if is_news || of_turn {
            self.changed(now, of);
        } else if !self.troubled.is_empty() {
            // Somebody may wait for nothing else to be out.
            self.push(crate::retry::watch::Output::Wake);
        }
        self.keep(now, of);
    }
}
