//! Every scenario, each named after the promise it keeps.

/// The scenarios with one client, as tests in a module of its name.
macro_rules! scenarios {
    ($client:ident, $program:ident) => {
        scenarios! { $client, $program, scenario:
            records_of_every_codec_come_back_byte_for_byte
            a_failed_record_comes_back_once_per_attempt_and_holds_up_nobody
            exhausted_records_lie_in_the_dead_letter_topic
            two_members_share_the_retries_through_a_rebalance
            a_killed_client_loses_nothing_and_changes_no_count
            a_killed_sidecar_comes_back_as_it_was
            a_stopped_sidecar_comes_back_as_it_was;
        changing:
            an_application_changes_its_protocol_member_by_member;
        spoken:
            what_a_commit_s_metadata_names_comes_back;
        wordless:
            a_record_that_ends_its_process_is_found_and_left_out
            a_record_its_client_seeks_back_to_is_found_and_left_out
        }
    };
    // Those that only a real cluster can play.
    (in front: $client:ident, $program:ident) => {
        scenarios! { $client, $program, front:
            partitions_that_are_added_while_retries_wait_are_consumed_too
            a_topic_made_anew_while_retries_wait_begins_anew
            two_sidecars_and_a_direct_member_share_a_group
            a_pattern_that_matches_the_retry_topic_takes_part
            a_static_member_that_comes_back_goes_on_with_its_lane
            what_a_transaction_aborted_is_never_retried
            offsets_in_a_transaction_are_the_cluster_s
        }
    };
    ($client:ident, $program:ident, $($of:ident: $($scenario:ident)*);+) => {
        mod $client {
            $($(
                #[test]
                fn $scenario() {
                    let _beside_others = crate::turn::beside_others();
                    crate::$of::$scenario(crate::program::Program::$program);
                }
            )*)+
        }
    };
}
