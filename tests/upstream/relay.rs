//! A program between a sidecar and another broker.

use std::io::Write;
use std::net::TcpStream;

use crate::broker::{Request, frame};

/// Has another broker answer: what follows the number of the request.
pub(crate) fn pass(asked: &Request, behind: &mut TcpStream) -> Option<Vec<u8>> {
    let len = u32::try_from(asked.frame.len()).unwrap().to_be_bytes();
    behind.write_all(&[&len[..], &asked.frame].concat()).ok()?;
    frame(behind).map(|told| told[4..].to_vec())
}
