//! Why a store cannot be used, and what to do about it: from the errors of its client, from its report about itself,
//! and from the first bytes of a server that is none. It keeps nothing.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{ConnectionAddr, RedisError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Error;

/// Longest wait for the first bytes of an unknown server.
const PATIENCE: Duration = Duration::from_millis(500);
/// The first version with functions.
const LEAST_VERSION: u32 = 7;

const NEEDED: &str = "allow it with ACL SETUSER: ~limits:* +fcall +function|list +function|load +info +dbsize +time \
                      +select +cluster|info +hget +hset +get +set +exists +pttl +pexpire";

/// A fault that the store's report shows.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nothing can be decided there.
    Prevents(Error),
    /// Decisions go on, but what they rest on may be lost.
    Endangers(Error),
}

/// A fault that an operator has to remedy: what is wrong with the store, and the remedy.
fn misconfigured(what: impl Into<String>, remedy: &'static str) -> Error {
    Error::misconfigured(what.into()).next_step(remedy)
}

/// A state of the store that may pass.
fn passing(what: impl Into<String>, next: &'static str) -> Error {
    Error::unreachable_because(what.into()).next_step(next)
}

/// The fault that an error of the client shows; `None` when it says nothing about the store's configuration.
pub(super) fn of_error(error: &RedisError) -> Option<Error> {
    let text = error.to_string();
    let has = |part: &str| text.contains(part);
    if error.kind() == redis::ErrorKind::AuthenticationFailed || has("WRONGPASS") {
        let remedy = "correct the user and the password in [limits] url, or leave them out for a store without";
        return Some(misconfigured("refuses the user or the password", remedy));
    }
    Some(match error.code() {
        Some("NOAUTH") => {
            let remedy = "give it in [limits] url: redis://user:password@host:port";
            misconfigured("wants a password", remedy)
        }
        Some("NOPERM") => not_permitted(error),
        // Within a function the error has no code of its own.
        _ if has("The user executing the script can't") => not_permitted(error),
        Some("DENIED") => misconfigured(
            "is in protected mode, and takes no commands of other machines",
            "set a password there, and give it in [limits] url",
        ),
        Some("READONLY") => replica(),
        Some("MOVED" | "ASK" | "CROSSSLOT") => cluster(),
        Some("CLUSTERDOWN") => {
            passing("belongs to a cluster that is down", "see CLUSTER INFO there")
        }
        Some("LOADING") => loading(),
        Some("MASTERDOWN") => passing("has lost its primary", "see INFO replication there"),
        Some("OOM") => passing(
            "is out of memory, and takes no changes",
            "raise its maxmemory, or remove what else is stored there",
        ),
        Some("MISCONF") => passing(
            "cannot write its data to disk, and takes no changes",
            "see its log, and make room on its disk",
        ),
        Some("BUSY") => passing("is busy with a script", "see its log"),
        _ if has("unknown command") || has("unknown subcommand") => misconfigured(
            format!(
                "lacks a command that the limits need ({})",
                error.detail().unwrap_or("FUNCTION")
            ),
            "use Redis from version 7.0 on, or Valkey, and rename no command",
        ),
        _ if has("switch database") => misconfigured(
            "does not have the database that [limits] url names",
            "give a smaller number there, or none",
        ),
        _ if has("InvalidContentType") || has("corrupt message") => without_tls(),
        _ if has("peer certificate") => misconfigured(
            format!("has a certificate that is not trusted ({error})"),
            "set SSL_CERT_FILE to a file with its authority, and give the host name of the certificate",
        ),
        _ => return None,
    })
}

/// The fault of a server that does not answer as a store does, from its first bytes.
pub(super) async fn of_listener(address: &ConnectionAddr) -> Option<Error> {
    let (host, port, expects_tls) = match address {
        ConnectionAddr::Tcp(host, port) => (host, port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host, port, true),
        _ => return None,
    };
    let remedy = "give the address of a Redis in [limits] url";
    match &first_bytes(host, *port, b"PING\r\n").await?[..] {
        [b'+' | b'-', ..] => return expects_tls.then(without_tls),
        b"HTTP/" => return Some(misconfigured("is no Redis: it answers in HTTP", remedy)),
        [] | [0x15, 0x03, ..] => {}
        _ => return Some(misconfigured("is no Redis: it answers otherwise", remedy)),
    }
    match &first_bytes(host, *port, CLIENT_HELLO).await?[..] {
        [0x15 | 0x16, 0x03, ..] if expects_tls => None,
        [0x15 | 0x16, 0x03, ..] => Some(misconfigured(
            "expects TLS",
            "begin [limits] url with rediss://, or give its port without TLS",
        )),
        _ => Some(passing(
            "closes connections, or does not answer them",
            "see its log, and whether [limits] url is its address",
        )),
    }
}

