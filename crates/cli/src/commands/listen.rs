//! The flags about listening and authentication of `agentd app-server`, checked before it starts
//! (specification: Transports, Authentication).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use transport::{Address, Admission, Auth, Claims, Listener};

use crate::commands::eprint;
use crate::environment::Environment;

/// Who may connect over TCP.
#[derive(clap::Args)]
pub(crate) struct AccessArguments {
    /// Authentication of clients over TCP; required on addresses that other machines
    /// can reach
    #[arg(long, value_name = "MODE", value_enum)]
    ws_auth: Option<Mode>,
    /// The file with the token of `capability-token` (absolute path; readable only by its owner)
    #[arg(long, value_name = "PATH")]
    ws_token_file: Option<PathBuf>,
    /// The SHA-256 of the token of `capability-token`, in hexadecimal
    #[arg(long, value_name = "HEX")]
    ws_token_sha256: Option<String>,
    /// The file with the secret of `signed-bearer-token` (absolute path; at least 32 bytes)
    #[arg(long, value_name = "PATH")]
    ws_shared_secret_file: Option<PathBuf>,
    /// Required `iss` of a signed token
    #[arg(long, value_name = "NAME")]
    ws_issuer: Option<String>,
    /// Required `aud` of a signed token, alone or in a list
    #[arg(long, value_name = "NAME")]
    ws_audience: Option<String>,
    /// Tolerated difference between the clocks of signer and server [default: 30]
    #[arg(long, value_name = "SECONDS")]
    ws_max_clock_skew_seconds: Option<u64>,
    /// Allow pages of this origin to connect, as in `http://127.0.0.1:8000`; may be repeated.
    /// Requests from pages of other origins are refused
    #[arg(long, value_name = "ORIGIN")]
    ws_allow_origin: Vec<String>,
    /// Also accept this host name, as in `agents.example.com`; may be repeated. Without it, the
    /// `Host` header must name `localhost` or the address of the listener
    #[arg(long, value_name = "NAME")]
    ws_allow_host: Vec<String>,
}

/// The names of the flags about access, for messages.
#[derive(Clone, Copy)]
pub(crate) struct AccessFlags {
    /// Their prefix, after the hyphens.
    pub(crate) prefix: &'static str,
    /// The scheme of the addresses that they are about.
    pub(crate) scheme: &'static str,
}

impl AccessFlags {
    /// Those of [`AccessArguments`].
    pub(crate) const WEB_SOCKET: Self = Self { prefix: "ws", scheme: "ws" };
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Anyone may connect
    None,
    /// Clients send a token that the server knows
    CapabilityToken,
    /// Clients send a token signed with a shared secret (JWT, HS256)
    SignedBearerToken,
}

/// Returns whether clients over TCP may connect there.
fn is_web(address: &Address) -> bool {
    matches!(address, Address::WebSocket(_) | Address::Systemd)
}

/// Default tolerance for `exp` and `nbf` of signed tokens.
const CLOCK_SKEW_SECONDS: u64 = 30;

/// The validated flags.
pub(crate) struct ListenSettings {
    /// True if standard input and output are served.
    pub(crate) stdio: bool,
    /// Who may connect to the other listeners.
    pub(crate) admission: Admission,
    addresses: Vec<Address>,
    /// True if authentication `none` was given.
    open: bool,
    flags: AccessFlags,
}

impl ListenSettings {
    /// Checks the flags against each other and reads the files that they name.
    ///
    /// # Errors
    /// When flags contradict each other or a file cannot be used.
    pub(crate) fn settle(
        listen: &[Address],
        (access, flags): (&AccessArguments, AccessFlags),
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let AccessFlags { prefix, scheme } = flags;
        let mut addresses: Vec<Address> = Vec::new();
        for address in listen {
            let port_0 = matches!(address, Address::WebSocket(address) if address.port() == 0);
            if addresses.contains(address) && !port_0 {
                bail!("--listen: the same address is given twice");
            }
            addresses.push(address.clone());
        }
        if addresses.contains(&Address::Off) && addresses.len() > 1 {
            bail!("--listen off: cannot be combined with another address");
        }
        let auth = access.auth(environment, prefix)?;
        let says = auth.is_some() || !access.ws_allow_origin.is_empty();
        if (says || !access.ws_allow_host.is_empty()) && !addresses.iter().any(is_web) {
            bail!(
                "the --{prefix} flags control access to `--listen {scheme}://IP:PORT`: add such an address, \
                 or drop the flags"
            );
        }
        for origin in &access.ws_allow_origin {
            check_origin(origin, prefix)?;
        }
        for host in &access.ws_allow_host {
            if host.is_empty() || host.contains(['/', ':', ' ', '*']) {
                bail!("--{prefix}-allow-host {host}: give a host name without scheme or port");
            }
        }
        let open = access.ws_auth == Some(Mode::None);
        for address in &addresses {
            if let Address::WebSocket(address) = address {
                check_exposure(address.ip(), auth.is_some(), open, prefix)?;
            }
        }
        let admission = Admission {
            auth: auth.unwrap_or(Auth::None),
            origins: access.ws_allow_origin.clone(),
            hosts: access.ws_allow_host.clone(),
        };
        let stdio = addresses.contains(&Address::Stdio);
        Ok(Self { stdio, admission, addresses, open, flags })
    }

