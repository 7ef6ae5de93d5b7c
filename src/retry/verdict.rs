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
}

/// What is known of the record it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No entry.
    None,
    /// An entry that waits.
    Waiting,
    /// An entry that is handed out.
    Inflight,
    /// An entry acknowledged at most the consume timeout ago.
    CommittedLately,
    /// An entry acknowledged before that.
    CommittedLongAgo,
    /// A dead letter.
    Dead,
    /// A dropped one.
    Discarded,
}

/// What the nack counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first failure: an entry begins.
    Begin,
    /// One failure more; an acknowledged entry is alive again.
    Charge,
    /// Known already: say yes, change nothing.
    Acknowledge,
    /// Too late to be counted right: say no.
    Refuse,
}

/// A nack names a hand-out; application code is the same for a first delivery and a retry.
#[expect(clippy::match_same_arms, reason = "the arms are the table's rows, in its order")]
pub fn judge(named: Named, seen: Seen) -> Verdict {
    use Verdict::{Acknowledge, Begin, Charge, Refuse};
    match (named, seen) {
        // its current lane offset | Inflight, or Committed ≤ consume_timeout ago | charge
        (Named::CurrentLane, Seen::Inflight | Seen::CommittedLately) => Charge,
        // the entry has left that hand-out: it is an older one
        (Named::CurrentLane, Seen::Waiting | Seen::Dead | Seen::Discarded) => Acknowledge,
        // settled longer ago than a failure is counted: a yes would lose it
        (Named::CurrentLane, Seen::CommittedLongAgo) => Refuse,
        // an older lane offset of it | any | acknowledge, charge nothing
        (Named::OlderLane, seen) if seen != Seen::None => Acknowledge,
        // an entry no longer remembered is refused, never begun at 0
        (Named::CurrentLane | Named::OlderLane | Named::UnknownLane, _) => Refuse,
        // the true origin | none | first failure, also when the commit came first
        (Named::Origin { .. }, Seen::None) => Begin,
        // the true origin | Inflight, and the committed offset is past the origin | charge
        (Named::Origin { commit_past: true }, Seen::Inflight) => Charge,
        // the true origin | anything else | acknowledge, charge nothing
        (Named::Origin { .. }, _) => Acknowledge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: [Seen; 7] = [
        Seen::None,
        Seen::Waiting,
        Seen::Inflight,
        Seen::CommittedLately,
        Seen::CommittedLongAgo,
        Seen::Dead,
        Seen::Discarded,
    ];

    #[test]
    fn the_table_has_one_answer_for_every_case() {
        use Verdict::{Acknowledge as A, Begin as B, Charge as C, Refuse as R};
        //                       none waiting inflight lately long-ago dead discarded
        let table = [
            (Named::CurrentLane, [R, A, C, C, R, A, A]),
            (Named::OlderLane, [R, A, A, A, A, A, A]),
            (Named::UnknownLane, [R, R, R, R, R, R, R]),
            (Named::Origin { commit_past: false }, [B, A, A, A, A, A, A]),
            (Named::Origin { commit_past: true }, [B, A, C, A, A, A, A]),
        ];
        for (named, expected) in table {
            assert_eq!(SEEN.map(|seen| judge(named, seen)), expected, "{named:?}");
        }
    }
}
