//! Certificates of a private authority, and servers that use them.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;

use super::server::{Server, Setup, free_port};

/// An authority that issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate of the authority.
    pub(crate) root: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { issuer, root }
    }

    /// Issues a certificate for a server or a client on loopback, and its key.
    pub(crate) fn issue(&self) -> (String, String) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// A server that encrypts on one port, and has a plain port for the test.
pub(crate) struct Encrypted {
    pub(crate) server: Server,
    pub(crate) authority: Authority,
    port: u16,
    _folder: TempDir,
}

impl Encrypted {
    /// Starts a server with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let (authority, folder) = (Authority::new("ours"), tempfile::tempdir().unwrap());
        let (certificate, key) = authority.issue();
        let file = |name: &str, text: &str| -> [String; 2] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            [format!("--tls-{name}-file"), text_of(&path)]
        };
        let files = [
            file("cert", &certificate),
            file("key", &key),
            file("ca-cert", &authority.root),
        ];
        for _ in 0..10 {
            let port = free_port();
            let own = ["--tls-port".to_owned(), port.to_string()];
            let own = own.into_iter().chain(files.iter().flatten().cloned());
            let setup = Setup {
                arguments: own
                    .chain(arguments.iter().map(ToString::to_string))
                    .collect(),
                ..Setup::default()
            };
            if let Some(server) = Server::start_on(free_port(), setup) {
                return Self {
                    server,
                    authority,
                    port,
                    _folder: folder,
                };
            }
        }
        panic!("redis-server does not start with TLS on any of ten free ports");
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> String {
        format!("rediss://127.0.0.1:{}/", self.port)
    }
}

fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
