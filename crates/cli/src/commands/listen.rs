//! Where `agentd app-server` listens, and whom it lets in: flags, checked before the start
//! (specification: Transports, Authentication).

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use transport::{Address, Admission, Auth, Claims, Listener};

use crate::commands::tell;
use crate::environment::Environment;

/// Who may connect over TCP.
#[derive(clap::Args)]
pub(crate) struct AccessArguments {
    /// How WebSocket clients prove who they are: needed for addresses that other machines reach
    #[arg(long, value_name = "MODE", value_enum)]
    ws_auth: Option<Mode>,
    /// The file that holds the token of `capability-token` (absolute; readable by its owner alone)
    #[arg(long, value_name = "PATH")]
    ws_token_file: Option<PathBuf>,
    /// The SHA-256 of the token of `capability-token`, in hexadecimal
    #[arg(long, value_name = "HEX")]
    ws_token_sha256: Option<String>,
    /// The file that holds the secret of `signed-bearer-token` (absolute; at least 32 bytes)
    #[arg(long, value_name = "PATH")]
    ws_shared_secret_file: Option<PathBuf>,
    /// What `iss` of a signed token must be
    #[arg(long, value_name = "NAME")]
    ws_issuer: Option<String>,
    /// What `aud` of a signed token must be or hold
    #[arg(long, value_name = "NAME")]
    ws_audience: Option<String>,
    /// How far the clocks of signer and server may be apart; 30 when it is not given
    #[arg(long, value_name = "SECONDS")]
    ws_max_clock_skew_seconds: Option<u64>,
    /// Let the pages of this origin connect, as in `http://127.0.0.1:8000`; may be repeated.
    /// Otherwise requests with an `Origin` header, which all browsers send, are refused
    #[arg(long, value_name = "ORIGIN")]
    ws_allow_origin: Vec<String>,
    /// Answer to this host name too, as in `agents.example.com`; may be repeated. Otherwise a
    /// `Host` header must name `localhost` or the address that is listened on
    #[arg(long, value_name = "NAME")]
    ws_allow_host: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Everybody may connect
    None,
    /// Clients send a token that the server knows
    CapabilityToken,
    /// Clients send a token signed with a shared secret (JWT, HS256)
    SignedBearerToken,
}

/// Signed tokens are good for so long after they have expired, and before they begin.
const CLOCK_SKEW_SECONDS: u64 = 30;

/// What the flags say.
pub(crate) struct Places {
    /// Whether standard input and output are served.
    pub(crate) stdio: bool,
    /// Whom the others let in.
    pub(crate) admission: Admission,
    addresses: Vec<Address>,
    /// `--ws-auth none` was said.
    open: bool,
}

impl Places {
    /// Checks the flags against each other and reads the files that they name.
    ///
    /// # Errors
    /// What cannot be meant, with what to do instead.
    pub(crate) fn settle(
        listen: &[Address],
        access: &AccessArguments,
        environment: &Environment,
    ) -> anyhow::Result<Self> {
        let is_web =
            |address: &Address| matches!(address, Address::WebSocket(_) | Address::Systemd);
        let mut addresses: Vec<Address> = Vec::new();
        for address in listen {
            let port_0 = matches!(address, Address::WebSocket(address) if address.port() == 0);
            if addresses.contains(address) && !port_0 {
                bail!("--listen: the same place is given twice");
            }
            addresses.push(address.clone());
        }
        if addresses.contains(&Address::Off) && addresses.len() > 1 {
            bail!("--listen off: it excludes every other place");
        }
        let auth = access.auth(environment)?;
        let says = auth.is_some() || !access.ws_allow_origin.is_empty();
        if (says || !access.ws_allow_host.is_empty()) && !addresses.iter().any(is_web) {
            bail!("the --ws flags say who may connect to a `--listen ws://IP:PORT`: there is none");
        }
        for origin in &access.ws_allow_origin {
            check_origin(origin)?;
        }
        for host in &access.ws_allow_host {
            if host.is_empty() || host.contains(['/', ':', ' ', '*']) {
                bail!("--ws-allow-host {host}: give a host name, without scheme and port");
            }
        }
        let open = access.ws_auth == Some(Mode::None);
        for address in &addresses {
            if let Address::WebSocket(address) = address {
                check_exposure(address.ip(), auth.is_some(), open)?;
            }
        }
        let admission = Admission {
            auth: auth.unwrap_or(Auth::None),
            origins: access.ws_allow_origin.clone(),
            hosts: access.ws_allow_host.clone(),
        };
        let stdio = addresses.contains(&Address::Stdio);
        Ok(Self { stdio, admission, addresses, open })
    }

