//! The state of the pages.

use std::sync::Arc;

use axum::extract::State;

use super::attempts::Attempts;
use super::session::SignedOut;
use crate::Services;

/// What pages work with.
pub(super) struct Context {
    pub(super) services: Arc<Services>,
    /// Failed sign-ins.
    pub(super) attempts: Attempts,
    /// Sessions that ended before their time.
    pub(super) signed_out: SignedOut,
}

pub(super) type Shared = State<Arc<Context>>;
