//! The network settings of this program: the roots that it trusts, its client certificates and its
//! proxies. The environment is passed in; files are read when a client is built.

use std::path::{Path, PathBuf};

use crate::proxy::Proxies;
use crate::tls::{ClientIdentity, Roots, client_config};
use crate::{HttpClient, PoolOptions, ProxyError, TlsError, client};

/// Names a PEM file with authorities that are trusted in addition.
const CA_CERTIFICATE: &str = "AGENT_CA_CERTIFICATE";
/// Names a PEM file with authorities that replace those of the operating system, as is customary.
const SSL_CERT_FILE: &str = "SSL_CERT_FILE";
/// Longest PEM file: the bundle of an operating system has about 250 KiB.
const MAX_PEM_BYTES: u64 = 8 << 20;

/// The network as an environment describes it. The default trusts the roots that are part of this program
/// and knows no proxy.
#[derive(Clone, Debug)]
pub struct Network {
    roots: RootSource,
    extra_roots: Option<PathBuf>,
    proxies: Result<Option<Proxies>, ProxyError>,
}

#[derive(Clone, Debug)]
enum RootSource {
    Bundled,
    System,
    File(PathBuf),
}

/// The TLS files of one service, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TlsFiles {
    /// Authorities that are trusted in addition.
    pub ca_certificate: Option<PathBuf>,
    /// The certificate that this program shows, with its chain.
    pub client_certificate: Option<PathBuf>,
    /// The key of that certificate.
    pub client_private_key: Option<PathBuf>,
}

/// Why no client can be built.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NetworkError {
    /// A PEM file cannot be read.
    #[error("{purpose}: {problem}")]
    File { purpose: String, problem: String },
    /// A PEM file has unusable content.
    #[error("{purpose}: {cause}")]
    Content { purpose: String, cause: TlsError },
    /// A client certificate without its key, or the other way round.
    #[error(
        "a client certificate needs both `tls.client-certificate` and `tls.client-private-key`; \
         add the other one"
    )]
    HalfIdentity,
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

impl Default for Network {
    fn default() -> Self {
        Self { roots: RootSource::Bundled, extra_roots: None, proxies: Ok(None) }
    }
}

impl Network {
    /// The network of an environment: the roots of the operating system, or those of `SSL_CERT_FILE`,
    /// with those of `AGENT_CA_CERTIFICATE`; and the customary variables for proxies. Reads no file.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let file = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        Self {
            roots: file(SSL_CERT_FILE).map_or(RootSource::System, RootSource::File),
            extra_roots: file(CA_CERTIFICATE),
            proxies: Proxies::from_variables(&variable),
        }
    }

    /// The same network, but all servers apart from those on this machine are reached through this proxy.
    ///
    /// # Errors
    /// It is not the address of a proxy.
    pub fn with_proxy(self, address: &str) -> Result<Self, ProxyError> {
        Ok(Self { proxies: Ok(Some(Proxies::only(address)?)), ..self })
    }

    /// Builds a client for a service with `files`. Blocks while it reads certificates, for some
    /// milliseconds.
    ///
    /// # Errors
    /// A file cannot be read or used, or a variable names no usable proxy.
    pub fn client(
        &self,
        files: &TlsFiles,
        options: &PoolOptions,
    ) -> Result<HttpClient, NetworkError> {
        let proxies = self.proxies.clone()?;
        let tls = self.tls(files)?;
        Ok(client::client(tls, proxies, options))
    }

    /// Checks that [`Network::client`] can build a client. Blocks likewise.
    ///
    /// # Errors
    /// As for [`Network::client`].
    pub fn check(&self, files: &TlsFiles) -> Result<(), NetworkError> {
        if let Err(error) = &self.proxies {
            return Err(error.clone().into());
        }
        self.tls(files).map(drop)
    }

    /// Everything in the environment that keeps [`Network::client`] from building a client. Blocks likewise.
    pub fn mistakes(&self) -> Vec<NetworkError> {
        let none = RootSource::Bundled;
        let proxies =
            Self { roots: none.clone(), extra_roots: None, proxies: self.proxies.clone() };
        let roots = Self { roots: self.roots.clone(), extra_roots: None, proxies: Ok(None) };
        let extra = Self { roots: none, extra_roots: self.extra_roots.clone(), proxies: Ok(None) };
        let each = [proxies, roots, extra];
        each.iter().filter_map(|part| part.check(&TlsFiles::default()).err()).collect()
    }

    fn tls(&self, files: &TlsFiles) -> Result<rustls::ClientConfig, NetworkError> {
        let roots = match &self.roots {
            RootSource::Bundled => Roots::Bundled,
            RootSource::System => Roots::System,
            RootSource::File(path) => Roots::Pem(usable(SSL_CERT_FILE, path)?),
        };
        let extra = [
            (CA_CERTIFICATE, self.extra_roots.as_deref()),
            ("`tls.ca-certificate`", files.ca_certificate.as_deref()),
        ];
        let mut pems = Vec::new();
        for (purpose, path) in extra {
            let Some(path) = path else { continue };
            pems.push(usable(purpose, path)?);
        }
        let identity = match (&files.client_certificate, &files.client_private_key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some(ClientIdentity {
                certificate: read("`tls.client-certificate`", certificate)?,
                private_key: read("`tls.client-private-key`", key)?,
            }),
            _ => return Err(NetworkError::HalfIdentity),
        };
        let pems = pems.iter().map(Vec::as_slice);
        Ok(client_config(&roots, pems, identity.as_ref())?)
    }
}

/// Reads the certificates of a file. Each file is checked on its own, so that the error names the one that is
/// wrong.
fn usable(purpose: &str, path: &Path) -> Result<Vec<u8>, NetworkError> {
    let pem = read(purpose, path)?;
    match client_config(&Roots::Pem(pem.clone()), None, None) {
        Ok(_) => Ok(pem),
        Err(cause) => {
            let purpose = format!("{purpose} {}", path.display());
            Err(NetworkError::Content { purpose, cause })
        }
    }
}

fn read(purpose: &str, path: &Path) -> Result<Vec<u8>, NetworkError> {
    files::read(path, MAX_PEM_BYTES).map_err(|error| NetworkError::File {
        purpose: format!("{purpose} {}", path.display()),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("empty.pem"), "").unwrap();
        let check = |variables: &[(&str, PathBuf)], files: &TlsFiles, parts: &[&str]| {
            let network = Network::from_variables(|name| {
                let (_, value) = variables.iter().find(|(variable, _)| *variable == name)?;
                value.to_str().map(str::to_owned)
            });
            let error = network.tls(files).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        let none = TlsFiles::default();
        check(&[(CA_CERTIFICATE, path("gone.pem"))], &none, &[CA_CERTIFICATE, "gone.pem"]);
        check(&[(CA_CERTIFICATE, path("empty.pem"))], &none, &["empty.pem", "no certificate"]);
        check(&[(SSL_CERT_FILE, path("gone.pem"))], &none, &[SSL_CERT_FILE, "gone.pem"]);
        let half = TlsFiles { client_certificate: Some(path("c.pem")), ..TlsFiles::default() };
        check(&[], &half, &["tls.client-private-key"]);
        let gone = TlsFiles { client_private_key: Some(path("k.pem")), ..half };
        check(&[], &gone, &["tls.client-certificate", "c.pem"]);
    }
}