    /// Opens the sockets; `given` are those that the service manager passed on.
    ///
    /// # Errors
    /// The first that cannot be opened.
    pub(crate) async fn bind(
        &self,
        environment: &Environment,
        given: &mut Given,
    ) -> anyhow::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for address in &self.addresses {
            match address {
                Address::Stdio | Address::Off => {}
                Address::WebSocket(address) => {
                    let listener = Listener::tcp(*address).await;
                    listeners.push(listener.with_context(|| format!("--listen ws://{address}"))?);
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
                    listeners.extend(passed_on(given)?);
                }
                #[cfg(not(unix))]
                Address::Unix(_) | Address::Systemd => {
                    bail!("Unix sockets cannot be listened on here; use ws://127.0.0.1:PORT")
                }
            }
        }
        for ip in listeners.iter().filter_map(Listener::ip) {
            // What the service manager passed on is known only now.
            let is_guarded = !matches!(self.admission.auth, Auth::None);
            check_exposure(ip, is_guarded, self.open)?;
            if !ip.is_loopback() && !is_guarded {
                tell(format_args!(
                    "agentd: WARNING: everybody who can reach {ip} can run commands as this user \
                     (--ws-auth none)"
                ));
            }
        }
        Ok(listeners)
    }
}

/// The sockets that a service manager passed on (`LISTEN_FDS`).
#[cfg(unix)]
pub(crate) type Given = listenfd::ListenFd;
/// Nobody passes sockets on here.
#[cfg(not(unix))]
pub(crate) type Given = ();

#[cfg(unix)]
fn passed_on(given: &mut Given) -> anyhow::Result<Vec<Listener>> {
    if given.len() == 0 {
        bail!(
            "--listen systemd://: no socket was passed on (LISTEN_FDS and LISTEN_PID say so); let \
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
            None => Err(std::io::Error::other("it was taken already")),
        }
    };
    let listeners = (0..count).map(one).collect::<std::io::Result<_>>();
    listeners.context("--listen systemd://: a socket that was passed on cannot be used")
}

/// Where clients on this machine find the server of this home.
pub(crate) fn control_socket(environment: &Environment) -> PathBuf {
    environment.home.join("control.sock")
}

impl AccessArguments {
    /// `None` when nobody need prove anything.
    fn auth(&self, environment: &Environment) -> anyhow::Result<Option<Auth>> {
        let capability = [
            ("--ws-token-file", self.ws_token_file.is_some()),
            ("--ws-token-sha256", self.ws_token_sha256.is_some()),
        ];
        let signed = [
            ("--ws-shared-secret-file", self.ws_shared_secret_file.is_some()),
            ("--ws-issuer", self.ws_issuer.is_some()),
            ("--ws-audience", self.ws_audience.is_some()),
            ("--ws-max-clock-skew-seconds", self.ws_max_clock_skew_seconds.is_some()),
        ];
        let is_capability = self.ws_auth == Some(Mode::CapabilityToken);
        let is_signed = self.ws_auth == Some(Mode::SignedBearerToken);
        let unfit = capability
            .iter()
            .map(|flag| (flag, is_capability, "capability-token"))
            .chain(signed.iter().map(|flag| (flag, is_signed, "signed-bearer-token")))
            .find(|((_, given), fits, _)| *given && !fits);
        if let Some(((flag, _), _, mode)) = unfit {
            bail!("{flag} belongs to `--ws-auth {mode}`: give that too");
        }
        match self.ws_auth {
            None | Some(Mode::None) => Ok(None),
            Some(Mode::CapabilityToken) => match (&self.ws_token_file, &self.ws_token_sha256) {
                (Some(path), None) => Ok(Some(warned(Auth::capability_file(path)?))),
                (None, Some(hex)) => Ok(Some(Auth::capability_sha256(hex)?)),
                _ => bail!(
                    "--ws-auth capability-token: give either --ws-token-file or --ws-token-sha256"
                ),
            },
            Some(Mode::SignedBearerToken) => {
                let Some(path) = &self.ws_shared_secret_file else {
                    bail!("--ws-auth signed-bearer-token: give --ws-shared-secret-file");
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

/// Tells the operator what is wrong with the file of a secret that is used all the same.
fn warned((auth, warning): (Auth, Option<String>)) -> Auth {
    if let Some(warning) = warning {
        tell(format_args!("agentd: WARNING: {warning}"));
    }
    auth
}

fn check_exposure(ip: std::net::IpAddr, is_guarded: bool, open: bool) -> anyhow::Result<()> {
    if ip.is_loopback() || is_guarded || open {
        return Ok(());
    }
    bail!(
        "--listen on {ip}: other machines can reach this address, and whoever connects can run \
         commands. Give --ws-auth capability-token or signed-bearer-token, or say `--ws-auth none` \
         if everybody may"
    )
}

fn check_origin(origin: &str) -> anyhow::Result<()> {
    let rest = origin.split_once("://").map(|(_, rest)| rest);
    if rest.is_none_or(|rest| rest.is_empty() || rest.contains(['/', '*', ' '])) {
        bail!(
            "--ws-allow-origin {origin}: give scheme, host and port as a browser sends them, as in \
             `https://editor.example` or `http://127.0.0.1:8000`"
        );
    }
    Ok(())
}

/// Each client needs a descriptor, and the usual limit is low. Gives the limit as it was, which
/// commands begin with.
#[cfg(unix)]
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Without it there is room for fewer clients; those beyond are refused.
    let _ = setrlimit(Resource::Nofile, raised);
    limit.current
}

/// Each client needs a descriptor; here their number is not limited.
#[cfg(not(unix))]
pub(crate) fn raise_descriptor_limit() -> Option<u64> {
    None
}