/// The beginning of a handshake of TLS, which is cut off: a server with TLS answers it with an alert.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00";

/// The first bytes of the answer to `request`: none if the connection is closed or nothing comes. `None`: there is no
/// connection.
async fn first_bytes(host: &str, port: u16, request: &[u8]) -> Option<Vec<u8>> {
    let mut stream = timeout(PATIENCE, TcpStream::connect((host, port))).await.ok()?.ok()?;
    let mut first = [0; 5];
    let exchange = async {
        stream.write_all(request).await?;
        stream.read(&mut first).await
    };
    let read = timeout(PATIENCE, exchange).await.ok().and_then(Result::ok).unwrap_or(0);
    Some(first[..read].to_vec())
}

/// Checks what the store reports about itself. `None`: nothing is wrong with it.
///
/// # Errors
/// It does not report.
pub(super) async fn inspect(
    connection: &mut MultiplexedConnection,
) -> Result<Option<Fault>, RedisError> {
    let info: String = redis::cmd("INFO").query_async(connection).await?;
    let mut shards = 1;
    if field(&info, "cluster_enabled") == Some("1") {
        let cluster = redis::cmd("CLUSTER").arg("INFO").query_async::<String>(connection).await?;
        shards =
            field(&cluster, "cluster_size").and_then(|size| size.parse().ok()).unwrap_or(shards);
    }
    Ok(check(&info, shards))
}

fn check(info: &str, shards: u32) -> Option<Fault> {
    let version = field(info, "redis_version").unwrap_or("unknown");
    let major = version.split('.').next().and_then(|major| major.parse().ok());
    if major.is_some_and(|major: u32| major < LEAST_VERSION) {
        return Some(Fault::Prevents(misconfigured(
            format!("has version {version}, without functions"),
            "use Redis from version 7.0 on, or Valkey",
        )));
    }
    if field(info, "loading") == Some("1") {
        return Some(Fault::Prevents(loading()));
    }
    if field(info, "role") == Some("slave") {
        return Some(Fault::Prevents(replica()));
    }
    if shards > 1 {
        return Some(Fault::Prevents(cluster()));
    }
    let policy = field(info, "maxmemory_policy").filter(|policy| *policy != "noeviction")?;
    Some(Fault::Endangers(misconfigured(
        format!("has the eviction policy {policy}, which deletes limits when its memory is full"),
        "set maxmemory-policy to noeviction there",
    )))
}

fn not_permitted(error: &RedisError) -> Error {
    let detail = error.detail().unwrap_or("NOPERM");
    misconfigured(format!("does not permit its user what the limits need ({detail})"), NEEDED)
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn loading() -> Error {
    passing("is loading its data", "wait until it has")
}

fn without_tls() -> Error {
    misconfigured(
        "does not speak TLS",
        "begin [limits] url with redis://, or give its port for TLS",
    )
}

fn replica() -> Error {
    misconfigured("is a replica, which takes no changes", "give its primary in [limits] url")
}

fn cluster() -> Error {
    misconfigured(
        "is part of a cluster of several shards",
        "use one without cluster mode, or a cluster of one shard",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n# Memory\r\n\
                        maxmemory:0\r\nmaxmemory_policy:noeviction\r\nloading:0\r\nrole:master\r\n";

    #[test]
    fn a_report_shows_the_fault() {
        let misconfigured = ErrorKind::Misconfigured;
        for (from, to, shards, expected) in [
            ("", "", 1, None),
            ("7.0.15", "8.2.1", 1, None),
            ("redis_version:7.0.15\r\n", "", 1, None),
            ("maxmemory_policy:noeviction\r\n", "", 1, None),
            ("7.0.15", "6.2.7", 1, Some((misconfigured, "version 6.2.7, without functions"))),
            ("noeviction", "allkeys-lru", 1, Some((misconfigured, "eviction policy allkeys-lru"))),
            (
                "noeviction",
                "volatile-ttl",
                1,
                Some((misconfigured, "set maxmemory-policy to noeviction")),
            ),
            ("role:master", "role:slave", 1, Some((misconfigured, "is a replica"))),
            ("loading:0", "loading:1", 1, Some((ErrorKind::Unreachable, "is loading its data"))),
            ("", "", 3, Some((misconfigured, "cluster of several shards"))),
        ] {
            let info = GOOD.replacen(from, to, usize::from(!from.is_empty()));
            match (check(&info, shards), expected) {
                (None, None) => {}
                (Some(Fault::Prevents(error) | Fault::Endangers(error)), Some((kind, part))) => {
                    assert_eq!(error.kind(), kind, "{to}");
                    assert!(error.to_string().contains(part), "{to}: {error}");
                }
                (found, _) => panic!("{from} {to}: {found:?}"),
            }
        }
    }
}
