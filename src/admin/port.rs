//! Connections of the admin port: their limit, the deadline of a request, and their end. All
//! callers share the port with the probes.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::Files;

/// Connections at once; a further one waits until one of them ends.
const CONNECTIONS_MAX: usize = 64;
/// Deadline of a whole request, and of silence on a connection.
const HEAD: Duration = Duration::from_secs(10);
/// Time for the answers to open requests at a stop.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Pause when no file descriptors are left: time for some to close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until `shutdown` completes, then answers the open requests.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    let mut waits = false;
    loop {
        let accepted = async {
            let seat = Arc::clone(&seats).acquire_owned().await;
            (seat, accept(&listener, &mut waits).await)
        };
        tokio::select! {
            (seat, (stream, peer)) = accepted => {
                let (router, stopped) = (router.clone(), stopped.clone());
                connections.spawn(async move {
                    converse(stream, peer, router, stopped).await;
                    drop(seat);
                });
            }
            Some(_) = connections.join_next() => {}
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    stop.send_replace(true);
    while connections.join_next().await.is_some() {}
}

/// The next connection for which there is a file descriptor. `waits`: descriptors had run out, and
/// the log line about it is written.
async fn accept(listener: &TcpListener, waits: &mut bool) -> (TcpStream, SocketAddr) {
    loop {
        let why = match listener.accept().await {
            Ok((stream, _)) if Files::of_people().are_short(&stream, 0) => {
                "too few file descriptors are left".to_owned()
            }
            Ok(accepted) => {
                *waits = false;
                return accepted;
            }
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(waits, true) {
            tracing::warn!(
                "R0101 the admin port accepts no connection at the moment: {why}; raise the limit \
                 of open files"
            );
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let pages = TowerToHyperService::new(router);
    let service = service_fn(move |request| {
        let mut request: Request<hyper::body::Incoming> = request;
        request.extensions_mut().insert(ConnectInfo(peer));
        pages.call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // The reason why a connection ends matters to its peer only.
    tokio::select! {
        _ended = connection.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    drop(timeout(LAST_ANSWERS, connection).await);
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::*;

    /// A port that answers at once, except for `/slow`, which takes this long.
    async fn port(slow: Duration) -> (SocketAddr, oneshot::Sender<()>, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/", get(|peer: ConnectInfo<SocketAddr>| async move { peer.0.to_string() }))
            .route("/slow", get(move || sleep(slow)));
        let (stop, stopped) = oneshot::channel();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, router, async { stopped.await.unwrap_or(()) }));
        (address, stop, serving)
    }

    async fn ask(at: SocketAddr, asks: &str) -> TcpStream {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(asks.as_bytes()).await.unwrap();
        stream
    }

    async fn rest(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_request_and_silence_end_a_connection() {
        let (at, _stop, _serving) = port(Duration::ZERO).await;
        #[expect(clippy::disallowed_methods, reason = "time is virtual")]
        let began = Instant::now();
        for asks in ["", "GET / HTTP/1.1\r\nHost", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let stream = ask(at, asks).await;
            let address = stream.local_addr().unwrap().to_string();
            let answer = rest(stream).await;
            assert_eq!(answer.contains(&address), asks.ends_with("\r\n\r\n"), "{asks}: {answer}");
        }
        let (took, most) = (began.elapsed(), 4 * HEAD);
        assert!((2 * HEAD..most).contains(&took), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_briefly_for_answers_but_not_for_requests() {
        for (slow, answered) in [(LAST_ANSWERS / 2, true), (LAST_ANSWERS * 2, false)] {
            let (at, stop, mut serving) = port(slow).await;
            let asked = ask(at, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
            let half = ask(at, "GET / HTTP/1.1\r\n").await;
            // The answer comes after the server has seen both earlier connections.
            rest(ask(at, "GET / HTTP/1.0\r\n\r\n").await).await;
            stop.send(()).unwrap();
            serving.join_next().await.unwrap().unwrap();
            assert_eq!(rest(asked).await.starts_with("HTTP/1.1 200"), answered, "{slow:?}");
            assert_eq!(rest(half).await, "");
        }
    }
}
