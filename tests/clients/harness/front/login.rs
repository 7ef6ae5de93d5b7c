//! Logins of clients at the cluster, through the sidecar's TLS and its own TLS to the brokers.

use crate::kcat::logging_in::{
    hears_that_its_password_is_wrong, logs_in_again_and_again_on_one_connection,
};
use crate::rig::program::Program;
use crate::rig::stage::Stage;

#[test]
fn java_logs_in_again_and_again_on_one_connection() {
    let _beside_others = crate::turn::beside_others();
    logs_in_again_and_again_on_one_connection(&Stage::new(Program::JAVA, "again"));
}

#[test]
fn librdkafka_logs_in_again_and_again_on_one_connection() {
    let _beside_others = crate::turn::beside_others();
    logs_in_again_and_again_on_one_connection(&Stage::new(Program::LIBRDKAFKA, "again"));
}

#[test]
fn java_hears_from_the_broker_that_its_password_is_wrong() {
    let _beside_others = crate::turn::beside_others();
    hears_that_its_password_is_wrong(Stage::new(Program::JAVA, "wrong"));
}

#[test]
fn librdkafka_hears_from_the_broker_that_its_password_is_wrong() {
    let _beside_others = crate::turn::beside_others();
    hears_that_its_password_is_wrong(Stage::new(Program::LIBRDKAFKA, "wrong"));
}
