//! Accounts and logins. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    AccountLoginCancelParams, AccountLoginCancelResponse, AccountLoginStartParams,
    AccountLoginStartResponse, AccountMethods, AccountRateLimitsReadResponse, AccountReadParams,
    AccountReadResponse, AccountSendAddCreditsNudgeEmailParams,
    AccountSendAddCreditsNudgeEmailResponse, Empty,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl AccountMethods<Cx> for Server {
    not_implemented! {
        account_read(AccountReadParams) -> AccountReadResponse = "account/read";
        account_login_start(AccountLoginStartParams) -> AccountLoginStartResponse = "account/login/start";
        account_login_cancel(AccountLoginCancelParams) -> AccountLoginCancelResponse = "account/login/cancel";
        account_logout(Empty) -> Empty = "account/logout";
        account_rate_limits_read(Empty) -> AccountRateLimitsReadResponse = "account/rateLimits/read";
        account_send_add_credits_nudge_email(AccountSendAddCreditsNudgeEmailParams) -> AccountSendAddCreditsNudgeEmailResponse = "account/sendAddCreditsNudgeEmail";
    }
}
