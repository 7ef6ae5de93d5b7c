//! Loads: requests sent through a proxy, and the result of one window.

use std::thread;

use reprise::clock::Clock;

use crate::broker::FETCHED_BYTES;
use crate::proxy::{Proxy, Stream};

/// Requests of one kind, and the names of their figures.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) speed_metric: &'static str,
    pub(crate) system_metric: &'static str,
    kind: Kind,
    connections: usize,
    /// Requests of a connection in flight.
    depth: usize,
    /// Requests of all connections.
    requests: usize,
}

enum Kind {
    /// Produce with so many bytes of records.
    Produce(usize),
    /// Fetch of [`FETCHED_BYTES`].
    Fetch,
}

/// Result of one window.
pub(crate) struct Window {
    pub(crate) cpu_s: f64,
    /// Kernel part of `cpu_s`.
    pub(crate) system_s: f64,
    pub(crate) gigabytes: f64,
    pub(crate) trips: f64,
    seconds: f64,
}

impl Window {
    pub(crate) fn megabytes_per_s(&self) -> f64 {
        self.gigabytes * 1e3 / self.seconds
    }
}

impl Load {
    /// 1 MiB of records a request, five in flight, as librdkafka's idempotent producer sends.
    pub(crate) const PRODUCE: Self = Self {
        name: "produce",
        metric: "produce_1mib",
        speed_metric: "produce_1mib_speed",
        system_metric: "",
        kind: Kind::Produce(1 << 20),
        connections: 4,
        depth: 5,
        requests: 4_000,
    };
    /// 1 MiB of records an answer, one in flight.
    pub(crate) const CONSUME: Self = Self {
        name: "consume",
        metric: "consume_1mib",
        speed_metric: "consume_1mib_speed",
        system_metric: "",
        kind: Kind::Fetch,
        connections: 4,
        depth: 1,
        requests: 4_000,
    };
    /// 1 KiB a request, one in flight on each of 64 connections.
    pub(crate) const SMALL: Self = Self {
        name: "small",
        metric: "round_trip_1kib_64_connections",
        speed_metric: "",
        system_metric: "round_trip_1kib_64_connections_system",
        kind: Kind::Produce(1 << 10),
        connections: 64,
        depth: 1,
        requests: 200_000,
    };
    /// 1 KiB a request, 64 in flight on each of four connections.
    pub(crate) const PIPELINED: Self = Self {
        name: "pipelined",
        metric: "pipelined_1kib",
        speed_metric: "",
        system_metric: "pipelined_1kib_system",
        kind: Kind::Produce(1 << 10),
        connections: 4,
        depth: 64,
        requests: 400_000,
    };
    /// [`Self::SMALL`] with fewer requests, since strace slows down every system call.
    pub(crate) const LOOKED_AT: Self = Self { requests: 12_800, ..Self::SMALL };

    /// Runs the load for one window.
    pub(crate) fn run(&self, proxy: &Proxy) -> Window {
        let (clock, cpu_s, system_s) = (Clock::start(), proxy.cpu_s(), proxy.system_s());
        let each = self.requests / self.connections;
        thread::scope(|scope| {
            for _ in 0..self.connections {
                scope.spawn(|| self.connection(proxy, each));
            }
        });
        let trips = f64::from(u32::try_from(each * self.connections).unwrap());
        let bytes = f64::from(u32::try_from(self.bytes()).unwrap());
        Window {
            cpu_s: proxy.cpu_s() - cpu_s,
            system_s: proxy.system_s() - system_s,
            gigabytes: trips * bytes / 1e9,
            trips,
            seconds: clock.elapsed().as_secs_f64(),
        }
    }

    fn bytes(&self) -> usize {
        match self.kind {
            Kind::Produce(bytes) => bytes,
            Kind::Fetch => FETCHED_BYTES,
        }
    }

    fn connection(&self, proxy: &Proxy, requests: usize) {
        let mut stream = proxy.connect();
        let frame = self.frame();
        let mut answer = vec![0; FETCHED_BYTES + 4096];
        for _ in 0..self.depth {
            stream.write_all(&frame).unwrap();
        }
        for answered in 1..=requests {
            read_answer(&mut stream, &mut answer);
            if answered + self.depth <= requests {
                stream.write_all(&frame).unwrap();
            }
        }
    }

    /// A request whose records are filler bytes; neither proxy nor stub broker parses them.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let (api, version, body) = match self.kind {
            // no transactional id, acks all, timeout, one topic "t" …
            Kind::Produce(bytes) => {
                let head = [&[0][..], &(-1_i16).to_be_bytes(), &[0, 0, 0x27, 0x10]].concat();
                (0_u16, 9_u16, [head, vec![7; bytes]].concat())
            }
            Kind::Fetch => (1, 12, vec![0; 64]),
        };
        let mut frame = u32::try_from(body.len() + 11).unwrap().to_be_bytes().to_vec();
        frame.extend(api.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend([0, 0, 0, 7, 0xff, 0xff, 0]);
        frame.extend(body);
        frame
    }
}

/// Reads one answer whole.
pub(crate) fn read_answer(stream: &mut Box<dyn Stream>, answer: &mut [u8]) {
    let mut len = [0; 4];
    stream.read_exact(&mut len).unwrap();
    let len = usize::try_from(i32::from_be_bytes(len)).unwrap();
    stream.read_exact(&mut answer[..len]).unwrap();
}