    /// The access to the page of metrics: the token in the file, if one is named.
    ///
    /// # Errors
    /// When no listener asks for tokens, the file cannot be used, or its token is that of the clients.
    pub(crate) fn metrics_auth(&self, token_file: Option<&Path>) -> anyhow::Result<Auth> {
        const FLAG: &str = "--metrics-token-file";
        let Some(path) = token_file else { return Ok(Auth::None) };
        if !self.addresses.iter().any(is_web) {
            bail!("{FLAG} is for `--listen ws://IP:PORT`: add such an address, or drop the flag");
        }
        let auth = warned(Auth::capability_file(FLAG, path)?);
        if let (Auth::Capability(own), Auth::Capability(clients)) = (&auth, &self.admission.auth)
            && own == clients
        {
            bail!(
                "{FLAG} {}: the file contains the clients' token, which gives full access: use \
                 another token",
                path.display()
            );
        }
        Ok(auth)
    }

    /// Opens the sockets; `given` are those that the service manager passed on.
    ///
    /// # Errors
    /// When a socket cannot be opened.
    pub(crate) async fn bind(
        &self,
        environment: &Environment,
        given: &mut InheritedSockets,
    ) -> anyhow::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for address in &self.addresses {
            match address {
                Address::Stdio | Address::Off => {}
                Address::WebSocket(address) => {
                    let listener = Listener::tcp(*address).await;
                    let scheme = self.flags.scheme;
                    listeners
                        .push(listener.with_context(|| format!("--listen {scheme}://{address}"))?);
                }
                #[cfg(unix)]
                Address::Unix(path) => {
                    let path = path.clone().unwrap_or_else(|| control_socket(environment));
                    server::make_home(&environment.home).with_context(|| {
                        format!("the agent's home {}", environment.home.display())
                    })?;
                    listeners.push(Listener::Unix(transport::UnixSocket::bind(&path)?));
                }
                #[cfg(unix)]
                Address::Systemd => {
                    listeners.extend(inherited_sockets(given)?);
                }
                #[cfg(not(unix))]
                Address::Unix(_) | Address::Systemd => {
                    bail!("this system has no Unix sockets for servers; use ws://127.0.0.1:PORT")
                }
            }
        }
        for ip in listeners.iter().filter_map(Listener::ip) {
            // The addresses of inherited sockets are known only now.
            let is_guarded = !matches!(self.admission.auth, Auth::None);
            check_exposure(ip, is_guarded, self.open, self.flags.prefix)?;
            if !ip.is_loopback() && !is_guarded {
                eprint(format_args!(
                    "agentd: WARNING: anyone who can reach {ip} can run commands as this user \
                     (--{}-auth none)",
                    self.flags.prefix
                ));
            }
        }
        Ok(listeners)
    }
}

/// Sockets that a service manager passed to this process (`LISTEN_FDS`).
#[cfg(unix)]
pub(crate) type InheritedSockets = listenfd::ListenFd;
/// This system does not pass sockets.
#[cfg(not(unix))]
pub(crate) type InheritedSockets = ();

/// The only socket that was passed, which listens on an address.
///
/// # Errors
/// There is none, there are several, or it is of another kind.
#[cfg(unix)]
pub(crate) fn inherited_tcp(
    mut given: InheritedSockets,
) -> anyhow::Result<tokio::net::TcpListener> {
    if given.len() != 1 {
        bail!(
            "{} sockets were passed to this process (see LISTEN_FDS and LISTEN_PID); let a socket unit with one \
             address start this program",
            given.len()
        );
    }
    let taken = given.take_tcp_listener(0).context("the socket that was passed cannot be used")?;
    let socket = taken.context("the socket that was passed is in use already")?;
    match Listener::given_tcp(socket) {
        Ok(Listener::Tcp(listener)) => Ok(listener),
        Ok(_) => bail!("the socket that was passed is not for TCP"),
        Err(error) => Err(error).context("the socket that was passed cannot be used"),
    }
}

#[cfg(not(unix))]
pub(crate) fn inherited_tcp((): InheritedSockets) -> anyhow::Result<tokio::net::TcpListener> {
    bail!("this system cannot pass sockets; give an address")
}

