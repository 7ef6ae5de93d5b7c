//! Observability: names of metrics, typed handles to them, and the log.
//!
//! **Bounds.** Counts begin at 0 with the process and stay at the largest number.

mod labels;
mod log_limit;
mod metrics;
pub mod names;
mod process;
mod trace;

pub use log_limit::{DroppedLines, LogBudget, LogLimit};
pub use metrics::{ACTIONS, FAILURE_REASONS, FINAL_REASONS, GroupGauges, Metrics, MetricsError};
pub use trace::{LogFormat, LogHandle, TraceError, check_filter, start_log};
