//! Probes, figures and the version, on the admin port and by themselves on the address of
//! `admin.probes`. They hold no record, so they need no token.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::access::operator_tokens::Sessions;
use super::answer::{Refusal, json_answer, not_allowed, text_answer};
use super::port;
use super::state::{Admin, Options};
use crate::observe::Metrics;
use crate::operations::Operations;

/// Paths of `admin.probes`.
const ROUTES: [&str; 5] = ["/livez", "/readyz", "/startupz", "/metrics", "/version"];

/// Serves probes, metrics and the version on `listener` until `shutdown` completes.
pub async fn serve_probes(
    listener: TcpListener,
    operations: Operations,
    metrics: Metrics,
    shutdown: impl Future<Output = ()>,
) {
    let admin = Arc::new(Admin {
        operations,
        metrics,
        options: Options::default(),
        sessions: Sessions::new(),
        searching: Mutex::default(),
    });
    let router =
        routes().fallback(unknown).method_not_allowed_fallback(not_allowed).with_state(admin);
    port::serve(listener, router, shutdown).await;
}

/// The routes that both addresses serve.
pub(super) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/startupz", get(startupz))
        .route("/metrics", get(metrics_text))
        .route("/version", get(version))
}

async fn readyz(State(admin): State<Arc<Admin>>) -> Response {
    let readiness = admin.operations.readiness();
    let ok = readiness.ready;
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_answer(status, &json!({ "ready": ok, "degraded": readiness.degraded }))
}

async fn livez(State(admin): State<Arc<Admin>>) -> Response {
    match admin.operations.readiness().restart_reason {
        None => text_answer(StatusCode::OK, "ok\n"),
        Some(why) => text_answer(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// The admin port opens once recovery is done and every listener is open.
async fn startupz() -> Response {
    text_answer(StatusCode::OK, "started\n")
}

async fn metrics_text(State(admin): State<Arc<Admin>>) -> Response {
    admin.metrics.set_ready(admin.operations.readiness().ready);
    // While the engine does not answer, its gauges keep their last values; the rest stays correct.
    if let Ok(gauges) = admin.operations.gauges().await {
        admin.metrics.set_groups(&gauges);
    }
    match admin.metrics.render() {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
            (StatusCode::OK, kind, text).into_response()
        }
        Err(e) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}

async fn version() -> Response {
    let commit = option_env!("REPRISE_COMMIT");
    let version =
        json!({ "name": "reprise", "version": env!("CARGO_PKG_VERSION"), "commit": commit });
    json_answer(StatusCode::OK, &version)
}

async fn unknown(request: Request) -> Response {
    let says = format!(
        "there is no {} here: the address of admin.probes serves probes and metrics only; ask the \
         one of admin.address",
        request.uri().path()
    );
    json_answer(StatusCode::NOT_FOUND, &json!({ "error": says, "routes": ROUTES }))
}
