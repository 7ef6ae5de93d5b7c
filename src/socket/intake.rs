//! The read buffer of a connection: as large as the peer makes use of and the budget allows.

use std::io;

use bytes::BytesMut;

use super::{Budget, Charge, READ_BYTES_MIN, ReadHalf};

/// Growth factor of a buffer that a read has filled.
const GROWS: usize = 4;
/// Bytes allocated for a request of which only the length has arrived.
const BELIEVED_BYTES: usize = 1 << 20;
/// The buffer halves after so many reads in a row that used less than an eighth.
const QUIET_READS: u32 = 64;

/// The reading half with its buffer.
#[derive(Debug)]
pub struct ReadBuffer {
    half: ReadHalf,
    /// Bytes that were read and not yet taken.
    pub buffer: BytesMut,
    budget: Budget,
    charge: Charge,
    /// The bytes that the peer has recently sent at once, roughly.
    wants: usize,
    quiet: u32,
    /// Bytes of a request that has its own buffer; 0: none has.
    expected: usize,
}

impl ReadBuffer {
    /// Allocates nothing before the first read.
    pub fn new(half: ReadHalf, budget: &Budget) -> Self {
        Self {
            half,
            buffer: BytesMut::new(),
            budget: budget.clone(),
            charge: budget.charge(0),
            wants: READ_BYTES_MIN,
            quiet: 0,
            expected: 0,
        }
    }

    /// The budget that the buffer is charged to.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The largest size of the next buffer.
    pub fn room(&self) -> usize {
        self.budget.read_bytes(self.half.read_bytes_max())
    }

    /// Gives a request of so many bytes, whose turn has come, a buffer of its own. A buffer shared
    /// with the next request would keep the memory for as long as that one. The buffer grows with
    /// the bytes that arrive, not with the announced length.
    pub fn expect(&mut self, bytes: usize) {
        self.expected = bytes;
        self.grow_as_expected();
    }

    fn grow_as_expected(&mut self) {
        let here = self.buffer.len();
        let bytes = self.expected.min(here.saturating_mul(2).max(BELIEVED_BYTES)).max(here);
        let mut grown = BytesMut::with_capacity(bytes);
        grown.extend_from_slice(&self.buffer);
        self.buffer = grown;
        self.charge.set(self.buffer.capacity());
    }

    /// Whether the peer sends no more, though some of its bytes may still be unread.
    pub fn has_ended(&self) -> bool {
        self.half.has_ended()
    }

    /// Reads once; 0: the end. Cancel-safe: the bytes are in the buffer.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.make_room();
        let room = self.buffer.capacity() - self.buffer.len();
        let read = self.half.read_buf(&mut self.buffer).await?;
        if read >= room {
            self.wants = self.wants.saturating_mul(GROWS).min(self.half.read_bytes_max());
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
        if self.expected > 0 {
            if !self.buffer.is_empty() && self.buffer.len() < self.expected {
                if self.buffer.len() == self.buffer.capacity() {
                    self.grow_as_expected();
                }
                return;
            }
            self.expected = 0;
        }
        let bytes = self.wants.min(self.room());
        if self.buffer.is_empty() && self.charge.bytes() / 2 > bytes {
            // The old buffer is freed with the last slice of it that is in use.
            self.buffer = BytesMut::with_capacity(bytes);
        } else if self.buffer.capacity() - self.buffer.len() < bytes / 2 {
            self.buffer.reserve(bytes);
        } else {
            return;
        }
        self.charge.set(self.buffer.capacity());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;
    use crate::socket::budget::READ_BYTES;
    use crate::socket::plain;

    /// Longer than anything in these tests takes.
    const PATIENCE: Duration = Duration::from_secs(20);

    async fn pair(budget: &Budget) -> (TcpStream, ReadBuffer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (near, _) = listener.accept().await.unwrap();
        (far, ReadBuffer::new(plain(near).0, budget))
    }

    #[tokio::test]
    async fn a_large_request_gets_its_own_buffer_without_further_bytes() {
        let budget = Budget::new(64 << 20);
        let (mut far, mut intake) = pair(&budget).await;
        let size = 3 << 20;
        let sent = vec![7; size + 3];
        let reading = async {
            intake.fill().await.unwrap();
            intake.expect(size);
            assert_eq!(intake.buffer.capacity(), 1 << 20, "the rest was only announced");
            while intake.buffer.len() < size {
                intake.fill().await.unwrap();
            }
            assert_eq!((intake.buffer.len(), intake.buffer.capacity()), (size, size));
            assert_eq!(intake.buffer.split_to(size), &sent[..size]);
            assert_eq!(intake.fill().await.unwrap(), 3);
            assert!(intake.buffer.capacity() <= READ_BYTES, "{}", intake.buffer.capacity());
            assert!(budget.used() <= READ_BYTES, "{}", budget.used());
        };
        let both = async { tokio::join!(far.write_all(&sent), reading) };
        timeout(PATIENCE, both).await.unwrap().0.unwrap();
    }
}
