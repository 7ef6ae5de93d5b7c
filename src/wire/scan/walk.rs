//! The interpreter that walks one body along one layout.

use super::schema::{Field, FieldKind, Schema, TaggedField};
use super::{ITEMS_MAX, ScanError, TAGGED_FIELD_ITEMS, TAGGED_FIELDS_MAX};
use crate::wire::reader::{ReadError, Reader, length};

/// Walks `body` along `schema` and returns the bytes that the message takes; bytes after them are
/// ignored.
pub(in crate::wire) fn check(
    schema: &Schema,
    version: i16,
    body: &[u8],
) -> Result<usize, ScanError> {
    let mut walk = SchemaWalk {
        reader: Reader::new(body),
        version,
        flexible: schema.is_flexible(version),
        items_left: ITEMS_MAX,
    };
    walk.structure(schema.fields, schema.tagged)?;
    Ok(body.len() - walk.reader.remaining())
}

/// Skips the tagged fields of a request header; their count is bounded by their bytes.
pub(in crate::wire) fn skip_tagged_fields(reader: &mut Reader<'_>) -> Result<(), ReadError> {
    let count = reader.uvarint()?;
    for _ in 0..count {
        reader.uvarint()?;
        let size = reader.uvarint()?;
        reader.take(usize::try_from(size).unwrap_or(usize::MAX))?;
    }
    Ok(())
}

struct SchemaWalk<'a> {
    reader: Reader<'a>,
    version: i16,
    flexible: bool,
    items_left: usize,
}

