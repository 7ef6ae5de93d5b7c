//! Members of retry topics: their slots, deliveries and commits.

mod isolation_end;
mod lane_commit;
pub(super) mod late_deliveries;
mod member_lost;
mod slot_choice;
