//! The account at the hosted service: logging in, storing the credentials, and keeping their tokens
//! fresh, among all processes that share a home. It knows neither threads nor the wire protocol, and
//! reads no environment: callers pass settings, the time and random bytes.

mod accounts;
mod credentials;
mod credits;
mod error;
mod keyring;
mod lock;
mod logins;
mod oauth;
mod settings;
mod storage;
mod vault;

pub use accounts::{Accounts, Bearer, Clock, ExternalTokens, Options, Status};
pub use credentials::{Login, Profile};
pub use credits::{CreditKind, CreditsRequest};
pub use error::Error;
pub use keyring::KeyringEntry;
pub use logins::{BrowserLogin, DeviceLogin};
pub use oauth::authorization::Random;
pub use settings::{LoginMethod, Settings, StoreKind};
pub use storage::CREDENTIALS_FILE;
