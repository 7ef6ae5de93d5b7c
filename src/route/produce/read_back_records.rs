//! Records to read back from the cluster before a batch of nacks is taken.

use kafka_protocol::messages::ProduceRequest;

use crate::model::GroupId;
use crate::retry::NackTarget;
use crate::route::Router;
use crate::route::clients::conn::Conn;
use crate::route::convert::topic_of;
use crate::route::nacks::origin_records::ReadBack;
use crate::route::produce::nack;
use crate::wire::batch::{batches, records};
use crate::wire::mark::{self, read_nack};
use crate::wire::{Api, RequestHead, decode};

impl Router {
    /// The records that this Produce names without their bytes, with those that are cached. Errors
    /// of the request are reported when it is handled.
    pub fn named_ahead(&self, conn: &Conn, head: &RequestHead) -> ReadBack {
        let mut back = ReadBack::default();
        if self.upstream.is_none() || head.api != Api::Produce {
            return back;
        }
        let Ok(request) = decode::<ProduceRequest>(head) else { return back };
        for topic in &request.topic_data {
            let Ok(name) = self.named(&topic_of(&topic.name), topic.topic_id) else { continue };
            let Some(group) = self.retry_group(&name) else { continue };
            for bytes in topic.partition_data.iter().filter_map(|data| data.records.clone()) {
                self.named_in(conn, &group, bytes, &mut back);
            }
        }
        back
    }

    fn named_in(&self, conn: &Conn, group: &GroupId, bytes: bytes::Bytes, back: &mut ReadBack) {
        let is_oversize = self.is_oversize(bytes.len());
        for batch in batches(bytes, self.config.frame_bytes_max).map_while(Result::ok) {
            let Ok(records) = records(&batch, nack::UNPACKED_BYTES_MAX) else { return };
            for record in records.map_while(Result::ok) {
                let Ok((asked, _)) = read_nack(&record.headers) else { return };
                let mark::NackedRecord::Origin(origin) = asked.named else { continue };
                if is_oversize && self.is_bound_unknown(&origin.topic) {
                    back.needs_bound(origin.topic.clone());
                }
                // The log may not have noted the delivery of a retry (`engine::mover`).
                let is_read = matches!(
                    nack::name(self, group, origin.clone()),
                    NackTarget::Origin(_) | NackTarget::Delivery(_)
                );
                if is_read && asked.by_reference {
                    self.add_named(conn, back, (group.clone(), origin));
                }
            }
        }
    }
}
