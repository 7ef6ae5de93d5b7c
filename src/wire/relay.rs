//! First fields of a relayed frame: its length and, to match an answer to its request, its
//! correlation id. Records are never read.

use uuid::Uuid;

use crate::wire::api::Api;
use crate::wire::endpoints::produce::BY_ID_SINCE;
use crate::wire::endpoints::share::{count, skip};
use crate::wire::frame::{self, FrameError, PREFIX_BYTES};
use crate::wire::names::TOPIC_BYTES_MAX;
use crate::wire::reader::{ReadError, Reader};

/// Bytes needed to read the acks and the first topic of a Produce. They follow the header and the
/// transactional id: two strings of at most 32 KiB and a few tagged fields.
pub const START_BYTES_MAX: usize = 72 << 10;

/// Reason why the next frame of a connection cannot be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameStartError {
    /// The length prefix is invalid.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame is shorter than its own header.
    #[error("a frame of {len} bytes is too short to be a Kafka message")]
    Short {
        /// Length in the prefix, in bytes.
        len: usize,
    },
    /// The header is broken.
    #[error("a request header is broken: {0}")]
    Read(#[from] ReadError),
}

/// The topics of a Produce, as far as its start names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProduceTopics<'a> {
    /// One topic, by its name.
    Named(&'a str),
    /// One topic, by its id (KIP-516): version 13.
    Identified(Uuid),
    /// Any other topics: the request is read whole.
    Other,
}

/// The first fields of a Produce.
struct ProduceStart<'a> {
    acks: i16,
    topics: ProduceTopics<'a>,
}

/// The first fields of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestStart {
    /// Bytes of the frame, length prefix included.
    pub bytes: usize,
    /// Possibly an API that this build does not know.
    pub api_key: i16,
    pub version: i16,
    /// Returned in the answer.
    pub correlation_id: i32,
}

impl RequestStart {
    /// Parses the frame at the start of `buffer`; `None`: more bytes are needed.
    pub fn parse(buffer: &[u8], len_max: usize) -> Result<Option<Self>, FrameStartError> {
        let Some(len) = frame::announced(buffer, len_max)? else { return Ok(None) };
        if len < 8 {
            return Err(FrameStartError::Short { len });
        }
        let Some((_, rest)) = buffer.split_at_checked(PREFIX_BYTES) else { return Ok(None) };
        if rest.len() < 8 {
            return Ok(None);
        }
        let mut reader = Reader::new(rest);
        Ok(Some(Self {
            bytes: PREFIX_BYTES.saturating_add(len),
            api_key: reader.int16()?,
            version: reader.int16()?,
            correlation_id: reader.int32()?,
        }))
    }

    /// Whether the broker will answer: false for a Produce with acks 0. `buffer` begins with the
    /// frame; `None`: more bytes are needed.
    pub fn is_answered(&self, buffer: &[u8]) -> Result<Option<bool>, FrameStartError> {
        if self.api_key != Api::Produce.key() {
            return Ok(Some(true));
        }
        Ok(self.produce(buffer)?.map(|start| start.acks != 0))
    }

    /// The topics of a Produce. `buffer` begins with the frame; `None`: more bytes are needed.
    pub fn topics<'a>(
        &self,
        buffer: &'a [u8],
    ) -> Result<Option<ProduceTopics<'a>>, FrameStartError> {
        Ok(self.produce(buffer)?.map(|start| start.topics))
    }

    fn produce<'a>(&self, buffer: &'a [u8]) -> Result<Option<ProduceStart<'a>>, FrameStartError> {
        let whole = buffer.len() >= self.bytes.min(START_BYTES_MAX);
        let Some(known) = buffer.get(PREFIX_BYTES..self.bytes.min(buffer.len())) else {
            return Ok(None);
        };
        match ProduceStart::parse(known, self.version) {
            Ok(start) => Ok(Some(start)),
            Err(ReadError::Truncated) if !whole => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl<'a> ProduceStart<'a> {
    /// `bytes` begins with the request header.
    fn parse(bytes: &'a [u8], version: i16) -> Result<Self, ReadError> {
        let flexible = Api::Produce.is_flexible(version);
        let mut reader = Reader::new(bytes);
        reader.take(8)?;
        skip_text(&mut reader)?;
        if flexible {
            crate::wire::scan::skip_tagged_fields(&mut reader)?;
            skip(&mut reader)?;
        } else if version >= 3 {
            skip_text(&mut reader)?;
        }
        let acks = reader.int16()?;
        reader.int32()?;
        let topics = produce_topics(&mut reader, version, flexible)?;
        Ok(Self { acks, topics })
    }
}

fn produce_topics<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    flexible: bool,
) -> Result<ProduceTopics<'a>, ReadError> {
    let topics =
        if flexible { count(reader)? } else { u32::try_from(reader.int32()?).unwrap_or(0) };
    if topics != 1 {
        return Ok(ProduceTopics::Other);
    }
    if version >= BY_ID_SINCE {
        let id = reader.take(16)?.first_chunk::<16>().copied().unwrap_or_default();
        return Ok(ProduceTopics::Identified(Uuid::from_bytes(id)));
    }
    let len = if flexible { count(reader)? } else { u32::try_from(reader.int16()?).unwrap_or(0) };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len > TOPIC_BYTES_MAX {
        return Ok(ProduceTopics::Other);
    }
    let name = std::str::from_utf8(reader.take(len)?);
    Ok(name.map_or(ProduceTopics::Other, ProduceTopics::Named))
}

