//! The mark of a value that is not shown as it is.

/// The part of a value that a mask takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concealment {
    #[default]
    None,
    /// Members of the JSON document.
    Part,
    /// All: the value is no JSON.
    Whole,
}
