//! Decompression of a batch's records up to a bound: a decompression bomb is refused.
//!
//! Each codec accepts the bytes that Kafka's own reader accepts, measured on Kafka 4.3.1
//! (docs/protocol.md#produce). A consumer must be able to read every batch that is stored.

use bytes::Bytes;
use flate2::bufread::GzDecoder;
// The decoders' in-memory reading trait; no file or socket is read here.
use ruzstd::io::Read;

use super::header::Codec;
use super::records::RecordError;

/// Magic of the framing that snappy-java's streams, and so most Kafka clients, write. A version and
/// the lowest compatible version follow, 4 bytes each.
const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_BYTES: usize = 16;
/// First step of a buffer that doubles.
const STEP_BYTES_MIN: usize = 1 << 10;
/// A snappy element of 3 bytes yields 64 at most, so a longer claimed length is false.
const SNAPPY_RATIO_MAX: usize = 22;
/// Magic of an LZ4 frame: little-endian 0x184D2204.
const LZ4_MAGIC: &[u8; 4] = b"\x04\x22\x4d\x18";
/// Flags of an LZ4 frame descriptor (LZ4 Frame Format 1.6).
const LZ4_INDEPENDENT: u8 = 1 << 5;
const LZ4_BLOCK_CHECKSUM: u8 = 1 << 4;
const LZ4_CONTENT_SIZE: u8 = 1 << 3;
const LZ4_CONTENT_CHECKSUM: u8 = 1 << 2;
const LZ4_DICTIONARY: u8 = 1;
/// Bit of a block's length: the block is not compressed.
const LZ4_UNCOMPRESSED: u32 = 1 << 31;
/// Magic numbers of skippable zstd frames, each followed by a 4-byte length (RFC 8878).
const ZSTD_SKIPPABLE: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;
/// Reserved bit of a zstd frame's descriptor: zstd refuses it, the decoder here accepts it.
const ZSTD_RESERVED: u8 = 1 << 3;
/// The largest window that zstd reads by default (`ZSTD_WINDOWLOG_LIMIT_DEFAULT`).
const ZSTD_WINDOW_BYTES_MAX: u64 = 1 << 27;

/// Returns the plain record bytes, at most `bytes_max` of them.
pub(in crate::wire) fn decompress(
    codec: Codec,
    payload: &Bytes,
    bytes_max: usize,
) -> Result<Bytes, RecordError> {
    let mut out = BoundedBuffer { bytes: Vec::new(), bytes_max };
    match codec {
        Codec::None if payload.len() <= bytes_max => return Ok(payload.clone()),
        Codec::None => return Err(RecordError::TooLarge { max: bytes_max }),
        Codec::Gzip => gzip(payload, &mut out)?,
        Codec::Lz4 => lz4(payload, &mut out)?,
        Codec::Snappy => snappy(payload, &mut out)?,
        Codec::Zstd => zstd(payload, &mut out)?,
    }
    Ok(Bytes::from(out.bytes))
}

struct BoundedBuffer {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl BoundedBuffer {
    fn left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes.len())
    }

    /// Reads to the end, or to one byte past the bound, which shows that there is more. The buffer
    /// doubles, but never past that byte.
    fn read(&mut self, mut decoder: impl Read, codec: &'static str) -> Result<(), RecordError> {
        loop {
            let most = self.left().saturating_add(1);
            let step = self.bytes.len().max(STEP_BYTES_MIN).min(most);
            self.bytes.reserve_exact(step);
            let limit = u64::try_from(step).unwrap_or(u64::MAX);
            let ended = decoder.by_ref().take(limit).read_to_end(&mut self.bytes);
            if self.bytes.len() > self.bytes_max {
                return Err(RecordError::TooLarge { max: self.bytes_max });
            }
            match ended {
                Err(_) => return Err(RecordError::Decompress(codec)),
                Ok(read) if read < step => return Ok(()),
                Ok(_) => {}
            }
        }
    }
}

/// Reads all members. Bytes after the first member that are no member header are ignored, as in
/// `java.util.zip.GZIPInputStream`.
fn gzip(payload: &[u8], out: &mut BoundedBuffer) -> Result<(), RecordError> {
    let mut member = GzDecoder::new(payload);
    let mut is_first = true;
    loop {
        match out.read(&mut member, "gzip") {
            Err(RecordError::Decompress(_)) if !is_first && member.header().is_none() => {
                return Ok(());
            }
            result => result?,
        }
        let rest: &[u8] = member.get_ref();
        if rest.is_empty() {
            return Ok(());
        }
        member.reset(rest);
        is_first = false;
    }
}

/// Reads the first frame. Bytes after it are ignored, as in Kafka's `Lz4BlockInputStream`.
fn lz4(payload: &[u8], out: &mut BoundedBuffer) -> Result<(), RecordError> {
    let broken = RecordError::Decompress("lz4");
    let mut frame = lz4_frame(payload).ok_or(broken)?;
    out.read(lz4_flex::frame::FrameDecoder::new(&mut frame), "lz4")?;
    // An empty block ends the decoder early.
    if frame.is_empty() { Ok(()) } else { Err(broken) }
}

