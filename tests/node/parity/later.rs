//! Cases without a test: not implemented yet, or measured elsewhere.

use crate::parity::row::{Comparison, Row};

const SHARE_GROUPS: Comparison = Comparison::Later("share groups (KIP-932) are not served yet");

pub(crate) const Q30: Row = Row {
    id: "Q30",
    theirs: "Simple consumer: invisible for 10 s and never acknowledged, a message is back after \
             12 to 13 s, attempts 1, 2, 3; from 10 s to 12 h.",
    ours: "A share group's lock: back when it runs out, from 10 ms to 12 h.",
    stands: SHARE_GROUPS,
};

pub(crate) const Q31: Row = Row {
    id: "Q31",
    theirs: "The invisible time changed to 1, 5, 15 s: accepted, back about 3 s late, counted \
             from the call.",
    ours: "On time.",
    stands: SHARE_GROUPS,
};

pub(crate) const Q32: Row = Row {
    id: "Q32",
    theirs: "Acknowledged too late: refused, and delivered again. Four received, three \
             acknowledged: only the fourth is back. Twice acknowledged: no harm.",
    ours: "The same.",
    stands: SHARE_GROUPS,
};

pub(crate) const Q33: Row = Row {
    id: "Q33",
    theirs: "The invisible time changed after the acknowledgement: accepted, and the message is \
             back.",
    ours: "Refused.",
    stands: SHARE_GROUPS,
};

pub(crate) const Q34: Row = Row {
    id: "Q34",
    theirs: "A simple consumer that closes releases nothing (42 s).",
    ours: "A session that ends releases its locks at once.",
    stands: SHARE_GROUPS,
};

pub(crate) const Q37: Row = Row {
    id: "Q37",
    theirs: "20 000 to 40 000 failures on one level at once: 3.3 to 8.4 thousand redelivered a \
             second, p99 1.9 to 4 s late; a quiet group on that level goes from a p99 of 141 ms \
             to 248 ms; 30 000 overdue ones drain at 3.5 thousand a second (2 busy cores).",
    ours: "No queue is shared: a group waits for no other one.",
    stands: Comparison::Later(
        "a figure: `cargo bench --bench retry`, see [benchmarks](benchmarks.md)",
    ),
};
