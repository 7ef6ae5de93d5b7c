//! Data that a request to this node needs before it can be answered.

use crate::client::close_cause::CloseCause;
use crate::client::connection::Connection;
use crate::client::request_reader::RequestFrame;
use crate::route::Reply;
use crate::route::nacks::origin_records::ReadBack;
use crate::upstream::Link;
use crate::wire::{Api, RequestHead};

impl Connection {
    /// A Produce that can be answered without the broker, with the records that it refers to.
    pub(super) fn at_once(&self, frame: &RequestFrame) -> Option<(RequestHead, ReadBack)> {
        let Self { router, conn, .. } = self;
        let head = RequestHead::parse(&frame.bytes).ok().filter(|head| head.api == Api::Produce)?;
        let is_ready = router.unready(conn, &head).is_empty();
        let back = is_ready.then(|| router.named_ahead(conn, &head))?;
        back.is_whole().then_some((head, back))
    }

    /// The answer to a Produce at a broker: nacks are taken here, and the broker gets the rest.
    pub(super) async fn produce(
        &self,
        link: &mut Option<Link>,
        head: RequestHead,
    ) -> Result<Reply, CloseCause> {
        let back = self.prepare(link, &head).await?;
        let link = self.linked(link).await?;
        Ok(Box::pin(self.router.produce_with(&self.conn, (link, &back), head)).await)
    }

    /// Asks the broker for missing data; returns the records that the request refers to.
    pub(super) async fn prepare(
        &self,
        link: &mut Option<Link>,
        head: &RequestHead,
    ) -> Result<ReadBack, CloseCause> {
        let Self { router, conn, .. } = self;
        let unready = router.unready(conn, head);
        if !unready.is_empty() {
            let ready = router.make_ready(conn, self.linked(link).await?, head, unready);
            Box::pin(ready).await.map_err(|error| self.upstream_lost(&error))?;
        }
        let mut back = router.named_ahead(conn, head);
        if !back.is_whole() {
            let read = router.read_back(conn, self.linked(link).await?, head, &mut back);
            Box::pin(read).await.map_err(|error| self.upstream_lost(&error))?;
        }
        Ok(back)
    }
}
