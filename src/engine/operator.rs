//! The operator of an action.

use serde::{Deserialize, Serialize};

/// An operator, as identified by the admin port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// The name of the token; empty: a caller without one.
    pub name: String,
    /// The address of the caller.
    pub peer: String,
    /// The reason that the operator gives.
    pub note: String,
}