fn skip_text(reader: &mut Reader<'_>) -> Result<(), ReadError> {
    let len = usize::try_from(reader.int16()?).unwrap_or(0);
    reader.take(len).map(drop)
}

/// The first fields of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerStart {
    /// Bytes of the frame, length prefix included.
    pub bytes: usize,
    /// Correlation id of the request.
    pub correlation_id: i32,
}

impl AnswerStart {
    /// Parses the frame at the start of `buffer`; `None`: more bytes are needed.
    pub fn parse(buffer: &[u8], len_max: usize) -> Result<Option<Self>, FrameStartError> {
        let Some(len) = frame::announced(buffer, len_max)? else { return Ok(None) };
        if len < 4 {
            return Err(FrameStartError::Short { len });
        }
        let Some((_, rest)) = buffer.split_at_checked(PREFIX_BYTES) else { return Ok(None) };
        let Some(id) = rest.first_chunk::<4>() else { return Ok(None) };
        let bytes = PREFIX_BYTES.saturating_add(len);
        Ok(Some(Self { bytes, correlation_id: i32::from_be_bytes(*id) }))
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::produce_request::TopicProduceData;
    use kafka_protocol::messages::{MetadataRequest, ProduceRequest};
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::wire::call::encode_request;

    #[test]
    fn a_frame_is_known_by_its_first_twelve_bytes() {
        let request = MetadataRequest::default();
        let frame = encode_request(Api::Metadata, 9, 77, Some("app"), &request).unwrap();
        for end in 0..12 {
            assert_eq!(RequestStart::parse(&frame[..end], 1 << 20), Ok(None), "{end}");
        }
        let bytes = frame.len();
        let start = RequestStart { bytes, api_key: 3, version: 9, correlation_id: 77 };
        assert_eq!(RequestStart::parse(&frame[..12], 1 << 20), Ok(Some(start)));
        assert_eq!(start.is_answered(&frame[..12]), Ok(Some(true)));
    }

    #[test]
    fn only_a_produce_with_acks_0_gets_no_answer() {
        for version in 3..=12 {
            for (acks, transactional_id) in [(0, None), (1, None), (-1, Some("a".repeat(200)))] {
                let mut request = ProduceRequest::default();
                request.acks = acks;
                request.transactional_id =
                    transactional_id.map(|id| kafka_protocol::protocol::StrBytes::from(id).into());
                let frame = encode_request(Api::Produce, version, 1, None, &request).unwrap();
                let start = RequestStart::parse(&frame, 1 << 20).unwrap().unwrap();
                assert_eq!(start.is_answered(&frame), Ok(Some(acks != 0)), "v{version}");
                assert_eq!(start.is_answered(&frame[..14]), Ok(None), "more is needed");
            }
        }
    }

    #[test]
    fn the_only_topic_of_a_produce_is_named() {
        let id = Uuid::from_u128(7);
        for version in 3..=13 {
            let request = |topics: &[&str]| {
                let mut request = ProduceRequest::default();
                request.topic_data = topics
                    .iter()
                    .map(|name| {
                        let mut topic = TopicProduceData::default();
                        if version < BY_ID_SINCE {
                            topic.name = StrBytes::from_string((*name).to_owned()).into();
                        } else {
                            topic.topic_id = id;
                        }
                        topic
                    })
                    .collect();
                encode_request(Api::Produce, version, 1, Some("app"), &request).unwrap()
            };
            let topics = |frame: &[u8]| {
                let start = RequestStart::parse(frame, 1 << 20).unwrap().unwrap();
                start.topics(frame).unwrap().map(|topics| format!("{topics:?}"))
            };
            let one = request(&["orders"]);
            let expected = match version {
                13 => ProduceTopics::Identified(id),
                _ => ProduceTopics::Named("orders"),
            };
            assert_eq!(topics(&one), Some(format!("{expected:?}")), "v{version}");
            assert_eq!(topics(&one[..30]), None, "more is needed");
            for several in [&[][..], &["orders", "payments"], &[&*"a".repeat(250)]] {
                if several.len() == 1 && version == 13 {
                    continue;
                }
                assert_eq!(topics(&request(several)), Some("Other".to_owned()), "v{version}");
            }
        }
    }

    #[test]
    fn frames_that_lie_about_their_length_end_the_connection() {
        let short = [0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(RequestStart::parse(&short, 100), Err(FrameStartError::Short { len: 7 }));
        assert_eq!(AnswerStart::parse(&[0, 0, 0, 3], 100), Err(FrameStartError::Short { len: 3 }));
        assert!(AnswerStart::parse(&[0xff; 8], 100).is_err());
        // A Produce whose transactional id would end after the frame.
        let lie = [&[0, 0, 0, 12, 0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff][..]].concat();
        let start = RequestStart::parse(&lie, 100).unwrap().unwrap();
        assert_eq!(start.is_answered(&lie), Err(ReadError::Truncated.into()));
    }
}
