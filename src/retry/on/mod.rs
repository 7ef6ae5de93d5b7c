//! One file per evidence: what it does to entries and slots.

mod aborted;
mod admin_nack;
mod asked;
mod behind;
mod commit_marker;
mod damaged;
mod delay;
mod expiry;
mod export;
mod hand_out_lost;
mod held;
mod import;
mod join;
mod joined;
mod lane_commit;
mod member_lost;
mod nack;
mod ordered;
mod origin_commit;
mod outage;
mod replayed;
mod reschedule;
mod settle;
mod take;
mod watched_commit;
mod watched_nack;
mod watched_progress;

pub(in crate::retry) use asked::Returned;
pub use ordered::InOrder;
pub(in crate::retry) use reschedule::Rescheduling;
pub use watched_nack::NACKED_MAX;
