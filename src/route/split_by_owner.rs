//! Requests of tools that name resources of the cluster and of this node: each part goes to its
//! owner.

use kafka_protocol::protocol::{Decodable, Request};

use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// Asks the cluster about its own resources. Returns the rest of the request for this node, and the
/// cluster's answer, which is empty if all resources are ours.
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
