//! The owner of groups and their offsets: the embedded cluster, or the cluster behind.
//!
//! A handler takes out of a request what is ours, asks the owner for the rest, learns from the
//! answer, and puts ours back. Both owners are asked with the same messages, so that each rule of
//! such an API stands once.

use std::time::Duration;

use kafka_protocol::protocol::{Decodable, Request};

use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::upstream::{Link, UpstreamError};
use crate::wire::RequestHead;

/// The owner of a group.
pub(in crate::route) enum GroupOwner<'a> {
    Node,
    Cluster(&'a mut Link),
}

/// A request in the hands of its handler.
#[derive(Clone, Copy)]
pub(in crate::route) struct RequestContext<'a> {
    pub(in crate::route) router: &'a Router,
    pub(in crate::route) conn: &'a Conn,
    pub(in crate::route) head: &'a RequestHead,
    /// The time of its arrival.
    pub(in crate::route) began: Duration,
}

/// A request that either owner answers.
pub(in crate::route) trait OwnedRequest: Request {
    /// The answer of the embedded cluster.
    fn answered_here(&self, at: RequestContext<'_>) -> impl Future<Output = Self::Response> + Send;
}

/// A request and the owner that answers it.
pub(in crate::route) struct OwnerCall<'a> {
    pub(in crate::route) at: RequestContext<'a>,
    pub(in crate::route) owner: GroupOwner<'a>,
}

impl<'a> OwnerCall<'a> {
    pub(in crate::route) fn here(
        router: &'a Router,
        conn: &'a Conn,
        head: &'a RequestHead,
    ) -> Self {
        let began = router.clock.elapsed();
        Self { at: RequestContext { router, conn, head, began }, owner: GroupOwner::Node }
    }

    pub(in crate::route) fn behind(
        router: &'a Router,
        conn: &'a Conn,
        head: &'a RequestHead,
        link: &'a mut Link,
    ) -> Self {
        Self { owner: GroupOwner::Cluster(link), ..Self::here(router, conn, head) }
    }

    /// Whether the cluster behind is the owner.
    pub(in crate::route) fn is_behind(&self) -> bool {
        matches!(self.owner, GroupOwner::Cluster(_))
    }

    /// Asks the owner. An error ends the connection: its broker is lost.
    pub(in crate::route) async fn ask<Req>(
        &mut self,
        request: &Req,
    ) -> Result<Req::Response, UpstreamError>
    where
        Req: OwnedRequest,
        Req::Response: Decodable,
    {
        match &mut self.owner {
            GroupOwner::Node => Ok(request.answered_here(self.at).await),
            GroupOwner::Cluster(link) => link.call(self.at.head, request).await,
        }
    }
}
