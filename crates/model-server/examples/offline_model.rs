//! Serves the offline model on a free port until it is killed; prints its address.
#![allow(clippy::print_stdout)]

use std::{io, sync::Arc};

use model_server::OfflineModel;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}/v1", listener.local_addr()?);
    let model = OfflineModel { seed: 1, clock: Arc::new(|| 1_700_000_000) };
    model_server::serve_offline(listener, model, None, std::future::pending()).await
}
