//! Notes of threads for later ones: their removal.

use protocol::{Empty, MemoryMethods};

use crate::error::Error;
use crate::peer::Caller;
use crate::server::Server;

impl MemoryMethods<Caller> for Server {
    async fn memory_reset(&self, _: Caller, _: Empty) -> Result<Empty, Error> {
        self.services.memories.reset().await?;
        Ok(Empty {})
    }
}
