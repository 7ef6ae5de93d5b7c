//! The recipes of README.md, docs/clients.md and docs/spring.md, each as an application. A record
//! that its handler fails on comes back through the retry topic, and is a dead letter in the end.

use std::time::Duration;

use super::app::{App, Process};
use super::trial::Trial;
use super::{Case, FinalPlace, Tries, seen_in};
use crate::rig::library::built_example;
use crate::rig::runtimes::{self, Built, must_succeed};
use crate::rig::scene::Scene;
use crate::rig::wait::until;

/// Rules with two retries.
const RULES: &str = "retry: {max_reconsume_times: 2, levels: 50ms 100ms 200ms 300ms 400ms}\n";

static SPRING: App = App::new("recipe-spring", "Spring Boot", spring);
static JAVA: App = App::new("recipe-java", "Java client", java);
static PYTHON: App = App::new("recipe-python", "confluent-kafka (Python)", python);
static GO: App = App::new("recipe-go", "franz-go", go);
static NODE: App = App::new("recipe-node", "kafkajs", node);
static RUST: App = App::new("recipe-rust", "rdkafka", rust);

fn spring(_: &App) -> Built {
    runtimes::java("apps/spring-boot", "spring-kafka", "Application")
}

fn java(_: &App) -> Built {
    runtimes::java("apps/kafka-clients", "kafka-clients", "Recipe")
}

fn python(_: &App) -> Built {
    runtimes::python("apps/confluent-kafka", "confluent-kafka", "requirements.txt", "recipe.py")
}

fn go(_: &App) -> Built {
    runtimes::go("apps/franz-go", "github.com/twmb/franz-go", "recipe")
}

fn node(_: &App) -> Built {
    runtimes::node("apps/kafkajs", "kafkajs", "recipe.mjs")
}

fn rust(_: &App) -> Built {
    let (built, program) = built_example("rdkafka-recipe");
    must_succeed(&built, "the recipe for Rust");
    Built { command: vec![program.into()], version: rdkafka::util::get_rdkafka_version().1 }
}

/// Builds every recipe.
pub(super) fn build_all() {
    for app in [&SPRING, &JAVA, &PYTHON, &GO, &NODE, &RUST] {
        app.built();
    }
}

fn case_of(app: &'static App) -> Case {
    Case {
        app,
        way: "recipe",
        fails: "",
        wire: "",
        partitions: 2,
        session_ms: 6_000,
        ends: FinalPlace::DeadLetter("max_attempts"),
        tries: Tries::Exactly(3),
    }
}

fn play(app: &'static App) {
    let case = case_of(app);
    // The names that the recipes have.
    let scene = Scene::named("orders", "shop");
    let seen = seen_in(&case, Trial::in_scene(&case, case.way, RULES, scene));
    assert_eq!(seen.letters, ["max_attempts"], "{seen:?}");
    assert!(case.tries.has(seen.tries), "{seen:?}");
    assert_eq!(seen.innocent_failures, 0, "{seen:?}");
}

/// The application joins its group before its topic is made.
fn wait_for_the_topic(app: &'static App) {
    let case = case_of(app);
    let mut trial = Trial::without_topic(&case, "early", RULES, Scene::named("orders", "shop"));
    let mut process = Process::new(&case, &trial);
    until(Duration::from_mins(1), "the application has joined", || {
        trial.sidecar.json("/api/v1/groups/shop")["phase"] == "Stable"
    });
    trial.make_topic();
    trial.produce("early", None);
    trial.until(&mut process, "the orders are done", Trial::is_committed);
    assert_eq!(process.starts(), 1, "it ended without its topic");
    process.stop();
}

#[test]
fn the_bean_for_spring_boot_nacks_a_failure() {
    play(&SPRING);
}

#[test]
fn the_recipe_for_java_nacks_a_failure() {
    play(&JAVA);
}

#[test]
fn the_recipe_for_python_nacks_a_failure() {
    play(&PYTHON);
}

#[test]
fn the_recipe_for_go_nacks_a_failure() {
    play(&GO);
}

#[test]
fn the_recipe_for_node_nacks_a_failure() {
    play(&NODE);
}

#[test]
fn the_recipe_for_rust_nacks_a_failure() {
    play(&RUST);
}

#[test]
fn the_recipe_for_python_waits_for_its_topic() {
    wait_for_the_topic(&PYTHON);
}

#[test]
fn the_recipe_for_rust_waits_for_its_topic() {
    wait_for_the_topic(&RUST);
}
