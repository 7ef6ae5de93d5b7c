//! Writes to a client that may have stopped reading.

use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::client::ClientLimits;
use crate::client::close_cause::CloseCause;
use crate::socket::{WriteHalf, at_once};

/// A client must read some of each piece of this size within its time.
const PIECE_BYTES: usize = 1 << 20;
/// Looks at the memory while a client does not read, within `limits.handshake`.
const LOOKS: u32 = 4;

/// The target of bytes: a connection, or a stand-in in tests.
pub(super) trait Outgoing {
    /// Writes the whole piece.
    fn take(&mut self, piece: &[u8]) -> impl Future<Output = io::Result<()>> + Send;
}

impl Outgoing for WriteHalf {
    async fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write_all(piece).await
    }
}

/// Writes all of `bytes`. `patience` is for each piece: a slow client gets all the time it needs,
/// and one that reads nothing is closed.
pub(super) async fn send(
    write: &mut impl Outgoing,
    bytes: &[u8],
    patience: Duration,
) -> Result<(), CloseCause> {
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut taking = pin!(write.take(piece));
        // The system nearly always accepts everything at once, so no timer is needed.
        let taken = match at_once(taking.as_mut()).await {
            Poll::Ready(taken) => taken,
            Poll::Pending => {
                tokio::time::timeout(patience, taking).await.map_err(|_| CloseCause::Stalled)?
            }
        };
        taken.map_err(|error| CloseCause::of_io(&error))?;
    }
    Ok(())
}

/// [`send`] for an answer that is made here and holds memory. While memory is short, the client
/// must read each piece within `limits.handshake`.
pub(super) async fn send_made(
    write: &mut impl Outgoing,
    bytes: &[u8],
    limits: &ClientLimits,
    is_short: impl Fn() -> bool,
) -> Result<(), CloseCause> {
    for piece in bytes.chunks(PIECE_BYTES) {
        tokio::select! {
            biased;
            sent = send(write, piece, limits.idle) => sent?,
            () = short_for(limits.handshake, &is_short) => return Err(CloseCause::Stalled),
        }
    }
    Ok(())
}

/// Returns once memory was short at each look for that long: a short moment closes nobody.
async fn short_for(time: Duration, is_short: impl Fn() -> bool) {
    let mut looks = 0;
    while looks < LOOKS {
        tokio::time::sleep(time / LOOKS).await;
        looks = if is_short() { looks + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Bytes that the system buffers between the two ends.
    const ON_THE_WAY: usize = 64 << 10;
    const PATIENCE: Duration = Duration::from_mins(10);

    impl Outgoing for DuplexStream {
        async fn take(&mut self, piece: &[u8]) -> io::Result<()> {
            self.write_all(piece).await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_let_go() {
        let bytes = vec![7; 4 * PIECE_BYTES];
        let (mut near, far) = duplex(ON_THE_WAY);
        let sent = send(&mut near, &bytes, PATIENCE).await;
        assert_eq!(sent, Err(CloseCause::Stalled));
        drop(far);
        let sent = send(&mut near, &bytes, PATIENCE).await;
        assert_eq!(sent, Err(CloseCause::Client));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_reader_is_closed_early_while_memory_stays_short() {
        let limits = ClientLimits {
            connections: 1,
            per_ip: 1,
            frame_bytes: 1 << 20,
            first_frame_bytes: 1 << 20,
            upload_rate_min: 1,
            idle: PATIENCE,
            handshake: PATIENCE / 20,
        };
        let bytes = vec![7; 4 * PIECE_BYTES];
        let cases: [fn(usize) -> bool; 3] = [|_| true, |look| look % 4 < 3, |_| false];
        for (short, is_early) in cases.into_iter().zip([true, false, false]) {
            let (mut near, _far) = duplex(ON_THE_WAY);
            let looks = AtomicUsize::new(0);
            let is_short = || short(looks.fetch_add(1, Ordering::Relaxed));
            let sent = send_made(&mut near, &bytes, &limits, is_short).await;
            assert_eq!(sent, Err(CloseCause::Stalled));
            let looks = looks.into_inner();
            assert_eq!(looks < 10, is_early, "{looks} looks");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_every_byte() {
        let bytes = vec![7; 64 * PIECE_BYTES];
        let (mut near, mut far) = duplex(ON_THE_WAY);
        let reading = async {
            let mut piece = vec![0; PIECE_BYTES];
            for _ in bytes.chunks(PIECE_BYTES) {
                tokio::time::sleep(PATIENCE.mul_f64(0.9)).await;
                far.read_exact(&mut piece).await.unwrap();
            }
        };
        let sending = send(&mut near, &bytes, PATIENCE);
        let (sent, ()) = tokio::join!(sending, reading);
        assert_eq!(sent, Ok(()));
    }
}
