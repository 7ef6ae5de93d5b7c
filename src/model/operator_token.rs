//! The token by which the admin port recognises an operator.

use crate::model::Secret;

/// A token of `admin.token_file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    /// The name in the audit log.
    pub name: String,
    /// Whether the operator may change anything.
    pub may_change: bool,
    pub secret: Secret,
}
