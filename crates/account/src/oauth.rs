//! OAuth 2.1 as a public client: authorization code with PKCE (RFC 6749, 7636, 8252, 9207), device
//! authorization (RFC 8628), refresh, revocation (RFC 7009), server metadata (RFC 8414, OpenID Connect
//! Discovery), and the claims of ID tokens.

pub(crate) mod authorization;
pub(crate) mod callback;
pub(crate) mod device;
pub(crate) mod endpoint;
pub(crate) mod form;
pub(crate) mod metadata;
pub(crate) mod tokens;
