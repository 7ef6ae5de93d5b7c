//! The layout of groups in the journal.

use super::*;
use crate::group::{
    ClassicMember, ConsumerMember, MemberState, PatternMember, Protocol, TargetTopic,
    TopicIdPartitions,
};
use crate::model::TopicId;

fn sample() -> GroupRecord {
    let member = MemberState {
        member_id: "c-1".into(),
        instance_id: Some("i".into()),
        client_id: "c".into(),
        client_host: "/::1".into(),
        session_timeout_ms: 45_000,
        rebalance_timeout_ms: 300_000,
        protocols: vec![Protocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"\x00\x01"),
        }],
        assignment: Bytes::from_static(b"\x00\x02"),
    };
    let state = GroupState {
        generation: 3,
        protocol_type: Some("consumer".into()),
        protocol: Some("range".into()),
        leader: Some("c-1".into()),
        members: vec![member],
    };
    GroupRecord { at: WallMs(1_700_000_000_000), state: StoredState::Classic(state) }
}

const FIXTURE: &str = concat!(
    "0580a0abfef96200060108636f6e73756d6572010572616e67650103632d310103632d",
    "310101690163042f3a3a31c8df02e0a712010572616e6765020001020002"
);

#[test]
fn the_layout_of_a_classic_group_is_fixed() {
    assert_eq!(read(&bytes(FIXTURE)).unwrap(), sample());
    assert_eq!(hex(&write(&sample())), FIXTURE);
}

#[test]
fn newer_and_truncated_group_states_are_refused() {
    let whole = write(&sample());
    let mut newer = whole.to_vec();
    newer[0] = 6;
    assert_eq!(read(&newer), Err(FactError::Newer { what: WHAT, found: 6, known: 5 }));
    for cut in 0..whole.len() {
        assert_eq!(read(&whole[..cut]), Err(FactError::Unreadable { what: WHAT }), "{cut}");
    }
    let mut longer = whole.to_vec();
    longer.push(0);
    assert_eq!(read(&longer), Err(FactError::Unreadable { what: WHAT }));
}

fn consumer_sample() -> GroupRecord {
    let topic = TopicId([7; 16]);
    let member = ConsumerMember {
        member_id: "c-1".into(),
        instance_id: Some("i".into()),
        rack_id: Some("r".into()),
        client_id: "c".into(),
        client_host: "/::1".into(),
        rebalance_timeout_ms: 300_000,
        assignor: Some("range".into()),
        topics: vec!["orders".into(), "retry.g".into()],
        epoch: 3,
        epoch_before: -2,
        target: vec![TopicIdPartitions { topic, partitions: vec![0, 300] }],
        assigned: vec![TopicIdPartitions { topic, partitions: vec![0] }],
        revoking: vec![TopicIdPartitions { topic, partitions: vec![2] }],
    };
    let state = ConsumerState {
        epoch: 4,
        topics: vec![TargetTopic { name: "orders".into(), id: topic, partitions: 301 }],
        members: vec![member],
        classic: Vec::new(),
        patterns: Vec::new(),
    };
    GroupRecord { at: WallMs(1_700_000_000_000), state: StoredState::Consumer(state) }
}

const CONSUMER_FIXTURE: &str = concat!(
    "0580a0abfef962010801066f726465727307070707070707070707070707070707da040103632d310101690101",
    "720163042f3a3a31e0a712010572616e676502066f72646572730772657472792e6706030107070707070707",
    "0707070707070707070200d80401070707070707070707070707070707070100010707070707070707070707",
    "070707070701040000"
);

#[test]
fn the_layout_of_a_consumer_group_is_fixed() {
    let whole = write(&consumer_sample());
    assert_eq!(hex(&whole), CONSUMER_FIXTURE);
    assert_eq!(read(&bytes(CONSUMER_FIXTURE)).unwrap(), consumer_sample());
    for cut in 0..whole.len() {
        assert_eq!(read(&whole[..cut]), Err(FactError::Unreadable { what: WHAT }), "{cut}");
    }
}

const MIXED_FIXTURE: &str = concat!(
    "0580a0abfef962010801066f726465727307070707070707070707070707070707da040103632d3101016901",
    "01720163042f3a3a31e0a712010572616e676502066f72646572730772657472792e670603010707070707",
    "07070707070707070707070200d80401070707070707070707070707070707070100010707070707070707",
    "070707070707070701040103632d31c8df02010572616e676502000100"
);

#[test]
fn the_layout_of_a_group_of_both_protocols_is_fixed() {
    let GroupRecord { at, state: StoredState::Consumer(mut state) } = consumer_sample() else {
        panic!()
    };
    let metadata = Bytes::from_static(b"\x00\x01");
    state.classic = vec![ClassicMember {
        member_id: "c-1".into(),
        session_timeout_ms: 45_000,
        protocols: vec![Protocol { name: "range".into(), metadata }],
    }];
    let sample = GroupRecord { at, state: StoredState::Consumer(state) };
    let whole = write(&sample);
    assert_eq!(hex(&whole), MIXED_FIXTURE);
    assert_eq!(read(&bytes(MIXED_FIXTURE)).unwrap(), sample);
    for cut in 0..whole.len() {
        assert_eq!(read(&whole[..cut]), Err(FactError::Unreadable { what: WHAT }), "{cut}");
    }
}

const PATTERN_FIXTURE: &str = concat!(
    "0580a0abfef962010801066f726465727307070707070707070707070707070707da040103632d3101016901",
    "01720163042f3a3a31e0a712010572616e676501066f726465727306030107070707070707070707070707",
    "0707070200d804010707070707070707070707070707070701000107070707070707070707070707070707",
    "0104000103632d31056f72642e2a01087061796d656e7473"
);

#[test]
fn the_layout_of_a_group_with_patterns_is_fixed() {
    let GroupRecord { at, state: StoredState::Consumer(mut state) } = consumer_sample() else {
        panic!()
    };
    state.members[0].topics = vec!["orders".into()];
    state.patterns = vec![PatternMember {
        member_id: "c-1".into(),
        pattern: "ord.*".into(),
        names: vec!["payments".into()],
    }];
    let sample = GroupRecord { at, state: StoredState::Consumer(state) };
    let whole = write(&sample);
    assert_eq!(hex(&whole), PATTERN_FIXTURE);
    assert_eq!(read(&bytes(PATTERN_FIXTURE)).unwrap(), sample);
    for cut in 0..whole.len() {
        assert_eq!(read(&whole[..cut]), Err(FactError::Unreadable { what: WHAT }), "{cut}");
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
