//! One request of a client: its caller, its model, and the headers of its response, whether it
//! succeeds or fails.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;

use hyper::HeaderMap;
use ratelimit::{Decision, Limits, RequestId, State, SteadyTime};

use crate::account::{Account, Facts, Traced, request_id};
use crate::bill::End;
use crate::intake::BodyReservation;
use crate::metrics::Rejected;
use crate::state::Gateway;
use gateway_policy::backends::Requester;
use gateway_policy::error::ApiError;
use gateway_policy::headers::LimitHeaders;
use gateway_policy::plan::{Demand, Dimension, Plan, Scope};
use gateway_policy::price::{Asked, Price, Quantities};
use gateway_policy::settings::{Model, Settings, Upstream};
use gateway_policy::tenants::Caller;
use gateway_policy::{announce, refusal};
use gateway_store::journal::{Identity, OpenRequest};
use gateway_store::ledger::Endpoint;

/// One request of a client.
pub(crate) struct Exchange {
    /// The shared state.
    pub(crate) gateway: Arc<Gateway>,
    /// The configuration at its start.
    pub(crate) settings: Arc<Settings>,
    /// The caller.
    pub(crate) caller: Arc<Caller>,
    /// Its id.
    pub(crate) request: RequestId,
    /// The number of its connection among those of its address.
    pub(crate) slot: u32,
    /// The address of its client; `None`: a line of a batch.
    pub(crate) address: Option<IpAddr>,
    /// When it was received, in microseconds of Unix time.
    pub(crate) now: ratelimit::Micros,
    /// The same moment on the monotonic clock.
    pub(crate) began: SteadyTime,
    /// The region in its host name.
    pub(crate) region: Option<Box<str>>,
    /// Its model, once known.
    pub(crate) model: Option<Arc<Model>>,
    /// Its span, until an account takes it over.
    pub(crate) trace: Option<Traced>,
    /// Headers for its response: announcements.
    pub(crate) headers: HeaderMap,
    /// The limits that its response shows.
    pub(crate) shown: LimitHeaders,
    /// True if it is a line of a batch: it draws only on spend, at the batch price (specification:
    /// Synchronous traffic vs Batch API).
    pub(crate) batch: bool,
}

/// A request's model, and the meters that it draws on.
#[derive(Clone)]
pub(crate) struct ResolvedModel {
    /// The name that the client used.
    pub(crate) name: Box<str>,
    /// The model.
    pub(crate) model: Arc<Model>,
    /// The meters that its requests draw on.
    pub(crate) plan: Arc<Plan>,
    /// Their price now.
    pub(crate) price: Option<Arc<Price>>,
}

impl Exchange {
    /// The model of that name.
    ///
    /// # Errors
    /// 404 when the model does not exist or was shut down.
    pub(crate) fn resolve_model(&mut self, name: &str) -> Result<ResolvedModel, ApiError> {
        let Some(model) = self.settings.catalog.find(name) else {
            return Err(announce::unknown(name));
        };
        let model = Arc::clone(model);
        self.use_model(name, model)
    }

    /// The entry for requests without a model.
    ///
    /// # Errors
    /// 404 without an upstream for them.
    pub(crate) fn without_model(&mut self) -> Result<ResolvedModel, ApiError> {
        let Some(model) = self.settings.catalog.no_model() else {
            let message = "No model server handles requests without a model.";
            return Err(ApiError::not_found("not_found", message));
        };
        let model = Arc::clone(model);
        self.use_model(gateway_policy::settings::NO_MODEL, model)
    }

    fn use_model(&mut self, name: &str, model: Arc<Model>) -> Result<ResolvedModel, ApiError> {
        if let Some(shutdown) = model.shutdown.as_ref().filter(|_| !model.is_served(self.now)) {
            return Err(announce::gone(name, shutdown));
        }
        announce::add(&mut self.headers, &model, self.now);
        let mut plan = Plan::for_caller(&self.caller, &model, &self.settings);
        if self.batch {
            plan = Arc::new(plan.money_alone());
        }
        let price = model.price_at(self.now, self.batch).cloned();
        self.model = Some(Arc::clone(&model));
        Ok(ResolvedModel { name: name.into(), model, plan, price })
    }

    /// Reserves the request's demand, and sets the headers of the limits. Errors include these
    /// headers. The estimated input tokens serve the settlement of a response without usage.
    ///
    /// # Errors
    /// 429 when it does not fit, 503 when the limits are unavailable.
    pub(crate) async fn reserve(
        &mut self,
        resolved: &ResolvedModel,
        demand: Demand,
        endpoint: Endpoint,
        input_estimate: u64,
    ) -> Result<Account, ApiError> {
        if !self.gateway.ledger.has_room() {
            // A request that the ledger cannot record is not served.
            return Err(ApiError::store_unavailable());
        }
        let ResolvedModel { name, model, plan, price } = resolved;
        let request = self.begin(model, endpoint)?;
        let decision = self.decide(model, plan, &demand).await?;
        let (Decision::Admitted(states) | Decision::Refused { states, .. }) = &decision;
        self.shown = LimitHeaders::new(plan, &demand, states);
        if let Decision::Refused { which, remedy, states } = &decision {
            self.count_refusal(plan, &demand, *which);
            let reason = (*which, *remedy, &states[..]);
            let (caller, settings) = (&self.caller, &self.settings);
            return Err(refusal::error(caller, settings, name, plan, &demand, reason, self.now));
        }
        Ok(Account::open(
            &self.gateway,
            Facts {
                caller: Arc::clone(&self.caller),
                model: Arc::clone(model),
                plan: Arc::clone(plan),
                demand,
                request: self.request,
                endpoint,
                input_estimate,
                unseen_output: 0,
                received: self.now,
                began: self.began,
                later: None,
                price: price.clone(),
                asked: Asked::default(),
                bound: Quantities::default(),
                batch: self.batch,
                backend: None,
                trace: self.trace.take(),
            },
            request,
        ))
    }

