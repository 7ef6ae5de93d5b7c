//! Ports that a start takes, held until the check ends: what is foretold of broker ports passes
//! them over, as a start does.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::Finding;
use super::advertised::{self, Port};
use crate::client::Listener;
use crate::config::Config;
use crate::route::doors::Doors;

/// Broker ports dialled at most.
const DIALLED_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Reserved {
    /// By their index in the configuration; one that another process has is missing.
    listeners: BTreeMap<usize, ReservedListener>,
    /// The admin port and the address of the probes.
    pub(super) admin: Vec<TcpListener>,
}

#[derive(Debug)]
pub(super) struct ReservedListener {
    listener: Listener,
    pub(super) broker_ports: Vec<BrokerPort>,
}

/// A port behind a listener.
#[derive(Debug)]
pub(super) struct BrokerPort {
    pub(super) node: i32,
    /// From the listener's own.
    pub(super) distance: u16,
    socket: TcpListener,
}

impl Reserved {
    /// `fronts`: a cluster is behind, so there are broker ports and no token ports.
    pub(super) fn add(&mut self, index: usize, bound: Listener, fronts: bool) {
        let listener = if fronts {
            let (doors, _) = Doors::new(bound.address.port(), BTreeMap::new());
            bound.with_doors(Arc::new(doors))
        } else {
            bound
        };
        self.listeners.insert(index, ReservedListener { listener, broker_ports: Vec::new() });
    }

    pub(super) fn listener(&mut self, index: usize) -> Option<&mut ReservedListener> {
        self.listeners.get_mut(&index)
    }

    /// Whether what clients are told leads here.
    pub(super) async fn advertised(&self, config: &Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (index, listener) in config.listen.iter().enumerate() {
            let Some(told) = &listener.advertised else { continue };
            let bound = self.listeners.get(&index);
            let socket = bound.and_then(|bound| bound.listener.socket());
            let mut ports = vec![Port { node: None, number: told.port, socket }];
            let behind = bound.into_iter().flat_map(|bound| &bound.broker_ports);
            ports.extend(behind.take(DIALLED_MAX).filter_map(|of| {
                let number = told.port.checked_add(of.distance)?;
                Some(Port { node: Some(of.node), number, socket: Some(&of.socket) })
            }));
            findings.extend(advertised::look(&told.host, &ports).await);
        }
        findings
    }
}

impl ReservedListener {
    /// Opens a port for each; how many find none.
    pub(super) async fn open_broker_ports(&mut self, nodes: impl Iterator<Item = i32>) -> usize {
        let mut shut = 0;
        for node in nodes {
            match self.listener.open_door(node, None).await {
                Some((socket, distance)) => {
                    self.broker_ports.push(BrokerPort { node, distance, socket });
                }
                None => shut += 1,
            }
        }
        shut
    }
}
