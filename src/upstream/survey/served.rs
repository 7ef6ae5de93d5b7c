//! Releases of Kafka by the APIs a broker serves, and the APIs that reprise needs and lacks.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_protocol::messages::ApiVersionsResponse;

use crate::wire::Api;

pub(super) type Ranges = BTreeMap<i16, (i16, i16)>;

/// APIs that reprise needs: it relays them, or sends them itself.
const NEEDED: [Api; 12] = [
    Api::Produce,
    Api::Fetch,
    Api::ListOffsets,
    Api::Metadata,
    Api::OffsetCommit,
    Api::OffsetFetch,
    Api::FindCoordinator,
    Api::JoinGroup,
    Api::Heartbeat,
    Api::LeaveGroup,
    Api::SyncGroup,
    Api::ApiVersions,
];
/// The feature whose highest level identifies a release.
const METADATA_VERSION: &str = "metadata.version";
/// Level 2 of this feature adds dead letters of share groups (KIP-1191).
const SHARE_VERSION: &str = "share.version";
const DEAD_LETTERS_SINCE: i16 = 2;
/// First level of `metadata.version` of each release (Kafka's `MetadataVersion`).
const LEVELS: [(i16, &str); 12] = [
    (31, "4.4 or later"),
    (30, "4.3"),
    (28, "4.2"),
    (26, "4.1"),
    (22, "4.0"),
    (21, "3.9"),
    (20, "3.8"),
    (15, "3.7"),
    (12, "3.6"),
    (9, "3.5"),
    (8, "3.4"),
    (4, "3.3"),
];
/// The release that introduced each version of Fetch.
const FETCHES: [(i16, &str); 11] = [
    (18, "4.1"),
    (17, "3.9"),
    (16, "3.7"),
    (14, "3.5"),
    (13, "3.1"),
    (12, "2.7"),
    (11, "2.3"),
    (10, "2.1"),
    (8, "2.0"),
    (7, "1.1"),
    (4, "0.11"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerReport {
    /// Round trip of the ApiVersions request.
    pub round_trip: Duration,
    /// `Kafka 4.3`, or `Kafka 2.3 or later`; `None`: older than every release in the tables.
    pub release: Option<String>,
    /// Needed APIs that the broker lacks: reprise does not work with it.
    pub missing: Vec<&'static str>,
    /// Whether the broker serves the consumer groups of KIP-848.
    pub consumer_groups: bool,
    pub share_dead_letters: bool,
}

impl BrokerReport {
    pub(super) fn of(
        round_trip: Duration,
        ranges: &Ranges,
        features: Option<&ApiVersionsResponse>,
    ) -> Self {
        let missing = NEEDED.into_iter().filter(|api| !serves(ranges, *api));
        Self {
            round_trip,
            release: release(ranges, features),
            missing: missing.map(Api::name).collect(),
            consumer_groups: serves(ranges, Api::ConsumerGroupHeartbeat),
            share_dead_letters: level(features, SHARE_VERSION) >= Some(DEAD_LETTERS_SINCE),
        }
    }
}

pub(super) fn ranges(answer: &ApiVersionsResponse) -> Ranges {
    let range = answer.api_keys.iter();
    range.map(|key| (key.api_key, (key.min_version, key.max_version))).collect()
}

/// Whether both sides share a version.
fn serves(ranges: &Ranges, api: Api) -> bool {
    let (min, max) = api.served();
    ranges.get(&api.key()).is_some_and(|(lowest, highest)| *lowest <= max && min <= *highest)
}

/// The highest level of a feature that the broker supports.
fn level(features: Option<&ApiVersionsResponse>, name: &str) -> Option<i16> {
    let features = features.into_iter().flat_map(|answer| &answer.supported_features);
    let levels = features.filter(|feature| feature.name.as_str() == name);
    levels.map(|feature| feature.max_version).max()
}

fn release(ranges: &Ranges, features: Option<&ApiVersionsResponse>) -> Option<String> {
    let of = |table: &[(i16, &'static str)], found: i16| {
        table.iter().find(|(first, _)| found >= *first).map(|(_, release)| *release)
    };
    if let Some(release) = level(features, METADATA_VERSION).and_then(|level| of(&LEVELS, level)) {
        return Some(format!("Kafka {release}"));
    }
    let (_, fetch) = ranges.get(&Api::Fetch.key())?;
    of(&FETCHES, *fetch).map(|release| format!("Kafka {release} or later"))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::api_versions_response::SupportedFeatureKey;
    use kafka_protocol::protocol::StrBytes;

    use super::*;

    fn all(fetch: i16) -> Ranges {
        let mut ranges: Ranges = Api::ALL.iter().map(|api| (api.key(), api.served())).collect();
        ranges.insert(Api::Fetch.key(), (4, fetch));
        ranges
    }

    fn at_level(level: i16) -> ApiVersionsResponse {
        let mut feature = SupportedFeatureKey::default();
        feature.name = StrBytes::from_static_str(METADATA_VERSION);
        feature.max_version = level;
        let mut answer = ApiVersionsResponse::default();
        answer.supported_features = vec![feature];
        answer
    }

    #[test]
    fn the_release_follows_from_features_or_the_fetch_version() {
        for (level, release) in
            [(7, "3.3"), (19, "3.7"), (21, "3.9"), (25, "4.0"), (29, "4.2"), (30, "4.3")]
        {
            let told = release_of(&all(18), Some(&at_level(level)));
            assert_eq!(told, format!("Kafka {release}"));
        }
        for (fetch, since) in [(5, "0.11"), (10, "2.1"), (11, "2.3"), (15, "3.5"), (18, "4.1")] {
            assert_eq!(release_of(&all(fetch), None), format!("Kafka {since} or later"));
        }
        assert_eq!(release(&all(3), None), None);
        assert_eq!(release(&Ranges::new(), None), None);
    }

    fn release_of(ranges: &Ranges, features: Option<&ApiVersionsResponse>) -> String {
        release(ranges, features).unwrap()
    }

    #[test]
    fn share_group_dead_letters_need_feature_level_two() {
        let has_them = |level: i16| {
            let mut answer = at_level(31);
            let mut feature = answer.supported_features[0].clone();
            feature.name = StrBytes::from_static_str(SHARE_VERSION);
            feature.max_version = level;
            answer.supported_features.push(feature);
            BrokerReport::of(Duration::ZERO, &all(18), Some(&answer)).share_dead_letters
        };
        assert_eq!([has_them(0), has_them(1), has_them(2)], [false, false, true]);
        assert!(!BrokerReport::of(Duration::ZERO, &all(18), None).share_dead_letters);
    }

    #[test]
    fn apis_without_a_common_version_are_missing() {
        let served = |ranges: &Ranges| BrokerReport::of(Duration::ZERO, ranges, None);
        assert_eq!(served(&all(18)).missing, Vec::<&str>::new());
        assert!(served(&all(18)).consumer_groups);
        let mut old = all(3);
        old.remove(&Api::JoinGroup.key());
        old.remove(&Api::ConsumerGroupHeartbeat.key());
        let found = served(&old);
        assert_eq!((found.missing, found.consumer_groups), (vec!["Fetch", "JoinGroup"], false));
    }
}
