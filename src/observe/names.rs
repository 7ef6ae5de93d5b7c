//! The table of all metrics: name, labels, help, histogram bounds.
//!
//! A new metric needs a line here and a method in `metrics/`. Each name has the prefix `reprise_`,
//! except `process_*`: every Prometheus dashboard knows those names.

/// Type of a metric, as in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    Counter,
    Gauge,
    /// Buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// Definition of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Def {
    /// Full name, with prefix and unit.
    pub name: &'static str,
    /// Help text: one sentence without a full stop.
    pub help: &'static str,
    pub labels: &'static [&'static str],
    pub kind: MetricKind,
}

/// Bounds for durations on the request path, in seconds.
const FAST_S: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0];
/// Bounds for disk operations, in seconds.
const DISK_S: &[f64] = &[0.000_1, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0];
/// Bounds for the lateness of a redelivery, in seconds.
const LATE_S: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];
/// Bounds for the time from first failure to success, along the default ladder, in seconds.
const LADDER_S: &[f64] = &[10.0, 40.0, 100.0, 220.0, 600.0, 1800.0, 3600.0, 9000.0, 17140.0];
/// Failures before success, around the default limit of 16.
const TRIES: &[f64] = &[0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0];

macro_rules! metrics {
    ($(
        $id:ident $kind:ident $(($bounds:expr))? $name:literal [$($label:literal),*] $help:literal;
    )*) => {
        $(
            #[doc = $help]
            pub const $id: Def = Def {
                name: $name,
                help: $help,
                labels: &[$($label),*],
                kind: MetricKind::$kind $(($bounds))?,
            };
        )*
        pub const ALL: &[Def] = &[$($id),*];
    };
}

