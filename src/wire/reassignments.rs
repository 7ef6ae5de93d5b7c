//! Replica lists in `AlterPartitionReassignments` 0–1, replaced in the bytes of a relayed request.
//! All other bytes stay unchanged.

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::frame::PREFIX_BYTES;
use crate::wire::reader::{ReadError, Reader};
use crate::wire::scan::skip_tagged_fields;
use crate::wire::varint::put_compact;

/// The API key of `AlterPartitionReassignments`.
pub const KEY: i16 = 45;
/// The last version whose layout is known here.
const VERSION_MAX: i16 = 1;
/// The first version with `allow_replication_factor_change` (KIP-860).
const FACTOR_CHANGE_SINCE: i16 = 1;

/// Returns the frame, its length prefix included, with the replica lists that `replace` changes.
/// `None`: `replace` changes none, or the layout of this version is not known.
pub fn replaced(
    frame: &[u8],
    mut replace: impl FnMut(&mut [Vec<i32>]) -> bool,
) -> Result<Option<Bytes>, ReadError> {
    let Some((_, request)) = frame.split_at_checked(PREFIX_BYTES) else {
        return Err(ReadError::Truncated);
    };
    let mut reader = Reader::new(request);
    let (_key, version) = (reader.int16()?, reader.int16()?);
    if !(0..=VERSION_MAX).contains(&version) {
        return Ok(None);
    }
    reader.int32()?;
    let client_len = usize::try_from(reader.int16()?.max(0)).unwrap_or(0);
    reader.take(client_len)?;
    skip_tagged_fields(&mut reader)?;
    reader.int32()?;
    if version >= FACTOR_CHANGE_SINCE {
        reader.byte()?;
    }
    let mut out = RequestRewriter { request, copied: 0, out: BytesMut::with_capacity(frame.len()) };
    let mut has_changed = false;
    for _ in 0..count(&mut reader)? {
        has_changed |= topic(&mut reader, &mut out, &mut replace)?;
    }
    Ok(has_changed.then(|| out.finish()))
}

/// Copies one topic with its partitions. Returns whether `replace` changed a list.
fn topic(
    reader: &mut Reader<'_>,
    out: &mut RequestRewriter<'_>,
    replace: &mut impl FnMut(&mut [Vec<i32>]) -> bool,
) -> Result<bool, ReadError> {
    let name_len = usize::try_from(count(reader)?).unwrap_or(usize::MAX);
    reader.take(name_len)?;
    let (mut lists, mut places) = (Vec::new(), Vec::new());
    for _ in 0..count(reader)? {
        // Index of the partition.
        reader.int32()?;
        let from = out.offset(reader);
        if let Some(list) = replicas(reader)? {
            lists.push(list);
            places.push((from, out.offset(reader)));
        }
        skip_tagged_fields(reader)?;
    }
    skip_tagged_fields(reader)?;
    if !replace(&mut lists) {
        return Ok(false);
    }
    for ((from, to), list) in places.into_iter().zip(&lists) {
        out.put(from, to, list)?;
    }
    Ok(true)
}

/// The replicas of one partition; `None`: the request cancels a reassignment.
fn replicas(reader: &mut Reader<'_>) -> Result<Option<Vec<i32>>, ReadError> {
    let Some(len) = reader.uvarint()?.checked_sub(1) else { return Ok(None) };
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let bytes = reader.take(len.saturating_mul(size_of::<i32>()))?;
    let ids = bytes.as_chunks::<4>().0;
    Ok(Some(ids.iter().map(|id| i32::from_be_bytes(*id)).collect()))
}

/// A request that is copied with some lists replaced.
struct RequestRewriter<'a> {
    request: &'a [u8],
    /// Bytes of the request that are copied or replaced.
    copied: usize,
    out: BytesMut,
}

