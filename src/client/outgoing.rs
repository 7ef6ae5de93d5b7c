//! Writes to a client that may have stopped reading.

use std::time::Duration;

use crate::client::cause::Cause;
use crate::socket::WriteHalf;

/// Some of so many bytes has to be taken before patience ends.
const PIECE_BYTES: usize = 1 << 20;

/// Writes all of `bytes`; `patience` is for each piece, so that a slow client has all the time it
/// needs and one that reads nothing is let go.
pub(super) async fn send(
    write: &mut WriteHalf,
    bytes: &[u8],
    patience: Duration,
) -> Result<(), Cause> {
    for piece in bytes.chunks(PIECE_BYTES) {
        match tokio::time::timeout(patience, write.write_all(piece)).await {
            Ok(written) => written.map_err(|error| Cause::of_io(&error))?,
            Err(_) => return Err(Cause::Stalled),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::socket::plain;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, far)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_let_go_and_a_slow_one_is_not() {
        let bytes = vec![7; 64 << 20];
        let (near, far) = pair().await;
        let (_read, mut write) = plain(near);
        let patience = Duration::from_mins(10);
        let sent = send(&mut write, &bytes, patience).await;
        assert_eq!(sent, Err(Cause::Stalled));
        drop(far);
        assert_eq!(send(&mut write, &bytes, patience).await, Err(Cause::Client));

        let (near, mut far) = pair().await;
        let (read, mut write) = plain(near);
        let reading = async {
            let mut came = 0;
            while came < bytes.len() {
                tokio::time::sleep(patience / 2).await;
                // More than the system keeps on the way, or it does not tell that some was read.
                let mut some = (&mut far).take(16 << 20);
                let read = some.read_to_end(&mut Vec::new()).await.unwrap_or_default();
                came += read;
                if read == 0 {
                    break;
                }
            }
            came
        };
        let sending = async {
            let sent = send(&mut write, &bytes, patience).await;
            drop((read, write));
            sent
        };
        let (sent, came) = tokio::join!(sending, reading);
        assert_eq!((sent, came), (Ok(()), bytes.len()));
    }
}