#[cfg(unix)]
fn inherited_sockets(given: &mut InheritedSockets) -> anyhow::Result<Vec<Listener>> {
    if given.len() == 0 {
        bail!(
            "--listen systemd://: no socket was passed to this process (see LISTEN_FDS and LISTEN_PID); let \
             a socket unit start this program"
        );
    }
    let count = given.len();
    let one = |at: usize| {
        if let Ok(Some(listener)) = given.take_unix_listener(at) {
            return Listener::given_unix(listener);
        }
        match given.take_tcp_listener(at)? {
            Some(listener) => Listener::given_tcp(listener),
            None => Err(std::io::Error::other("the socket is already in use")),
        }
    };
    let listeners = (0..count).map(one).collect::<std::io::Result<_>>();
    listeners
        .context("--listen systemd://: a socket that the service manager passed cannot be used")
}

/// The default Unix socket of a server with this home folder.
pub(crate) fn control_socket(environment: &Environment) -> PathBuf {
    environment.home.join("control.sock")
}

impl AccessArguments {
    /// `None` without authentication.
    fn auth(&self, environment: &Environment, prefix: &str) -> anyhow::Result<Option<Auth>> {
        let capability = [
            ("token-file", self.ws_token_file.is_some()),
            ("token-sha256", self.ws_token_sha256.is_some()),
        ];
        let signed = [
            ("shared-secret-file", self.ws_shared_secret_file.is_some()),
            ("issuer", self.ws_issuer.is_some()),
            ("audience", self.ws_audience.is_some()),
            ("max-clock-skew-seconds", self.ws_max_clock_skew_seconds.is_some()),
        ];
        let is_capability = self.ws_auth == Some(Mode::CapabilityToken);
        let is_signed = self.ws_auth == Some(Mode::SignedBearerToken);
        let unfit = capability
            .iter()
            .map(|flag| (flag, is_capability, "capability-token"))
            .chain(signed.iter().map(|flag| (flag, is_signed, "signed-bearer-token")))
            .find(|((_, given), fits, _)| *given && !fits);
        if let Some(((flag, _), _, mode)) = unfit {
            bail!("--{prefix}-{flag} needs `--{prefix}-auth {mode}`: add it");
        }
        match self.ws_auth {
            None | Some(Mode::None) => Ok(None),
            Some(Mode::CapabilityToken) => match (&self.ws_token_file, &self.ws_token_sha256) {
                (Some(path), None) => {
                    Ok(Some(warned(Auth::capability_file("--ws-token-file", path)?)))
                }
                (None, Some(hex)) => Ok(Some(Auth::capability_sha256(hex)?)),
                _ => bail!(
                    "--{prefix}-auth capability-token: give either --{prefix}-token-file or \
                     --{prefix}-token-sha256"
                ),
            },
            Some(Mode::SignedBearerToken) => {
                let Some(path) = &self.ws_shared_secret_file else {
                    bail!(
                        "--{prefix}-auth signed-bearer-token: give --{prefix}-shared-secret-file"
                    );
                };
                let claims = Claims {
                    issuer: self.ws_issuer.clone(),
                    audience: self.ws_audience.clone(),
                    max_clock_skew: self.ws_max_clock_skew_seconds.unwrap_or(CLOCK_SKEW_SECONDS),
                };
                let clock = environment.clone().options("appServer").clock;
                let now = Arc::new(move || clock.now_ms() / 1000);
                Ok(Some(warned(Auth::signed_file(path, claims, now)?)))
            }
        }
    }
}

/// Prints the warning about a secret's file, which is used all the same.
fn warned((auth, warning): (Auth, Option<String>)) -> Auth {
    if let Some(warning) = warning {
        eprint(format_args!("agentd: WARNING: {warning}"));
    }
    auth
}

fn check_exposure(
    ip: std::net::IpAddr,
    is_guarded: bool,
    open: bool,
    prefix: &str,
) -> anyhow::Result<()> {
    if ip.is_loopback() || is_guarded || open {
        return Ok(());
    }
    bail!(
        "--listen on {ip}: other machines can reach this address, and anyone who connects can run \
         commands. Give --{prefix}-auth capability-token or signed-bearer-token, or say \
         `--{prefix}-auth none` if that is intended"
    )
}

fn check_origin(origin: &str, prefix: &str) -> anyhow::Result<()> {
    let rest = origin.split_once("://").map(|(_, rest)| rest);
    if rest.is_none_or(|rest| rest.is_empty() || rest.contains(['/', '*', ' '])) {
        bail!(
            "--{prefix}-allow-origin {origin}: give scheme, host and port as a browser sends them, as in \
             `https://editor.example` or `http://127.0.0.1:8000`"
        );
    }
    Ok(())
}

/// Raises the limit of open files: each client needs a descriptor. Returns the old limit, with which
/// commands start.
#[cfg(unix)]
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // When this fails, the server accepts fewer clients.
    let _ = setrlimit(Resource::Nofile, raised);
    limit.current
}

/// This system does not limit descriptors.
#[cfg(not(unix))]
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    None
}
