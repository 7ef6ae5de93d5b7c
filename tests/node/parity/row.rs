//! One case: the measured behaviour of RocketMQ, and that of this sidecar.

/// A row of the table; the names of its tests begin with its id.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    /// Measured with broker 5.5.0 and the push consumer, unless the text says otherwise.
    pub(crate) theirs: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) stands: Comparison,
}

/// The comparison of the two.
#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    /// Equal counts, order and delays.
    Same,
    /// Different on purpose, and the reason.
    Differs(&'static str),
    /// Tests cover a part; the text names the missing part.
    Partly(&'static str),
    /// Left out for now, and the reason: no test.
    Later(&'static str),
}

impl Comparison {
    /// Whether tests cover the case.
    pub(crate) fn is_tested(self) -> bool {
        !matches!(self, Self::Later(_))
    }

    pub(crate) fn told(self) -> String {
        match self {
            Self::Same => "same".to_owned(),
            Self::Differs(why) => format!("differs: {why}"),
            Self::Partly(what) => format!("partly; missing: {what}"),
            Self::Later(why) => format!("later: {why}"),
        }
    }
}
