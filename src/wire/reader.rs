//! A bounded cursor over untrusted bytes: every read may fail, none panics or allocates.

/// The bytes end before the value does, or a value is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The value would end after the last byte.
    #[error("the bytes end in the middle of a value")]
    Truncated,
    /// A length below −1, or −1 where null is not allowed.
    #[error("a length is negative where none may be")]
    NegativeLength,
    /// A variable-length number longer than its type.
    #[error("a variable-length number does not fit its type")]
    VarintTooLong,
    #[error("a text is not UTF-8")]
    NotUtf8,
}

/// The unread bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

// Every relayed batch is read here, many per request, so small functions are inlined.
impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(ReadError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(ReadError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, ReadError> {
        self.array::<1>().map(|[b]| b)
    }

    #[inline]
    pub(super) fn int8(&mut self) -> Result<i8, ReadError> {
        self.array().map(i8::from_be_bytes)
    }

    #[inline]
    pub(super) fn int16(&mut self) -> Result<i16, ReadError> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub(super) fn int32(&mut self) -> Result<i32, ReadError> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub(super) fn uint32(&mut self) -> Result<u32, ReadError> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(super) fn int64(&mut self) -> Result<i64, ReadError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Unsigned, 7 bits a byte, at most 5 bytes and 32 bits.
    pub(super) fn uvarint(&mut self) -> Result<u32, ReadError> {
        let value = self.groups(5)?;
        u32::try_from(value).map_err(|_| ReadError::VarintTooLong)
    }

    /// Zigzag, at most 5 bytes and 32 bits.
    pub(super) fn varint(&mut self) -> Result<i32, ReadError> {
        let raw = self.uvarint()?;
        let magnitude = (raw >> 1).cast_signed();
        Ok(if raw & 1 == 0 { magnitude } else { !magnitude })
    }

    /// Zigzag, at most 10 bytes and 64 bits.
    pub(super) fn varlong(&mut self) -> Result<i64, ReadError> {
        let raw = self.groups(10)?;
        let magnitude = (raw >> 1).cast_signed();
        Ok(if raw & 1 == 0 { magnitude } else { !magnitude })
    }

    fn groups(&mut self, bytes_max: u32) -> Result<u64, ReadError> {
        let mut value: u64 = 0;
        for index in 0..bytes_max {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << (index * 7);
            if shifted >> (index * 7) != bits {
                return Err(ReadError::VarintTooLong);
            }
            value |= shifted;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ReadError::VarintTooLong)
    }

    /// Bytes after a zigzag length, negative = null: the form inside record batches. Kafka's
    /// `Utils.readBytes` takes any negative length as null.
    pub(super) fn varint_bytes(&mut self) -> Result<Option<&'a [u8]>, ReadError> {
        usize::try_from(self.varint()?).map_or(Ok(None), |len| self.take(len).map(Some))
    }

    /// Text after a 16-bit length, −1 = null.
    pub(super) fn nullable_string(&mut self) -> Result<Option<&'a str>, ReadError> {
        match self.int16()? {
            -1 => Ok(None),
            len => {
                let bytes = self.take(length(i32::from(len))?)?;
                std::str::from_utf8(bytes).map(Some).map_err(|_| ReadError::NotUtf8)
            }
        }
    }

    /// Text after a 16-bit length.
    pub(super) fn string(&mut self) -> Result<&'a str, ReadError> {
        self.nullable_string()?.ok_or(ReadError::NegativeLength)
    }

    /// Bytes after a 32-bit length, −1 = null.
    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, ReadError> {
        match self.int32()? {
            -1 => Ok(None),
            len => self.take(length(len)?).map(Some),
        }
    }
}

/// Converts a wire length; negative ones are refused.
pub(super) fn length(len: i32) -> Result<usize, ReadError> {
    usize::try_from(len).map_err(|_| ReadError::NegativeLength)
}
