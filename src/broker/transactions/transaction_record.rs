//! Format of a transactional id in the journal.

use crate::broker::fact_encoding::{self, FactError};
use crate::broker::transactions::state::Transaction;
use crate::journal::EncodedHead;

pub(super) const WHAT: &str = "transactional id";
const VERSION: u8 = 3;

pub(super) fn write(transaction: &Transaction) -> EncodedHead {
    fact_encoding::write(VERSION, transaction)
}

/// Reads a transactional id; order 0 means the sequence of this entry.
pub(super) fn read(head: &[u8]) -> Result<Transaction, FactError> {
    fact_encoding::read(WHAT, VERSION, head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::offsets::CommitItem;
    use crate::broker::transactions::state::{Joining, TransactionPartition};
    use crate::model::WallMs;

    #[test]
    fn the_layout_of_a_transaction_is_fixed() {
        let begun = Transaction::new(1000, 60_000, WallMs(1));
        let begun = begun.begun_anew(Some((1000, 0)), 60_000, WallMs(2), || None).unwrap().unwrap();
        let item = CommitItem {
            topic: "t".into(),
            partition: 2,
            offset: 812,
            leader_epoch: -1,
            metadata: "m".into(),
        };
        let part = TransactionPartition { stream: 7, topic: "o".into(), partition: 1 };
        let joining = Joining { parts: vec![part], group: Some("g".into()), items: vec![item] };
        let mut open = begun.joined((1000, 1), joining, WallMs(3)).unwrap().unwrap();
        open.set_order(261);
        let fixture = b"\x03\xd0\x0f\x02\x01\xd0\x0f\x00\xe0\xd4\x03\x01\x06\x06\
            \x01\x07\x01o\x02\x01\x01g\x01\x01t\x04\xd8\x0c\x01\x01m\x85\x02";
        assert_eq!(write(&open)[..], fixture[..]);
        assert_eq!(read(fixture).unwrap(), open);
        assert!(matches!(read(b"\x04\xd0"), Err(FactError::Newer { .. })));
    }
}