/// The bytes of the first frame, end mark included. `None` for a frame that Kafka's reader refuses:
/// no end mark, linked blocks, a dictionary, or the old format.
fn lz4_frame(payload: &[u8]) -> Option<&[u8]> {
    let descriptor = payload.strip_prefix(LZ4_MAGIC)?;
    let flags = *descriptor.first()?;
    let has = |flag: u8| flags & flag != 0;
    if !has(LZ4_INDEPENDENT) || has(LZ4_DICTIONARY) {
        return None;
    }
    // Flags, block size and the checksum of both, around a content size of 8 bytes.
    let mut rest = descriptor.get(if has(LZ4_CONTENT_SIZE) { 11 } else { 3 }..)?;
    loop {
        let (length, behind) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) & !LZ4_UNCOMPRESSED;
        if length == 0 {
            rest = behind.get(if has(LZ4_CONTENT_CHECKSUM) { 4 } else { 0 }..)?;
            return payload.get(..payload.len() - rest.len());
        }
        let checksum = if has(LZ4_BLOCK_CHECKSUM) { 4 } else { 0 };
        rest = behind.get(usize::try_from(length).ok()?..)?.get(checksum..)?;
    }
}

/// Reads one raw block, or xerial's framing: blocks with a 4-byte length each. Another header may
/// come between two blocks. Up to 3 bytes may follow the last (snappy-java's `SnappyInputStream`).
fn snappy(payload: &[u8], out: &mut BoundedBuffer) -> Result<(), RecordError> {
    let broken = RecordError::Decompress("snappy");
    if !payload.starts_with(XERIAL_MAGIC) {
        return snappy_block(payload, out);
    }
    let mut rest = payload.get(XERIAL_HEADER_BYTES..).ok_or(broken)?;
    while let Some((len, behind)) = rest.split_first_chunk::<4>() {
        if rest.starts_with(XERIAL_MAGIC) {
            rest = rest.get(XERIAL_HEADER_BYTES..).ok_or(broken)?;
            continue;
        }
        let len = usize::try_from(u32::from_be_bytes(*len)).map_err(|_| broken)?;
        let (block, behind) = behind.split_at_checked(len).ok_or(broken)?;
        snappy_block(block, out)?;
        rest = behind;
    }
    Ok(())
}

fn snappy_block(block: &[u8], out: &mut BoundedBuffer) -> Result<(), RecordError> {
    let broken = RecordError::Decompress("snappy");
    if block.is_empty() {
        return Err(broken);
    }
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

/// Reads all frames and skips the skippable ones. Memory grows with the decoded bytes, not with the
/// claimed window.
fn zstd(payload: &[u8], out: &mut BoundedBuffer) -> Result<(), RecordError> {
    let broken = RecordError::Decompress("zstd");
    let mut rest = payload;
    while !rest.is_empty() {
        if let Some(behind) = behind_skippable(rest) {
            rest = behind.ok_or(broken)?;
            continue;
        }
        if rest.get(4).is_some_and(|descriptor| descriptor & ZSTD_RESERVED != 0) {
            return Err(broken);
        }
        let before = out.bytes.len();
        let content_bytes = zstd_content_bytes(rest);
        let mut decoder = ruzstd::decoding::StreamingDecoder::new_with_max_window_size(
            &mut rest,
            ZSTD_WINDOW_BYTES_MAX,
        )
        .map_err(|_| broken)?;
        out.read(&mut decoder, "zstd")?;
        // The decoder compares neither the checksum nor the size; zstd itself does.
        let frame = decoder.into_frame_decoder();
        let claimed = frame.get_checksum_from_data();
        if claimed.is_some() && claimed != frame.get_calculated_checksum() {
            return Err(broken);
        }
        let written = u64::try_from(out.bytes.len() - before).ok();
        if content_bytes.is_some() && content_bytes != written {
            return Err(broken);
        }
    }
    Ok(())
}

/// The bytes after a skippable frame; `Some(None)`: the frame is cut; `None`: any other frame.
#[expect(clippy::option_option, reason = "another frame, a whole one and a cut one are three")]
fn behind_skippable(frame: &[u8]) -> Option<Option<&[u8]>> {
    let (magic, behind) = frame.split_first_chunk::<4>()?;
    if !ZSTD_SKIPPABLE.contains(&u32::from_le_bytes(*magic)) {
        return None;
    }
    let skipped = behind.split_first_chunk::<4>().and_then(|(length, behind)| {
        behind.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)
    });
    Some(skipped)
}

/// The content size that a zstd frame claims (RFC 8878, 3.1.1.1); `None`: no claim, or a cut
/// header.
fn zstd_content_bytes(frame: &[u8]) -> Option<u64> {
    let descriptor = *frame.get(4)?;
    let is_single_segment = descriptor & 0x20 != 0;
    let field = match descriptor >> 6 {
        0 if is_single_segment => 1,
        0 => return None,
        power => 1_usize << power,
    };
    let dictionary = match descriptor & 3 {
        3 => 4,
        bytes => usize::from(bytes),
    };
    let at = 5 + usize::from(!is_single_segment) + dictionary;
    let mut value = [0; 8];
    value.get_mut(..field)?.copy_from_slice(frame.get(at..)?.get(..field)?);
    let value = u64::from_le_bytes(value);
    // A two-byte size counts from 256.
    Some(if field == 2 { value.saturating_add(256) } else { value })
}

#[cfg(test)]
mod tests;
