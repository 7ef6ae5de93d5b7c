//! One case: what a RocketMQ was seen to do, and what is done here.

/// A row of the table; its tests begin with its id.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    /// As measured: broker 5.5.0 and the push consumer, if nothing else is said.
    pub(crate) theirs: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) stands: Stands,
}

/// How the two compare.
#[derive(Clone, Copy)]
pub(crate) enum Stands {
    /// Equal counts, order and delays.
    Same,
    /// Other on purpose, and why.
    Differs(&'static str),
    /// The tests hold a part of it; what is not there yet.
    Partly(&'static str),
    /// Left out for now, and why: no test.
    Later(&'static str),
}

impl Stands {
    /// Whether tests hold it.
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
