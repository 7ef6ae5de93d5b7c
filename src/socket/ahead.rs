//! A TCP connection under TLS, read in large pieces. The TLS library asks for 4 KiB at a time,
//! which would cost four or five system calls for each record.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::budget::TLS_READ_BYTES;
use super::{Budget, Charge};

/// Least bytes of one read from the system: a TLS record.
const AHEAD_BYTES_MIN: usize = 16 << 10;
/// Growth factor of a buffer that a read has filled.
const GROWS: usize = 4;

/// Whether the system has seen the peer close the connection, even while there is more to read.
pub(super) fn has_ended(stream: &TcpStream) -> bool {
    let ready = stream.ready(Interest::READABLE).now_or_never();
    ready.is_some_and(|ready| ready.map_or(true, tokio::io::Ready::is_read_closed))
}

/// The connection, with the bytes read ahead of the TLS library. An idle connection holds no memory
/// for them.
#[derive(Debug)]
pub(super) struct ReadAhead {
    stream: TcpStream,
    ahead: BytesMut,
    /// The bytes that the peer has recently sent at once, roughly.
    wants: usize,
    budget: Budget,
    charge: Charge,
}

impl ReadAhead {
    pub(super) fn new(stream: TcpStream, budget: &Budget) -> Self {
        Self {
            stream,
            ahead: BytesMut::new(),
            wants: AHEAD_BYTES_MIN,
            budget: budget.clone(),
            charge: budget.charge(0),
        }
    }

    /// Whether the peer has closed the connection, even while there is more to read.
    pub(super) fn has_ended(&self) -> bool {
        has_ended(&self.stream)
    }

    fn room(&self) -> usize {
        self.wants.min(self.budget.read_bytes(TLS_READ_BYTES)).max(AHEAD_BYTES_MIN)
    }

    /// Reads once into an empty buffer, which is allocated only when there is something to read. A
    /// read that does not fill the buffer has read everything, so there is no second system call.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.stream.poll_read_ready(cx))?;
        let room = self.room();
        self.ahead.reserve(room);
        let Poll::Ready(read) = pin!(self.stream.read_buf(&mut self.ahead)).poll(cx) else {
            self.ahead = BytesMut::new();
            return Poll::Pending;
        };
        let read = read?;
        self.charge.set(self.ahead.capacity());
        if read >= room {
            self.wants = self.wants.saturating_mul(GROWS).min(TLS_READ_BYTES);
        } else if read < self.wants / GROWS {
            self.wants = (self.wants / 2).max(AHEAD_BYTES_MIN);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ReadAhead {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ahead.is_empty() {
            ready!(this.poll_fill(cx))?;
        }
        let taken = this.ahead.len().min(buf.remaining());
        buf.put_slice(this.ahead.get(..taken).unwrap_or_default());
        this.ahead.advance(taken);
        if this.ahead.is_empty() {
            this.ahead = BytesMut::new();
            this.charge.set(0);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReadAhead {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Longer than anything in these tests takes.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn small_reads_get_every_byte_and_release_their_memory() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let budget = Budget::new(64 << 20);
        let mut near = ReadAhead::new(listener.accept().await.unwrap().0, &budget);
        let sent: Vec<u8> = (0..1_000_000_usize).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let (mut got, mut most) = (Vec::new(), 0);
        let reading = async {
            let mut piece = [0; 4096];
            while got.len() < sent.len() {
                let read = near.read(&mut piece).await.unwrap();
                assert!(read > 0);
                got.extend_from_slice(&piece[..read]);
                most = most.max(budget.used());
            }
        };
        let both = async { tokio::join!(far.write_all(&sent), reading) };
        tokio::time::timeout(PATIENCE, both).await.unwrap().0.unwrap();
        assert!(got == sent, "not a byte is another");
        assert!((AHEAD_BYTES_MIN..=2 * TLS_READ_BYTES).contains(&most), "{most}");
        assert_eq!(budget.used(), 0);
        drop(far);
        assert_eq!(near.read(&mut [0; 1]).await.unwrap(), 0, "the end is seen");
    }
}
