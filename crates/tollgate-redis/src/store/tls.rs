//! [`Tls`]: the certificates of encrypted connections, and their cryptography.

use std::fmt;

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::StoreError;

/// The certificates of encrypted connections, for [`Store::with_tls`](crate::Store::with_tls).
///
/// By default a server must present a certificate from an authority that web browsers trust, as for
/// an address of `rediss://` without this, and the client presents none. Needs the feature `tls`.
///
/// # Cryptography
///
/// Connections use the default provider of rustls. If the program has not installed one by the
/// first connection, the store installs *ring* as the default of the process. A program that wants
/// another one calls `CryptoProvider::install_default` before that.
///
/// # Examples
///
/// ```no_run
/// use tollgate_redis::{Store, Tls};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = Tls::new()
///     .root(std::fs::read("ca.pem")?)
///     .client(std::fs::read("client.pem")?, std::fs::read("client.key")?);
/// let store = Store::with_tls("rediss://redis.internal:6379/", &tls)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    root: Option<Vec<u8>>,
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Creates settings that trust the authorities of web browsers, without a client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts only these authorities: certificates in the PEM format.
    #[must_use]
    pub fn root(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.root = Some(certificates.into());
        self
    }

    /// Presents this certificate to a server that asks for one: the certificate, followed by those of
    /// intermediate authorities, and its private key, in the PEM format.
    #[must_use]
    pub fn client(mut self, certificates: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.client = Some((certificates.into(), key.into()));
        self
    }

    /// Returns the certificates. They may still be invalid, but they are present.
    pub(super) fn certificates(&self) -> Result<TlsCertificates, StoreError> {
        let client = self.client.as_ref();
        // The client would treat a text without a certificate as an empty list of certificates.
        for pem in self
            .root
            .iter()
            .chain(client.map(|(certificates, _)| certificates))
        {
            if CertificateDer::pem_slice_iter(pem).next().is_none() {
                return Err(StoreError::Misconfigured);
            }
        }
        Ok(TlsCertificates {
            client_tls: client
                .cloned()
                .map(|(client_cert, client_key)| ClientTlsConfig {
                    client_cert,
                    client_key,
                }),
            root_cert: self.root.clone(),
        })
    }

    /// Returns the client of a server, if its address asks for encryption.
    pub(super) fn client_of(&self, info: ConnectionInfo) -> Result<Client, StoreError> {
        let client = Client::build_with_tls(info, self.certificates()?);
        client.map_err(|_| StoreError::Misconfigured)
    }
}

/// Does not show the private key.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("root", &self.root.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

/// Ensures that there is a provider of cryptography for connections to an address.
pub(super) fn prepare(address: &ConnectionAddr) {
    if matches!(address, ConnectionAddr::TcpTls { .. }) && CryptoProvider::get_default().is_none() {
        // If that fails, the program has installed one just now.
        let _ = ring::default_provider().install_default();
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn prepare_leaves_the_provider_of_the_program() {
        let mut ours = ring::default_provider();
        ours.cipher_suites.truncate(1);
        let address = |text: &str| text.into_connection_info().unwrap().addr().clone();
        // A connection that is not encrypted needs none.
        prepare(&address("redis://127.0.0.1/"));
        assert!(CryptoProvider::get_default().is_none());
        ours.install_default().unwrap();
        prepare(&address("rediss://127.0.0.1/"));
        let suites = &CryptoProvider::get_default().unwrap().cipher_suites;
        assert_eq!(suites.len(), 1);
    }

    #[test]
    fn fmt_hides_the_key() {
        let tls = Tls::new().client("certificate", "secret");
        assert_eq!(format!("{tls:?}"), "Tls { root: false, client: true }");
    }
}
