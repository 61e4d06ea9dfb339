//! Nodes of `agentd gateway` with the configuration of `packaging/gateway/gateway.toml`, on PostgreSQL and Redis that
//! speak TLS.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use super::gateway::{Gateway, TOKEN, ask_at};
use super::https::SelfSigned;
use super::models::Models;
use super::servers::{Certificate, Postgres, Redis, free_port};
use super::{PATIENCE, TestEnvironment, stderr, stdout};
use crate::systemd::passed_to;

const NODE: &str = include_str!("../../../../../packaging/gateway/gateway.toml");
const PASSWORD: &str = "a-password-of-redis";

pub(crate) struct Cluster {
    pub(crate) env: TestEnvironment,
    pub(crate) tls: SelfSigned,
    pub(crate) models: Models,
    pub(crate) postgres: Postgres,
    pub(crate) redis: Redis,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let (env, tls) = (TestEnvironment::new(), SelfSigned::new());
        let certificate = Certificate { chain: &tls.chain, key: &tls.key };
        let postgres = Postgres::start_with_tls(&certificate);
        let redis = Redis::start_with_tls(&certificate, PASSWORD);
        std::fs::write(env.home().join("authority.pem"), &tls.chain).unwrap();
        let cluster = Self { env, tls, models: Models::start(), postgres, redis };
        cluster.write_secret("admin-token", TOKEN);
        cluster.write_secret("models-key", "sk-of-the-models");
        cluster.use_database("postgres");
        cluster.use_redis(&cluster.redis);
        cluster
    }

    /// Has nodes that start from now on use this database.
    pub(crate) fn use_database(&self, name: &str) {
        let port = self.postgres.port();
        let url = format!("postgres://postgres@127.0.0.1:{port}/{name}?sslmode=require");
        self.write_secret("store-url", &url);
    }

    /// Has nodes that start from now on use this Redis.
    pub(crate) fn use_redis(&self, redis: &Redis) {
        let url = format!("rediss://:{PASSWORD}@127.0.0.1:{}", redis.port());
        self.write_secret("limits-url", &url);
    }

    /// Another, empty Redis.
    pub(crate) fn another_redis(&self) -> Redis {
        Redis::start_with_tls(&Certificate { chain: &self.tls.chain, key: &self.tls.key }, PASSWORD)
    }

    /// A secret of `/etc/agentd`.
    fn write_secret(&self, name: &str, text: &str) {
        let path = self.env.home().join(name);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// The configuration of a new node, without limits by the minute: they would refuse the load.
    pub(crate) fn node(&self, name: &str) -> Node<'_> {
        self.node_at(name, free_port(), None)
    }

    /// The configuration of a new node that serves a socket of its service manager.
    pub(crate) fn node_on_socket(&self, name: &str) -> Node<'_> {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        self.node_at(name, port, Some(socket))
    }

    fn node_at(&self, name: &str, port: u16, socket: Option<TcpListener>) -> Node<'_> {
        let metrics = free_port();
        let folder = self.env.work().join(name);
        let listen = match socket {
            None => format!("127.0.0.1:{port}"),
            Some(_) => "systemd://".to_owned(),
        };
        let replaced = [
            ("0.0.0.0:8080", listen),
            ("0.0.0.0:9100", format!("127.0.0.1:{metrics}")),
            ("/var/lib/agentd-gateway", folder.display().to_string()),
            ("/etc/agentd", self.env.home().display().to_string()),
            ("https://models.example/v1", self.models.url.clone()),
            ("rpm = 600\n", String::new()),
            ("tpm = 400000\n", String::new()),
        ];
        let replaced = replaced.map(|(old, new)| (old.to_owned(), new));
        let config = self.env.home().join(format!("{name}.toml"));
        std::fs::write(&config, super::replace_all(NODE, &replaced)).unwrap();
        Node { cluster: self, config, address: format!("127.0.0.1:{port}"), metrics, socket }
    }
}

/// A node, which may run or not.
pub(crate) struct Node<'a> {
    cluster: &'a Cluster,
    pub(crate) config: PathBuf,
    pub(crate) address: String,
    metrics: u16,
    socket: Option<TcpListener>,
}

impl Node<'_> {
    /// Starts it, and waits until it serves.
    pub(crate) fn start(&self) -> Gateway {
        let (gateway, _) = match &self.socket {
            None => Gateway::start_command(&mut self.command(&["gateway"])),
            Some(socket) => {
                let config = self.config.to_str().unwrap();
                let arguments = ["gateway", "--config", config];
                let mut passed = passed_to(&self.cluster.env, &[socket.as_fd()], 1, &arguments);
                Gateway::start_command(passed.command.env("SSL_CERT_FILE", self.authority()))
            }
        };
        assert_eq!(gateway.address, self.address);
        gateway
    }

    /// A command with its configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.cluster.env.agentd(arguments);
        command.arg("--config").arg(&self.config).env("SSL_CERT_FILE", self.authority());
        command
    }

    fn authority(&self) -> PathBuf {
        self.cluster.env.home().join("authority.pem")
    }

    /// A key for a project.
    pub(crate) fn create_key(&self, project: &str) -> String {
        let mut command = self.command(&["gateway", "create-key", "--project", project]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    }

    /// Waits until it has answered a request to a model.
    pub(crate) fn has_served(&self) {
        let began = Instant::now();
        let address = format!("127.0.0.1:{}", self.metrics);
        let page = || ask_at(&address, "GET /metrics", "", "text/plain", "").1;
        while !page().contains("\ngateway_requests_total{") {
            assert!(began.elapsed() < PATIENCE, "it gets no requests");
            // tidy: sleep because another process decides when it sends a request.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// The rows of the ledger.
pub(crate) fn ledger(gateway: &Gateway) -> Vec<Value> {
    let path = "GET /v1/organization/usage/export?format=jsonl&start_time=1700000000";
    let (head, body) = gateway.ask(path, TOKEN, "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    plain(&head, &body).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A body without its chunks.
fn plain(head: &str, body: &str) -> String {
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut text) = (body, String::new());
    while let Some((size, more)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        text.push_str(&more[..size]);
        rest = more[size..].trim_start_matches("\r\n");
    }
    text
}
