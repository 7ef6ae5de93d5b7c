//! Topic and groups of one scenario, like nobody else's: a real cluster is shared by all.

/// The names of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// Where orders are produced.
    pub(crate) topic: String,
    /// The application's group.
    pub(crate) group: String,
    suffix: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::of("shop")
    }

    /// With another name of the application.
    pub(crate) fn of(application: &str) -> Self {
        let suffix: String = (0..8).map(|_| fastrand::lowercase()).collect();
        Self { topic: format!("orders-{suffix}"), group: format!("{application}-{suffix}"), suffix }
    }

    /// Where failed orders come back.
    pub(crate) fn retry_topic(&self) -> String {
        format!("reprise.retry.{}", self.group)
    }

    /// Where exhausted orders lie.
    pub(crate) fn dead_letter_topic(&self) -> String {
        format!("reprise.dlq.{}", self.group)
    }

    /// A group beside the application's.
    pub(crate) fn other_group(&self, name: &str) -> String {
        format!("{name}-{}", self.suffix)
    }

    /// What the application subscribes to.
    pub(crate) fn subscription(&self) -> String {
        format!("subscribe {},{}", self.topic, self.retry_topic())
    }
}
