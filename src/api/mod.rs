//! The schema that server, page and command line share: each list and each act is described here
//! once.
//!
//! **Bounds.** An age beyond the first time means that time.

mod acts;
mod explanation;
mod fingerprint;
mod groups;
mod jobs;
mod journal;
mod percent;
mod records;
mod row;
mod selector;

pub use acts::{
    ActionReport, ActionSample, AuditView, CancelReport, CancelRequest, LeftEntry, LetterRequest,
    NackView, RedriveTerms, RetryRequest, SelectedRequest,
};
pub use explanation::{
    GroupExplanation, PartitionView, PastView, RecordHistory, RuleView, SeekBackView, SuspectView,
    SuspectsView,
};
pub use fingerprint::{COUNTED_MAX, Fingerprint, FingerprintKey, FingerprintList, mask};
pub use groups::{
    DrainGroup, DrainView, ElsewhereView, GroupView, IDLE_BREAKER, LevelView, MemberView,
    OffsetView, Overview, PolicyView, Readiness, StateCounts,
};
pub use jobs::{JobChangeRequest, JobPlan, JobRequest, JobState, JobView, PatchView, PlanSample};
pub use journal::{FsyncTimes, JournalView, LetterSpace};
pub use percent::{decoded, percent_encoded};
pub use records::{DelayedView, LetterView, RecordContent, RetryView, ShownBytes, ShownHeader};
pub use row::{Cell, Column, ListRow, Page, named};
pub use selector::{
    HeaderMatch, RecordBytes, RecordFacts, RecordStage, Selector, TimeBound, fields_of,
};
