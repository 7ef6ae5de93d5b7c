//! HTTP: page, probes, metrics, JSON API. A GET only reads; what changes anything is a POST.
//!
//! **Bounds.** Numbers of a request saturate: an offset past the end finds nothing, and a time past
//! the calendar means never. Sizes and ages are those of the engine, far from the ends of their
//! types.

mod access;
mod advice;
mod answer;
mod api;
mod delayed;
mod explain;
mod failed_records;
mod fingerprints;
mod html;
mod jobs;
mod operator_actions;
mod page;
mod payload;
mod port;
mod probes;
mod state;
mod transfer;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::observe::Metrics;
use crate::operations::Operations;
use access::caller_guard;
use access::caller_guard::Caller;
use access::operator_tokens::Sessions;
use answer::{Refusal, json_answer, not_allowed, text_answer};
use state::Admin;

pub use access::operator_tokens::OperatorTokens;
pub use payload::mask::Mask;
pub use probes::serve_probes;
pub use state::Options;

/// All routes, listed in the answer to an unknown path.
const ROUTES: &[&str] = &[
    "/livez",
    "/readyz",
    "/startupz",
    "/metrics",
    "/version",
    "/config",
    "/drain",
    "/api/v1/overview",
    "/api/v1/journal",
    "/api/v1/groups?group=&limit=&after=",
    "/api/v1/groups/{group}",
    "/api/v1/explain?group=",
    "/api/v1/explain?record=",
    "/api/v1/retries?{conditions}&limit=&after=",
    "/api/v1/retries/fingerprints?group=&limit=",
    "POST /api/v1/retries/{now|delay|dead-letter}",
    "POST /api/v1/nack",
    "/api/v1/dead-letters?{conditions}&limit=&after=",
    "/api/v1/dead-letters/fingerprints?group=&limit=",
    "/api/v1/dead-letters/export?{conditions}&limit=&after=",
    "POST /api/v1/dead-letters/import",
    "/api/v1/dead-letters/{group}/{offset}",
    "POST /api/v1/dead-letters/{redrive|discard|restore}",
    "/api/v1/audit?group=&limit=&after=",
    "/api/v1/jobs?group=",
    "/api/v1/jobs/{id}",
    "POST /api/v1/jobs",
    "POST /api/v1/jobs/plan",
    "POST /api/v1/jobs/{id}/{pause|resume|cancel}",
    "/api/v1/delayed?topic=&limit=&after=",
    "POST /api/v1/delayed/cancel",
];

/// Serves the admin port on `listener` until `shutdown` completes. Open requests get a second after
/// that for their answers.
pub async fn serve(
    listener: TcpListener,
    operations: Operations,
    metrics: Metrics,
    options: Options,
    shutdown: impl Future<Output = ()>,
) {
    port::serve(listener, router(operations, metrics, options), shutdown).await;
}

