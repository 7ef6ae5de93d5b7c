//! Truth table of nacks: the kind of name × the state of the entry → the verdict.

/// Name of a record in a nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// The last delivery of the entry, by its retry-partition offset.
    CurrentDelivery,
    /// An earlier delivery of the entry.
    OlderDelivery,
    /// A retry-partition offset that no entry remembers.
    UnknownDelivery,
    /// Such an offset, whose copied headers name the record.
    Copied {
        /// The ledger has no newer delivery.
        is_last: bool,
    },
    /// The record's origin.
    Origin {
        /// The group's committed offset is past the origin.
        commit_past: bool,
    },
    /// The record's offset, in the metadata of a commit of its own partition.
    Marked,
}

impl NameKind {
    /// The nack names the record as produced.
    fn is_the_origin(self) -> bool {
        matches!(self, Self::Origin { .. } | Self::Marked)
    }
}

/// State of the named record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordState {
    None,
    /// Waiting for its next delivery.
    Waiting,
    /// Delivered, and neither acknowledged nor failed.
    Unread,
    /// The group has committed past the last delivery.
    Committed,
    /// A dead letter for at most the consume timeout.
    Dead,
    /// A dead letter for longer.
    DeadLongAgo,
    Discarded,
    /// Waiting with inferred failures only, and not delivered since.
    Inferred,
}

/// Effect of a nack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NackVerdict {
    /// First failure: a new entry begins.
    Begin,
    /// One more failure; an acknowledged entry becomes pending again.
    Charge,
    /// Confirms an inferred failure without a second charge. No later commit takes it back.
    Confirm,
    /// Redrives the dead letter: its failures begin at 0.
    Redrive,
    /// One more failure of a record that was final here, and that another sidecar released again.
    Return,
    /// Accepted without effect: the failure is known.
    Acknowledge,
    /// Refused: no entry is known by that name.
    Refuse,
}

/// The verdict of one nack. First deliveries and retries use the same table.
#[expect(clippy::match_same_arms, reason = "the arms are the table's rows, in its order")]
pub fn judge(named: NameKind, seen: RecordState) -> NackVerdict {
    use NackVerdict::{Acknowledge, Begin, Charge, Confirm, Redrive, Refuse, Return};
    match (named, seen) {
        // copied headers | the newest delivery: not noted, come twice, or by another sidecar |
        // charge
        (
            NameKind::Copied { is_last: true },
            RecordState::Waiting | RecordState::Unread | RecordState::Committed,
        ) => Charge,
        // copied headers | the newest delivery, of a record that is final here: another sidecar
        // has sent it back | charge, with the bytes of the nack
        (
            NameKind::Copied { is_last: true },
            RecordState::Dead | RecordState::DeadLongAgo | RecordState::Discarded,
        ) => Return,
        // copied headers | none | a delivery by another sidecar
        (NameKind::Copied { .. }, RecordState::None) => Begin,
        // copied headers | anything else | acknowledge, charge nothing
        (NameKind::Copied { .. }, _) => Acknowledge,
        // the nack names a delivery, and there was none
        (_, RecordState::Inferred) if !named.is_the_origin() => Refuse,
        // the current delivery | Unread or Committed | charge
        (NameKind::CurrentDelivery, RecordState::Unread | RecordState::Committed) => Charge,
        // the entry has left that delivery: an older one
        (
            NameKind::CurrentDelivery,
            RecordState::Waiting
            | RecordState::Dead
            | RecordState::DeadLongAgo
            | RecordState::Discarded,
        ) => Acknowledge,
        // an older delivery of the entry | any | acknowledge, charge nothing
        (NameKind::OlderDelivery, seen) if seen != RecordState::None => Acknowledge,
        // a delivery of no known entry | the edge asks the log for it
        (NameKind::CurrentDelivery | NameKind::OlderDelivery | NameKind::UnknownDelivery, _) => {
            Refuse
        }
        // the origin | none | first failure, also when the commit came first
        (NameKind::Origin { .. }, RecordState::None) => Begin,
        // the origin, or its offset in metadata | inferred failures only, not delivered since |
        // confirm: that delivery has failed
        (NameKind::Origin { .. } | NameKind::Marked, RecordState::Inferred) => Confirm,
        // the origin | Unread, and the committed offset is past the origin | charge
        (NameKind::Origin { commit_past: true }, RecordState::Unread) => Charge,
        // the origin | a dead letter for longer than the consume timeout, and the committed
        // offset is past it: no delivery of the origin is left that could have failed | redrive
        (NameKind::Origin { commit_past: true }, RecordState::DeadLongAgo) => Redrive,
        // the origin | anything else | acknowledge, charge nothing
        (NameKind::Origin { .. }, _) => Acknowledge,
        // an offset in a commit's metadata | none | first failure
        (NameKind::Marked, RecordState::None) => Begin,
        // an offset in a commit's metadata | anything else | acknowledge: applications commit the
        // same offsets and metadata again and again; a failed retry is named by its delivery
        (NameKind::Marked, _) => Acknowledge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: [RecordState; 8] = [
        RecordState::None,
        RecordState::Waiting,
        RecordState::Unread,
        RecordState::Committed,
        RecordState::Dead,
        RecordState::DeadLongAgo,
        RecordState::Discarded,
        RecordState::Inferred,
    ];

    #[test]
    fn the_table_has_one_answer_for_every_case() {
        use NackVerdict::{
            Acknowledge as A, Begin as B, Charge as C, Confirm as F, Redrive as D, Refuse as R,
            Return as T,
        };
        // none waiting unread committed dead dead-long discarded inferred
        let table = [
            (NameKind::CurrentDelivery, [R, A, C, C, A, A, A, R]),
            (NameKind::OlderDelivery, [R, A, A, A, A, A, A, R]),
            (NameKind::UnknownDelivery, [R, R, R, R, R, R, R, R]),
            (NameKind::Copied { is_last: true }, [B, C, C, C, T, T, T, A]),
            (NameKind::Copied { is_last: false }, [B, A, A, A, A, A, A, A]),
            (NameKind::Origin { commit_past: false }, [B, A, A, A, A, A, A, F]),
            (NameKind::Origin { commit_past: true }, [B, A, C, A, A, D, A, F]),
            (NameKind::Marked, [B, A, A, A, A, A, A, F]),
        ];
        for (named, expected) in table {
            assert_eq!(SEEN.map(|seen| judge(named, seen)), expected, "{named:?}");
        }
    }
}