impl RequestRewriter<'_> {
    fn offset(&self, reader: &Reader<'_>) -> usize {
        self.request.len().saturating_sub(reader.remaining())
    }

    /// Writes `list` in place of the bytes `from..to`.
    fn put(&mut self, from: usize, to: usize, list: &[i32]) -> Result<(), ReadError> {
        let before = self.request.get(self.copied..from).ok_or(ReadError::Truncated)?;
        self.out.put_slice(before);
        put_compact(&mut self.out, list.len());
        for id in list {
            self.out.put_i32(*id);
        }
        self.copied = to;
        Ok(())
    }

    /// Appends the rest and adds the length prefix.
    fn finish(mut self) -> Bytes {
        self.out.put_slice(self.request.get(self.copied..).unwrap_or_default());
        let mut frame = BytesMut::with_capacity(self.out.len().saturating_add(PREFIX_BYTES));
        frame.put_i32(i32::try_from(self.out.len()).unwrap_or(i32::MAX));
        frame.put_slice(&self.out);
        frame.freeze()
    }
}

/// Elements of a compact array, or bytes of a compact string; null counts as 0.
fn count(reader: &mut Reader<'_>) -> Result<u32, ReadError> {
    Ok(reader.uvarint()?.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::alter_partition_reassignments_request::{
        ReassignablePartition, ReassignableTopic,
    };
    use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, BrokerId, RequestHeader};
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    use super::*;

    fn partition(index: i32, replicas: Option<&[i32]>) -> ReassignablePartition {
        let mut partition = ReassignablePartition::default();
        partition.partition_index = index;
        partition.replicas = replicas.map(|ids| ids.iter().copied().map(BrokerId).collect());
        partition
    }

    fn request(partitions: Vec<ReassignablePartition>) -> AlterPartitionReassignmentsRequest {
        let mut topic = ReassignableTopic::default();
        topic.name = StrBytes::from_static_str("orders").into();
        topic.partitions = partitions;
        let mut request = AlterPartitionReassignmentsRequest::default();
        (request.timeout_ms, request.topics) = (7, vec![topic.clone(), topic]);
        request
    }

    fn frame(version: i16, request: &AlterPartitionReassignmentsRequest) -> Bytes {
        let mut bytes = BytesMut::from(&[0; 4][..]);
        let mut head = RequestHeader::default();
        (head.request_api_key, head.request_api_version) = (KEY, version);
        head.client_id = Some(StrBytes::from_static_str("tool"));
        head.encode(&mut bytes, 2).unwrap();
        request.encode(&mut bytes, version).unwrap();
        let len = i32::try_from(bytes.len() - 4).unwrap();
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        bytes.freeze()
    }

    /// Replaces every list with node 9 by nodes 1 and 2.
    fn nine(lists: &mut [Vec<i32>]) -> bool {
        let mut changed = false;
        for list in lists.iter_mut().filter(|list| list.contains(&9)) {
            (*list, changed) = (vec![1, 2], true);
        }
        changed
    }

    #[test]
    fn only_the_lists_that_change_are_other_bytes() {
        for version in 0..=VERSION_MAX {
            let before =
                [partition(0, Some(&[9])), partition(1, None), partition(2, Some(&[3, 4]))];
            let after =
                [partition(0, Some(&[1, 2])), partition(1, None), partition(2, Some(&[3, 4]))];
            let told = replaced(&frame(version, &request(before.to_vec())), nine).unwrap();
            assert_eq!(told, Some(frame(version, &request(after.to_vec()))), "v{version}");
            let same = replaced(&frame(version, &request(vec![partition(1, Some(&[3]))])), nine);
            assert_eq!(same, Ok(None));
        }
        let mut later = BytesMut::from(&frame(1, &request(Vec::new()))[..]);
        later[7] = 2;
        assert_eq!(replaced(&later, nine), Ok(None), "a layout nobody knows yet passes");
    }

    #[test]
    fn truncated_and_false_requests_are_errors() {
        let whole = frame(1, &request(vec![partition(0, Some(&[9]))]));
        for end in 0..whole.len() - 1 {
            assert_eq!(replaced(&whole[..end], nine), Err(ReadError::Truncated), "{end}");
        }
        let at = whole.windows(6).position(|bytes| bytes == [2, 0, 0, 0, 9, 0]).unwrap();
        let mut lie = BytesMut::from(&whole[..at]);
        lie.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(replaced(&lie, nine), Err(ReadError::Truncated));
        let mut read = whole.slice(4 + 8 + 2 + 4 + 1..);
        assert!(AlterPartitionReassignmentsRequest::decode(&mut read, 1).is_ok());
    }
}
