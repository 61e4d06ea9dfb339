//! The page's network: a server of static files, and connections that can be broken.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

/// Serves the files of a folder on a free port until the test ends. Returns the port.
pub(crate) fn serve_files(folder: PathBuf) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let folder = folder.clone();
            // Browsers open connections in advance and leave them idle.
            std::thread::spawn(move || serve_file(&stream, &folder));
        }
    });
    port
}

/// Returns a port that closes each connection at once, and that no other program can take
/// meanwhile.
pub(crate) fn hang_up() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(drop));
    port
}

/// Answers one request. `None` means that the browser went away and needs no response.
fn serve_file(mut stream: &TcpStream, folder: &Path) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let name = match request.split(' ').nth(1)?.trim_start_matches('/') {
        "" => "index.html",
        name => name,
    };
    let kind = match name.rsplit('.').next()? {
        "html" => "text/html",
        "js" => "text/javascript",
        "css" => "text/css",
        _ => "application/octet-stream",
    };
    let (status, body) = match std::fs::read(folder.join(name)) {
        Ok(body) if !name.contains("..") => ("200 OK", body),
        _ => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).ok()
}

/// Forwards connections to a server until they are broken.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Whether what the server sends is kept back.
    held: Arc<(Mutex<bool>, Condvar)>,
}

impl Line {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Self { port, open: Arc::default(), held: Arc::default() };
        let forwarding = line.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let far = TcpStream::connect(server).unwrap();
                forwarding.forward(&near, &far, |_| ());
                forwarding.forward(&far, &near, Line::wait_while_held);
            }
        });
        line
    }

    fn forward(
        &self,
        from: &TcpStream,
        to: &TcpStream,
        before_each: impl Fn(&Self) + Send + 'static,
    ) {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        self.open.lock().unwrap().push(to.try_clone().unwrap());
        let line = self.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 8192];
            // When one side ends, the other ends too.
            while let Ok(length @ 1..) = from.read(&mut piece) {
                before_each(&line);
                if to.write_all(&piece[..length]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
    }

    /// Keeps back what the server sends, as a proxy that buffers does, or lets it through again.
    pub(crate) fn hold(&self, held: bool) {
        *self.held.0.lock().unwrap() = held;
        self.held.1.notify_all();
    }

    fn wait_while_held(&self) {
        let held = self.held.0.lock().unwrap();
        drop(self.held.1.wait_while(held, |held| *held).unwrap());
    }

    /// Breaks all current connections; new ones are forwarded again.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
