//! A request of a tool that names things of the cluster and things of ours, in front of a cluster:
//! each is asked for its own.

use kafka_protocol::protocol::{Decodable, Request};

use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// Asks the cluster for what is its own. Returns what is left for this node to answer, and the
/// cluster's answer: an empty one if all of it is ours.
pub(super) async fn ask_cluster<Req, Item>(
    link: &mut Link,
    head: &RequestHead,
    mut request: Req,
    named: fn(&mut Req) -> &mut Vec<Item>,
    is_ours: impl Fn(&Item) -> bool,
) -> Result<(Req, Req::Response), UpstreamError>
where
    Req: Request + Clone,
    Req::Response: Decodable + Default,
{
    let (ours, theirs): (Vec<_>, Vec<_>) =
        std::mem::take(named(&mut request)).into_iter().partition(is_ours);
    let asks = ours.is_empty() || !theirs.is_empty();
    let mut mine = request.clone();
    *named(&mut mine) = ours;
    *named(&mut request) = theirs;
    let told = if asks { link.call(head, &request).await? } else { Req::Response::default() };
    Ok((mine, told))
}
