//! The recorded streams of the crate `model` over HTTP: `POST /NAME/responses` is answered with the bytes of
//! `NAME.sse`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

const FOLDER: &str = "crates/model/tests/streams";

/// Recorded streams that are not compared, because they are malformed and each parser repairs or refuses
/// them in its own way.
pub(super) const MALFORMED: &[(&str, &str)] = &[
    ("error-text", "the error is a text in place of an object: the Python client drops it"),
    (
        "framing-late-type",
        "no event names the item of the text: we infer a message, the clients drop the text",
    ),
    (
        "framing-no-final-blank-line",
        "the last event lacks its blank line: the JavaScript client takes it",
    ),
    ("item-without-type", "the clients make an item of it without a type"),
    ("message-lone-surrogate", "half a character: the clients keep it, we replace it"),
    ("no-objects", "the clients make an event of data that is no object"),
    ("not-utf8", "the Python client refuses the event, the others replace the bytes"),
    ("output-only-at-the-end", "we read items that only the end names, the clients do not"),
    ("output-unreadable-at-the-end", "we read items that only the end names, the clients do not"),
    ("usage-fraction", "the clients check no numbers of the usage"),
    ("usage-huge", "the clients check no numbers of the usage"),
    ("usage-negative", "the clients check no numbers of the usage"),
    ("usage-null-count", "the clients check no numbers of the usage"),
    ("usage-text", "the clients check no numbers of the usage"),
    ("wrong-types", "the JavaScript client checks no types"),
];

/// A server of the recorded streams, until the process ends.
pub(super) struct Recorded {
    pub(super) base_url: String,
    pub(super) names: Vec<String>,
}

pub(super) fn serve(root: &Path) -> Result<Recorded> {
    let folder = root.join(FOLDER);
    let names = names(&folder)?;
    let listener = TcpListener::bind("127.0.0.1:0").context("a port for the recorded streams")?;
    let base_url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that goes away reports that itself.
            let _ = stream.and_then(|stream| answer(stream, &folder));
        }
    });
    Ok(Recorded { base_url, names })
}

/// The streams that are compared, in the order of their names.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "sse") {
            names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names.sort();
    for (malformed, _) in MALFORMED {
        ensure!(names.iter().any(|name| name == malformed), "{FOLDER} has no {malformed}.sse");
    }
    names.retain(|name| MALFORMED.iter().all(|(malformed, _)| name != malformed));
    Ok(names)
}

fn answer(stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let name = line.split('/').nth(1).unwrap_or_default().to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    reader.by_ref().take(length).read_to_end(&mut Vec::new())?;
    let body = std::fs::read(PathBuf::from(folder).join(name).with_extension("sse"))?;
    let mut stream = reader.into_inner();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}
