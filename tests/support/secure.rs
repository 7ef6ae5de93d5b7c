//! The client's side of a connection: plain text or TLS.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::PATIENCE;

/// The trusted certificates of a client, and its own certificate.
pub type Trust = Arc<ClientConfig>;

pub enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Plain(stream)
    }

    /// Connects by TLS to a server whose certificate must name `host`.
    pub fn secure(addr: SocketAddr, host: &str, trust: &Trust) -> io::Result<Self> {
        let host = host.to_owned().try_into().unwrap();
        let session = ClientConnection::new(Arc::clone(trust), host).unwrap();
        let Self::Plain(stream) = Self::connect(addr) else { unreachable!() };
        let mut stream = StreamOwned::new(session, stream);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Self::Tls(Box::new(stream)))
    }

    /// The TLS session.
    pub fn session(&self) -> &ClientConnection {
        match self {
            Self::Tls(stream) => &stream.conn,
            Self::Plain(_) => panic!("no TLS here"),
        }
    }

    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(bytes),
            Self::Tls(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
