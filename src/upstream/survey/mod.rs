//! A survey of the cluster for operators: which brokers answer, how fast, and which APIs they
//! serve. It uses separate connections.

mod dead_letters;
mod login;
mod served;
mod subscriptions;

use std::time::Duration;

use futures_util::future::join_all;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::clock::Clock;
use crate::socket::{PeerSeen, plain};
use crate::upstream::own::head;
use crate::upstream::topic::METADATA;
use crate::upstream::{Address, Link, Upstream, UpstreamError, connect, no_tls};
use crate::wire::Api;

pub use dead_letters::{PREFIX as DEAD_LETTERS_PREFIX, ShareDeadLetters};
pub use served::BrokerReport;
use subscriptions::GroupSubscriptions;

/// The first ApiVersions that lists features, which reveal the release.
const FEATURES: i16 = 3;

#[derive(Debug, Default)]
pub struct Survey {
    /// Brokers of the configuration first, then the others that the cluster lists.
    pub brokers: Vec<BrokerSeen>,
    /// The cluster as the first broker that answered describes it.
    pub cluster: Option<ClusterSeen>,
}

#[derive(Debug)]
pub struct BrokerSeen {
    /// The address that was dialled.
    pub address: Address,
    /// The node id; `None`: the cluster lists no broker at that address.
    pub node: Option<i32>,
    pub reached: Result<ReachedBroker, UpstreamError>,
}

#[derive(Debug)]
pub struct ReachedBroker {
    /// Duration of the connect, TLS included.
    pub connected: Duration,
    /// The peer of TLS; `None` in plain text.
    pub tls: Option<PeerSeen>,
    /// The APIs that the broker serves, or why ApiVersions failed.
    pub served: Result<BrokerReport, UpstreamError>,
    pub login: LoginRequirement,
}

/// Whether a broker requires credentials.
#[derive(Debug)]
pub enum LoginRequirement {
    /// The broker answers without credentials.
    NotWanted,
    /// The broker accepts the sidecar's credentials.
    Taken,
    /// The broker closes the connection of a client without credentials; the mechanisms it takes.
    Wanted(Vec<String>),
    /// The broker does not answer for another reason.
    Unclear(UpstreamError),
}

/// The cluster as one broker describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSeen {
    pub id: Option<String>,
    pub nodes: Vec<(i32, Address)>,
    pub topics: Vec<String>,
    /// Topics of share groups' dead letters; `None`: the cluster has none before Kafka 4.4.
    pub dead_letters: Option<ShareDeadLetters>,
    pub subscriptions: Vec<GroupSubscriptions>,
}

impl Upstream {
    /// Surveys every broker of the configuration, then every other one that the cluster lists.
    pub async fn survey(&self, clock: Clock) -> Survey {
        let reports = self.bootstrap.iter().map(|address| self.examine(address, clock));
        let mut survey = Survey { brokers: join_all(reports).await, cluster: None };
        for seen in &survey.brokers {
            let answers = matches!(
                &seen.reached,
                Ok(ReachedBroker {
                    login: LoginRequirement::NotWanted | LoginRequirement::Taken,
                    ..
                })
            );
            if survey.cluster.is_none() && answers {
                survey.cluster = self.describe(&seen.address).await.ok();
            }
        }
        let nodes = survey.cluster.iter().flat_map(|cluster| cluster.nodes.clone());
        let mut others = Vec::new();
        for (node, address) in nodes.collect::<Vec<_>>() {
            match survey.brokers.iter_mut().find(|seen| seen.address == address) {
                Some(seen) => seen.node = Some(node),
                None => others.push((node, address)),
            }
        }
        let reports = others.iter().map(|(_, address)| self.examine(address, clock));
        for (mut seen, (node, _)) in join_all(reports).await.into_iter().zip(&others) {
            seen.node = Some(*node);
            survey.brokers.push(seen);
        }
        let dead_letters = self.dead_letters(&survey.brokers).await;
        if let Some(cluster) = &mut survey.cluster {
            cluster.dead_letters = dead_letters;
            cluster.subscriptions = self.subscriptions(&survey.brokers).await;
        }
        survey
    }

    /// Asks the first broker whose version supports dead letters of share groups.
    async fn dead_letters(&self, brokers: &[BrokerSeen]) -> Option<ShareDeadLetters> {
        let has_them = |seen: &&BrokerSeen| {
            let reached = seen.reached.as_ref().ok();
            let served = reached.and_then(|reached| reached.served.as_ref().ok());
            served.is_some_and(|served| served.share_dead_letters)
        };
        let seen = brokers.iter().find(has_them)?;
        let Some(node) = seen.node else { return Some(ShareDeadLetters::default()) };
        let call = async {
            let (mut link, _) = self.open_seen(&seen.address, true).await?;
            dead_letters::ask(&mut link, node).await
        };
        Some(self.in_time(call).await.unwrap_or_default())
    }

