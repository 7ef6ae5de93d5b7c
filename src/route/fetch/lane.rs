//! Fetch of a retry topic: a member's lane, or the snapshot for everyone else.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::PartitionData;

use crate::engine::LaneRecord;
use crate::model::{GroupId, LaneOffset, Origin};
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
            taken.records.retain(|one| leaves(router, group, one));
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

/// Whether that may leave: not what was put behind another one while its transaction was open, and
/// still is, or was aborted, which makes it a record no more.
fn leaves(router: &Router, group: &GroupId, taken: &LaneRecord) -> bool {
    let Some(origin) = &taken.unfailed else { return true };
    let fate = fate(router, origin);
    match fate {
        Fate::Stands => {}
        Fate::Open => router.engine.undecided(group, origin.clone()),
        Fate::TakenBack => router.engine.taken_back(group, origin.clone()),
    }
    fate == Fate::Stands
}

/// What its transaction has made of a record, if it is one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stands,
    Open,
    TakenBack,
}

fn fate(router: &Router, origin: &Origin) -> Fate {
    // Those of a cluster are not known here.
    let Some(Place::Local(topic)) = router.place(&origin.topic) else { return Fate::Stands };
    let Some(of) = topic.partition(origin.partition) else { return Fate::Stands };
    if router.broker.is_undecided(of, origin.offset) {
        Fate::Open
    } else if router.broker.is_taken_back(of, origin.offset) {
        Fate::TakenBack
    } else {
        Fate::Stands
    }
}

/// What waits, oldest due first, at offsets from 0; nothing is handed out.
pub(super) async fn snapshot(router: &Router, group: &GroupId, from: i64) -> PartitionData {
    let first = usize::try_from(from).unwrap_or(0);
    match router.engine.snapshot(group, first, SNAPSHOT_MAX).await {
        Ok((total, mut records)) => {
            let is_one = |one: &LaneRecord| {
                one.unfailed.as_ref().is_none_or(|of| fate(router, of) == Fate::Stands)
            };
            records.retain(is_one);
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
