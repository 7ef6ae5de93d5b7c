//! Requests that are read before they are relayed: Fetches of members, with their answers, and
//! Produces that may have nacks.

use std::future::ready;

use bytes::BytesMut;

use crate::client::close_cause::CloseCause;
use crate::client::connection::{Connection, ServedConnection, bytes_of};
use crate::client::outgoing;
use crate::client::pending_responses::{LocalResponse, PendingResponse, RelayedResponse};
use crate::client::request_reader::{GatheredRequest, RequestFrame};
use crate::route::ProduceOwner;
use crate::route::fetch::{RelayDecision, RelayedAnswer};
use crate::wire::Api;
use crate::wire::endpoints::Naming;
use crate::wire::frame::PREFIX_BYTES;
use crate::wire::relay::RequestStart;

impl ServedConnection<'_> {
    /// Relays a Fetch that may be a member's, unless records are withheld from it.
    pub(super) async fn take_gathered(
        &mut self,
        mut gathered: GatheredRequest,
    ) -> Result<(), CloseCause> {
        let Connection { router, conn, .. } = self.connection;
        self.in_sasl = false;
        if gathered.start.api_key == Api::Produce.key() {
            return self.take_produce(gathered).await;
        }
        match router.onward(conn, &mut gathered.bytes) {
            RelayDecision::Pass(tracked) => {
                self.pass_on(&gathered.start, Api::Fetch.name(), tracked);
                self.send_on(gathered.bytes).await?;
            }
            RelayDecision::Answer => self.held = Some(gathered.into_frame()),
            RelayDecision::Reply(reply) => {
                self.due.push(PendingResponse::Here(LocalResponse::new(
                    Box::pin(ready(reply)),
                    0,
                    None,
                )));
            }
        }
        Ok(())
    }

    /// Relays a Produce, unless it has a nack.
    async fn take_produce(&mut self, gathered: GatheredRequest) -> Result<(), CloseCause> {
        let Connection { router, .. } = self.connection;
        let GatheredRequest { start, bytes, room } = gathered;
        let bytes = bytes.freeze();
        let frame = RequestFrame { bytes: bytes.slice(PREFIX_BYTES.min(bytes.len())..), room };
        if let Err(error) = router.learn_ids(&frame.bytes).await {
            return Err(self.connection.upstream_lost(&error));
        }
        match router.produce_owner(&frame.bytes) {
            ProduceOwner::Sidecar => {
                drop(bytes);
                self.take(frame);
            }
            ProduceOwner::Both => {
                drop(bytes);
                self.held = Some(frame);
            }
            ProduceOwner::Cluster => {
                drop(frame);
                match start.is_answered(&bytes) {
                    Ok(Some(false)) => router.metrics.request(Api::Produce.name(), 0.0),
                    _ => self.pass_on(&start, Api::Produce.name(), None),
                }
                self.send_on(BytesMut::from(bytes)).await?;
            }
        }
        Ok(())
    }

    /// Registers the broker's answer as pending.
    fn pass_on(
        &mut self,
        start: &RequestStart,
        api: &'static str,
        tracked: Option<Box<RelayedAnswer>>,
    ) {
        self.due.push(PendingResponse::There(RelayedResponse {
            correlation_id: start.correlation_id,
            api,
            began: self.connection.router.clock.elapsed(),
            looked_at: Naming::of(start.api_key, start.version),
            tracked,
        }));
    }

    /// Forwards a part of a pending answer, which is read on its way.
    pub(super) async fn pass_apart(
        &mut self,
        bytes: &[u8],
        begins: bool,
    ) -> Result<bool, CloseCause> {
        let Self { connection, write, due, link, voice, .. } = self;
        let router = &connection.router;
        if let Some(PendingResponse::There(passing)) = due.front_mut() {
            if begins {
                passing.answered(router);
                *voice = voice.take().or_else(|| router.voices.open(&connection.conn));
            }
            if let Some(tracked) = &mut passing.tracked {
                router.passes(tracked, bytes);
            }
        }
        if link.as_ref().is_none_or(|link| link.reader.is_between_answers()) {
            due.pop();
        }
        router.metrics.request_bytes(0, bytes_of(bytes));
        outgoing::send(write, bytes, connection.limits.idle).await?;
        Ok(true)
    }
}
