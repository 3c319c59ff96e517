//! Whose request it is: what the peer says, and what the headers of proxies say.

mod cases;
mod random;
mod settings;

use std::net::{IpAddr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Request};
use tollgate_tower::{ClientIp, ClientIpHeader};

/// Finds the peer where axum puts it.
fn client_ip() -> ClientIp {
    ClientIp::peer(|extensions| Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0))
}

/// The network in which the tests have their proxies.
fn trusting_tens() -> ClientIp {
    client_ip().trusting(["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()])
}

/// A request of a peer, if it has an address, with such lines of a header.
fn request<L>(
    peer: Option<IpAddr>,
    name: &HeaderName,
    lines: impl IntoIterator<Item = L>,
) -> Request<()>
where
    L: AsRef<[u8]>,
{
    let mut request = Request::new(());
    if let Some(peer) = peer {
        let peer = SocketAddr::new(peer, 4711);
        request.extensions_mut().insert(ConnectInfo(peer));
    }
    for line in lines {
        let line = HeaderValue::from_bytes(line.as_ref()).unwrap();
        request.headers_mut().append(name.clone(), line);
    }
    request
}

fn name(header: &ClientIpHeader) -> HeaderName {
    match header {
        ClientIpHeader::Forwarded => HeaderName::from_static("forwarded"),
        ClientIpHeader::Named(name) => name.clone(),
        _ => HeaderName::from_static("x-forwarded-for"),
    }
}
