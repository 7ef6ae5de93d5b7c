//! Broker addresses in the answer to a Produce, since version 10 (KIP-951).

use bytes::Bytes;
use kafka_protocol::messages::ProduceResponse;

use crate::wire::api::Api;
use crate::wire::call::{BrokerAnswerError, decode_answer};
use crate::wire::endpoints::share::{count, skip};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan::skip_tagged_fields;

/// The first version that may name a broker.
pub const NAMED_SINCE: i16 = 10;
/// The first version that identifies topics by id.
pub const BY_ID_SINCE: i16 = 13;

/// Whether the answer names brokers: a frame without its length prefix, of version [`NAMED_SINCE`]
/// or later. Most answers do not, and nothing is allocated for them.
pub fn names_brokers(version: i16, frame: &[u8]) -> Result<bool, ReadError> {
    let mut reader = Reader::new(frame);
    reader.int32()?;
    skip_tagged_fields(&mut reader)?;
    for _ in 0..count(&mut reader)? {
        if version >= BY_ID_SINCE {
            reader.take(16)?;
        } else {
            skip(&mut reader)?;
        }
        for _ in 0..count(&mut reader)? {
            // Index, error code, base offset, append time, log start.
            reader.take(4 + 2 + 8 + 8 + 8)?;
            for _ in 0..count(&mut reader)? {
                reader.int32()?;
                skip(&mut reader)?;
                skip_tagged_fields(&mut reader)?;
            }
            skip(&mut reader)?;
            skip_tagged_fields(&mut reader)?;
        }
        skip_tagged_fields(&mut reader)?;
    }
    reader.int32()?;
    Ok(reader.uvarint()? > 0)
}

/// Decodes an answer that names brokers, to rewrite it.
pub fn decode(
    version: i16,
    correlation_id: i32,
    frame: &Bytes,
) -> Result<ProduceResponse, BrokerAnswerError> {
    decode_answer(Api::Produce, version, correlation_id, frame)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::messages::produce_response as r;
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;

    fn answer(version: i16, endpoints: bool) -> Bytes {
        let mut error = r::BatchIndexAndErrorMessage::default();
        error.batch_index_error_message = Some(StrBytes::from_static_str("bad"));
        let mut partition = r::PartitionProduceResponse::default();
        partition.error_code = 6;
        partition.record_errors = vec![error];
        partition.error_message = Some(StrBytes::from_static_str("not the leader"));
        partition.current_leader.leader_id = 7.into();
        let mut topic = r::TopicProduceResponse::default();
        if version < BY_ID_SINCE {
            topic.name = StrBytes::from_static_str("orders").into();
        }
        topic.partition_responses = vec![partition.clone(), partition];
        let mut response = ProduceResponse::default();
        response.responses = vec![topic.clone(), topic];
        if endpoints {
            let mut node = r::NodeEndpoint::default();
            node.node_id = 7.into();
            node.host = StrBytes::from_static_str("kafka-7");
            response.node_endpoints = vec![node];
        }
        let mut bytes = BytesMut::from(&[0, 0, 0, 9, 0][..]);
        response.encode(&mut bytes, version).unwrap();
        bytes.freeze()
    }

    #[test]
    fn produce_answers_with_broker_endpoints_are_recognised() {
        for version in NAMED_SINCE..=13 {
            for named in [false, true] {
                let frame = answer(version, named);
                assert_eq!(names_brokers(version, &frame), Ok(named), "v{version}");
                let read = decode(version, 9, &frame).unwrap();
                assert_eq!(read.node_endpoints.len(), usize::from(named));
                for end in 0..frame.len() - 1 {
                    // A cut answer is an error or names a broker; never a panic.
                    let cut = names_brokers(version, &frame[..end]);
                    assert_ne!(cut, Ok(false), "v{version} cut at {end}");
                }
            }
        }
    }

    #[test]
    fn a_count_that_is_made_up_ends_with_the_bytes() {
        let lie = [0, 0, 0, 9, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(names_brokers(10, &lie), Err(ReadError::Truncated));
    }
}
