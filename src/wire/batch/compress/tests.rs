//! Each codec takes and refuses the frames that Kafka 4.3.1's readers take and refuse.

use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
use ruzstd::io::Write;

use super::*;
use crate::wire::batch::tests::{gzip, lz4 as lz4_frame_of, snappy, xerial, zstd as zstd_frame_of};

const PLAIN: &[u8] = b"order order order order";
const MAX: usize = 1 << 20;

fn unpacked(codec: Codec, payload: &[u8]) -> Result<Bytes, RecordError> {
    decompress(codec, &Bytes::copy_from_slice(payload), MAX)
}

fn reads(codec: Codec, what: &str, parts: &[&[u8]], plain: &[u8]) {
    let got = unpacked(codec, &parts.concat());
    assert_eq!(got.as_deref(), Ok(plain), "{codec:?}: {what}");
}

fn refuses(codec: Codec, what: &str, parts: &[&[u8]]) {
    let got = unpacked(codec, &parts.concat());
    assert!(matches!(got, Err(RecordError::Decompress(_))), "{codec:?}: {what}: {got:?}");
}

/// The bytes with one bit flipped, `at_from_end` bytes before the end.
fn changed(mut bytes: Vec<u8>, at_from_end: usize) -> Vec<u8> {
    let at = bytes.len() - at_from_end;
    bytes[at] ^= 1;
    bytes
}

#[test]
fn gzip_members_follow_each_other_and_rubbish_ends_them() {
    let one = gzip(PLAIN);
    let twice = [PLAIN, PLAIN].concat();
    reads(Codec::Gzip, "two members", &[&one, &one], &twice);
    reads(Codec::Gzip, "an empty one", &[&gzip(b""), &one], PLAIN);
    for rubbish in [&b"abc"[..], &[0; 40], &[b'a'; 40]] {
        reads(Codec::Gzip, "rubbish", &[&one, rubbish], PLAIN);
    }
    refuses(Codec::Gzip, "a second member broken", &[&one, &one[..10], &[0xff; 40]]);
    refuses(Codec::Gzip, "checksum", &[&changed(one.clone(), 8)]);
    refuses(Codec::Gzip, "size", &[&changed(one.clone(), 1)]);
    refuses(Codec::Gzip, "cut", &[&one[..one.len() - 3]]);
    refuses(Codec::Gzip, "nothing", &[]);
}

#[test]
fn snappy_streams_follow_each_other_and_three_bytes_may_trail() {
    let one = xerial(PLAIN);
    let twice = [PLAIN, PLAIN].concat();
    reads(Codec::Snappy, "two streams", &[&one, &one], &twice);
    reads(Codec::Snappy, "three bytes behind", &[&one, &[0; 3]], PLAIN);
    refuses(Codec::Snappy, "an empty block", &[&one, &[0; 4]]);
    refuses(Codec::Snappy, "half a header between", &[&one, &one[..12]]);
    refuses(Codec::Snappy, "bytes behind a bare block", &[&snappy(PLAIN), b"abc"]);
    refuses(Codec::Snappy, "nothing", &[]);
}

#[test]
fn lz4_ends_with_its_first_frame() {
    let one = lz4_frame_of(PLAIN);
    for behind in [&b"abc"[..], &[0; 40], &one] {
        reads(Codec::Lz4, "bytes behind", &[&one, behind], PLAIN);
    }
    reads(Codec::Lz4, "an empty frame", &[&lz4_frame_of(b""), &one], b"");
    refuses(Codec::Lz4, "no end mark", &[&one[..one.len() - 4]]);
    refuses(Codec::Lz4, "legacy", &[&[0x02, 0x21, 0x4c, 0x18], &one[7..]]);
    refuses(Codec::Lz4, "skippable", &[&[0x53, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9], &one]);
    let mut header = one.clone();
    header[6] ^= 1;
    refuses(Codec::Lz4, "header checksum", &[&header]);
}

#[test]
fn lz4_frames_are_read_with_every_option_but_linked_blocks() {
    let with = |info: FrameInfo| {
        let mut out = FrameEncoder::with_frame_info(info, Vec::new());
        out.write_all(PLAIN).unwrap();
        out.finish().unwrap()
    };
    let plain = FrameInfo::new();
    let size = Some(u64::try_from(PLAIN.len()).unwrap());
    let all = plain.clone().content_checksum(true).block_checksums(true).content_size(size);
    for info in [plain.clone(), all.clone(), plain.clone().content_size(size)] {
        reads(Codec::Lz4, "options", &[&with(info), b"behind"], PLAIN);
    }
    refuses(Codec::Lz4, "linked", &[&with(plain.block_mode(BlockMode::Linked))]);
    let whole = with(all);
    refuses(Codec::Lz4, "content checksum", &[&changed(whole.clone(), 1)]);
    refuses(Codec::Lz4, "block checksum", &[&changed(whole.clone(), 9)]);
    for len in 0..whole.len() {
        assert!(unpacked(Codec::Lz4, &whole[..len]).is_err(), "{len} bytes");
    }
}

/// [`PLAIN`] by `zstd -3`, with checksum and content size.
fn checked_zstd() -> Vec<u8> {
    let hex = ZSTD_HEX.as_bytes().chunks(2);
    hex.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

const ZSTD_HEX: &str = "28b52ffd2417650000306f72646572200100994b11f54c4b2c";

#[test]
fn zstd_frames_are_skipped_and_checked() {
    let one = zstd_frame_of(PLAIN);
    let twice = [PLAIN, PLAIN].concat();
    let skipped: &[u8] = &[0x5f, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    reads(Codec::Zstd, "two frames", &[&one, &one], &twice);
    reads(Codec::Zstd, "skipped", &[skipped, &one, skipped, &one, skipped], &twice);
    reads(Codec::Zstd, "nothing else", &[skipped], b"");
    reads(Codec::Zstd, "nothing", &[], b"");
    let checked = checked_zstd();
    reads(Codec::Zstd, "checksum and size", &[&checked, &checked], &twice);
    refuses(Codec::Zstd, "checksum", &[&changed(checked.clone(), 1)]);
    let mut size = checked.clone();
    size[5] -= 1;
    refuses(Codec::Zstd, "content size", &[&size]);
    let mut reserved = checked.clone();
    reserved[4] |= 1 << 3;
    refuses(Codec::Zstd, "reserved bit", &[&reserved]);
    refuses(Codec::Zstd, "rubbish behind", &[&one, b"abcdefgh"]);
    refuses(Codec::Zstd, "cut", &[&checked[..checked.len() - 5]]);
    refuses(Codec::Zstd, "a skipped one cut", &[&one, &skipped[..9]]);
}
