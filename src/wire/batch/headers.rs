//! Record headers as raw bytes: duplicate keys, keys that are not UTF-8, null values and order
//! survive unchanged.

use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::reader::{ReadError, Reader};
use crate::wire::varint::{put_length, put_varint};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Any bytes; not necessarily unique, not necessarily UTF-8.
    pub key: Bytes,
    /// `None` = null.
    pub value: Option<Bytes>,
}

/// The headers of one record, validated once and kept as received.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Headers {
    count: u32,
    raw: Bytes,
}

impl Headers {
    pub const NONE: Self = Self { count: 0, raw: Bytes::new() };

    /// Checks that `raw` holds exactly `count` headers (key length, key, value length, value).
    pub fn parse(count: u32, raw: Bytes) -> Result<Self, ReadError> {
        let mut reader = Reader::new(&raw);
        for _ in 0..count {
            read_one(&mut reader)?;
        }
        if !reader.is_empty() {
            return Err(ReadError::Truncated);
        }
        Ok(Self { count, raw })
    }

    pub fn len(&self) -> u32 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes on the wire, without the count before them.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Copies the headers into memory of their own.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { count: self.count, raw: Bytes::copy_from_slice(&self.raw) }
    }

    /// Iterates in wire order.
    pub fn iter(&self) -> impl Iterator<Item = Header> + '_ {
        let mut reader = Reader::new(&self.raw);
        std::iter::from_fn(move || {
            if reader.is_empty() {
                return None;
            }
            let (key, value) = read_one(&mut reader).ok()?;
            let value = value.map(|v| self.raw.slice_ref(v));
            Some(Header { key: self.raw.slice_ref(key), value })
        })
    }

    /// The last header of that name; the inner `None` is a null value.
    pub fn last(&self, name: &str) -> Option<Option<Bytes>> {
        self.iter().filter(|h| h.key == name.as_bytes()).last().map(|h| h.value)
    }

    /// Removes the headers whose key `drops` accepts; the others keep their bytes.
    pub fn without(&self, drops: impl Fn(&[u8]) -> bool) -> Self {
        let mut reader = Reader::new(&self.raw);
        let mut raw = BytesMut::with_capacity(self.raw.len());
        let mut count = 0;
        while !reader.is_empty() {
            let before = reader.rest();
            let Ok((key, _)) = read_one(&mut reader) else { break };
            if !drops(key) {
                let used = before.len() - reader.remaining();
                raw.put_slice(before.get(..used).unwrap_or_default());
                count += 1;
            }
        }
        if count == self.count {
            return self.clone();
        }
        Self { count, raw: raw.freeze() }
    }

    pub fn with<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, extra: &[(K, V)]) -> Self {
        if extra.is_empty() {
            return self.clone();
        }
        let mut raw = BytesMut::from(&self.raw[..]);
        for (key, value) in extra {
            put_one(&mut raw, key.as_ref(), Some(value.as_ref()));
        }
        let count = self.count.saturating_add(u32::try_from(extra.len()).unwrap_or(u32::MAX));
        Self { count, raw: raw.freeze() }
    }
}

impl FromIterator<Header> for Headers {
    fn from_iter<I: IntoIterator<Item = Header>>(headers: I) -> Self {
        let mut raw = BytesMut::new();
        let mut count = 0;
        for header in headers {
            put_one(&mut raw, &header.key, header.value.as_deref());
            count += 1;
        }
        Self { count, raw: raw.freeze() }
    }
}

fn put_one(out: &mut BytesMut, key: &[u8], value: Option<&[u8]>) {
    put_length(out, key);
    out.put_slice(key);
    match value {
        None => put_varint(out, -1),
        Some(value) => {
            put_length(out, value);
            out.put_slice(value);
        }
    }
}

fn read_one<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), ReadError> {
    let key = reader.varint_bytes()?.ok_or(ReadError::NegativeLength)?;
    let value = reader.varint_bytes()?;
    Ok((key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd() -> Headers {
        [("a", Some("1")), ("a", None), ("", Some("")), ("a", Some("3"))]
            .into_iter()
            .map(|(k, v)| Header { key: k.into(), value: v.map(Bytes::from) })
            .chain([Header { key: Bytes::from_static(&[0xff, 0xfe]), value: None }])
            .collect()
    }

    #[test]
    fn duplicate_null_empty_and_non_utf8_headers_survive_in_order() {
        let headers = odd();
        let again = Headers::parse(headers.len(), headers.raw().clone()).unwrap();
        assert_eq!(again, headers);
        let seen: Vec<Header> = again.iter().collect();
        assert_eq!(seen.len(), 5);
        assert_eq!(seen[1], Header { key: "a".into(), value: None });
        assert_eq!(seen[4].key, [0xff, 0xfe][..]);
    }

    #[test]
    fn the_last_of_a_name_wins() {
        assert_eq!(odd().last("a"), Some(Some("3".into())));
        assert_eq!(odd().last("b"), None);
    }

    #[test]
    fn dropping_one_name_leaves_every_other_byte() {
        let kept = odd().without(|key| key == b"a");
        assert_eq!(kept.len(), 2);
        let keys: Vec<Bytes> = kept.iter().map(|h| h.key).collect();
        assert_eq!(keys, [Bytes::new(), Bytes::from_static(&[0xff, 0xfe])]);
        assert_eq!(odd().without(|_| false), odd());
    }

    #[test]
    fn a_count_that_is_not_the_bytes_count_is_refused() {
        let headers = odd();
        for count in [0, 4, 6, u32::MAX] {
            assert!(Headers::parse(count, headers.raw().clone()).is_err(), "{count}");
        }
    }
}
