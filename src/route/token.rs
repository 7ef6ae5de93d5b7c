//! Token addresses: only the advertised address ties a client's connections together.
//!
//! A client's first connection arrives at the bootstrap address and is told an address of its own;
//! every later connection of that client object arrives there. On Linux that is one of 127/8,
//! elsewhere a port of a small range; where the listener is not on loopback there are no tokens.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::model::{GroupId, MemberId};

/// More client objects than this are remembered by nobody; the oldest are forgotten.
const REMEMBERED_MAX: usize = 65_536;

/// One client object, by the address it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// An address in 127/8.
    Address(Ipv4Addr),
    /// A port of the listener's range.
    Port(u16),
}

/// How a listener hands out tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenScheme {
    /// Each client object gets an address in 127/8, same port.
    Addresses,
    /// Each client object gets one of these ports, in turn.
    Ports(Vec<u16>),
    /// None: the listener is not on loopback.
    None,
}

/// Gives out token addresses and remembers which members speak through them.
#[derive(Debug, Default)]
pub struct Tokens {
    next: AtomicU32,
    members: Mutex<BTreeMap<Token, BTreeMap<GroupId, MemberId>>>,
}

impl Tokens {
    /// Starts counting at `seed`, so that clients of an earlier run keep addresses of their own.
    pub fn new(seed: u32) -> Self {
        Self { next: AtomicU32::new(seed), members: Mutex::default() }
    }

    /// A token nobody holds, as far as the range allows.
    pub fn issue(&self, scheme: &TokenScheme) -> Option<Token> {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        match scheme {
            TokenScheme::Addresses => Some(Token::Address(address(count))),
            TokenScheme::Ports(ports) => {
                let len = u32::try_from(ports.len()).ok().filter(|len| *len > 0)?;
                let index = usize::try_from(count % len).ok()?;
                ports.get(index).map(|port| Token::Port(*port))
            }
            TokenScheme::None => None,
        }
    }

    /// The member of `group` that speaks through `token`.
    pub fn member(&self, token: Token, group: &GroupId) -> Option<MemberId> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.get(&token)?.get(group).cloned()
    }

    /// Every member that speaks through `token`, by group.
    pub fn members(&self, token: Token) -> BTreeMap<GroupId, MemberId> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.get(&token).cloned().unwrap_or_default()
    }

    /// Whether some token is known through which that member speaks.
    pub fn knows(&self, group: &GroupId, member: &MemberId) -> bool {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.values().any(|groups| groups.get(group) == Some(member))
    }

    /// Remembers that `member` of `group` speaks through `token`; whether that is news.
    pub fn bind(&self, token: Token, group: &GroupId, member: MemberId) -> bool {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if members.len() >= REMEMBERED_MAX && !members.contains_key(&token) {
            members.pop_first();
        }
        let groups = members.entry(token).or_default();
        if groups.get(group) == Some(&member) {
            return false;
        }
        groups.insert(group.clone(), member);
        true
    }
}

/// 127.64.0.0/10: apart from 127.0.0.1 and the few addresses distributions give a name.
fn address(count: u32) -> Ipv4Addr {
    let [_, b, c, d] = (count & 0x003f_ffff).to_be_bytes();
    Ipv4Addr::new(127, 64 | b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_object_gets_a_loopback_address_of_its_own() {
        let tokens = Tokens::new(u32::MAX - 2);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            let Some(Token::Address(address)) = tokens.issue(&TokenScheme::Addresses) else {
                panic!("no token")
            };
            assert!(address.is_loopback() && address != Ipv4Addr::LOCALHOST);
            assert!(seen.insert(address));
        }
    }

    #[test]
    fn ports_are_shared_in_turn_and_a_public_listener_has_none() {
        let tokens = Tokens::new(0);
        let ports = TokenScheme::Ports(vec![1, 2]);
        let three: Vec<_> = (0..3).map(|_| tokens.issue(&ports)).collect();
        assert_eq!(three, [Some(Token::Port(1)), Some(Token::Port(2)), Some(Token::Port(1))]);
        assert_eq!(tokens.issue(&TokenScheme::None), None);
        assert_eq!(tokens.issue(&TokenScheme::Ports(vec![])), None);
    }

    #[test]
    fn a_member_is_found_by_token_and_group() {
        let tokens = Tokens::new(0);
        let token = Token::Port(9);
        assert!(tokens.bind(token, &"a".into(), "m1".into()));
        assert!(tokens.bind(token, &"b".into(), "m2".into()));
        assert!(!tokens.bind(token, &"b".into(), "m2".into()), "no news");
        assert_eq!(tokens.member(token, &"a".into()), Some("m1".into()));
        assert_eq!(tokens.member(token, &"b".into()), Some("m2".into()));
        assert_eq!(tokens.member(Token::Port(8), &"a".into()), None);
        assert_eq!((tokens.members(token).len(), tokens.members(Token::Port(8)).len()), (2, 0));
        assert!(tokens.knows(&"b".into(), &"m2".into()));
        assert!(!tokens.knows(&"a".into(), &"m2".into()));
    }
}
