//! The keys that this build knows, collected by reading a configuration with every part.

use std::sync::OnceLock;

use super::keys::KeyIndex;
use super::section::{Findings, Section};
use super::{Config, raw};

/// A configuration with every part that is absent by default.
pub(super) const WHOLE: &str = "listen: [{address: 'a:1', tls: {}, sasl: {}}]
upstream: {bootstrap: 'a:1', tls: {}, sasl: {}}
topics: {list: [{name: a}]}
retry: {breaker: {}}
groups: [{match: a, breaker: {}}]
";

/// The index of this build.
pub(super) fn known_keys() -> &'static KeyIndex {
    static INDEX: OnceLock<KeyIndex> = OnceLock::new();
    INDEX.get_or_init(|| {
        let findings = Findings::default();
        if let Ok(tree) = raw::parse(WHOLE) {
            Config::read(Section::root(&tree, &findings));
        }
        KeyIndex::new(findings.keys.into_inner())
    })
}
