//! The meters that a caller's requests for one model draw on: computed once, then applied to each
//! request (specification: What the service does).

use std::sync::Arc;

use ratelimit::{Bound, DAY, Draw, Limit, MINUTE, Micros, State};

use crate::dates;
use crate::settings::{Model, Settings};
use crate::tenants::{Caller, DerivedKey, MicroDollars};

/// The unit that a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Dimension {
    RequestsPerMinute,
    RequestsPerDay,
    TokensPerMinute,
    LongContextTokensPerMinute,
    TokensPerDay,
    ImagesPerMinute,
    /// Counted in milliseconds.
    AudioPerMinute,
    /// Requests that add files to one vector store.
    IngestionPerMinute,
    /// Monthly spend, in micro-dollars.
    Spend,
}

/// Requests per minute that add files to one vector store (specification: Other limits).
const INGESTION: u64 = 300;

/// The owner of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Scope {
    Organization,
    Project,
}

/// The requests that a meter of a day counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DayScope {
    /// Those of the organization for a model.
    Model,
    /// Those of the organization for all models of its shared limit.
    Group,
    /// Those of the project for a model.
    Project,
}

/// One meter of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Its name, unique within the organization.
    pub name: Box<str>,
    /// Its unit.
    pub dimension: Dimension,
    /// Its owner.
    pub scope: Scope,
    /// Units per window; for spend the monthly maximum, `u64::MAX` without a limit.
    pub limit: u64,
    /// The limits that it belongs to: see [`Draw::set`].
    set: u8,
}

/// The limits that a meter belongs to: those of a model, of its shared group, of a project, of a vector store.
const OF_MODEL: u8 = 0;
const OF_GROUP: u8 = 1;
const OF_PROJECT: u8 = 2;
const OF_STORE: u8 = 3;

/// The meters of a caller's requests for one model.
#[derive(Clone, Debug)]
pub struct Plan {
    meters: Vec<Meter>,
    /// The smallest token limits, for usual and for long contexts.
    most_tokens: [u64; 2],
    /// True if an administrator set a hard spend limit.
    pub has_hard_limit: bool,
}

/// The demand of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The token estimate.
    pub tokens: u64,
    /// True if it has a long context.
    pub long_context: bool,
    /// Images to generate.
    pub images: u64,
    /// Audio input, in milliseconds.
    pub audio_milliseconds: u64,
    /// Upper bound of its cost.
    pub cost: MicroDollars,
}

/// The actual usage of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// Input and output tokens.
    pub tokens: u64,
    /// Images generated.
    pub images: u64,
    /// Audio input, in milliseconds.
    pub audio_milliseconds: u64,
    /// Its cost.
    pub cost: MicroDollars,
}

impl Plan {
    /// The plan of a caller's requests for `model`.
    #[must_use]
    pub fn new(caller: &Caller, model: &Model, settings: &Settings) -> Self {
        let (organization, project) = (&caller.organization, &caller.project);
        let mut plan = Self {
            meters: Vec::with_capacity(16),
            most_tokens: [u64::MAX; 2],
            has_hard_limit: organization.spend.hard.is_some() || project.spend.hard.is_some(),
        };
        let tier = organization.tier;
        let prefix = format!("m:{}", model.name);
        plan.add_limits(OF_MODEL, &prefix, &model.limits(tier));
        if let Some(group) = &model.shared_limit {
            let limits = model.group_limits(tier);
            plan.add_limits(OF_GROUP, &format!("g:{group}"), &limits);
        }
        let names = std::iter::once(&model.name).chain(&model.aliases);
        if let Some(limits) = names.into_iter().find_map(|name| project.limits.get(name)) {
            let prefix = format!("p:{}:m:{}", project.id, model.name);
            let limits = crate::settings::LimitSet {
                rpm: limits.max_requests_per_1_minute,
                rpd: limits.max_requests_per_1_day,
                tpm: limits.max_tokens_per_1_minute,
                ipm: limits.max_images_per_1_minute,
                audio_minutes_per_minute: limits.max_audio_minutes_per_1_minute,
                ..Default::default()
            };
            plan.add_limits(OF_PROJECT, &prefix, &limits);
        }
        if model.is_priced() {
            let tier = settings.tier(tier).monthly_limit;
            let most = organization.spend.hard.unwrap_or(u64::MAX).min(tier);
            plan.add(OF_MODEL, ORGANIZATION_SPEND, Dimension::Spend, Some(most));
            let most = project.spend.hard.unwrap_or(u64::MAX);
            let name = spend_meter(&project.id);
            plan.add(OF_PROJECT, &name, Dimension::Spend, Some(most));
        }
        plan
    }

