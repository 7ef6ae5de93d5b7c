//! The ports that a start takes, bound until the check ends: broker ports in its findings skip
//! them, as those of a start do.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::advertised::{self, Port};
use super::finding::Finding;
use crate::client::Listener;
use crate::config::Config;
use crate::route::clients::broker_ports::BrokerPorts;

/// Broker ports that are dialled at most.
const DIALLED_MAX: usize = 100;

#[derive(Debug, Default)]
pub(super) struct ReservedPorts {
    /// Listeners by their index in the configuration; a listener whose port is taken is missing.
    listeners: BTreeMap<usize, ReservedListener>,
    /// The admin port and the probe port.
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
    /// The distance from the listener's own port.
    pub(super) distance: u16,
    socket: TcpListener,
}

impl ReservedPorts {
    /// `fronts`: with an upstream there are broker ports and no token ports.
    pub(super) fn add(&mut self, index: usize, bound: Listener, fronts: bool) {
        let listener = if fronts {
            let (doors, _) = BrokerPorts::new(bound.address.port(), BTreeMap::new());
            bound.with_doors(Arc::new(doors))
        } else {
            bound
        };
        self.listeners.insert(index, ReservedListener { listener, broker_ports: Vec::new() });
    }

    pub(super) fn listener(&mut self, index: usize) -> Option<&mut ReservedListener> {
        self.listeners.get_mut(&index)
    }

    /// Checks whether the advertised addresses lead here.
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
    /// Opens a port for each broker; returns the number of brokers without one.
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
