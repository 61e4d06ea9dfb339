//! The state of the pages.

use std::sync::Arc;

use axum::extract::State;

use super::api::Api;
use super::attempts::Attempts;
use super::session::SignedOut;
use crate::Services;

/// The state of all pages.
pub(super) struct Context {
    pub(super) services: Arc<Services>,
    /// The administration API.
    pub(super) api: Api,
    /// Failed sign-ins.
    pub(super) attempts: Attempts,
    /// Sessions that were signed out before they expired.
    pub(super) signed_out: SignedOut,
}

pub(super) type Shared = State<Arc<Context>>;
