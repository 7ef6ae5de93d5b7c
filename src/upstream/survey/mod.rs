//! A look at the cluster for people: which brokers answer, how fast, and what they serve. On
//! connections of its own that carry nothing else.

mod dead_letters;
mod login;
mod served;

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
pub use served::Served;

/// The first ApiVersions that names features: they tell a release.
const FEATURES: i16 = 3;

/// What was seen.
#[derive(Debug, Default)]
pub struct Survey {
    /// Those of the configuration first, then the others the cluster names.
    pub brokers: Vec<BrokerSeen>,
    /// The whole, as the first broker that would say it says.
    pub cluster: Option<ClusterSeen>,
}

/// One broker.
#[derive(Debug)]
pub struct BrokerSeen {
    /// Where it was looked for.
    pub address: Address,
    /// Its id; `None`: the cluster names none at that address.
    pub node: Option<i32>,
    /// What it showed, or why nothing.
    pub reached: Result<Reached, UpstreamError>,
}

/// A broker that can be reached.
#[derive(Debug)]
pub struct Reached {
    /// How long the connection took, TLS included.
    pub connected: Duration,
    /// Where there is TLS.
    pub tls: Option<PeerSeen>,
    /// What it serves, or why it does not say.
    pub served: Result<Served, UpstreamError>,
    /// Whether it wants credentials.
    pub login: Login,
}

/// Whether a broker wants credentials.
#[derive(Debug)]
pub enum Login {
    /// It answers without.
    NotWanted,
    /// It takes ours.
    Taken,
    /// It closes on requests without; the mechanisms it takes.
    Wanted(Vec<String>),
    /// It does not answer, and not for want of credentials.
    Unclear(UpstreamError),
}

/// The cluster as one broker describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSeen {
    /// Its id.
    pub id: Option<String>,
    /// Its brokers: id and address.
    pub nodes: Vec<(i32, Address)>,
    /// Its topics.
    pub topics: Vec<String>,
    /// Topics of share groups' dead letters; `None`: there are none before Kafka 4.4.
    pub dead_letters: Option<ShareDeadLetters>,
}

