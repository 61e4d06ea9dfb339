//! Capabilities of this thread.

use std::io;

use rustix::thread::{CapabilitySet, CapabilitySets};

/// Drops all capabilities. Root without them is an ordinary user who owns the system's files; the
/// bounding set prevents `exec` from restoring them.
pub(crate) fn drop_all() -> io::Result<()> {
    let _ = rustix::thread::clear_ambient_capability_set();
    for bit in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        match rustix::thread::remove_capability_from_bounding_set(one) {
            // Not permitted without capabilities, which then cannot be gained either.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