    async fn examine(&self, address: &Address, clock: Clock) -> BrokerSeen {
        let reached = self.inspect(address, clock).await;
        BrokerSeen { address: address.clone(), node: None, reached }
    }

    async fn inspect(
        &self,
        address: &Address,
        clock: Clock,
    ) -> Result<ReachedBroker, UpstreamError> {
        let began = clock.elapsed();
        let (mut link, tls) = self.in_time(self.open_seen(address, true)).await?;
        let connected = clock.elapsed().saturating_sub(began);
        let served = match self.in_time(served(&mut link, clock)).await {
            // With TLS 1.3 a client learns only at its first read that the broker refused its
            // certificate.
            Err(error @ (UpstreamError::Refused(_) | UpstreamError::WantsTls)) => {
                return Err(error);
            }
            served => served,
        };
        let login = match &served {
            Ok(_) => self.login(address, &mut link).await,
            Err(_) => LoginRequirement::Unclear(UpstreamError::Closed),
        };
        Ok(ReachedBroker { connected, tls, served, login })
    }

    async fn login(&self, address: &Address, link: &mut Link) -> LoginRequirement {
        match self.in_time(metadata(link, Some(Vec::new()))).await {
            Ok(_) if self.has_credentials() => LoginRequirement::Taken,
            Ok(_) => LoginRequirement::NotWanted,
            // A broker closes the connection of a client that does not authenticate.
            Err(error @ (UpstreamError::Closed | UpstreamError::Io(_))) => {
                let call = async {
                    let (mut link, _) = self.open_seen(address, false).await?;
                    login::mechanisms(&mut link).await
                };
                match self.in_time(call).await {
                    Ok(Some(mechanisms)) => LoginRequirement::Wanted(mechanisms),
                    _ => LoginRequirement::Unclear(error),
                }
            }
            Err(error) => LoginRequirement::Unclear(error),
        }
    }

    async fn describe(&self, address: &Address) -> Result<ClusterSeen, UpstreamError> {
        let (mut link, _) = self.in_time(self.open_seen(address, true)).await?;
        let answer = self.in_time(metadata(&mut link, None)).await?;
        let nodes = answer.brokers.iter().filter_map(|broker| {
            Some((broker.node_id.0, Address::of_wire(&broker.host, broker.port)?))
        });
        let names = answer.topics.iter().filter_map(|topic| topic.name.as_ref());
        Ok(ClusterSeen {
            id: answer.cluster_id.as_ref().map(ToString::to_string),
            nodes: nodes.collect(),
            topics: names.map(|name| name.0.to_string()).collect(),
            dead_letters: None,
            subscriptions: Vec::new(),
        })
    }

    /// With `own`, the sidecar authenticates if it has credentials.
    async fn open_seen(
        &self,
        address: &Address,
        own: bool,
    ) -> Result<(Link, Option<PeerSeen>), UpstreamError> {
        let stream = connect(address).await?;
        let (mut halves, seen) = match self.tls() {
            None => (plain(stream), None),
            Some(tls) => {
                let handshake = tls.look(&address.host, stream, &self.budget).await;
                let (halves, seen) = handshake.map_err(|cause| no_tls(address, cause))?;
                (halves, Some(seen))
            }
        };
        if own {
            self.identify(address, &mut halves).await?;
        }
        Ok((Link::new(halves, self.frame_bytes_max, &self.budget), seen))
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        let answered = tokio::time::timeout(self.connect_timeout, call).await;
        answered.unwrap_or(Err(UpstreamError::TooSlow))
    }
}

/// Requests ApiVersions 0, which every broker answers, then the version with features if the broker
/// serves it.
async fn served(link: &mut Link, clock: Clock) -> Result<BrokerReport, UpstreamError> {
    let began = clock.elapsed();
    let first = versions(link, 0).await?;
    let round_trip = clock.elapsed().saturating_sub(began);
    let ranges = served::ranges(&first);
    let has_features = ranges.get(&Api::ApiVersions.key()).is_some_and(|(_, max)| *max >= FEATURES);
    let features = if has_features { versions(link, FEATURES).await.ok() } else { None };
    Ok(BrokerReport::of(round_trip, &ranges, features.as_ref()))
}

async fn versions(link: &mut Link, version: i16) -> Result<ApiVersionsResponse, UpstreamError> {
    let mut request = ApiVersionsRequest::default();
    request.client_software_name = StrBytes::from_static_str("reprise");
    request.client_software_version = StrBytes::from_static_str(env!("CARGO_PKG_VERSION"));
    link.call(&head(Api::ApiVersions, version), &request).await
}

/// `None`: all topics. An empty list: none.
async fn metadata(
    link: &mut Link,
    topics: Option<Vec<MetadataRequestTopic>>,
) -> Result<MetadataResponse, UpstreamError> {
    let mut request = MetadataRequest::default();
    request.allow_auto_topic_creation = false;
    request.topics = topics;
    link.call(&head(Api::Metadata, METADATA), &request).await
}
