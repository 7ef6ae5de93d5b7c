//! Static settings of this node that tools read from every broker: where it listens, which id it
//! has, what it keeps.

use crate::route::Router;
use crate::route::conn::Conn;
use crate::route::describe_log_dirs::LOG_DIR;

/// `Long` settings without a bound.
const UNLIMITED: &str = "-1";
const MS_PER_MINUTE: u64 = 60_000;
const MS_PER_HOUR: u64 = 3_600_000;

/// Name and value of each.
pub(super) fn settings(router: &Router, conn: &Conn) -> Vec<(&'static str, String)> {
    let node = router.config.node_id.to_string();
    let (host, port) = &conn.advertised;
    let protocol = conn.security_protocol();
    let listener = format!("{protocol}://{host}:{port}");
    let mut settings = vec![
        ("advertised.listeners", listener.clone()),
        ("broker.id", node.clone()),
        ("compression.type", "producer".to_owned()),
        ("inter.broker.listener.name", protocol.to_owned()),
        ("listener.security.protocol.map", format!("{protocol}:{protocol}")),
        ("listeners", listener),
        ("log.cleanup.policy", "delete".to_owned()),
        ("log.dir", LOG_DIR.to_owned()),
        ("log.dirs", LOG_DIR.to_owned()),
        ("message.max.bytes", router.broker.topics.defaults().max_message_bytes.to_string()),
        ("min.insync.replicas", "1".to_owned()),
        ("node.id", node),
        ("offsets.topic.replication.factor", "1".to_owned()),
        ("process.roles", "broker".to_owned()),
        ("transaction.state.log.min.isr", "1".to_owned()),
        ("transaction.state.log.replication.factor", "1".to_owned()),
        ("unclean.leader.election.enable", "false".to_owned()),
    ];
    settings.extend(retention(router));
    settings
}

/// Of topics by default. In front of a cluster all topics of this node are retry and dead-letter
/// topics, from which retention takes nothing.
fn retention(router: &Router) -> [(&'static str, String); 4] {
    let defaults = router.broker.topics.defaults();
    let is_alone = router.upstream.is_none();
    let bytes = defaults.retention_bytes.filter(|_| is_alone);
    let ms = defaults.retention_ms.filter(|_| is_alone);
    let told = |value: Option<u64>| value.map_or_else(|| UNLIMITED.to_owned(), |v| v.to_string());
    [
        ("log.retention.bytes", told(bytes)),
        ("log.retention.hours", told(ms.map(|ms| ms / MS_PER_HOUR))),
        ("log.retention.minutes", told(ms.map(|ms| ms / MS_PER_MINUTE))),
        ("log.retention.ms", told(ms)),
    ]
}
