//! Memory across threads.

use crate::common::Empty;
use crate::table::methods;

methods! {
    Memory, MemoryMethods;

    /// Forgets what was remembered across threads.
    MemoryReset = "memory/reset",
        memory_reset(Empty) -> Empty,
        Experimental, Unimplemented, [];
}
