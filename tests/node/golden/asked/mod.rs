//! Golden requests: one for each API in every version, with valid parts and invalid ones.

pub(crate) mod admin;
pub(crate) mod cluster;
pub(crate) mod data;
pub(crate) mod groups;
pub(crate) mod offsets;
pub(crate) mod topics;
pub(crate) mod transactions;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::RequestHeader;
use kafka_protocol::protocol::{Encodable, Request};
use reprise::wire::Api;

use crate::golden::house::{CLIENT, Drawn, ListenerKind};
use crate::support::client::s;

const CORRELATION_ID: i32 = 0x0102_0304;

pub(crate) struct Ask {
    pub(crate) api: Api,
    pub(crate) place: ListenerKind,
    /// A request sent first, on the same connection.
    pub(crate) before: Option<Bytes>,
    /// A value of the answer that changes with time, beside the drawn ones.
    pub(crate) of_the_moment: Option<OfTheMoment>,
    /// The frame of that version, without its length.
    pub(crate) request: Box<dyn Fn(i16) -> Bytes>,
}

/// Finds a changing value in an answer of that version.
pub(crate) type OfTheMoment = fn(i16, &Bytes) -> Option<Drawn>;

/// A request that `fill` makes of an empty one, on a listener without users.
fn ask<R: Request + Default>(fill: impl Fn(i16, &mut R) + 'static) -> Ask {
    let request = Box::new(move |version| {
        let mut request = R::default();
        fill(version, &mut request);
        frame(version, &request)
    });
    Ask {
        api: Api::from_key(R::KEY).unwrap(),
        place: ListenerKind::Open,
        before: None,
        of_the_moment: None,
        request,
    }
}

fn frame<R: Request>(version: i16, request: &R) -> Bytes {
    let mut out = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(CORRELATION_ID)
        .with_client_id(Some(s(CLIENT)))
        .encode(&mut out, R::header_version(version))
        .unwrap();
    request.encode(&mut out, version).unwrap();
    out.freeze()
}
