//! Client addresses: the advertised address by which the connections of one client object are
//! recognised.
//!
//! The first connection of a client arrives at the bootstrap address, and its answers name an
//! address of its own. Every later connection of that client object arrives there. On Linux this is
//! an address in 127/8, elsewhere a port of a small range. A listener that is not on loopback has
//! no client addresses.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::{GroupId, MemberId};

/// Bound of client objects; beyond it the first by address is evicted.
const REMEMBERED_MAX: usize = 65_536;
/// Bound of groups of one client object: a consumer is in one.
const GROUPS_MAX: usize = 64;
/// Bound of client addresses of one member: that of its join, and one more after it found its
/// coordinator at another address.
const VOICES_MAX: usize = 2;

/// A client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientAddress {
    /// An address in 127/8.
    Address(Ipv4Addr),
    /// A port of the listener's range.
    Port(u16),
}

/// The kind of client addresses of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenScheme {
    /// Each client object gets an address in 127/8, with the same port.
    Addresses,
    /// Each client object gets one of these ports, in turn.
    Ports(Vec<u16>),
    /// None: the listener is not on loopback.
    None,
}

/// Issues client addresses and remembers the members behind them.
#[derive(Debug, Default)]
pub struct Tokens {
    next: AtomicU32,
    heard: Mutex<AddressMembers>,
}

/// Members by client address, and client addresses by member.
#[derive(Debug, Default)]
struct AddressMembers {
    tokens: BTreeMap<ClientAddress, BTreeMap<GroupId, MemberId>>,
    /// The client addresses of each member, latest last.
    voices: BTreeMap<(GroupId, MemberId), Vec<ClientAddress>>,
}

impl Tokens {
    /// Starts counting at `seed`, so that clients of an earlier run keep their addresses.
    pub fn new(seed: u32) -> Self {
        Self { next: AtomicU32::new(seed), heard: Mutex::default() }
    }

    /// An unused client address, as far as the range allows.
    pub fn issue(&self, scheme: &TokenScheme) -> Option<ClientAddress> {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        match scheme {
            TokenScheme::Addresses => Some(ClientAddress::Address(address(count))),
            TokenScheme::Ports(ports) => {
                let len = u32::try_from(ports.len()).ok().filter(|len| *len > 0)?;
                let index = usize::try_from(count % len).ok()?;
                ports.get(index).map(|port| ClientAddress::Port(*port))
            }
            TokenScheme::None => None,
        }
    }

    /// The member of `group` behind `token`.
    pub fn member(&self, token: ClientAddress, group: &GroupId) -> Option<MemberId> {
        self.lock().tokens.get(&token)?.get(group).cloned()
    }

    /// Every member behind `token`, by group.
    pub fn members(&self, token: ClientAddress) -> BTreeMap<GroupId, MemberId> {
        self.lock().tokens.get(&token).cloned().unwrap_or_default()
    }

    /// Whether the client address of that member is known.
    pub fn has_address(&self, group: &GroupId, member: &MemberId) -> bool {
        self.lock().voices.contains_key(&(group.clone(), member.clone()))
    }

    /// Records the member of `group` behind `token`; whether it changed.
    pub fn bind(&self, token: ClientAddress, group: &GroupId, member: MemberId) -> bool {
        let mut heard = self.lock();
        if heard.is_full(token) {
            heard.forget_first();
        }
        let members = heard.tokens.entry(token).or_default();
        let before = members.get(group);
        if before == Some(&member) || (before.is_none() && members.len() >= GROUPS_MAX) {
            return false;
        }
        let before = members.insert(group.clone(), member.clone());
        if let Some(before) = before {
            heard.ceased(token, (group.clone(), before));
        }
        heard.speaks(token, (group.clone(), member));
        true
    }

    fn lock(&self) -> MutexGuard<'_, AddressMembers> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AddressMembers {
    fn is_full(&self, token: ClientAddress) -> bool {
        let is_new = !self.tokens.contains_key(&token);
        (is_new && self.tokens.len() >= REMEMBERED_MAX) || self.voices.len() >= REMEMBERED_MAX
    }

    fn forget_first(&mut self) {
        let Some((token, members)) = self.tokens.pop_first() else { return };
        for of in members {
            self.ceased(token, of);
        }
    }

    /// Adds a client address to a member and drops its oldest beyond the bound.
    fn speaks(&mut self, token: ClientAddress, of: (GroupId, MemberId)) {
        let group = of.0.clone();
        let voices = self.voices.entry(of).or_default();
        voices.push(token);
        let surplus = voices.len().saturating_sub(VOICES_MAX);
        for former in voices.drain(..surplus).collect::<Vec<_>>() {
            let Some(members) = self.tokens.get_mut(&former) else { continue };
            members.remove(&group);
            if members.is_empty() {
                self.tokens.remove(&former);
            }
        }
    }