impl Upstream {
    /// Looks at every broker of the configuration, then at every other one the cluster names.
    pub async fn survey(&self, clock: Clock) -> Survey {
        let looked = self.bootstrap.iter().map(|address| self.look_at(address, clock));
        let mut survey = Survey { brokers: join_all(looked).await, cluster: None };
        for seen in &survey.brokers {
            let answers =
                matches!(&seen.reached, Ok(Reached { login: Login::NotWanted | Login::Taken, .. }));
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
        let looked = others.iter().map(|(_, address)| self.look_at(address, clock));
        for (mut seen, (node, _)) in join_all(looked).await.into_iter().zip(&others) {
            seen.node = Some(*node);
            survey.brokers.push(seen);
        }
        let dead_letters = self.dead_letters(&survey.brokers).await;
        if let Some(cluster) = &mut survey.cluster {
            cluster.dead_letters = dead_letters;
        }
        survey
    }

    /// Asks the first broker whose share groups may have dead letters.
    async fn dead_letters(&self, brokers: &[BrokerSeen]) -> Option<ShareDeadLetters> {
        let has_them = |seen: &&BrokerSeen| {
            let reached = seen.reached.as_ref().ok();
            let served = reached.and_then(|reached| reached.served.as_ref().ok());
            served.is_some_and(|served| served.share_dead_letters)
        };
        let seen = brokers.iter().find(has_them)?;
        let Some(node) = seen.node else { return Some(ShareDeadLetters::default()) };
        let asked = async {
            let (mut link, _) = self.open_seen(&seen.address, true).await?;
            dead_letters::ask(&mut link, node).await
        };
        Some(self.in_time(asked).await.unwrap_or_default())
    }

    async fn look_at(&self, address: &Address, clock: Clock) -> BrokerSeen {
        let reached = self.reached(address, clock).await;
        BrokerSeen { address: address.clone(), node: None, reached }
    }

    async fn reached(&self, address: &Address, clock: Clock) -> Result<Reached, UpstreamError> {
        let began = clock.elapsed();
        let (mut link, tls) = self.in_time(self.open_seen(address, true)).await?;
        let connected = clock.elapsed().saturating_sub(began);
        let served = match self.in_time(served(&mut link, clock)).await {
            // In TLS 1.3 a broker says only now that it does not like our certificate.
            Err(error @ (UpstreamError::Refused(_) | UpstreamError::WantsTls)) => {
                return Err(error);
            }
            served => served,
        };
        let login = match &served {
            Ok(_) => self.login(address, &mut link).await,
            Err(_) => Login::Unclear(UpstreamError::Closed),
        };
        Ok(Reached { connected, tls, served, login })
    }

    async fn login(&self, address: &Address, link: &mut Link) -> Login {
        match self.in_time(metadata(link, Some(Vec::new()))).await {
            Ok(_) if self.has_credentials() => Login::Taken,
            Ok(_) => Login::NotWanted,
            // To close is how a broker treats those it does not know.
            Err(error @ (UpstreamError::Closed | UpstreamError::Io(_))) => {
                let asked = async {
                    let (mut link, _) = self.open_seen(address, false).await?;
                    login::mechanisms(&mut link).await
                };
                match self.in_time(asked).await {
                    Ok(Some(mechanisms)) => Login::Wanted(mechanisms),
                    _ => Login::Unclear(error),
                }
            }
            Err(error) => Login::Unclear(error),
        }
    }

    async fn describe(&self, address: &Address) -> Result<ClusterSeen, UpstreamError> {
        let (mut link, _) = self.in_time(self.open_seen(address, true)).await?;
        let told = self.in_time(metadata(&mut link, None)).await?;
        let nodes = told.brokers.iter().filter_map(|broker| {
            Some((broker.node_id.0, Address::of_wire(&broker.host, broker.port)?))
        });
        let names = told.topics.iter().filter_map(|topic| topic.name.as_ref());
        Ok(ClusterSeen {
            id: told.cluster_id.as_ref().map(ToString::to_string),
            nodes: nodes.collect(),
            topics: names.map(|name| name.0.to_string()).collect(),
            dead_letters: None,
        })
    }

    /// `own`: with our credentials, where there are some.
    async fn open_seen(
        &self,
        address: &Address,
        own: bool,
    ) -> Result<(Link, Option<PeerSeen>), UpstreamError> {
        let stream = connect(address).await?;
        let (mut halves, seen) = match self.tls() {
            None => (plain(stream), None),
            Some(tls) => {
                let looked = tls.look(&address.host, stream, &self.budget).await;
                let (halves, seen) = looked.map_err(|cause| no_tls(address, cause))?;
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
        asked: impl Future<Output = Result<T, UpstreamError>>,
    ) -> Result<T, UpstreamError> {
        let answered = tokio::time::timeout(self.connect_timeout, asked).await;
        answered.unwrap_or(Err(UpstreamError::TooSlow))
    }
}

/// Asks which versions are served: of version 0, which every broker answers, then for the features
/// of those that tell them.
async fn served(link: &mut Link, clock: Clock) -> Result<Served, UpstreamError> {
    let began = clock.elapsed();
    let first = versions(link, 0).await?;
    let round_trip = clock.elapsed().saturating_sub(began);
    let ranges = served::ranges(&first);
    let tells = ranges.get(&Api::ApiVersions.key()).is_some_and(|(_, max)| *max >= FEATURES);
    let features = if tells { versions(link, FEATURES).await.ok() } else { None };
    Ok(Served::of(round_trip, &ranges, features.as_ref()))
}

async fn versions(link: &mut Link, version: i16) -> Result<ApiVersionsResponse, UpstreamError> {
    let mut request = ApiVersionsRequest::default();
    request.client_software_name = StrBytes::from_static_str("reprise");
    request.client_software_version = StrBytes::from_static_str(env!("CARGO_PKG_VERSION"));
    link.call(&head(Api::ApiVersions, version), &request).await
}

/// All topics, or none.
async fn metadata(
    link: &mut Link,
    topics: Option<Vec<MetadataRequestTopic>>,
) -> Result<MetadataResponse, UpstreamError> {
    let mut request = MetadataRequest::default();
    request.allow_auto_topic_creation = false;
    request.topics = topics;
    link.call(&head(Api::Metadata, METADATA), &request).await
}
