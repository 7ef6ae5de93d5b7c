//! Logins of clients at a sidecar without a cluster. librdkafka is built without OpenSSL here, and
//! then has PLAIN only.

use crate::kcat::logging_in::{
    hears_that_its_password_is_wrong, logs_in_again_and_again_on_one_connection,
};
use crate::rig::program::Program;
use crate::rig::stage::Stage;

#[test]
fn java_logs_in_again_and_again_by_scram() {
    let stage = Stage::with_users(Program::JAVA, "users-again", "SCRAM-SHA-512");
    logs_in_again_and_again_on_one_connection(&stage);
}

#[test]
fn java_kip_848_reauthenticates_by_scram_sha_256() {
    let stage = Stage::with_users(Program::JAVA_848, "users-again", "SCRAM-SHA-256");
    logs_in_again_and_again_on_one_connection(&stage);
}

#[test]
fn librdkafka_logs_in_again_and_again_by_plain() {
    let stage = Stage::with_users(Program::LIBRDKAFKA, "users-again", "PLAIN");
    logs_in_again_and_again_on_one_connection(&stage);
}

#[test]
fn java_hears_that_its_password_is_wrong() {
    let stage = Stage::with_users(Program::JAVA, "users-wrong", "SCRAM-SHA-512");
    hears_that_its_password_is_wrong(stage);
}

#[test]
fn librdkafka_hears_that_its_password_is_wrong() {
    let stage = Stage::with_users(Program::LIBRDKAFKA, "users-wrong", "PLAIN");
    hears_that_its_password_is_wrong(stage);
}
