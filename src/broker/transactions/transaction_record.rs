//! Format of a transactional id in the journal.

use std::collections::BTreeMap;

use crate::broker::fact_encoding::{self, FactError};
use crate::broker::transactions::state::Transaction;
use crate::journal::EncodedHead;

pub(super) const WHAT: &str = "transactional id";
const VERSION: u8 = 1;
/// The fields of version 1, then the order of each pending offset.
const ORDERED_VERSION: u8 = 2;

pub(super) fn write(transaction: &Transaction) -> EncodedHead {
    let pending = transaction.groups.values().flat_map(BTreeMap::values);
    let orders: Vec<u64> = pending.map(|pending| pending.order).collect();
    if orders.iter().all(|order| *order == 0) {
        return fact_encoding::write(VERSION, transaction);
    }
    fact_encoding::write(ORDERED_VERSION, &(transaction, orders))
}

/// Reads a transactional id; order 0 means the sequence of this entry.
pub(super) fn read(head: &[u8]) -> Result<Transaction, FactError> {
    if head.first() == Some(&VERSION) {
        return fact_encoding::read(WHAT, VERSION, head);
    }
    let (mut transaction, orders): (Transaction, Vec<u64>) =
        fact_encoding::read(WHAT, ORDERED_VERSION, head)?;
    transaction.pending_mut().zip(orders).for_each(|(pending, order)| pending.order = order);
    Ok(transaction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::offsets::CommitItem;
    use crate::broker::transactions::state::{Joining, TransactionPartition};
    use crate::model::WallMs;

    #[test]
    fn a_version_one_transaction_stays_readable() {
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
        let open = begun.joined((1000, 1), joining, WallMs(3)).unwrap().unwrap();
        let (_, held) = open.holding(&"r".into(), (4, 3), WallMs(3)).unwrap().unwrap();
        let open = open.after(held);
        let fixture = b"\x01\xd0\x0f\x02\x01\xd0\x0f\x00\xe0\xd4\x03\x01\x06\x06\
            \x01\x07\x01o\x02\x01\x01g\x01\x01t\x04\xd8\x0c\x01\x01m\
            \x01\x00\x08\x01r\x03";
        assert_eq!(write(&open)[..], fixture[..]);
        assert_eq!(read(fixture).unwrap(), open);
        assert!(matches!(read(b"\x03\xd0"), Err(FactError::Newer { .. })));
        let mut ordered = open;
        ordered.set_order(261);
        let mut fixture = fixture.to_vec();
        fixture[0] = 2;
        fixture.extend(b"\x01\x85\x02");
        assert_eq!(write(&ordered)[..], fixture[..]);
        assert_eq!(read(&fixture).unwrap(), ordered);
    }
}
