//! Broker addresses in the answers to ShareFetch 1–2 and ShareAcknowledge 1–2: the last field
//! before the tagged ones. They are replaced without decoding the fields before, records included.

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::endpoints::Naming;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan::skip_tagged_fields;
use crate::wire::varint::put_compact;

/// Version 2 added RENEW (KIP-1222).
pub const VERSION_MAX: i16 = 2;
/// The first ShareAcknowledge with the lock timeout of the records.
const LOCK_TIMEOUT_SINCE: i16 = 2;

/// Position of the addresses in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPosition {
    /// First byte of the array's length.
    at: usize,
    /// Number of addresses.
    pub count: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerNode {
    pub id: i32,
    pub host: String,
    pub port: i32,
    /// Length and text, unchanged.
    rack: Bytes,
}

/// Parses an answer, without its length prefix, up to its addresses.
pub fn find(naming: Naming, frame: &[u8]) -> Result<AddressPosition, ReadError> {
    let mut reader = Reader::new(frame);
    let (fetches, version) = match naming {
        Naming::ShareFetch(version) => (true, version),
        Naming::ShareAcknowledge(version) | Naming::Produce(version) => (false, version),
    };
    reader.int32()?;
    skip_tagged_fields(&mut reader)?;
    // Throttle time, error code.
    reader.take(4 + 2)?;
    skip(&mut reader)?;
    if fetches || version >= LOCK_TIMEOUT_SINCE {
        reader.int32()?;
    }
    for _ in 0..count(&mut reader)? {
        reader.take(16)?;
        for _ in 0..count(&mut reader)? {
            partition(&mut reader, fetches)?;
        }
        skip_tagged_fields(&mut reader)?;
    }
    let at = frame.len() - reader.rest().len();
    Ok(AddressPosition { at, count: count(&mut reader)? })
}

fn partition(reader: &mut Reader<'_>, fetches: bool) -> Result<(), ReadError> {
    // Index, error code.
    reader.take(4 + 2)?;
    skip(reader)?;
    if fetches {
        // Acknowledge error code.
        reader.take(2)?;
        skip(reader)?;
    }
    // Leader id and epoch.
    reader.take(4 + 4)?;
    skip_tagged_fields(reader)?;
    if fetches {
        skip(reader)?;
        for _ in 0..count(reader)? {
            // First and last offset, delivery count.
            reader.take(8 + 8 + 2)?;
            skip_tagged_fields(reader)?;
        }
    }
    skip_tagged_fields(reader)
}

/// Decodes the addresses.
pub fn nodes(place: AddressPosition, frame: &Bytes) -> Result<Vec<BrokerNode>, ReadError> {
    read(place, frame).map(|(nodes, _)| nodes)
}

/// Replaces the addresses and keeps all other bytes.
pub fn replaced(
    place: AddressPosition,
    frame: &Bytes,
    nodes: &[BrokerNode],
) -> Result<Bytes, ReadError> {
    let (_, behind) = read(place, frame)?;
    let before = frame.get(..place.at).ok_or(ReadError::Truncated)?;
    let mut out = BytesMut::with_capacity(frame.len() + 64 * nodes.len());
    out.put_slice(before);
    put_compact(&mut out, nodes.len());
    for node in nodes {
        out.put_i32(node.id);
        put_compact(&mut out, node.host.len());
        out.put_slice(node.host.as_bytes());
        out.put_i32(node.port);
        out.put_slice(&node.rack);
        out.put_u8(0);
    }
    out.put_slice(behind);
    Ok(out.freeze())
}

fn read(place: AddressPosition, frame: &Bytes) -> Result<(Vec<BrokerNode>, &[u8]), ReadError> {
    let mut reader = Reader::new(frame.get(place.at..).ok_or(ReadError::Truncated)?);
    let mut nodes = Vec::new();
    for _ in 0..count(&mut reader)? {
        let id = reader.int32()?;
        let len = count(&mut reader)?;
        let host = reader.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        let host = String::from_utf8_lossy(host).into_owned();
        let port = reader.int32()?;
        let rack = reader.rest();
        skip(&mut reader)?;
        let rack = rack.get(..rack.len() - reader.rest().len()).unwrap_or_default();
        skip_tagged_fields(&mut reader)?;
        nodes.push(BrokerNode { id, host, port, rack: Bytes::copy_from_slice(rack) });
    }
    Ok((nodes, reader.rest()))
}

/// Elements of a compact array; null counts as 0.
pub(in crate::wire) fn count(reader: &mut Reader<'_>) -> Result<u32, ReadError> {
    Ok(reader.uvarint()?.saturating_sub(1))
}

