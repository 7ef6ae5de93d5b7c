//! Consumers without any knowledge of retries: attribution of each Fetch, and unchanged delivery to
//! healthy consumers.

mod anew;
mod app;
mod claims;
mod elsewhere;
mod failing;
mod fetch_owner;
mod gone;
mod healthy;
mod idle;
mod in_batches;
mod input;
mod lost;
mod missed;
mod ordered;
mod outage;
mod silent;
mod spoken;
mod stalled;
mod suspects;
mod tested;
mod transactions;
