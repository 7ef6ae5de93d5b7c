//! Decompression of a batch's records, never beyond a bound: a bomb of a few bytes is refused.

use bytes::Bytes;
// The in-memory reading trait of the decoders; no file or socket is ever behind it here.
use ruzstd::io::Read;

use super::header::Codec;
use super::records::RecordError;

/// In front of the framing that snappy-java's streams (and so most Kafka clients) write, followed
/// by a version and the lowest compatible version, 4 bytes each.
const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
/// A snappy element of 3 bytes yields 64 at most; a length beyond that is a lie.
const SNAPPY_RATIO_MAX: usize = 22;
/// The largest window zstd itself reads without being asked to (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`).
const ZSTD_WINDOW_BYTES_MAX: u64 = 1 << 27;

/// The plain record bytes, at most `bytes_max` of them.
pub(in crate::wire) fn decompress(
    codec: Codec,
    payload: &Bytes,
    bytes_max: usize,
) -> Result<Bytes, RecordError> {
    let mut out = Bounded { bytes: Vec::new(), bytes_max };
    match codec {
        Codec::None if payload.len() <= bytes_max => return Ok(payload.clone()),
        Codec::None => return Err(RecordError::TooLarge { max: bytes_max }),
        Codec::Gzip => out.read(flate2::bufread::MultiGzDecoder::new(&payload[..]), "gzip")?,
        Codec::Lz4 => out.read(lz4_flex::frame::FrameDecoder::new(&payload[..]), "lz4")?,
        Codec::Snappy => snappy(payload, &mut out)?,
        Codec::Zstd => zstd(payload, &mut out)?,
    }
    Ok(Bytes::from(out.bytes))
}

struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Bounded {
    fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes.len())
    }

    /// Reads to the end, and one byte beyond the bound to see that there is more.
    fn read(&mut self, decoder: impl Read, codec: &'static str) -> Result<(), RecordError> {
        let limit = u64::try_from(self.left()).unwrap_or(u64::MAX).saturating_add(1);
        let ended = decoder.take(limit).read_to_end(&mut self.bytes);
        if self.bytes.len() > self.bytes_max {
            return Err(RecordError::TooLarge { max: self.bytes_max });
        }
        ended.map(|_| ()).map_err(|_| RecordError::Decompress(codec))
    }
}

/// One bare block, or xerial's framing: blocks with a 4-byte length each.
fn snappy(payload: &[u8], out: &mut Bounded) -> Result<(), RecordError> {
    let broken = RecordError::Decompress("snappy");
    if !payload.starts_with(XERIAL_MAGIC) {
        return snappy_block(payload, out);
    }
    let mut rest = payload.get(XERIAL_HEADER_BYTES..).ok_or(broken)?;
    while !rest.is_empty() {
        let (len, behind) = rest.split_first_chunk::<4>().ok_or(broken)?;
        let len = usize::try_from(u32::from_be_bytes(*len)).map_err(|_| broken)?;
        let (block, behind) = behind.split_at_checked(len).ok_or(broken)?;
        snappy_block(block, out)?;
        rest = behind;
    }
    Ok(())
}

fn snappy_block(block: &[u8], out: &mut Bounded) -> Result<(), RecordError> {
    let broken = RecordError::Decompress("snappy");
    let len = snap::raw::decompress_len(block).map_err(|_| broken)?;
    if len > out.left() {
        return Err(RecordError::TooLarge { max: out.bytes_max });
    }
    if len / SNAPPY_RATIO_MAX > block.len() {
        return Err(broken);
    }
    let plain = snap::raw::Decoder::new().decompress_vec(block).map_err(|_| broken)?;
    out.bytes.extend_from_slice(&plain);
    Ok(())
}

/// One frame after another; memory grows with what is decoded, not with the window claimed.
fn zstd(payload: &[u8], out: &mut Bounded) -> Result<(), RecordError> {
    let mut rest = payload;
    while !rest.is_empty() {
        let decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
            &mut rest,
            ZSTD_WINDOW_BYTES_MAX,
        )
        .map_err(|_| RecordError::Decompress("zstd"))?;
        out.read(decoder, "zstd")?;
    }
    Ok(())
}
