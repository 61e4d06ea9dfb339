//! Memory across threads.

use crate::common::Empty;
use crate::table::methods;

methods! {
    Memory, MemoryMethods;

    /// Deletes the memory shared by threads.
    MemoryReset = "memory/reset",
        memory_reset(Empty) -> Empty,
        Experimental, Concurrent, [];
}
