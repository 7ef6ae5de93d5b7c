//! Bytes of records in JSON: base64 as in RFC 4648, with padding.

pub(in crate::admin) use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are base64 in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_ref());
        bytes.map(Self).map_err(|_| D::Error::custom("expected base64 with padding"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<u8>> {
        serde_json::from_value::<Base64>(text.into()).ok().map(|base64| base64.0)
    }

    #[test]
    fn only_padded_base64_is_read() {
        let bytes = [0xff, 0xfe, 0xfb, 0];
        let text = "//77AA==";
        assert_eq!(serde_json::to_value(Base64(bytes.to_vec())).unwrap(), text);
        assert_eq!(read(text).as_deref(), Some(&bytes[..]));
        for bad in [
            "A", "AA", "AAA", "AA=", "AB==", "AAB=", "A===", "====", "=", "AA==AA==", "A A=",
            "__77",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
