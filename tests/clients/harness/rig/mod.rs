//! The rig of every scenario: the sidecar, the cluster, and the clients as programs.

pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod host;
pub(crate) mod library;
pub(crate) mod login;
pub(crate) mod program;
pub(crate) mod runtimes;
pub(crate) mod scene;
pub(crate) mod sidecar;
pub(crate) mod stage;
pub(crate) mod wait;
