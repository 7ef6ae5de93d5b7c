//! Consumers of a sidecar: those that read its retry topics and nack, and those that know nothing
//! of it. Most tests hold twice: by itself, and in front of a cluster.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at a surprise")]
#![expect(clippy::panic, reason = "a test fails by panicking")]

/// Makes a test of each function, with the sidecar in front of a cluster.
macro_rules! in_front {
    ($($test:ident),+) => {
        mod in_front {
            $(
                #[test]
                fn $test() {
                    crate::support::in_front_of_a_cluster(super::$test);
                }
            )+
        }
    };
}

/// Makes two tests of each function: with the sidecar by itself, and in front of a cluster.
macro_rules! both {
    ($($test:ident),+) => {
        mod by_itself {
            $(
                #[test]
                fn $test() {
                    super::$test();
                }
            )+
        }
        in_front!($($test),+);
    };
}

#[path = "../upstream/broker.rs"]
mod broker;
mod nacks;
#[path = "../upstream/older.rs"]
mod older;
#[path = "../upstream/relay.rs"]
#[expect(dead_code, reason = "others ask who is greeted")]
mod relay;
mod retries;
#[path = "../support/mod.rs"]
mod support;
mod watching;
