//! Final records at the fetch offset.

use kafka_protocol::messages::fetch_response::AbortedTransaction;

use super::*;
use crate::route::fetch::plan::READ_COMMITTED;
use crate::wire::batch::{ProducerStamp, crc_of, produce_batch, rebase};

#[tokio::test]
async fn an_exhausted_record_is_read_and_finalized_before_the_fetch() {
    let plans = [
        plan([settling(5), FetchDecision::Open, FetchDecision::Open], None),
        plan([FetchDecision::Nothing, FetchDecision::Open, FetchDecision::Open], None),
    ];
    let went = went(plans, full).await;
    assert_eq!((went.settled.as_slice(), went.asked), (&[5][..], 2));
    assert_eq!(went.given(), [(0, None), (0, Some(6)), (0, Some(6))]);
    let partitions: Vec<_> = went.requests.iter().map(|row| row.0.clone()).collect();
    assert_eq!(partitions, [vec![0], vec![1, 2]]);
}

#[tokio::test]
async fn a_record_that_cannot_be_settled_now_holds_its_partition() {
    let at_its_end = plan([settling(5), FetchDecision::Open, FetchDecision::Nothing], None);
    let went = went_and(false, [at_its_end], full).await;
    assert_eq!(went.given(), [(0, None), (0, Some(6)), (0, None)]);
}

#[tokio::test]
async fn a_moved_record_is_reported_and_a_deleted_one_skipped() {
    let moved = ResponseError::NotLeaderOrFollower.code();
    let at_its_end = || [plan([settling(5), FetchDecision::Nothing, FetchDecision::Nothing], None)];
    let elsewhere =
        went(at_its_end(), move |asked| Some(each(asked, |data| data.error_code = moved)));
    let elsewhere = elsewhere.await;
    assert_eq!(elsewhere.given(), [(moved, None), (0, None), (0, None)]);
    assert_eq!(elsewhere.requests.len(), 1, "it is asked for once");
    let gone = went(at_its_end(), |asked| Some(each(asked, |data| data.high_watermark = 8)));
    let gone = gone.await;
    assert_eq!(gone.requests.len(), 2, "it is looked for, and then all is asked for");
    assert!(gone.settled.is_empty() && gone.no_more.is_empty());
}

#[tokio::test]
async fn a_broker_failure_during_a_record_read_ends_the_fetch() {
    let at_its_end = plan([settling(5), FetchDecision::Nothing, FetchDecision::Nothing], None);
    let went = went([at_its_end], |_| None).await;
    assert!(matches!(went.answer, Err(UpstreamError::Closed)), "{:?}", went.answer);
}

/// A record at offset 5, in a transaction of the producer 7.
fn transactional() -> Bytes {
    let batch = Batch::parse(&record_at(5)).unwrap();
    let record = records(&batch, usize::MAX).unwrap().next().unwrap().unwrap().into_raw();
    let stamp = ProducerStamp { id: 7, epoch: 0, sequence: 0 };
    let mut bytes = produce_batch(&[record], Some(stamp)).unwrap().to_vec();
    bytes[22] |= 1 << 4;
    let crc = crc_of(&bytes).unwrap();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    rebase(&mut bytes, 5, 0).unwrap();
    bytes.into()
}

#[tokio::test]
async fn aborted_and_compacted_records_are_not_finalized() {
    for first in [transactional(), empty_batch(5, 0)] {
        let plans = [
            plan([settling(5), FetchDecision::Nothing, FetchDecision::Nothing], None),
            plan(
                [FetchDecision::Without(vec![5]), FetchDecision::Nothing, FetchDecision::Nothing],
                None,
            ),
        ];
        let both: Bytes = [first, record_at(6)].concat().into();
        let went = went(plans, move |asked| {
            Some(each(asked, |data| {
                data.records = Some(both.clone());
                // `read_uncommitted` answers list no aborted transactions.
                if asked.isolation_level == READ_COMMITTED {
                    let aborted = AbortedTransaction::default().with_producer_id(7.into());
                    data.aborted_transactions = Some(vec![aborted.with_first_offset(5)]);
                }
            }))
        });
        let went = went.await;
        assert_eq!((went.no_more.as_slice(), went.asked), (&[5][..], 2));
        assert!(went.settled.is_empty());
        assert_eq!(went.offsets()[0], [6]);
    }
}
