//! The steps of a job, and its format.

use super::*;
use crate::journal::{JournalOptions, MemDisk};

fn job(canary: u32) -> Job {
    let terms = JobTerms {
        group: "shop".into(),
        action: JobAction::Redrive,
        selector: Selector { topic: Some("orders".into()), ..Selector::default() },
        patch: RecordPatch { remove_headers: vec!["try".into()], ..RecordPatch::default() },
        rate: Some(100),
        canary,
        stop_percent: 50,
        redrives_max: 3,
    };
    Job {
        id: 7,
        terms,
        by: Operator {
            name: "kim".into(),
            is_claimed: true,
            peer: "10.0.0.7".into(),
            note: "INC-1".into(),
        },
        started: WallMs(5),
        ended: None,
        state: JobState::Running,
        matched: Some(9),
        cursor: 2,
        end: 400,
        changed: 0,
        left: 0,
        acknowledged: 0,
        failed: 0,
        watched: Vec::new(),
    }
}

fn ids(numbers: std::ops::Range<u64>) -> Vec<EntryId> {
    numbers.map(EntryId).collect()
}

fn step(cursor: i64, acknowledged: u64, failed: u64) -> JobStep {
    let outcomes = RedriveOutcomes { acknowledged, failed, pending: Vec::new() };
    JobStep { id: 7, cursor, left: 0, outcomes }
}

#[test]
fn the_layout_of_a_job_is_fixed() {
    let mut job = Job { watched: ids(3..5), left: 2, changed: 300, ..job(5) };
    job.terms.selector.key_shape = Some("a-#".into());
    let stored = entry(&job.id.to_be_bytes(), &job);
    let expected = b"\x07\x07\x04shop\x00\x00\x01\x06orders\x00\x00\x00\x00\x01\x03a-#\
        \x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x03try\x00\x00\x01\x64\x05\x32\x03\x03kim\x01\x08\
        10.0.0.7\x05INC-1\x0a\x00\x00\x01\x09\x04\xa0\x06\xac\x02\x02\x00\x00\x02\x03\x04";
    assert_eq!(stored.head()[..], expected[..], "the format has changed: give it a new version");
    assert_eq!(parse::<Job>(expected), Some(job));
    for bad in [&b""[..], b"\x02", &expected[..9], &[&expected[..], b"\0"].concat()] {
        assert_eq!(parse::<Job>(bad), None, "{bad:?}");
    }
}

#[test]
fn the_canary_has_its_outcomes_before_others_follow() {
    let begun = job(3);
    assert_eq!(begun.batch_max(), 3);
    let sent = begun.stepped(step(10, 0, 0), 3, ids(0..3));
    assert_eq!((sent.batch_max(), sent.awaits_canary()), (0, true));
    let most = sent.stepped(step(10, 2, 0), 0, Vec::new());
    assert!(most.awaits_canary());
    let passed = most.stepped(step(10, 0, 1), 0, Vec::new());
    assert_eq!((passed.batch_max(), passed.awaits_canary()), (usize::MAX, false));
    assert_eq!(passed.state, JobState::Running, "one of three is below the limit");
}

#[test]
fn a_job_stops_when_its_records_fail_again() {
    let canary = job(2).stepped(step(10, 0, 0), 2, ids(0..2));
    assert_eq!(canary.stepped(step(10, 0, 2), 0, Vec::new()).state, JobState::Stopped);
    let plain = job(0).stepped(step(50, 0, 9), 40, ids(0..40));
    assert_eq!(plain.state, JobState::Running, "nine outcomes say too little");
    assert_eq!(plain.stepped(step(90, 8, 0), 40, ids(40..80)).state, JobState::Stopped);
    assert_eq!(job(0).stepped(step(400, 5, 4), 0, Vec::new()).state, JobState::Done);
}

#[test]
fn a_job_watches_its_latest_records() {
    let first = job(0).stepped(step(10, 0, 0), 900, ids(0..900));
    let outcomes = RedriveOutcomes { pending: first.watched.clone(), ..RedriveOutcomes::default() };
    let second = first.stepped(JobStep { outcomes, ..step(20, 0, 0) }, 200, ids(900..1_100));
    assert_eq!(second.watched, ids(100..1_100));
}

#[test]
fn an_operator_changes_open_jobs_only() {
    let running = job(0);
    let paused = running.change(JobChange::Pause).unwrap();
    assert_eq!(paused.change(JobChange::Pause).unwrap().state, JobState::Paused);
    assert_eq!(paused.change(JobChange::Resume).unwrap().state, JobState::Running);
    let over = paused.change(JobChange::Cancel).unwrap();
    for change in [JobChange::Pause, JobChange::Resume, JobChange::Cancel] {
        assert_eq!(over.change(change), Err(JobError::Ended(7, "cancelled")));
    }
    let mut jobs = Jobs::default();
    jobs.put(running);
    assert_eq!(jobs.next(&"shop".into()), Err(JobError::Busy(7)));
    assert_eq!(jobs.next(&"other".into()), Ok(8));
    assert!(jobs.running(7).is_ok());
    jobs.put(over);
    assert_eq!(jobs.next(&"shop".into()), Ok(8));
    assert_eq!(jobs.running(7), Err(JobError::Ended(7, "cancelled")));
    assert_eq!(jobs.running(1), Err(JobError::Unknown(1)));
}

#[test]
fn the_oldest_jobs_that_are_over_are_forgotten() {
    let mut jobs = Jobs::default();
    let count = u64::try_from(JOBS_MAX).unwrap() + 10;
    for id in 1..=count {
        let state = if id == 1 { JobState::Paused } else { JobState::Done };
        let new = Job { id, state, ..job(0) };
        let entries = jobs.entries(&new);
        jobs.put(new);
        let listed: Vec<u64> = parse(entries[1].head()).unwrap();
        assert!(listed.iter().eq(jobs.all.keys()), "the log lists the jobs that are known");
    }
    assert_eq!((jobs.all.len(), jobs.get(1).is_ok(), jobs.get(2).is_ok()), (JOBS_MAX, true, false));
}

#[test]
fn damaged_jobs_are_left_out() {
    let disk = MemDisk::new(3).disk();
    let (journal, mut writer, recovery) = Journal::open(disk, JournalOptions::default()).unwrap();
    recovery.replay(0, &mut |_, _| {}).unwrap();
    let mut append = |entries| {
        journal.append(entries).unwrap();
        for _ in 0..3 {
            writer.step();
        }
    };
    let of = |key: &[u8], head: &[u8]| {
        let (key, head) = (Bytes::copy_from_slice(key), EncodedHead::new(head.to_vec()));
        NewEntry::keyed(kind::JOB, key, head, Bytes::new())
    };
    append(Jobs::default().entries(&job(0)));
    append(vec![of(&9_u64.to_be_bytes(), b"\x01"), entry(LIST_KEY, &vec![7_u64, 8, 9])]);
    let jobs = Jobs::read(&journal).unwrap();
    assert_eq!(jobs.all().map(|job| job.id).collect::<Vec<_>>(), [7], "8 has no entry");
    append(vec![of(LIST_KEY, b"\x01\xff")]);
    assert!(Jobs::read(&journal).unwrap().all().next().is_none());
}
