//! A certificate of this machine, and a client of HTTP/1.1 over TLS that keeps its connection.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::PATIENCE;

/// The name of the server in requests and in its certificate.
pub(crate) const NAME: &str = "gateway.example";

/// A certificate that is its own authority, and its key, in PEM.
pub(crate) struct SelfSigned {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl SelfSigned {
    pub(crate) fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = [NAME, "localhost", "127.0.0.1"].map(str::to_owned).to_vec();
        let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        Self { chain: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A client, with a connection for several requests.
pub(crate) struct Client {
    port: u16,
    config: Arc<ClientConfig>,
    open: Option<BufReader<StreamOwned<ClientConnection, TcpStream>>>,
}

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

impl Client {
    /// One that trusts the certificate, for a server on this machine.
    pub(crate) fn new(port: u16, trusted: &str) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self { port, config: Arc::new(config), open: None }
    }

    /// Closes the connection: the next request opens another one.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Sends a request, and reads the whole response. After an error the connection is closed.
    pub(crate) fn ask(&mut self, head: &str, headers: &str, body: &str) -> Result<Answer> {
        let mut stream = match self.open.take() {
            Some(stream) => stream,
            None => self.connect()?,
        };
        let length = body.len();
        let request = format!(
            "{head} HTTP/1.1\r\nhost: {NAME}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let (status, headers) = read_head(&mut stream)?;
        let mut answer = Answer { status, headers, body: String::new() };
        answer.body = read_body(&mut stream, &answer)?;
        if answer.header("connection") != "close" {
            self.open = Some(stream);
        }
        Ok(answer)
    }

    fn connect(&self) -> Result<BufReader<StreamOwned<ClientConnection, TcpStream>>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.config), name);
        let connection = connection.map_err(Error::other)?;
        Ok(BufReader::new(StreamOwned::new(connection, stream)))
    }
}

/// Reads a line without its end.
fn line(stream: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    match stream.read_line(&mut line)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}

fn read_head(stream: &mut impl BufRead) -> Result<(u16, Vec<(String, String)>)> {
    let first = line(stream)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| Error::other(first))?;
    let mut headers = Vec::new();
    loop {
        let line = line(stream)?;
        let Some((name, value)) = line.split_once(':') else { return Ok((status, headers)) };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
}

fn read_body(stream: &mut impl BufRead, answer: &Answer) -> Result<String> {
    let mut body = Vec::new();
    if answer.header("transfer-encoding") == "chunked" {
        loop {
            let size = line(stream)?;
            let size = u64::from_str_radix(&size, 16).map_err(Error::other)?;
            let read = stream.take(size).read_to_end(&mut body)?;
            if read as u64 != size {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            line(stream)?;
            if size == 0 {
                break;
            }
        }
    } else {
        let length = answer.header("content-length").parse().map_err(Error::other)?;
        body.resize(length, 0);
        stream.read_exact(&mut body)?;
    }
    String::from_utf8(body).map_err(Error::other)
}