    /// Removes a client address from a member.
    fn ceased(&mut self, token: ClientAddress, of: (GroupId, MemberId)) {
        let Some(voices) = self.voices.get_mut(&of) else { return };
        voices.retain(|voice| *voice != token);
        if voices.is_empty() {
            self.voices.remove(&of);
        }
    }
}

/// 127.64.0.0/10 avoids 127.0.0.1 and the few addresses that distributions name.
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
            let Some(ClientAddress::Address(address)) = tokens.issue(&TokenScheme::Addresses)
            else {
                panic!("no token")
            };
            assert!(address.is_loopback() && address != Ipv4Addr::LOCALHOST);
            assert!(seen.insert(address));
        }
    }

    #[test]
    fn ports_are_shared_in_turn_except_on_public_listeners() {
        let tokens = Tokens::new(0);
        let ports = TokenScheme::Ports(vec![1, 2]);
        let three: Vec<_> = (0..3).map(|_| tokens.issue(&ports)).collect();
        assert_eq!(
            three,
            [
                Some(ClientAddress::Port(1)),
                Some(ClientAddress::Port(2)),
                Some(ClientAddress::Port(1))
            ]
        );
        assert_eq!(tokens.issue(&TokenScheme::None), None);
        assert_eq!(tokens.issue(&TokenScheme::Ports(vec![])), None);
    }

    #[test]
    fn a_member_is_found_by_token_and_group() {
        let (tokens, token) = (Tokens::new(0), ClientAddress::Port(9));
        let bind = |group: &str, member: &str| tokens.bind(token, &group.into(), member.into());
        assert!(bind("a", "m1"));
        assert!(bind("b", "m2"));
        assert!(!bind("b", "m2"), "no news");
        assert_eq!(tokens.member(token, &"a".into()), Some("m1".into()));
        assert_eq!(tokens.member(token, &"b".into()), Some("m2".into()));
        assert_eq!(tokens.member(ClientAddress::Port(8), &"a".into()), None);
        assert_eq!(
            (tokens.members(token).len(), tokens.members(ClientAddress::Port(8)).len()),
            (2, 0)
        );
    }

    fn bind(tokens: &Tokens, port: u16, group: &str, member: &str) -> bool {
        tokens.bind(ClientAddress::Port(port), &group.into(), member.into())
    }

    fn sizes(tokens: &Tokens) -> (usize, usize) {
        let heard = tokens.lock();
        (heard.tokens.len(), heard.voices.len())
    }

    #[test]
    fn a_member_keeps_two_addresses_of_bounded_groups() {
        let tokens = Tokens::new(0);
        for port in 1..=1_000 {
            assert!(bind(&tokens, port, "a", "m1"));
        }
        let speaks = |port| tokens.member(ClientAddress::Port(port), &"a".into()).is_some();
        assert_eq!([998, 999, 1_000].map(speaks), [false, true, true]);
        assert_eq!(sizes(&tokens), (2, 1), "the rest is forgotten");
        let has_address = |member: &str| tokens.has_address(&"a".into(), &member.into());
        assert_eq!([has_address("m1"), has_address("m2")], [true, false]);
        for member in ["m2", "m3"] {
            assert!(bind(&tokens, 999, "a", member) && bind(&tokens, 1_000, "a", member));
        }
        assert_eq!(sizes(&tokens), (2, 1), "others speak there now");
        assert!(!has_address("m1"), "its addresses are bound to other members");
        for group in 0..1_000 {
            bind(&tokens, 7, &format!("g{group}"), "m1");
        }
        assert_eq!(tokens.members(ClientAddress::Port(7)).len(), GROUPS_MAX);
        assert!(bind(&tokens, 7, "g0", "m2"), "those it has go on");
    }

    #[test]
    fn the_earliest_client_addresses_are_forgotten_with_their_members() {
        let tokens = Tokens::new(0);
        for n in 0..=u32::try_from(REMEMBERED_MAX).unwrap() {
            let member = n.to_string();
            let token = ClientAddress::Address(address(n));
            tokens.bind(token, &"a".into(), member.as_str().into());
        }
        assert_eq!(sizes(&tokens), (REMEMBERED_MAX, REMEMBERED_MAX));
        let speaks = |n| tokens.member(ClientAddress::Address(address(n)), &"a".into()).is_some();
        assert_eq!([speaks(0), speaks(1)], [false, true]);
    }
}