fn router(operations: Operations, metrics: Metrics, options: Options) -> Router {
    let admin = Arc::new(Admin {
        operations,
        metrics,
        options,
        sessions: Sessions::new(),
        searching: Mutex::default(),
    });
    probes::routes()
        .route("/", get(home))
        .route("/audit", get(html::audit))
        .route("/groups/{group}", get(html::group))
        .route("/groups/{group}/letters", get(html::letters))
        .route("/groups/{group}/letters/{offset}", get(html::letter))
        .route("/groups/{group}/letters/{offset}/value", get(html::letter_value))
        .route("/groups/{group}/waiting", get(html::waiting))
        .route("/groups/{group}/waiting/{id}", get(html::retry))
        .route("/groups/{group}/waiting/{id}/value", get(html::retry_value))
        .route("/groups/{group}/act", bounded(post(html::act)))
        .route("/groups/{group}/jobs", bounded(post(html::start_job)))
        .route("/journal", get(html::journal))
        .route("/search", get(html::search))
        .route("/jobs", get(html::jobs))
        .route("/jobs/{id}", get(html::job))
        .route("/jobs/{id}/act", bounded(post(html::change_job)))
        .route("/login", get(html::login).merge(bounded(post(html::log_in))))
        .route("/logout", post(html::log_out))
        .route("/refresh.js", get(html::script))
        .route("/style.css", get(html::style))
        .route("/config", get(config))
        .route("/drain", get(drain))
        .route("/api/v1/overview", get(api::overview))
        .route("/api/v1/journal", get(api::journal))
        .route("/api/v1/groups", get(api::groups))
        .route("/api/v1/groups/{group}", get(api::group))
        .route("/api/v1/explain", get(explain::explain))
        .route("/api/v1/retries", get(api::retries))
        .route("/api/v1/retries/fingerprints", get(fingerprints::list_retries))
        .route(
            "/api/v1/nack",
            post(failed_records::nack).layer(DefaultBodyLimit::max(failed_records::NACK_BYTES_MAX)),
        )
        .route("/api/v1/retries/{verb}", bounded(post(operator_actions::retries)))
        .route("/api/v1/dead-letters/{verb}", bounded(post(operator_actions::dead_letters)))
        .route("/api/v1/audit", get(operator_actions::audit))
        .route("/api/v1/jobs", get(jobs::list).merge(bounded(post(jobs::start))))
        .route("/api/v1/jobs/plan", bounded(post(jobs::plan)))
        .route("/api/v1/jobs/{id}", get(jobs::one))
        .route("/api/v1/jobs/{id}/{verb}", bounded(post(jobs::change)))
        .route("/api/v1/dead-letters/fingerprints", get(fingerprints::list))
        .route("/api/v1/dead-letters/export", get(transfer::export_letters))
        .route("/api/v1/dead-letters/import", carrying(post(transfer::import_letters)))
        .route("/api/v1/dead-letters", get(api::dead_letters))
        .route("/api/v1/dead-letters/{group}/{offset}", get(api::dead_letter))
        .route("/api/v1/delayed", get(delayed::list))
        .route("/api/v1/delayed/cancel", post(delayed::cancel))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(admin.clone(), guarded))
        .with_state(admin)
}

/// A route with small request bodies.
fn bounded(route: MethodRouter<Arc<Admin>>) -> MethodRouter<Arc<Admin>> {
    route.layer(DefaultBodyLimit::max(operator_actions::BODY_BYTES_MAX))
}

/// A route whose request bodies hold records.
fn carrying(route: MethodRouter<Arc<Admin>>) -> MethodRouter<Arc<Admin>> {
    route.layer(DefaultBodyLimit::max(transfer::IMPORT_BYTES_MAX))
}

async fn guarded(State(admin): State<Arc<Admin>>, mut request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
    let headers = request.headers();
    // The list of routes is open to every caller; the page names groups.
    let path = match request.uri().path() {
        "/" if wants_page(headers) => "page",
        path => path,
    };
    let tokens = admin.options.tokens.now();
    let judged = admin.sessions.login(&tokens, headers).and_then(|login| {
        caller_guard::judge(&admin.options, path, headers, (peer, login))?;
        if !request.method().is_safe() {
            caller_guard::judge_change(&admin.options, path, headers, (peer, login))?;
        }
        Ok(Caller::new(&admin.options, headers, (login, peer)))
    });
    match judged {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED && wants_page(headers) => {
            html::login_needed(&refusal)
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn wants_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get(header::ACCEPT).and_then(|accepts| accepts.to_str().ok());
    accepts.is_some_and(|accepts| accepts.contains("text/html"))
}

/// The page for a browser; for other callers a list of the routes.
async fn home(state: State<Arc<Admin>>, headers: HeaderMap) -> Response {
    if wants_page(&headers) {
        return html::home(state).await;
    }
    text_answer(StatusCode::OK, format!("reprise\n\n{}\n", ROUTES.join("\n")))
}

async fn config(State(admin): State<Arc<Admin>>) -> Result<Response, Refusal> {
    Ok(json_answer(StatusCode::OK, &admin.operations.config()?))
}

async fn drain(State(admin): State<Arc<Admin>>) -> Result<Response, Refusal> {
    Ok(json_answer(StatusCode::OK, &admin.operations.drain().await?))
}

async fn unknown(request: Request) -> Response {
    let says = format!("there is no {} here", request.uri().path());
    json_answer(StatusCode::NOT_FOUND, &json!({ "error": says, "routes": ROUTES }))
}
