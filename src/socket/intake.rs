//! What comes in on a connection: a buffer as large as the peer makes use of and the budget allows.

use std::io;

use bytes::BytesMut;

use super::{Budget, Charge, READ_BYTES, READ_BYTES_MIN, ReadHalf};

/// A buffer that was filled grows to so many times its size.
const GROWS: usize = 4;
/// After so many reads in a row that used less than an eighth, it halves.
const QUIET_READS: u32 = 64;

/// The half that reads, and what it has read.
#[derive(Debug)]
pub struct Intake {
    half: ReadHalf,
    /// What came and was not taken yet.
    pub buffer: BytesMut,
    budget: Budget,
    charge: Charge,
    /// How much the peer has lately sent at once, roughly.
    wants: usize,
    quiet: u32,
}

impl Intake {
    /// Nothing is allocated before the first read.
    pub fn new(half: ReadHalf, budget: &Budget) -> Self {
        Self {
            half,
            buffer: BytesMut::new(),
            budget: budget.clone(),
            charge: budget.charge(0),
            wants: READ_BYTES_MIN,
            quiet: 0,
        }
    }

    /// Whose memory it is.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Reads once; 0 = the end. Cancel-safe: what was read is in the buffer.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.make_room();
        let room = self.buffer.capacity() - self.buffer.len();
        let read = self.half.read_buf(&mut self.buffer).await?;
        if read >= room {
            self.wants = self.wants.saturating_mul(GROWS).min(READ_BYTES);
            self.quiet = 0;
        } else if read < self.wants / 8 {
            self.quiet += 1;
            if self.quiet >= QUIET_READS {
                (self.wants, self.quiet) = ((self.wants / 2).max(READ_BYTES_MIN), 0);
            }
        } else {
            self.quiet = 0;
        }
        Ok(read)
    }

    fn make_room(&mut self) {
        let bytes = self.wants.min(self.budget.read_bytes());
        if self.buffer.is_empty() && self.charge.bytes() / 2 > bytes {
            // The old one goes with the last piece of it that is still on its way.
            self.buffer = BytesMut::with_capacity(bytes);
        } else if self.buffer.capacity() - self.buffer.len() < bytes / 2 {
            self.buffer.reserve(bytes);
        } else {
            return;
        }
        self.charge.set(self.buffer.capacity());
    }
}