impl SchemaWalk<'_> {
    fn structure(&mut self, fields: &[Field], tagged: &[TaggedField]) -> Result<(), ScanError> {
        for field in fields {
            if self.has(field.versions) {
                self.value(&field.kind)?;
            }
        }
        if self.flexible {
            self.tagged_fields(tagged)?;
        }
        Ok(())
    }

    fn value(&mut self, kind: &FieldKind) -> Result<(), ScanError> {
        match kind {
            FieldKind::Fixed(size) => {
                self.reader.take(*size)?;
            }
            FieldKind::Text => {
                let len = if self.flexible { self.compact()? } else { self.len16()? };
                self.reader.take(len.unwrap_or(0))?;
            }
            FieldKind::Blob => {
                let len = if self.flexible { self.compact()? } else { self.len32()? };
                self.reader.take(len.unwrap_or(0))?;
            }
            FieldKind::List(element) => {
                for _ in 0..self.count(self.size_min(element))? {
                    self.value(element)?;
                }
            }
            FieldKind::Structs(fields, tagged) => {
                for _ in 0..self.count(self.struct_size_min(fields))? {
                    self.structure(fields, tagged)?;
                }
            }
            FieldKind::Struct(fields, tagged) => self.structure(fields, tagged)?,
            FieldKind::Maybe(fields) => {
                if self.reader.int8()? >= 0 {
                    self.structure(fields, &[])?;
                }
            }
        }
        Ok(())
    }

    /// Reads an array's count and checks it against the remaining bytes and the bound.
    fn count(&mut self, element_size_min: usize) -> Result<usize, ScanError> {
        let count = if self.flexible { self.compact()? } else { self.len32()? }.unwrap_or(0);
        let remaining = self.reader.remaining();
        if count > remaining / element_size_min.max(1) {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            return Err(ScanError::Count { count, remaining });
        }
        self.spend(count)?;
        Ok(count)
    }

    fn tagged_fields(&mut self, known: &[TaggedField]) -> Result<(), ScanError> {
        let count = self.reader.uvarint()?;
        if count > TAGGED_FIELDS_MAX {
            return Err(ScanError::TooManyTaggedFields { count });
        }
        for _ in 0..count {
            self.spend(TAGGED_FIELD_ITEMS)?;
            let tag = self.reader.uvarint()?;
            let size = usize::try_from(self.reader.uvarint()?).unwrap_or(usize::MAX);
            let before = self.reader.remaining();
            match known.iter().find(|t| t.tag == tag && self.has(t.versions)) {
                // The crate decodes a known field by its type and ignores its size.
                Some(field) => {
                    self.value(&field.kind)?;
                    if before - self.reader.remaining() != size {
                        return Err(ScanError::TaggedSize { tag });
                    }
                }
                None => {
                    self.reader.take(size)?;
                }
            }
        }
        Ok(())
    }

    fn spend(&mut self, items: usize) -> Result<(), ScanError> {
        let left = self.items_left.checked_sub(items);
        self.items_left = left.ok_or(ScanError::TooManyItems)?;
        Ok(())
    }

    fn has(&self, (from, to): (i16, i16)) -> bool {
        (from..=to).contains(&self.version)
    }

    /// The fewest bytes that a value of this kind takes.
    fn size_min(&self, kind: &FieldKind) -> usize {
        match kind {
            FieldKind::Fixed(size) => *size,
            FieldKind::Maybe(_) => 1,
            FieldKind::Struct(fields, _) => self.struct_size_min(fields),
            FieldKind::Text | FieldKind::Blob | FieldKind::List(_) | FieldKind::Structs(..)
                if self.flexible =>
            {
                1
            }
            FieldKind::Text => 2,
            FieldKind::Blob | FieldKind::List(_) | FieldKind::Structs(..) => 4,
        }
    }

    fn struct_size_min(&self, fields: &[Field]) -> usize {
        let own: usize =
            fields.iter().filter(|f| self.has(f.versions)).map(|f| self.size_min(&f.kind)).sum();
        own + usize::from(self.flexible)
    }

    /// A compact length: the number on the wire is one more, 0 = null.
    fn compact(&mut self) -> Result<Option<usize>, ScanError> {
        let plus_one = self.reader.uvarint()?;
        Ok(plus_one.checked_sub(1).map(|len| usize::try_from(len).unwrap_or(usize::MAX)))
    }

    fn len16(&mut self) -> Result<Option<usize>, ScanError> {
        match self.reader.int16()? {
            -1 => Ok(None),
            len => Ok(Some(length(i32::from(len))?)),
        }
    }

    fn len32(&mut self) -> Result<Option<usize>, ScanError> {
        match self.reader.int32()? {
            -1 => Ok(None),
            len => Ok(Some(length(len)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::scan::cluster::API_VERSIONS;
    use crate::wire::scan::data::{FETCH, PRODUCE};

    /// `ApiVersions` 3 with two empty strings and these tagged fields.
    fn tagged(fields: &[u8]) -> Result<(), ScanError> {
        check(&API_VERSIONS, 3, &[&[1, 1], fields].concat()).map(|_| ())
    }

    #[test]
    fn unknown_tagged_fields_pass_when_they_fit() {
        assert_eq!(tagged(&[0]), Ok(()));
        assert_eq!(tagged(&[2, 9, 3, 7, 7, 7, 10, 0]), Ok(()));
        assert_eq!(tagged(&[1, 9, 4, 7, 7, 7]), Err(ReadError::Truncated.into()));
        assert_eq!(tagged(&[2, 9, 0]), Err(ReadError::Truncated.into()));
    }

    #[test]
    fn more_tagged_fields_than_any_client_sends_are_refused() {
        let many = |count: u8| {
            let fields: Vec<u8> = (0..count).flat_map(|tag| [tag, 0]).collect();
            tagged(&[&[count], &fields[..]].concat())
        };
        assert_eq!(many(64), Ok(()));
        assert_eq!(many(65), Err(ScanError::TooManyTaggedFields { count: 65 }));
        let endless = tagged(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(endless, Err(ScanError::TooManyTaggedFields { count: u32::MAX }));
    }

    #[test]
    fn a_known_tagged_field_must_have_the_size_it_claims() {
        // Fetch 18: fixed fields, no topics, no forgotten topics, no rack, tag 0 (cluster id).
        let fetch = |size: u8| {
            let body = [&[0; 21][..], &[1, 1, 1], &[1, 0, size, 3, b'a', b'b']].concat();
            check(&FETCH, 18, &body).map(|_| ())
        };
        assert_eq!(fetch(3), Ok(()));
        for size in [0, 2, 4] {
            assert_eq!(fetch(size), Err(ScanError::TaggedSize { tag: 0 }), "{size}");
        }
    }

    #[test]
    fn negative_lengths_other_than_absent_are_refused() {
        let produce = |len: i16| {
            let body = [&len.to_be_bytes()[..], &[0; 10]].concat();
            check(&PRODUCE, 3, &body).map(|_| ())
        };
        assert_eq!(produce(-1), Ok(()));
        assert_eq!(produce(-2), Err(ReadError::NegativeLength.into()));
        assert_eq!(produce(i16::MIN), Err(ReadError::NegativeLength.into()));
    }
}
