//! A TLS stream shared by both halves of a connection. Unlike tokio's halves it gives access to the
//! TCP connection below, so that a closed peer is seen without reading.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsStream;

use super::ahead::ReadAhead;

/// A handle on the shared stream.
#[derive(Debug)]
pub struct TlsHalf(Arc<Mutex<TlsStream<ReadAhead>>>);

impl TlsHalf {
    /// Makes the two halves of a stream.
    pub(super) fn pair(stream: TlsStream<ReadAhead>) -> (Self, Self) {
        let stream = Arc::new(Mutex::new(stream));
        (Self(Arc::clone(&stream)), Self(stream))
    }

    /// Whether the peer has closed the TCP connection, even while there is more to read.
    pub(super) fn has_ended(&self) -> bool {
        self.stream().get_ref().0.has_ended()
    }

    fn stream(&self) -> MutexGuard<'_, TlsStream<ReadAhead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for TlsHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_read(cx, buf)
    }
}

impl AsyncWrite for TlsHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.stream()).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream()).poll_shutdown(cx)
    }
}