    /// The plan of a caller's requests for `model`, made once per caller and version of the
    /// settings.
    #[must_use]
    pub fn for_caller(caller: &Caller, model: &Model, settings: &Settings) -> Arc<Self> {
        let key = DerivedKey::Plan { settings: settings.version, model: model.number };
        caller.derived.get(key, || Self::new(caller, model, settings))
    }

    /// The same, for a request that adds files to a vector store.
    #[must_use]
    pub fn with_ingestion(&self, store: &str) -> Self {
        let mut plan = self.clone();
        let name = format!("vs:{store}");
        plan.add(OF_STORE, &name, Dimension::IngestionPerMinute, Some(INGESTION));
        plan
    }

    /// The same for batches, without the limits for synchronous requests: only spend remains.
    #[must_use]
    pub fn money_alone(&self) -> Self {
        let is_money = |meter: &&Meter| meter.dimension == Dimension::Spend;
        Self {
            meters: self.meters.iter().filter(is_money).cloned().collect(),
            most_tokens: [u64::MAX; 2],
            has_hard_limit: self.has_hard_limit,
        }
    }

    /// The same for requests that cost nothing: they are admitted when all money is used up.
    #[must_use]
    pub fn without_money(&self) -> Self {
        let is_money = |meter: &&Meter| meter.dimension == Dimension::Spend;
        let meters = self.meters.iter().filter(|meter| !is_money(meter)).cloned().collect();
        Self { meters, ..*self }
    }

    fn add_limits(&mut self, set: u8, prefix: &str, limits: &crate::settings::LimitSet) {
        use Dimension as D;
        let all = [
            (D::RequestsPerMinute, "rpm", limits.rpm),
            (D::RequestsPerDay, "rpd", limits.rpd),
            (D::TokensPerMinute, "tpm", limits.tpm),
            (D::LongContextTokensPerMinute, "lctpm", limits.long_context_tpm),
            (D::TokensPerDay, "tpd", limits.tpd),
            (D::ImagesPerMinute, "ipm", limits.ipm),
            (D::AudioPerMinute, "apm", limits.audio_minutes_per_minute.map(|m| m * 60_000)),
        ];
        for (dimension, suffix, limit) in all {
            self.add(set, &format!("{prefix}:{suffix}"), dimension, limit);
        }
    }

    fn add(&mut self, set: u8, name: &str, dimension: Dimension, limit: Option<u64>) {
        let Some(limit) = limit else { return };
        let scope = if set == OF_PROJECT { Scope::Project } else { Scope::Organization };
        for (long, most) in [false, true].into_iter().zip(&mut self.most_tokens) {
            if is_tokens(dimension) && applies(dimension, scope, long) {
                *most = limit.min(*most);
            }
        }
        self.meters.push(Meter { name: name.into(), dimension, scope, limit, set });
    }

    /// The smallest token limit for such a request.
    #[must_use]
    pub fn most_tokens(&self, long_context: bool) -> u64 {
        self.most_tokens[usize::from(long_context)]
    }

    /// All meters of the plan.
    #[must_use]
    pub fn all(&self) -> &[Meter] {
        &self.meters
    }

    /// The meters that a request draws on, in the order of [`Plan::draws`].
    pub fn meters<'a>(&'a self, demand: &'a Demand) -> impl Iterator<Item = &'a Meter> {
        self.meters.iter().filter(|meter| meter.is_drawn_on(demand))
    }

