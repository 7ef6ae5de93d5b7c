//! Settings of this node under Kafka's names: all static, from the configuration file.

use super::{SOURCE_STATIC, Setting, TYPE_BOOLEAN, TYPE_INT, TYPE_LIST, TYPE_LONG, TYPE_STRING};
use crate::broker::settings::spelled;
use crate::route::clients::conn::Conn;
use crate::route::cluster::describe_log_dirs::LOG_DIR;
use crate::route::{NODE_ID, Router};

const MS_PER_MINUTE: u64 = 60_000;
const MS_PER_HOUR: u64 = 3_600_000;

/// `offsets.retention.minutes`: Kafka's default, which this node uses too.
const OFFSETS_RETENTION_MINUTES: i64 = 10_080;

pub(super) fn settings(router: &Router, conn: &Conn) -> Vec<Setting> {
    let config = &router.config;
    let defaults = router.broker.topics.defaults();
    let node_id = NODE_ID.to_string();
    let (host, port) = &conn.advertised;
    let protocol = conn.security_protocol();
    let listener = format!("{protocol}://{host}:{port}");
    let (retention_ms, retention_bytes) = (defaults.retention_ms, defaults.retention_bytes);
    let number = |number: i64| number.to_string();
    let is = |name, value: bool| setting(name, value.to_string(), TYPE_BOOLEAN);
    let text = |name, value: &str| setting(name, value.to_owned(), TYPE_STRING);
    let list = |name, value: &str| setting(name, value.to_owned(), TYPE_LIST);
    let int = |name, value: String| setting(name, value, TYPE_INT);
    let long = |name, value: String| setting(name, value, TYPE_LONG);
    vec![
        list("advertised.listeners", &listener),
        is("auto.create.topics.enable", config.auto_create),
        int("broker.id", node_id.clone()),
        text("compression.type", "producer"),
        int("default.replication.factor", number(1)),
        is("delete.topic.enable", true),
        text("inter.broker.listener.name", protocol),
        text("listener.security.protocol.map", &format!("{protocol}:{protocol}")),
        list("listeners", &listener),
        list("log.cleanup.policy", "delete"),
        text("log.dir", LOG_DIR),
        list("log.dirs", LOG_DIR),
        text("log.message.timestamp.type", "CreateTime"),
        long("log.retention.bytes", spelled(retention_bytes)),
        int("log.retention.hours", spelled(retention_ms.map(|ms| ms / MS_PER_HOUR))),
        int("log.retention.minutes", spelled(retention_ms.map(|ms| ms / MS_PER_MINUTE))),
        long("log.retention.ms", spelled(retention_ms)),
        int("message.max.bytes", defaults.max_message_bytes.to_string()),
        int("min.insync.replicas", number(1)),
        int("node.id", node_id),
        int("num.partitions", config.default_partitions.to_string()),
        int("offsets.retention.minutes", number(OFFSETS_RETENTION_MINUTES)),
        int("offsets.topic.replication.factor", number(1)),
        list("process.roles", "broker,controller"),
        int("socket.request.max.bytes", config.frame_bytes_max.to_string()),
        int("transaction.state.log.min.isr", number(1)),
        int("transaction.state.log.replication.factor", number(1)),
        is("unclean.leader.election.enable", false),
    ]
}

fn setting(name: &'static str, value: String, kind: i8) -> Setting {
    Setting { name, value, source: SOURCE_STATIC, default: None, kind }
}
