//! Sandbox policies and permission profiles: which folders they name, which folders they imply (the
//! working folder, `/tmp`, `$TMPDIR`), and what widening or bounding one means (specification: Sandbox
//! policy). Every crate that asks what a policy allows asks here.
//!
//! Pure: reads no file and no environment. `sandbox` follows links and enforces; `protocol` has the
//! types of the wire.

mod bound;
mod permissions;
mod profile;
mod roots;
mod sandbox_policy;

pub use permissions::Permissions;
pub use profile::{Location, ProfileFiles, ProfileRule, Reach};
pub use roots::{RootedPolicy, SLASH_TMP, WritableRoot, add_roots, temporary_folders};
pub use sandbox_policy::{Access, PROTECTED_NAMES, ReadAccess, SandboxPolicy};
