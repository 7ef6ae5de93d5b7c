//! The sender of a Produce: its connection, and the version that it speaks.

use crate::route::clients::conn::Conn;
use crate::route::nacks::origin_records::ReadBack;

#[derive(Clone, Copy)]
pub(super) struct ProduceSender<'a> {
    pub(super) conn: &'a Conn,
    /// The records of the cluster that were read back for its nacks.
    pub(super) back: &'a ReadBack,
    pub(super) version: i16,
}