    /// The organization and the project that ask.
    pub(crate) fn requester(&self) -> Requester<'_> {
        Requester { organization: &self.caller.organization.id, project: &self.caller.project.id }
    }

    /// Takes a slot of the journal.
    fn begin(&self, model: &Model, endpoint: Endpoint) -> Result<OpenRequest, ApiError> {
        let request = request_id(self.request);
        let identity = Identity {
            request: &request,
            organization: &self.caller.organization.id,
            project: &self.caller.project.id,
            key: &self.caller.key,
            model: &model.name,
            endpoint,
            batch: self.batch,
            received: self.now,
        };
        self.gateway.ledger.begin(&identity).map_err(|error| {
            tracing::warn!(%request, "the journal of open requests has no room: {error}");
            ApiError::store_unavailable()
        })
    }

    /// Counts a request that the gateway answers itself: it draws on the meters of requests without
    /// a model, if there are any, and only the request counts.
    ///
    /// # Errors
    /// 429 when it does not fit, 503 when the limits are unavailable.
    pub(crate) async fn count_request(&mut self) -> Result<(), ApiError> {
        if self.settings.catalog.no_model().is_none() {
            return Ok(());
        }
        let resolved = self.without_model()?;
        let demand = Demand { tokens: 1, ..Demand::default() };
        let account = self.reserve(&resolved, demand, Endpoint::Other, 1).await?;
        account.close(End::served());
        Ok(())
    }

    async fn decide(
        &self,
        model: &Model,
        plan: &Plan,
        demand: &Demand,
    ) -> Result<Decision, ApiError> {
        let (gateway, organization) = (&self.gateway, &*self.caller.organization.id);
        gateway.spend.seed(&self.caller, self.now).await?;
        let draws = plan.draws(demand, self.now);
        let (request, client) = (self.request, self.client());
        let reserve =
            || gateway.limits.reserve(organization, (request, client), &draws, self.began);
        let is_unseeded = |decision: &Result<_, ratelimit::Error>| matches!(decision, Err(error) if error.kind() == ratelimit::ErrorKind::Unseeded);
        let mut decision = reserve().await;
        if is_unseeded(&decision) {
            let _turn = gateway.spend.turn(organization).await;
            decision = reserve().await;
            if is_unseeded(&decision) {
                let (plan, catalog) = ((model, plan), &self.settings.catalog);
                gateway.spend.seed_again(&self.caller, plan, catalog, self.now).await?;
                decision = reserve().await;
            }
        }
        decision.map_err(|error| gateway.spend.limits_unavailable(&error))
    }

    /// Tells clients apart that wait for a limit: the same key at another address or on another connection is another one.
    fn client(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.caller.key, self.address, self.slot).hash(&mut hasher);
        hasher.finish()
    }

    /// Sets the headers of the limits without a draw: for requests that are refused before they are
    /// counted.
    pub(crate) async fn show_limits(&mut self, resolved: &ResolvedModel) {
        let demand = Demand { tokens: 1, ..Demand::default() };
        let draws = resolved.plan.draws(&demand, self.now);
        let limits: &Limits = &self.gateway.limits;
        let organization = &*self.caller.organization.id;
        let states: Vec<State> = match limits.look(organization, &draws, self.began).await {
            Ok(states) => states,
            // The request's own error matters more than these headers.
            Err(_) => return,
        };
        self.shown = LimitHeaders::new(&resolved.plan, &demand, &states);
    }

    fn count_refusal(&self, plan: &Plan, demand: &Demand, which: usize) {
        let Some(meter) = plan.meters(demand).nth(which) else { return };
        let dimension = match meter.dimension {
            Dimension::RequestsPerMinute => "rpm",
            Dimension::RequestsPerDay => "rpd",
            Dimension::TokensPerMinute => "tpm",
            Dimension::LongContextTokensPerMinute => "long_context_tpm",
            Dimension::TokensPerDay => "tpd",
            Dimension::ImagesPerMinute => "ipm",
            Dimension::AudioPerMinute => "audio_minutes_per_minute",
            Dimension::IngestionPerMinute => "vector_store_ingestion",
            Dimension::Spend => "spend",
        };
        let scope = match meter.scope {
            Scope::Organization => "organization",
            Scope::Project => "project",
        };
        let metrics = &self.gateway.metrics;
        metrics.rejected.get_or_create(&Rejected { dimension, scope }).inc();
        metrics.projects.reject(&self.caller.organization.id, &self.caller.project.id, dimension);
    }

    /// A reservation of memory for a large body of this caller.
    pub(crate) fn body_reservation(&self) -> BodyReservation<'_> {
        self.gateway.body_memory.place(&self.caller.organization.id)
    }

    /// The region in which the request is processed. A project's data stays in its region, whichever host name was used.
    pub(crate) fn data_region(&self) -> Option<&str> {
        self.region.as_deref().or(self.caller.project.geography.as_deref())
    }

    /// Checks that an upstream serves the region of the request, or that the backend does which has an object of it.
    ///
    /// # Errors
    /// 400 when it has no address there.
    pub(crate) fn check_region(
        &self,
        upstream: &Upstream,
        pinned: Option<&str>,
    ) -> Result<(), ApiError> {
        let region = self.data_region();
        let is_served = match pinned {
            Some(name) => upstream.backend(name).base_in(region).is_some(),
            None => upstream.serves(region),
        };
        if is_served {
            return Ok(());
        }
        let region = region.unwrap_or_default();
        let message = format!("This model is not served in the region `{region}`.");
        Err(ApiError::bad_request("region_not_available", message))
    }
}
