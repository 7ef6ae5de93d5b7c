//! The partition of a record that the sidecar produces, chosen as Kafka's producers choose it.

/// The partition of a record: by the hash of its key, or round robin by a number.
pub fn partition_of(key: Option<&[u8]>, number: i64, partitions: i32) -> i32 {
    let partitions = partitions.max(1);
    match key {
        Some(key) => (murmur2(key) & i32::MAX) % partitions,
        None => i32::try_from(number.rem_euclid(i64::from(partitions))).unwrap_or(0),
    }
}

/// The hash of Kafka's default partitioner.
fn murmur2(data: &[u8]) -> i32 {
    const M: u32 = 0x5bd1_e995;
    let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut h = 0x9747_b28c_u32 ^ len;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0, 8, 16]) {
            h ^= u32::from(*byte) << shift;
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^= h >> 15;
    h.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_kafka_s_producers() {
        // Source: the tests of `Utils.murmur2` in Kafka.
        for (text, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn a_record_without_a_key_goes_round() {
        assert_eq!([4, 5, 6, -1].map(|number| partition_of(None, number, 3)), [1, 2, 0, 2]);
    }
}
