//! Frames with false counts are refused without a panic or a large allocation. Every served API and
//! version is decoded from the codec crate's encoding. `frames` sends bytes to a sidecar.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

mod bombs;
mod cases;
mod frames;
#[path = "../support/mod.rs"]
mod support;

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::*;
use reprise::wire::{self, Api, HeadError, RequestHead};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use cases::{Case, cases};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that one frame may make the process allocate, the test's own part included.
const ALLOCATED_BYTES_MAX: usize = 1 << 20;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test runs: the allocator's count belongs to the whole process.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `look` with every frame of every API and version.
fn every(mut look: impl FnMut(&Case, i16, Bytes)) {
    let mut apis = Vec::new();
    for case in cases() {
        apis.push(case.api);
        let (min, max) = case.api.served();
        for version in min..=max {
            look(&case, version, (case.frame)(version));
        }
    }
    apis.sort_unstable();
    let mut all = Api::ALL.to_vec();
    all.sort_unstable();
    assert_eq!(apis, all, "an API has no case here");
}

/// Runs `work`, whose allocations must stay under the bound.
fn bounded<T>(what: &str, work: impl FnOnce() -> T) -> T {
    within(ALLOCATED_BYTES_MAX, what, work)
}

/// Runs `work` under another bound.
fn within<T>(bytes_max: usize, what: &str, work: impl FnOnce() -> T) -> T {
    let region = Region::new(ALLOCATOR);
    let answer = work();
    let change = region.change();
    let grown = usize::try_from(change.bytes_reallocated.max(0)).unwrap();
    let allocated = change.bytes_allocated + grown;
    assert!(allocated <= bytes_max, "{what}: {allocated} bytes allocated");
    answer
}

/// One test for all cases: the allocator's count belongs to the whole process.
#[test]
fn hostile_frames_are_refused_without_panic_or_allocation() {
    let _alone = alone();
    encoded_requests_are_read_back_equal();
    a_frame_cut_anywhere_is_refused();
    a_lying_number_anywhere_costs_no_memory();
    the_frame_that_aborts_the_bare_crate_is_refused();
    many_small_elements_cost_a_bounded_multiple_of_their_frame();
    unknown_keys_and_versions_keep_their_correlation_id();
    bombs::all();
}

fn encoded_requests_are_read_back_equal() {
    every(|case, version, frame| {
        let head = RequestHead::parse(&frame).unwrap();
        assert_eq!((head.api, head.version, head.correlation_id), (case.api, version, 77));
        assert_eq!(head.client_id, Some("shop".into()));
        assert_eq!(
            wire::scan::message_bytes(&head),
            Ok(head.body.len()),
            "{:?} {version}",
            case.api
        );
        assert!((case.reads)(&head, true), "{:?} {version}", case.api);
        let mut longer = BytesMut::from(&frame[..]);
        longer.put_slice(b"rubbish behind the message");
        let head = RequestHead::parse(&longer.freeze()).unwrap();
        assert!((case.reads)(&head, true), "{:?} {version} with bytes behind it", case.api);
    });
}

fn a_frame_cut_anywhere_is_refused() {
    every(|case, version, frame| {
        for len in 0..frame.len() {
            let head = RequestHead::parse(&frame.slice(..len));
            let read = head.is_ok_and(|head| (case.reads)(&head, false));
            assert!(!read, "{:?} {version} cut at {len} of {}", case.api, frame.len());
        }
    });
}

