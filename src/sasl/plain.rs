//! The one message of PLAIN (RFC 4616): `authzid NUL authcid NUL password`.

/// The name and password that a client claims.
#[derive(Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a [u8],
}

/// Reads the message. `None`: it is malformed, or it asks to act for another user.
pub(super) fn read(token: &[u8]) -> Option<Claim<'_>> {
    let mut parts = token.split(|byte| *byte == 0);
    let (acts_for, name, password) = (parts.next()?, parts.next()?, parts.next()?);
    let whole = parts.next().is_none() && !name.is_empty() && !password.is_empty();
    let itself = acts_for.is_empty() || acts_for == name;
    let name = std::str::from_utf8(name).ok()?;
    (whole && itself).then_some(Claim { name, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_token_holds_exactly_one_user_and_password() {
        let of = |token: &[u8]| read(token).map(|c| (c.name.to_owned(), c.password.to_vec()));
        let alice = Some(("alice".to_owned(), b"pw".to_vec()));
        assert_eq!(of(b"\0alice\0pw"), alice);
        assert_eq!(of(b"alice\0alice\0pw"), alice);
        for token in [
            &b"bob\0alice\0pw"[..],
            b"\0alice",
            b"\0\0pw",
            b"\0alice\0",
            b"\0alice\0pw\0",
            b"",
            b"\0\xff\0pw",
        ] {
            assert_eq!(of(token), None, "{token:?}");
        }
    }
}
