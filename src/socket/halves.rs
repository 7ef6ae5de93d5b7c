//! The two halves of a connection. An enum: in plain text each read and write pays one branch for
//! the possibility of TLS.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::TlsStream;

use super::ahead::{ReadAhead, has_ended};
use super::budget::{READ_BYTES, TLS_READ_BYTES};
use super::tls_half::TlsHalf;
use super::{Budget, Charge};

/// The reading half.
#[derive(Debug)]
pub enum ReadHalf {
    Plain(OwnedReadHalf),
    /// Decrypted by TLS.
    Tls(TlsHalf),
}

/// The writing half.
#[derive(Debug)]
pub enum WriteHalf {
    Plain(OwnedWriteHalf),
    /// Encrypted by TLS.
    Tls {
        /// Buffers the bytes that the system has not accepted.
        half: TlsHalf,
        /// Whether bytes may still be buffered.
        owes: bool,
        /// Memory of the buffered bytes.
        charge: Charge,
    },
}

/// A connection without TLS.
pub fn plain(stream: TcpStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = stream.into_split();
    (ReadHalf::Plain(read), WriteHalf::Plain(write))
}

/// Polls a future once and drops it.
pub async fn at_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// The halves of a connection after its handshake.
pub(super) fn under_tls(
    mut stream: TlsStream<ReadAhead>,
    budget: &Budget,
) -> (ReadHalf, WriteHalf) {
    match &mut stream {
        TlsStream::Client(stream) => stream.get_mut().1.set_buffer_limit(Some(TLS_READ_BYTES)),
        TlsStream::Server(stream) => stream.get_mut().1.set_buffer_limit(Some(TLS_READ_BYTES)),
    }
    let (read, write) = TlsHalf::pair(stream);
    let charge = budget.charge(0);
    (ReadHalf::Tls(read), WriteHalf::Tls { half: write, owes: false, charge })
}

impl ReadHalf {
    /// Most bytes of one read.
    pub fn read_bytes_max(&self) -> usize {
        match self {
            Self::Plain(_) => READ_BYTES,
            Self::Tls(_) => TLS_READ_BYTES,
        }
    }

