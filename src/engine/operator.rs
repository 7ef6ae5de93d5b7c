//! The operator of an action.

use serde::{Deserialize, Serialize};

/// An operator, as identified by the admin port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// The name of the token, or the one that the caller claims where there are no tokens.
    pub name: String,
    pub is_claimed: bool,
    /// The address of the caller.
    pub peer: String,
    /// The reason that the operator gives.
    pub note: String,
}
