//! What has become of the transaction of a record that was put behind another one of its key: while
//! it is open the record is given to nobody, and once it is aborted it is a record no more.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::LaneRecord;
use crate::model::{GroupId, Origin, TopicPartition};
use crate::route::Router;
use crate::route::place::Place;
use crate::route::watching::place_of;
use crate::upstream::{Found, Upstream};

/// How long the cluster has to say so; then it is asked another time.
const PATIENCE: Duration = Duration::from_secs(2);

/// What its transaction has made of a record, if it is one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stands,
    Open,
    TakenBack,
}

/// Those that may leave now. Of the others the engine is told.
pub(super) async fn leaving(
    router: &Router,
    group: &GroupId,
    taken: Vec<LaneRecord>,
) -> Vec<LaneRecord> {
    let (mut leaving, mut open) = (Vec::with_capacity(taken.len()), Opens::default());
    for one in taken {
        let fate = match (known(router, &one), &one.unfailed) {
            (Some(fate), _) => fate,
            (None, Some(origin)) => open.fate(router, group, origin).await,
            (None, None) => Fate::Stands,
        };
        match (fate, &one.unfailed) {
            (Fate::Open, Some(origin)) => router.engine.undecided(group, origin.clone()),
            (Fate::TakenBack, Some(origin)) => router.engine.taken_back(group, origin.clone()),
            _ => leaving.push(one),
        }
    }
    leaving
}

/// As far as nobody has to be asked.
pub(super) fn known(router: &Router, one: &LaneRecord) -> Option<Fate> {
    let Some(origin) = &one.unfailed else { return Some(Fate::Stands) };
    let Some(Place::Local(topic)) = router.place(&origin.topic) else {
        return (!one.is_undecided).then_some(Fate::Stands);
    };
    let Some(of) = topic.partition(origin.partition) else { return Some(Fate::Stands) };
    Some(if router.broker.is_undecided(of, origin.offset) {
        Fate::Open
    } else if router.broker.is_taken_back(of, origin.offset) {
        Fate::TakenBack
    } else {
        Fate::Stands
    })
}

/// Where transactions of the cluster are open, as it has just said: all that lies behind is
/// undecided too, and nobody asks for it.
#[derive(Default)]
struct Opens(BTreeMap<TopicPartition, i64>);

impl Opens {
    async fn fate(&mut self, router: &Router, group: &GroupId, origin: &Origin) -> Fate {
        let Some(upstream) = &router.upstream else { return Fate::Stands };
        let of = place_of(origin);
        if self.0.get(&of).is_some_and(|first| *first <= origin.offset) {
            return Fate::Open;
        }
        let asked = asked(router, upstream, group, origin);
        let fate = tokio::time::timeout(PATIENCE, asked).await.unwrap_or(Fate::Open);
        if fate == Fate::Open {
            self.0.insert(of, origin.offset);
        }
        fate
    }
}

/// As the cluster says, on a connection of our own: nothing of the record is told to anybody. Where
/// it tells us nothing, or lets us not even in, members of the group are asked.
async fn asked(router: &Router, upstream: &Upstream, group: &GroupId, origin: &Origin) -> Fate {
    let found = match upstream.peek_record(origin).await {
        Ok(Found::Denied) | Err(_) => {
            let counts = |found: &Found| !matches!(found, Found::Elsewhere | Found::Denied);
            router.said_to_members(group, None, origin, counts).await.unwrap_or_default()
        }
        Ok(found) => Some(found),
    };
    match found {
        Some(Found::TakenBack) => Fate::TakenBack,
        None | Some(Found::Elsewhere | Found::Denied) => Fate::Open,
        // What is gone by retention was decided long before, and is kept here; a newer record of
        // its key has emptied its place for who reads the log, not for who waits for it here.
        Some(
            Found::Record(_) | Found::Gone | Found::Empty | Found::Unreadable(_) | Found::Damaged,
        ) => Fate::Stands,
    }
}
