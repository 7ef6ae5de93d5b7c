//! Every scenario, each named after the promise it keeps.

/// The scenarios with one client, as tests in a module of its name.
macro_rules! scenarios {
    ($client:ident, $program:ident) => {
        scenarios! { $client, $program:
            records_of_every_codec_come_back_byte_for_byte
            a_failed_record_comes_back_once_per_attempt_and_holds_up_nobody
            exhausted_records_lie_in_the_dead_letter_topic
            two_members_share_the_retries_through_a_rebalance
            a_killed_client_loses_nothing_and_changes_no_count
            a_killed_sidecar_comes_back_as_it_was
            a_stopped_sidecar_comes_back_as_it_was
        }
    };
    ($client:ident, $program:ident: $($scenario:ident)*) => {
        mod $client {
            $(
                #[test]
                fn $scenario() {
                    crate::scenario::$scenario(crate::program::Program::$program);
                }
            )*
        }
    };
}
