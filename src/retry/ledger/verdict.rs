//! The truth table of a nack: what it names × what is known → what it counts as.

/// How a nack names a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// By the last hand-out of the entry, through its lane offset.
    CurrentLane,
    /// By an earlier hand-out of the entry.
    OlderLane,
    /// By a lane offset no entry remembers.
    UnknownLane,
    /// By the record's true origin.
    Origin {
        /// The group's committed offset is past the origin.
        commit_past: bool,
    },
    /// By its place, in the metadata of a commit of its own partition.
    Marked,
}

impl Named {
    /// By where the record was produced.
    fn is_the_origin(self) -> bool {
        matches!(self, Self::Origin { .. } | Self::Marked)
    }
}

/// What is known of the record it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No entry.
    None,
    /// An entry that waits.
    Waiting,
    /// One behind another of its key, that was not said to have failed.
    Behind,
    /// An entry that is handed out.
    Inflight,
    /// An entry acknowledged at most the consume timeout ago.
    CommittedLately,
    /// An entry acknowledged before that.
    CommittedLongAgo,
    /// A dead letter since at most the consume timeout.
    Dead,
    /// A dead letter since before that.
    DeadLongAgo,
    /// A dropped one.
    Discarded,
    /// An entry that waits and never left: inference alone has charged it.
    Inferred,
}

/// What the nack counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first failure: an entry begins.
    Begin,
    /// One failure more; an acknowledged entry is alive again.
    Charge,
    /// The failure that was charged by inference: it is the application's word from now on, which
    /// no commit takes back. Its delivery is not charged twice.
    Confirm,
    /// The dead letter is sent back: its failures begin at 0.
    Redrive,
    /// Known already: say yes, change nothing.
    Acknowledge,
    /// Too late to be counted right: say no.
    Refuse,
}

/// A nack names a hand-out; application code is the same for a first delivery and a retry.
#[expect(clippy::match_same_arms, reason = "the arms are the table's rows, in its order")]
pub fn judge(named: Named, seen: Seen) -> Verdict {
    use Verdict::{Acknowledge, Begin, Charge, Confirm, Redrive, Refuse};
    match (named, seen) {
        // it names a hand-out, and there was none
        (_, Seen::Inferred) if !named.is_the_origin() => Refuse,
        // its current lane offset | Inflight, or Committed ≤ consume_timeout ago | charge
        (Named::CurrentLane, Seen::Inflight | Seen::CommittedLately) => Charge,
        // the entry has left that hand-out: it is an older one
        (
            Named::CurrentLane,
            Seen::Waiting | Seen::Behind | Seen::Dead | Seen::DeadLongAgo | Seen::Discarded,
        ) => Acknowledge,
        // settled longer ago than a failure is counted: a yes would lose it
        (Named::CurrentLane, Seen::CommittedLongAgo) => Refuse,
        // an older lane offset of it | any | acknowledge, charge nothing
        (Named::OlderLane, seen) if seen != Seen::None => Acknowledge,
        // an entry no longer remembered is refused, never begun at 0
        (Named::CurrentLane | Named::OlderLane | Named::UnknownLane, _) => Refuse,
        // the true origin | none | first failure, also when the commit came first
        (Named::Origin { .. }, Seen::None) => Begin,
        // the true origin, or its offset in metadata | put behind another of its key since it
        // was handed out | charge: that hand-out has failed
        (Named::Origin { .. } | Named::Marked, Seen::Behind) => Charge,
        // the true origin, or its offset in metadata | charged by inference, and never left |
        // confirm: that delivery has failed
        (Named::Origin { .. } | Named::Marked, Seen::Inferred) => Confirm,
        // the true origin | Inflight, and the committed offset is past the origin | charge
        (Named::Origin { commit_past: true }, Seen::Inflight) => Charge,
        // the true origin | a dead letter for longer than the consume timeout, and the committed
        // offset is past it: no delivery of the origin is left that could have failed | redrive
        (Named::Origin { commit_past: true }, Seen::DeadLongAgo) => Redrive,
        // the true origin | anything else | acknowledge, charge nothing
        (Named::Origin { .. }, _) => Acknowledge,
        // its offset in a commit's metadata | none | first failure
        (Named::Marked, Seen::None) => Begin,
        // its offset in a commit's metadata | anything else | acknowledge: applications commit the
        // same offsets and metadata again and again; a failed retry is named by its hand-out
        (Named::Marked, _) => Acknowledge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: [Seen; 10] = [
        Seen::None,
        Seen::Waiting,
        Seen::Behind,
        Seen::Inflight,
        Seen::CommittedLately,
        Seen::CommittedLongAgo,
        Seen::Dead,
        Seen::DeadLongAgo,
        Seen::Discarded,
        Seen::Inferred,
    ];

    #[test]
    fn the_table_has_one_answer_for_every_case() {
        use Verdict::{
            Acknowledge as A, Begin as B, Charge as C, Confirm as F, Redrive as D, Refuse as R,
        };
        // none waiting behind inflight lately long-ago dead dead-long discarded inferred
        let table = [
            (Named::CurrentLane, [R, A, A, C, C, R, A, A, A, R]),
            (Named::OlderLane, [R, A, A, A, A, A, A, A, A, R]),
            (Named::UnknownLane, [R, R, R, R, R, R, R, R, R, R]),
            (Named::Origin { commit_past: false }, [B, A, C, A, A, A, A, A, A, F]),
            (Named::Origin { commit_past: true }, [B, A, C, C, A, A, A, D, A, F]),
            (Named::Marked, [B, A, C, A, A, A, A, A, A, F]),
        ];
        for (named, expected) in table {
            assert_eq!(SEEN.map(|seen| judge(named, seen)), expected, "{named:?}");
        }
    }
}
