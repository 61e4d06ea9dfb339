//! Notes of threads for later ones: their removal.

use protocol::{Empty, MemoryMethods};

use crate::server::Server;
use services::error::Error;
use services::peer::Caller;

impl MemoryMethods<Caller> for Server {
    async fn memory_reset(&self, _: Caller, _: Empty) -> Result<Empty, Error> {
        self.services.memories.reset().await?;
        Ok(Empty {})
    }
}
