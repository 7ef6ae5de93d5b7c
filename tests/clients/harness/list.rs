//! Every scenario, each named after the promise it keeps, in groups. A library plays all of a
//! group, or library.rs says why the library cannot.

/// Groups of scenarios with one client, as tests in a module named after the client.
macro_rules! scenarios {
    // Scenarios that only a real cluster can play.
    (in front: $client:ident, $program:ident) => {
        mod $client {
            played! { $program, front, "front":
                partitions_that_are_added_while_retries_wait_are_consumed_too
                a_topic_made_anew_while_retries_wait_begins_anew
                two_sidecars_and_a_direct_member_share_a_group
                what_a_transaction_aborted_is_never_retried
                offsets_in_a_transaction_are_the_group_s
            }
        }
    };
    ($client:ident, $program:ident: $($group:ident)+) => {
        mod $client {
            $(scenarios! { @$group $program })+
        }
    };
    // Each arm below is one group of scenarios.
    (@records $program:ident) => {
        played! { $program, scenario, "records":
            records_of_every_codec_come_back_byte_for_byte
            a_failed_record_comes_back_once_per_attempt_and_holds_up_nobody
            exhausted_records_lie_in_the_dead_letter_topic
        }
    };
    (@sharing $program:ident) => {
        played! { $program, scenario, "sharing":
            two_members_share_the_retries_through_a_rebalance
            a_killed_client_loses_nothing_and_changes_no_count
        }
    };
    (@restarts $program:ident) => {
        played! { $program, scenario, "restarts":
            a_killed_sidecar_comes_back_as_it_was
            a_stopped_sidecar_comes_back_as_it_was
        }
    };
    (@static_member $program:ident) => {
        played! { $program, scenario, "static_member":
            a_static_member_that_comes_back_keeps_its_partitions
        }
    };
    (@protocols $program:ident) => {
        played! { $program, changing, "protocols":
            an_application_changes_its_protocol_member_by_member
        }
    };
    (@metadata $program:ident) => {
        played! { $program, spoken, "metadata":
            what_a_commit_s_metadata_names_comes_back
        }
    };
    (@transactions $program:ident) => {
        played! { $program, transacting, "transactions":
            what_a_transaction_aborted_is_never_retried
            offsets_in_a_transaction_are_the_group_s
            a_producer_that_comes_back_fences_the_one_before
            a_killed_sidecar_leaves_transactions_whole
        }
    };
    (@ordered $program:ident) => {
        played! { $program, ordered, "ordered":
            who_polls_on_is_called_back_to_the_record_that_failed
        }
    };
    (@crashes $program:ident) => {
        played! { $program, wordless, "crashes":
            a_record_that_ends_its_process_is_found_and_left_out
        }
    };
    (@seeks $program:ident) => {
        played! { $program, wordless, "seeks":
            a_record_its_client_seeks_back_to_is_found_and_left_out
        }
    };
}

macro_rules! played {
    ($program:ident, $of:ident, $group:literal: $($scenario:ident)+) => {
        $(
            #[test]
            fn $scenario() {
                let _beside_others = crate::turn::beside_others();
                let program = crate::rig::program::Program::$program;
                crate::matrix::play(program, $group, stringify!($scenario), crate::$of::$scenario);
            }
        )+
    };
}