/// Skips a compact string or compact bytes.
pub(in crate::wire) fn skip(reader: &mut Reader<'_>) -> Result<(), ReadError> {
    let len = count(reader)?;
    reader.take(usize::try_from(len).unwrap_or(usize::MAX)).map(drop)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        ShareAcknowledgeResponse, ShareFetchResponse, share_acknowledge_response as a,
        share_fetch_response as f,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    use super::*;

    fn fetched(named: bool) -> ShareFetchResponse {
        let mut partition = f::PartitionData::default();
        partition.error_message = Some(StrBytes::from_static_str("not the leader"));
        partition.records = Some(Bytes::from(vec![7; 300]));
        partition.acquired_records = vec![f::AcquiredRecords::default(); 2];
        let mut topic = f::ShareFetchableTopicResponse::default();
        topic.partitions = vec![partition.clone(), partition];
        let mut answer = ShareFetchResponse::default();
        answer.responses = vec![topic.clone(), topic];
        if named {
            let mut node = f::NodeEndpoint::default();
            (node.node_id, node.port) = (7.into(), 9092);
            node.host = StrBytes::from_static_str("kafka-7");
            node.rack = Some(StrBytes::from_static_str("r"));
            answer.node_endpoints = vec![node.clone(), node];
        }
        answer
    }

    fn acknowledged(named: bool) -> ShareAcknowledgeResponse {
        let mut topic = a::ShareAcknowledgeTopicResponse::default();
        topic.partitions = vec![a::PartitionData::default(); 2];
        let mut answer = ShareAcknowledgeResponse::default();
        answer.error_message = Some(StrBytes::from_static_str("x"));
        answer.responses = vec![topic];
        if named {
            let mut node = a::NodeEndpoint::default();
            node.host = StrBytes::from_static_str("kafka-7");
            answer.node_endpoints = vec![node];
        }
        answer
    }

    fn frame(answer: &impl Encodable) -> Bytes {
        let mut bytes = BytesMut::from(&[0, 0, 0, 9, 0][..]);
        answer.encode(&mut bytes, 1).unwrap();
        bytes.freeze()
    }

    #[test]
    fn share_answers_with_broker_endpoints_are_recognised() {
        for named in [false, true] {
            for (naming, frame) in [
                (Naming::ShareFetch(1), frame(&fetched(named))),
                (Naming::ShareAcknowledge(1), frame(&acknowledged(named))),
            ] {
                assert_eq!(naming.names_brokers(&frame), Ok(named), "{naming:?}");
                for end in 0..frame.len() - 2 {
                    let cut = naming.names_brokers(&frame[..end]);
                    assert!(cut.is_err() || named, "{naming:?} cut at {end}");
                }
            }
        }
        // Version 2 of ShareAcknowledge has the lock timeout after the error message.
        let mut longer = BytesMut::from(&frame(&acknowledged(true))[..]);
        let at = 5 + 4 + 2 + 2;
        let rest = longer.split_off(at);
        longer.put_i32(30_000);
        longer.put_slice(&rest);
        assert_eq!(Naming::ShareAcknowledge(2).names_brokers(&longer), Ok(true));
    }

    #[test]
    fn brokers_are_replaced_and_everything_else_stays() {
        let (naming, answer) = (Naming::ShareFetch(1), fetched(true));
        let before = frame(&answer);
        let place = find(naming, &before).unwrap();
        let mut all = nodes(place, &before).unwrap();
        assert_eq!((all.len(), all[0].host.as_str(), all[0].port), (2, "kafka-7", 9092));
        assert_eq!(replaced(place, &before, &all).unwrap(), before, "nothing changed");
        all.pop();
        (all[0].host, all[0].port) = ("127.64.0.1".to_owned(), 9093);
        let mut after = replaced(place, &before, &all).unwrap().slice(5..);
        let seen = ShareFetchResponse::decode(&mut after, 1).unwrap();
        assert!(after.is_empty());
        assert_eq!(seen.responses, answer.responses);
        let node = &seen.node_endpoints[0];
        assert_eq!((node.node_id.0, node.host.as_str(), node.port), (7, "127.64.0.1", 9093));
        assert_eq!((seen.node_endpoints.len(), node.rack.as_deref()), (1, Some("r")));
    }

    #[test]
    fn counts_that_are_made_up_end_with_the_bytes() {
        let lie = [0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(find(Naming::ShareAcknowledge(1), &lie), Err(ReadError::Truncated));
    }
}
