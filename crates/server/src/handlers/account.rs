//! The account: login, logout, and who is logged in.

use account::{CreditKind, CreditsRequest, ExternalTokens, Status};
use http_client::Secret;
use protocol::{
    Account, AccountLoginCancelParams, AccountLoginCancelResponse, AccountLoginCancelStatus,
    AccountLoginStartParams, AccountLoginStartResponse, AccountMethods,
    AccountRateLimitsReadResponse, AccountReadParams, AccountReadResponse,
    AccountSendAddCreditsNudgeEmailParams, AccountSendAddCreditsNudgeEmailResponse,
    AddCreditsNudgeCreditType, AddCreditsNudgeEmailStatus, Empty,
};

use crate::server::Server;
use services::accounts::{AccountConfig, GivenLogin, Identity, plan_type};
use services::error::Error;
use services::peer::Caller;
use services::warnings;

impl AccountMethods<Caller> for Server {
    async fn account_read(
        &self,
        _caller: Caller,
        params: AccountReadParams,
    ) -> Result<AccountReadResponse, Error> {
        let config = self.services.configurations.own()?.resolved.config;
        let account_config = AccountConfig::new(&config);
        let accounts = &self.services.accounts;
        let identity = accounts.identity(&account_config, params.refresh_token).await?;
        let account = match identity {
            Identity::EnvironmentKey | Identity::Account(Status::ApiKey) => Some(Account::ApiKey),
            Identity::Account(Status::Hosted(profile) | Status::External(profile)) => {
                let plan_type = plan_type(profile.plan.as_deref());
                // A service that states no address has at least an id of the user.
                let email = profile.email.or(profile.subject).unwrap_or_default();
                Some(Account::Hosted { email, plan_type })
            }
            Identity::Account(Status::LoggedOut { .. }) => None,
        };
        let requires_default_auth = match &config.provider {
            config::Provider::Offline => false,
            config::Provider::Http(http) => http.uses_default_credential,
        };
        Ok(AccountReadResponse { account, requires_default_auth })
    }

    async fn account_rate_limits_read(
        &self,
        _caller: Caller,
        _params: Empty,
    ) -> Result<AccountRateLimitsReadResponse, Error> {
        let config = self.services.configurations.own()?.resolved.config;
        let accounts = &self.services.accounts;
        // Finds out about a login of another process, and the plan.
        accounts.identity(&AccountConfig::new(&config), false).await?;
        let rate_limits = accounts.limits().latest(config.provider.id());
        Ok(AccountRateLimitsReadResponse { rate_limits })
    }

    async fn account_login_start(
        &self,
        caller: Caller,
        params: AccountLoginStartParams,
    ) -> Result<AccountLoginStartResponse, Error> {
        let config = AccountConfig::new(&self.services.configurations.own()?.resolved.config);
        let accounts = &self.services.accounts;
        let response = match params {
            AccountLoginStartParams::ApiKey { api_key } => {
                accounts.log_in(&config, GivenLogin::ApiKey(api_key), &caller).await?;
                AccountLoginStartResponse::ApiKey
            }
            AccountLoginStartParams::HostedAuthTokens {
                access_token,
                hosted_account_id,
                hosted_plan_type,
            } => {
                let tokens = ExternalTokens {
                    access_token: Secret::new(access_token),
                    account_id: hosted_account_id,
                    plan: hosted_plan_type,
                };
                accounts.log_in(&config, GivenLogin::Tokens(tokens), &caller).await?;
                AccountLoginStartResponse::HostedAuthTokens
            }
            AccountLoginStartParams::Hosted { agent_streamlined_login } => {
                accounts.begin_login(&config, (false, agent_streamlined_login), &caller).await?
            }
            AccountLoginStartParams::HostedDeviceCode => {
                accounts.begin_login(&config, (true, false), &caller).await?
            }
        };
        if config.has_environment_key
            && !matches!(response, AccountLoginStartResponse::HostedAuthTokens)
        {
            let message = "requests use the API key in the environment (AGENT_API_KEY or \
                           OPENAI_API_KEY), not this login; unset it to use the login";
            warnings::send_warning(&caller.peer, message.to_owned());
        }
        Ok(response)
    }

    async fn account_login_cancel(
        &self,
        _caller: Caller,
        params: AccountLoginCancelParams,
    ) -> Result<AccountLoginCancelResponse, Error> {
        let was_pending = self.services.accounts.cancel_login(&params.login_id);
        let status = match was_pending {
            true => AccountLoginCancelStatus::Canceled,
            false => AccountLoginCancelStatus::NotFound,
        };
        Ok(AccountLoginCancelResponse { status })
    }

    async fn account_send_add_credits_nudge_email(
        &self,
        _caller: Caller,
        params: AccountSendAddCreditsNudgeEmailParams,
    ) -> Result<AccountSendAddCreditsNudgeEmailResponse, Error> {
        let config = AccountConfig::new(&self.services.configurations.own()?.resolved.config);
        let kind = match params.credit_type {
            AddCreditsNudgeCreditType::Credits => CreditKind::Credits,
            AddCreditsNudgeCreditType::UsageLimit => CreditKind::UsageLimit,
        };
        let status = match self.services.accounts.request_credits(&config, kind).await? {
            CreditsRequest::Sent => AddCreditsNudgeEmailStatus::Sent,
            CreditsRequest::TooSoon => AddCreditsNudgeEmailStatus::CooldownActive,
        };
        Ok(AccountSendAddCreditsNudgeEmailResponse { status })
    }

    async fn account_logout(&self, caller: Caller, _params: Empty) -> Result<Empty, Error> {
        let config = AccountConfig::new(&self.services.configurations.own()?.resolved.config);
        self.services.accounts.log_out(&config, &caller).await?;
        Ok(Empty {})
    }
}
