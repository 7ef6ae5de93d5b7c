//! Fetch of a retry topic: a member's lane, or the snapshot for everyone else.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::engine::LaneRecord;
use crate::model::{GroupId, LaneOffset};
use crate::retry::TAKE_MAX;
use crate::route::conn::Conn;
use crate::route::fetch::{empty, refused};
use crate::route::place::Place;
use crate::route::{Router, code};

/// Records of the snapshot in one answer.
const SNAPSHOT_MAX: usize = 100;

/// Hands out what is due to the member whose slot `from` names; `is_lent`: the one record that may
/// be given while the group is held is in the same answer already.
pub(super) async fn take(
    router: &Router,
    conn: &Conn,
    (group, from): (&GroupId, LaneOffset),
    is_lent: bool,
) -> PartitionData {
    let (room, company) = router.lane_room(group, conn.id, from.slot);
    let room = room.map(|room| if is_lent { 0 } else { room });
    match router.engine.take(group, from, (room.unwrap_or(TAKE_MAX), company)).await {
        Ok(mut taken) => {
            taken.records.retain(|one| !is_taken_back(router, group, one));
            router.lane_taken((group, conn.id), from, room, &taken);
            let mut data = empty(taken.position.to_kafka(), taken.next.to_kafka());
            data.records = Some(join(&taken.records));
            data
        }
        Err(error) => {
            tracing::warn!(%group, %error, "a retry could not be handed out");
            refused(code::of_engine(&error))
        }
    }
}

/// Whether that is a record no more: put behind another one, its transaction open, now aborted.
fn is_taken_back(router: &Router, group: &GroupId, given: &LaneRecord) -> bool {
    let Some(origin) = &given.unfailed else { return false };
    let Some(Place::Local(topic)) = router.place(&origin.topic) else { return false };
    let partition = topic.partition(origin.partition);
    let is_it = partition.is_some_and(|of| router.broker.is_taken_back(of, origin.offset));
    if is_it {
        router.engine.taken_back(group, origin.clone());
    }
    is_it
}

/// What waits, oldest due first, at offsets from 0; nothing is handed out.
pub(super) async fn snapshot(router: &Router, group: &GroupId, from: i64) -> PartitionData {
    let first = usize::try_from(from).unwrap_or(0);
    match router.engine.snapshot(group, first, SNAPSHOT_MAX).await {
        Ok((total, records)) => {
            let end = i64::try_from(total).unwrap_or(i64::MAX).max(from);
            let mut data = empty(0, end);
            data.records = Some(join(&records));
            data
        }
        Err(error) => refused(code::of_engine(&error)),
    }
}

fn join(records: &[LaneRecord]) -> Bytes {
    let mut out = BytesMut::with_capacity(records.iter().map(|r| r.batch.len()).sum());
    for record in records {
        out.extend_from_slice(&record.batch);
    }
    out.freeze()
}
