//! Layouts of request bodies, as constant data.

/// Versions `from..=to` that have a field.
pub(in crate::wire) type Versions = (i16, i16);

/// The layout of one request.
#[derive(Debug)]
pub(in crate::wire) struct Schema {
    /// The first version with compact lengths and tagged fields (KIP-482).
    pub(super) flexible: i16,
    /// The fields, in wire order.
    pub(super) fields: &'static [Field],
    /// Known tagged fields of the outermost struct.
    pub(super) tagged: &'static [TaggedField],
}

impl Schema {
    /// Whether this version has compact lengths and tagged fields.
    pub(in crate::wire) fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible
    }
}

/// One field and the versions that have it.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) versions: Versions,
    pub(super) kind: FieldKind,
}

/// A tagged field whose content the codec crate decodes.
#[derive(Debug)]
pub(super) struct TaggedField {
    pub(super) tag: u32,
    pub(super) versions: Versions,
    pub(super) kind: FieldKind,
}

/// Encoding of a field.
#[derive(Debug)]
pub(super) enum FieldKind {
    /// A fixed number of bytes.
    Fixed(usize),
    /// Text, nullable or not.
    Text,
    /// Bytes, nullable or not.
    Blob,
    /// An array of one plain kind.
    List(&'static FieldKind),
    /// An array of structs.
    Structs(&'static [Field], &'static [TaggedField]),
    /// A struct without a length before it.
    Struct(&'static [Field], &'static [TaggedField]),
    /// A struct after one byte, −1 = null.
    Maybe(&'static [Field]),
}

pub(super) const ALL: Versions = (0, i16::MAX);

/// A field of every version.
pub(super) const fn always(kind: FieldKind) -> Field {
    Field { versions: ALL, kind }
}

/// A field of `from` and later.
pub(super) const fn since(from: i16, kind: FieldKind) -> Field {
    Field { versions: (from, i16::MAX), kind }
}

/// A field of `from..=to`.
pub(super) const fn within(from: i16, to: i16, kind: FieldKind) -> Field {
    Field { versions: (from, to), kind }
}

pub(super) const BOOL: FieldKind = FieldKind::Fixed(1);
pub(super) const I8: FieldKind = FieldKind::Fixed(1);
pub(super) const I16: FieldKind = FieldKind::Fixed(2);
pub(super) const I32: FieldKind = FieldKind::Fixed(4);
pub(super) const I64: FieldKind = FieldKind::Fixed(8);
pub(super) const UUID: FieldKind = FieldKind::Fixed(16);