metrics! {
    BUILD_INFO Gauge "reprise_build_info" ["version"] "1, labelled with the version";
    READY Gauge "reprise_ready" [] "1 while anything can be served";
    DEGRADED Gauge "reprise_degraded" ["reason"] "1 while this part of the service is impaired";
    CLIENT_CONNECTIONS Gauge "reprise_client_connections" ["listener"] "Open client connections";
    CLIENT_CONNECTIONS_TOTAL Counter "reprise_client_connections_total" []
        "Client connections accepted";
    CLIENT_DISCONNECTS Counter "reprise_client_disconnects_total" ["cause"]
        "Client connections closed, by cause";
    ACCEPT_FAILURES Counter "reprise_client_accept_failures_total" []
        "Client connections that had to wait or were let go for want of file descriptors";
    REQUESTS Counter "reprise_requests_total" ["api"] "Requests answered";
    REQUEST_ERRORS Counter "reprise_request_errors_total" ["api", "error"]
        "Error codes in answers";
    REQUEST_DURATION Histogram(FAST_S) "reprise_request_duration_seconds" ["api"]
        "From the last byte of a request to its answer, waiting by request included";
    AUTHENTICATIONS Counter "reprise_authentications_total" ["mechanism", "outcome"]
        "Logins of clients by SASL that this node judged: ok or refused";
    UPSTREAM_CONNECT_FAILURES Counter "reprise_upstream_connect_failures_total" ["broker"]
        "Brokers of the cluster that could not be reached";
    UPSTREAM_CREDENTIALS_REFUSED Counter "reprise_upstream_credentials_refused_total" ["broker"]
        "Attempts of the sidecar to authenticate itself that a broker refused";
    REQUEST_BYTES Counter "reprise_request_bytes_total" ["direction"]
        "Bytes of requests in and of answers out";

    GROUP_MEMBERS Gauge "reprise_group_members" ["group"]
        "Live members; in front of a cluster those connected here and not silent";
    GROUP_REBALANCES Counter "reprise_group_rebalances_total" ["group"] "Completed rebalances";
    COMMIT_FAILURES Counter "reprise_commit_failures_total" ["group", "error"]
        "Offset commits refused";
    COMMIT_MARKERS_REFUSED Counter "reprise_commit_markers_refused_total" ["group", "reason"]
        "Partitions of commits refused for the failed records their metadata names";
    NACKS_REFUSED Counter "reprise_nacks_refused_total" ["group", "reason"]
        "Batches of records produced to a retry topic that were refused, each as a whole";
    NACKS_KNOWN Counter "reprise_nacks_known_total" ["group"]
        "Nacks acknowledged without effect: the failure was known, or the record is a dead letter";
    UNLIKE_READERS Counter "reprise_unlike_readers_total" ["group"]
        "Times that members reading the retry topic began to read unlike topics beside it";
    RECORDS_ACKED Counter "reprise_records_acked_total" ["group", "topic"]
        "Retries that a commit of the retry topic acknowledged";
    RECORDS_FAILED Counter "reprise_records_failed_total" ["group", "topic", "reason"]
        "Deliveries charged as failed";
    RECORDS_UNREAD Gauge "reprise_records_unread" ["group"]
        "Retries in the retry topic, neither acknowledged nor failed";
    SEEK_BACKS Counter "reprise_seek_backs_total" ["group"]
        "Fetches of a member below its last delivery, of records that are not committed";
    FETCHES_UNATTRIBUTED Counter "reprise_fetches_unattributed_total" []
        "Fetches of ordinary topics attributed to no member of a group; they pass untouched";
    BATCHES_UNREADABLE Counter "reprise_batches_unreadable_total" []
        "Answers kept back because a failed record could not be taken out of its batch";
    UNREAD_OLDEST Gauge "reprise_unread_oldest_seconds" ["group"]
        "Time since the release of the oldest unread retry";

    RETRIES_SCHEDULED Counter "reprise_retries_scheduled_total" ["group", "level"]
        "Retries accepted, by delay level";
    RETRIES_REDELIVERED Counter "reprise_retries_redelivered_total" ["group", "level"]
        "Retries delivered after their delay, by delay level";
    RECORDS_WAITING Gauge "reprise_records_waiting" ["group"] "Retries whose delay runs";
    RECORDS_DUE Gauge "reprise_records_due" ["group"]
        "Due retries that are not released: nobody reads the retry topic, or its window is full";
    RECORDS_BLOCKED Gauge "reprise_records_blocked" ["group"]
        "Failed records that their topic does not take: due ones, or exhausted ones without room";
    RECORDS_STALLED Gauge "reprise_stalled_records" ["group"]
        "First outstanding records of partitions, not committed for the consume timeout";
    RECORDS_BY_LEVEL Gauge "reprise_records_by_level" ["group", "level"]
        "Retries whose delay runs or that are due, by delay level; 0 is an exact delay";
    BREAKER_OPEN Gauge "reprise_breaker_open" ["group"]
        "1 while the breaker pauses or tests the group because most of its records are nacked";
    RETRY_OVERDUE Gauge "reprise_retry_overdue_seconds" ["group"]
        "How long the oldest due retry has waited to be fetched";
    REDELIVERY_LATENESS Histogram(LATE_S) "reprise_redelivery_lateness_seconds" ["group"]
        "From due to delivered";
    SUCCESS_RECONSUME_TIMES Histogram(TRIES) "reprise_success_reconsume_times" ["group"]
        "Failures a record had when it was acknowledged";
    RETRY_TO_SUCCESS Histogram(LADDER_S) "reprise_retry_to_success_seconds" ["group"]
        "From first failure to acknowledgement";

    DLQ_RECORDS_TOTAL Counter "reprise_dlq_records_total" ["group", "topic", "reason"]
        "Records dead-lettered, counted after the durable write";
    DLQ_RECORDS Gauge "reprise_dlq_records" ["group"] "Dead letters kept";
    DLQ_BYTES Gauge "reprise_dlq_bytes" ["group"] "Bytes of open dead letters";
    DLQ_FINGERPRINTS Gauge "reprise_dlq_fingerprints" ["group"]
        "Kinds of open dead letters: topic, cause, masked error, key pattern and size class";
    JOBS_STOPPED Counter "reprise_jobs_stopped_total" ["group"]
        "Jobs that stopped because too many of their records failed again";
    DLQ_OLDEST Gauge "reprise_dlq_oldest_timestamp_seconds" ["group"]
        "Unix time of the oldest dead letter kept, 0 when there is none";
    DISCARDED Counter "reprise_discarded_total" ["group", "topic"]
        "Exhausted records dropped because dead letters are off";
    OPERATOR_ACTIONS Counter "reprise_operator_actions_total" ["group", "action"]
        "Records that an operator sent back, discarded, restored, hastened, delayed or ended";

    RECORDS_DELAYED Gauge "reprise_records_delayed" []
        "Produced records that wait before they enter their topic";
    RECORDS_DELAYED_BYTES Gauge "reprise_records_delayed_bytes" []
        "What they take in the journal";
    RECORDS_DELAYED_UNREADABLE Gauge "reprise_records_delayed_unreadable" []
        "Those of them that are due and cannot be read";
    DELAYED_RECORDS Counter "reprise_delayed_records_total" ["outcome"]
        "Records put off: scheduled, delivered, cancelled, dropped, refused, unreadable";

    JOURNAL_APPEND Histogram(DISK_S) "reprise_journal_append_seconds" []
        "From handing entries to the journal to their being written";
    JOURNAL_FSYNC Histogram(DISK_S) "reprise_journal_fsync_seconds" [] "One fdatasync";
    JOURNAL_BYTES Gauge "reprise_journal_bytes" [] "Size of all segments";
    JOURNAL_SEGMENTS Gauge "reprise_journal_segments" [] "Segments on disk";
    JOURNAL_DISK_FREE Gauge "reprise_journal_disk_free_bytes" []
        "Free space of the data directory's file system";
    JOURNAL_WRITE_ERRORS Counter "reprise_journal_write_errors_total" []
        "Failed writes and fdatasyncs: after one nothing is acknowledged until a restart";
    JOURNAL_TRUNCATED Counter "reprise_journal_truncated_bytes_total" []
        "Bytes of torn tails cut at start";
    JOURNAL_RECOVERY Gauge "reprise_journal_recovery_seconds" [] "How long the last recovery took";
    TRANSACTIONS_OPEN Gauge "reprise_transactions_open" []
        "Transactions of this cluster's own producers that are open";
    TRANSACTIONS Counter "reprise_transactions_total" ["outcome"]
        "Transactions that ended, and how";

    CONFIG_RELOAD_OK Gauge "reprise_config_last_reload_successful" []
        "1 unless the last reload, or a renewed file, was refused";
    SERIES_DROPPED Counter "reprise_metric_series_dropped_total" ["metric"]
        "Updates folded into the label value other because the set of values is full";

    PANICS Counter "reprise_panics_total" ["thread"]
        "Long-lived threads and tasks that ended by a panic: a restart is due";

    PROCESS_CPU Counter "process_cpu_seconds_total" [] "CPU time, user and system";
    PROCESS_RSS Gauge "process_resident_memory_bytes" [] "Resident memory";
    PROCESS_VSIZE Gauge "process_virtual_memory_bytes" [] "Virtual memory";
    PROCESS_FDS Gauge "process_open_fds" [] "Open file descriptors";
    PROCESS_MAX_FDS Gauge "process_max_fds" [] "Limit of open file descriptors";
    PROCESS_THREADS Gauge "process_threads" [] "Threads";
    PROCESS_START Gauge "process_start_time_seconds" [] "Unix time the process started at";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_unique_prefixed_and_counters_end_in_total() {
        let mut seen = std::collections::BTreeSet::new();
        for def in ALL {
            assert!(seen.insert(def.name), "{} is declared twice", def.name);
            let prefixed = ["reprise_", "process_"].iter().any(|p| def.name.starts_with(p));
            assert!(prefixed, "{}", def.name);
            assert_eq!(
                def.kind == MetricKind::Counter,
                def.name.ends_with("_total"),
                "{}",
                def.name
            );
            assert!(!def.help.ends_with('.'), "{}", def.name);
        }
    }
}