    /// Whether the peer sends no more, though some of its bytes may still be unread.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Plain(half) => has_ended(half.as_ref()),
            Self::Tls(half) => half.has_ended(),
        }
    }

    /// Reads once and appends to `buffer`; 0: the end. Cancel-safe.
    pub async fn read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.read_buf(buffer).await,
            Self::Tls(half) => match read_records(half, buffer).await {
                // Many clients close without `close_notify`. A truncated frame is still noticed,
                // because a frame has a length.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

/// Waits for a record, then takes the further records that are here and fit: forwarded together,
/// they are encrypted and written together.
async fn read_records(half: &mut TlsHalf, buffer: &mut BytesMut) -> io::Result<usize> {
    let mut read = half.read_buf(buffer).await?;
    while read > 0 && buffer.len() < buffer.capacity() {
        match at_once(half.read_buf(buffer)).await {
            Poll::Ready(Ok(more)) if more > 0 => read = read.saturating_add(more),
            // The next read returns the end or the error again.
            Poll::Ready(_) | Poll::Pending => break,
        }
    }
    Ok(read)
}

impl WriteHalf {
    /// Writes all of `bytes` and flushes them to the system.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.write_all(bytes).await,
            Self::Tls { half, owes, charge } => {
                *owes = true;
                charge.set(bytes.len().min(TLS_READ_BYTES));
                half.write_all(bytes).await?;
                half.flush().await?;
                *owes = false;
                charge.set(0);
                Ok(())
            }
        }
    }

    /// Writes some of `bytes` and removes that from the front; true: something was written.
    /// Cancel-safe: [`WriteHalf::owes`] tells whether removed bytes are still buffered here.
    pub async fn write_buf(&mut self, bytes: &mut BytesMut) -> io::Result<bool> {
        match self {
            Self::Plain(half) => {
                let written = half.write(bytes).await?;
                bytes.advance(written);
                Ok(written > 0)
            }
            Self::Tls { half, owes, charge } => {
                if !bytes.is_empty() {
                    *owes = true;
                    charge.set(bytes.len().min(TLS_READ_BYTES));
                    if half.write_buf(bytes).await? == 0 {
                        return Ok(false);
                    }
                }
                if bytes.is_empty() && *owes {
                    half.flush().await?;
                    *owes = false;
                    charge.set(0);
                }
                Ok(true)
            }
        }
    }

    /// Whether removed bytes may still be buffered: then [`WriteHalf::write_buf`] continues, even
    /// with nothing more to write.
    pub fn owes(&self) -> bool {
        matches!(self, Self::Tls { owes: true, .. })
    }

    /// Sends `close_notify`, so that the peer knows that nothing was cut off.
    pub async fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls { half, .. } => half.shutdown().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use crate::socket::{ClientTls, ServerTls};

    /// Longer than anything in these tests takes.
    const PATIENCE: Duration = Duration::from_secs(20);
    const PIECE: [u8; 1024] = [7; 1024];

    /// The two ends of a connection, a client's and a server's.
    async fn pair() -> ((ReadHalf, WriteHalf), (ReadHalf, WriteHalf)) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = (dir.path().join("a.pem"), dir.path().join("a.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let server = ServerTls::load(&certificate, &key, None).unwrap();
        let client = ClientTls::load(Some(&certificate), None).unwrap();
        let (listens, connects) = (narrow(), narrow());
        listens.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = listens.listen(1).unwrap();
        let stream = connects.connect(listener.local_addr().unwrap()).await.unwrap();
        let budget = Budget::new(1 << 24);
        let accepted = async {
            let (stream, _) = listener.accept().await.unwrap();
            server.accept(stream, &budget).await.unwrap()
        };
        let connected = async { client.connect("localhost", stream, &budget).await.unwrap() };
        tokio::join!(connected, accepted)
    }

    #[tokio::test]
    async fn a_cancelled_read_or_write_loses_and_repeats_nothing() {
        let ((_open, mut write), (mut read, _also)) = pair().await;
        let sent: Vec<u8> = (0..4_000_000_usize).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let (mut left, mut got) = (BytesMut::from(&sent[..]), BytesMut::new());
        let (mut written, mut turn) = (0_u32, 0_u32);
        let all = async {
            while got.len() < sent.len() {
                turn += 1;
                let more = !left.is_empty() || write.owes();
                // The future that is polled second is often dropped while it is pending.
                if turn % 3 == 0 {
                    tokio::select! { biased;
                        n = read.read_buf(&mut got) => assert!(n.unwrap() > 0),
                        some = write.write_buf(&mut left), if more => assert!(some.unwrap()),
                    }
                } else {
                    tokio::select! { biased;
                        some = write.write_buf(&mut left), if more => {
                            assert!(some.unwrap());
                            written += 1;
                        }
                        n = read.read_buf(&mut got) => assert!(n.unwrap() > 0),
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, all).await.unwrap();
        assert!(got == sent, "not a byte is another");
        assert!(written > 1 && !write.owes());
    }

    /// Sockets with buffers much smaller than those of TLS.
    fn narrow() -> TcpSocket {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(4096).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket
    }

    /// Polls once, outside of tokio's cooperative budget.
    fn unhindered<F: Future>(future: F) -> Option<F::Output> {
        tokio::task::unconstrained(future).now_or_never()
    }

    #[tokio::test]
    async fn a_cancelled_write_owes_its_taken_bytes() {
        let ((_open, mut write), (mut read, _also)) = pair().await;
        let mut taken = 0;
        loop {
            let mut piece = BytesMut::from(&PIECE[..]);
            let done = unhindered(write.write_buf(&mut piece)).is_some();
            taken += PIECE.len() - piece.len();
            if !done {
                break;
            }
        }
        let (mut nothing, mut got) = (BytesMut::new(), BytesMut::new());
        let rest = async {
            while got.len() < taken {
                tokio::select! {
                    some = write.write_buf(&mut nothing), if write.owes() => assert!(some.unwrap()),
                    n = read.read_buf(&mut got) => assert!(n.unwrap() > 0),
                }
            }
        };
        tokio::time::timeout(PATIENCE, rest).await.unwrap();
    }

    #[tokio::test]
    async fn a_whole_write_ends_once_the_system_has_every_byte() {
        let ((_open, mut write), (mut read, _also)) = pair().await;
        let (sent, mut got) = (vec![7; 256 << 10], BytesMut::new());
        let reading = async {
            while got.len() < sent.len() {
                assert!(read.read_buf(&mut got).await.unwrap() > 0);
            }
        };
        let both = async { tokio::join!(write.write_all(&sent), reading) };
        tokio::time::timeout(PATIENCE, both).await.unwrap().0.unwrap();
    }

    #[tokio::test]
    async fn close_follows_all_written_bytes_and_ends_the_stream() {
        let ((_open, mut write), (mut read, _also)) = pair().await;
        write.write_all(b"all of it").await.unwrap();
        let mut got = BytesMut::new();
        read.read_buf(&mut got).await.unwrap();
        assert_eq!(&got[..], b"all of it");
        write.close().await.unwrap();
        assert_eq!(read.read_buf(&mut got).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_closed_peer_is_noticed_before_its_bytes_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let open = plain(listener.accept().await.unwrap().0);
        let (under_tls, near) = pair().await;
        for ((mut far, mut also), (mut near, _write)) in [(plain(far), open), (under_tls, near)] {
            also.write_all(&PIECE.repeat(2)).await.unwrap();
            near.read_buf(&mut BytesMut::with_capacity(10)).await.unwrap();
            assert!(!near.has_ended(), "it only says nothing more");
            // The server's session tickets are read first: unread bytes would reset the connection.
            drop(at_once(far.read_buf(&mut BytesMut::new())).await);
            drop((far, also));
            let seen = async {
                while !near.has_ended() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, seen).await.unwrap();
            assert!(near.read_buf(&mut BytesMut::new()).await.unwrap() > 0, "it can be read");
        }
    }

    #[tokio::test]
    async fn a_peer_closing_without_close_notify_ends_the_stream() {
        let (mut client, (mut read, mut write)) = pair().await;
        // Reading this byte also reads the server's session tickets.
        write.write_all(b"x").await.unwrap();
        client.0.read_buf(&mut BytesMut::new()).await.unwrap();
        drop(client);
        assert_eq!(read.read_buf(&mut BytesMut::new()).await.unwrap(), 0);
    }
}
