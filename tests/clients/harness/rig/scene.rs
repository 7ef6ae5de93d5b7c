//! Topic and groups of one scenario. Scenarios share a real cluster, so every scenario has names of
//! its own.

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// Topic of orders.
    pub(crate) topic: String,
    /// Group of the application.
    pub(crate) group: String,
    suffix: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of("shop")
    }

    /// Names with another prefix of the application's group.
    pub(crate) fn of(application: &str) -> Self {
        let suffix: String = (0..8).map(|_| fastrand::lowercase()).collect();
        Self { topic: format!("orders-{suffix}"), group: format!("{application}-{suffix}"), suffix }
    }

    /// Fixed names, for a sidecar without a cluster.
    pub(crate) fn named(topic: &str, group: &str) -> Self {
        Self { topic: topic.to_owned(), group: group.to_owned(), suffix: String::new() }
    }

    pub(crate) fn retry_topic(&self) -> String {
        format!("reprise.retry.{}--{}", self.group, self.topic)
    }

    pub(crate) fn dead_letter_topic(&self) -> String {
        format!("reprise.dlq.{}", self.group)
    }

    /// Name of a group beside the application's.
    pub(crate) fn other_group(&self, name: &str) -> String {
        format!("{name}-{}", self.suffix)
    }

    /// Client command that subscribes to orders and retries.
    pub(crate) fn subscription(&self) -> String {
        format!("subscribe {},{}", self.topic, self.retry_topic())
    }
}