    /// The draws of a request.
    #[must_use]
    pub fn draws(&self, demand: &Demand, now: Micros) -> Vec<Draw<'_>> {
        let month = dates::month(now);
        let drawn = self.meters.iter().filter(|meter| meter.is_drawn_on(demand));
        drawn.map(|meter| meter.draw(meter.amount(demand), month)).collect()
    }

    /// The actual amounts, in the order of [`Plan::draws`].
    #[must_use]
    pub fn settlement(&self, demand: &Demand, taken: &Consumed) -> Vec<Option<u64>> {
        self.meters(demand).map(|meter| meter.taken(taken)).collect()
    }

    /// An amount for the draws on spend, and none for the others, in the order of [`Plan::draws`].
    #[must_use]
    pub fn cost_alone(&self, demand: &Demand, cost: MicroDollars) -> Vec<Option<u64>> {
        let is_spend = |meter: &Meter| meter.dimension == Dimension::Spend;
        self.meters(demand).map(|meter| is_spend(meter).then_some(cost)).collect()
    }

    /// Pairs meters with their states.
    pub fn with_states<'a>(
        &'a self,
        demand: &'a Demand,
        states: &'a [State],
    ) -> impl Iterator<Item = (&'a Meter, &'a State)> {
        self.meters(demand).zip(states)
    }
}

/// The meter of an organization's spend.
pub const ORGANIZATION_SPEND: &str = "spend";

/// The meter of a project's spend.
#[must_use]
pub fn spend_meter(project: &str) -> String {
    format!("p:{project}:spend")
}

/// Returns whether a dimension applies to requests with a long or with a usual context. A project
/// has one limit of tokens per minute, for both.
fn applies(dimension: Dimension, scope: Scope, long_context: bool) -> bool {
    match dimension {
        Dimension::TokensPerMinute => !long_context || scope == Scope::Project,
        Dimension::LongContextTokensPerMinute => long_context,
        _ => true,
    }
}

fn is_tokens(dimension: Dimension) -> bool {
    use Dimension as D;
    matches!(dimension, D::TokensPerMinute | D::LongContextTokensPerMinute | D::TokensPerDay)
}

impl Meter {
    /// The meter of a spend without a limit, to look at.
    #[must_use]
    pub fn of_spend(name: &str, scope: Scope) -> Self {
        let set = if scope == Scope::Project { OF_PROJECT } else { OF_MODEL };
        Self { name: name.into(), dimension: Dimension::Spend, scope, limit: u64::MAX, set }
    }

    /// The requests that a meter of a day counts; `None` for the others, which are refilled within a minute.
    #[must_use]
    pub fn day_scope(&self) -> Option<DayScope> {
        use Dimension as D;
        let is_daily = matches!(self.dimension, D::RequestsPerDay | D::TokensPerDay);
        is_daily.then_some(match self.set {
            OF_GROUP => DayScope::Group,
            OF_PROJECT => DayScope::Project,
            _ => DayScope::Model,
        })
    }

    fn is_drawn_on(&self, demand: &Demand) -> bool {
        match self.dimension {
            Dimension::ImagesPerMinute => demand.images > 0,
            Dimension::AudioPerMinute => demand.audio_milliseconds > 0,
            dimension => applies(dimension, self.scope, demand.long_context),
        }
    }

    fn amount(&self, demand: &Demand) -> u64 {
        match self.dimension {
            Dimension::RequestsPerMinute
            | Dimension::RequestsPerDay
            | Dimension::IngestionPerMinute => 1,
            Dimension::ImagesPerMinute => demand.images,
            Dimension::AudioPerMinute => demand.audio_milliseconds,
            Dimension::Spend => demand.cost,
            _ => demand.tokens,
        }
    }

    fn taken(&self, taken: &Consumed) -> Option<u64> {
        match self.dimension {
            Dimension::RequestsPerMinute
            | Dimension::RequestsPerDay
            | Dimension::IngestionPerMinute => None,
            Dimension::ImagesPerMinute => Some(taken.images),
            Dimension::AudioPerMinute => Some(taken.audio_milliseconds),
            Dimension::Spend => Some(taken.cost),
            _ => Some(taken.tokens),
        }
    }

    fn draw(&self, amount: u64, month: u32) -> Draw<'_> {
        Draw { meter: &self.name, bound: self.bound(month), amount, set: self.set }
    }

    /// Its bound for a draw in `month`.
    #[must_use]
    pub fn bound(&self, month: u32) -> Bound {
        let window = match self.dimension {
            Dimension::Spend => {
                let most = (self.limit != u64::MAX).then_some(self.limit);
                return Bound::Spend { most, month };
            }
            Dimension::RequestsPerDay | Dimension::TokensPerDay => DAY,
            _ => MINUTE,
        };
        Bound::Rate {
            limit: Limit { amount: self.limit, window },
            counts_refusals: self.dimension == Dimension::RequestsPerMinute,
        }
    }
}
