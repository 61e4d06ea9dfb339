//! nginx with the site of `packaging/gateway/nginx.conf`, in a folder and on a port of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use super::PATIENCE;
use super::https::SelfSigned;
use super::servers::free_port;

const SITE: &str = include_str!("../../../../../packaging/gateway/nginx.conf");
/// Runs nginx for as long as another process holds the other end of its standard input.
const KEEPER: &str = r#""$@" </dev/null & nginx=$!; read -r line; kill -QUIT $nginx; wait $nginx"#;

/// A running nginx.
pub(crate) struct Nginx {
    pub(crate) port: u16,
    keeper: Child,
}

impl Nginx {
    /// Starts one in a folder, in front of nodes at these addresses. With one of them, that is the only server.
    pub(crate) fn start(folder: &Path, nodes: &[String], tls: &SelfSigned) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("gateway.crt"), &tls.chain).unwrap();
        std::fs::write(folder.join("gateway.key"), &tls.key).unwrap();
        let port = free_port();
        std::fs::write(folder.join("site.conf"), site(folder, nodes, port)).unwrap();
        std::fs::write(folder.join("nginx.conf"), main(folder)).unwrap();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper", "nginx", "-e", "stderr", "-p"])
            .arg(folder)
            .arg("-c")
            .arg(folder.join("nginx.conf"))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let errors = BufReader::new(keeper.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                // After the start, the lines show why a test failed.
                if sender.send(line.clone()).is_err() && !line.contains("[notice]") {
                    println!("nginx: {line}");
                }
            }
        });
        let mut said = String::new();
        loop {
            match lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains("start worker process ") => break,
                Ok(line) => said.push_str(&format!("{line}\n")),
                Err(why) => panic!("nginx does not start ({why}): {said}"),
            }
        }
        Self { port, keeper }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Some(mut input) = self.keeper.stdin.take() {
            // A keeper that has exited has no nginx left to stop.
            let _ = input.write_all(b"end\n");
        }
        let _ = self.keeper.wait();
    }
}

/// The site, with addresses and paths of the test.
fn site(folder: &Path, nodes: &[String], port: u16) -> String {
    let mut replaced = vec![
        ("listen 443 ssl".to_owned(), format!("listen 127.0.0.1:{port} ssl")),
        ("/etc/nginx/tls/".to_owned(), format!("{}/", folder.display())),
    ];
    let servers = ["10.45.0.11:8080", "10.45.0.12:8080"];
    for (at, server) in servers.into_iter().enumerate() {
        match nodes.get(at) {
            Some(node) => replaced.push((server.to_owned(), node.clone())),
            None => replaced.push((format!("server {server}"), format!("# server {server}"))),
        }
    }
    super::replace_all(SITE, &replaced)
}

/// What Debian has in `/etc/nginx/nginx.conf`, without paths outside of the folder.
fn main(folder: &Path) -> String {
    let folder = folder.display();
    // Workers of root would run as another user, who cannot enter the folder of a test.
    format!(
        "daemon off;\nuser root;\nworker_processes 2;\npid {folder}/nginx.pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n  \
         fastcgi_temp_path {folder}/fastcgi;\n  uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n  \
         include {folder}/site.conf;\n}}\n"
    )
}