fn a_lying_number_anywhere_costs_no_memory() {
    let lies: [&[u8]; 8] = [
        &[0x7f, 0xff, 0xff, 0xff],       // i32 maximum: a count of 2^31 − 1
        &[0x7f, 0xff],                   // i16 maximum
        &[0xff, 0xff, 0xff, 0xff, 0x07], // the same as a varint, and minus one
        &[0xff, 0xff, 0xff, 0xff, 0x0f], // varint maximum
        &[0xff; 10],                     // a varint without end, and −1 everywhere
        &[0x80, 0, 0, 0],                // i32 minimum
        &[0, 0x0f, 0xff, 0xff],          // a count of a million
        &[0x80, 0x80, 0x40],             // the same as a varint
    ];
    let mut refused = 0_u32;
    every(|case, version, frame| {
        for at in 8..frame.len() {
            for lie in lies {
                let mut bytes = frame.to_vec();
                for (place, byte) in bytes[at..].iter_mut().zip(lie) {
                    *place = *byte;
                }
                let bytes = Bytes::from(bytes);
                let read = bounded(&format!("{:?} {version} at {at}", case.api), || {
                    RequestHead::parse(&bytes).is_ok_and(|head| (case.reads)(&head, false))
                });
                refused += u32::from(!read);
            }
        }
    });
    assert!(refused > 10_000, "only {refused} lies were noticed");
}

/// Metadata 1 with an array of 2^31 − 1 topics, for which the codec crate allocates 206 GB.
fn the_frame_that_aborts_the_bare_crate_is_refused() {
    let bytes = Bytes::from_static(&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let head = RequestHead::parse(&bytes).unwrap();
    let error = bounded("14 bytes", || wire::decode::<MetadataRequest>(&head)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a request body is broken: an array of 2147483647 elements cannot fit the 0 bytes behind \
         it"
    );
}

fn many_small_elements_cost_a_bounded_multiple_of_their_frame() {
    use wire::scan::{COST_BYTES_PER_ITEM, TAGGED_FIELD_ITEMS};
    // OffsetFetch 8: a group with an empty name and no topics, without and with one tagged field
    let (bare, tagged): (&[u8], &[u8]) = (&[1, 0, 0], &[1, 0, 1, 9, 0]);
    for (group, items) in [(bare, 1), (tagged, 1 + TAGGED_FIELD_ITEMS)] {
        let head = offset_fetch(1_000, group);
        let region = Region::new(ALLOCATOR);
        let read = wire::decode::<OffsetFetchRequest>(&head).unwrap();
        let allocated = region.change().bytes_allocated;
        assert_eq!(read.groups.len(), 1_000);
        let bound = 1_000 * items * COST_BYTES_PER_ITEM;
        assert!(allocated <= bound, "{items} items each: {allocated} bytes, not {bound}");
    }
    let large = offset_fetch(250_000, bare);
    let error = bounded("250 000", || wire::decode::<OffsetFetchRequest>(&large)).unwrap_err();
    assert!(error.to_string().contains("more than 200000 elements"), "{error}");
}

fn offset_fetch(count: u32, group: &[u8]) -> RequestHead {
    let mut out = BytesMut::from(&[0, 9, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0][..]);
    let mut plus_one = count + 1;
    while plus_one >= 0x80 {
        out.put_u8(plus_one.to_le_bytes()[0] | 0x80);
        plus_one >>= 7;
    }
    out.put_u8(plus_one.to_le_bytes()[0]);
    (0..count).for_each(|_| out.put_slice(group));
    out.put_slice(&[0, 0]);
    RequestHead::parse(&out.freeze()).unwrap()
}

fn unknown_keys_and_versions_keep_their_correlation_id() {
    let of = |key: i16, version: i16| {
        let mut out = BytesMut::new();
        out.put_i16(key);
        out.put_i16(version);
        out.put_i32(4711);
        RequestHead::parse(&out.freeze()).unwrap_err()
    };
    let correlation_id = 4711;
    for key in [-1, 27, 99, i16::MAX] {
        let error = HeadError::UnknownApi { api_key: key, version: 0, correlation_id };
        assert_eq!(of(key, 0), error);
    }
    for (api, version) in [(Api::ApiVersions, 5), (Api::Produce, 2), (Api::Fetch, -1)] {
        let error = HeadError::UnsupportedVersion { api, version, correlation_id };
        assert_eq!(of(api.key(), version), error);
    }
}
