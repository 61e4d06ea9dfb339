//! The usage and cost of a response, and the model that answered: the events of the model crate as
//! the session takes them.

use std::sync::Arc;

use model::catalog::{Catalog, ModelInfo, is_same_model};
use model::{Event, Usage};
use session::{ModelEvent, ModelNotice, ResponseSource, ResponseUsage, Verification};
use tokio::time::Instant;

use crate::thread::model_stream::previews::PatchPreviews;
use services::account_limits::LimitSource;
use services::convert;

/// The meter of a response.
pub(super) struct Meter {
    catalog: Arc<Catalog>,
    provider: Arc<str>,
    asked: ModelInfo,
    /// Service tier of the request.
    tier: Option<String>,
    /// The model that answers, if it is not the one that was asked.
    served_by: Option<ModelInfo>,
    /// True if raw reasoning is passed on.
    raw_reasoning: bool,
    limits: LimitSource,
    previews: PatchPreviews,
}

impl Meter {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        limits: LimitSource,
        asked: ModelInfo,
        tier: Option<String>,
        raw_reasoning: bool,
    ) -> Self {
        let provider = limits.provider().clone();
        Self {
            catalog,
            provider,
            asked,
            tier,
            served_by: None,
            raw_reasoning,
            limits,
            previews: PatchPreviews::default(),
        }
    }

    /// A batch of a streamed response, without the events that the session does not use. Raw
    /// reasoning is left out unless it is wanted; the model's own history keeps it.
    pub(super) fn events(&mut self, batch: Vec<Event>) -> Vec<ModelEvent> {
        let mut events: Vec<ModelEvent> =
            batch.into_iter().filter_map(|event| self.event(event)).collect();
        if !self.raw_reasoning {
            convert::model::drop_raw_reasoning(&mut events);
        }
        events
    }

    fn event(&mut self, event: Event) -> Option<ModelEvent> {
        self.limits.observe(&event);
        if let Some(preview) = self.previews.observe(&event, Instant::now()) {
            return Some(preview);
        }
        match event {
            Event::Queued { wait, ahead } => {
                let provider = self.provider.clone();
                Some(ModelEvent::Notice(ModelNotice::Queued { provider, wait, ahead }))
            }
            Event::Created { model: Some(model), .. } | Event::ServedBy { model } => {
                self.answered_by(&model)
            }
            Event::VerificationRequested { names } => {
                let known = names.iter().filter_map(|name| verification(name));
                let known: Vec<Verification> = known.take(1).collect();
                let notice = ModelNotice::Verification(known.clone());
                (!known.is_empty()).then_some(ModelEvent::Notice(notice))
            }
            Event::Contradiction(what) => {
                let provider = self.provider.clone();
                Some(ModelEvent::Notice(ModelNotice::Contradiction { provider, what }))
            }
            Event::LeftOut(what) => {
                let (provider, what) = (self.provider.clone(), what.into());
                Some(ModelEvent::Notice(ModelNotice::LeftOut { provider, what }))
            }
            Event::Completed { usage, service_tier } => {
                let usage = self.used(&usage, service_tier);
                Some(ModelEvent::Completed { usage })
            }
            Event::Failed(failure) => {
                Some(ModelEvent::Failed(failure.map_usage(|usage| self.used(&usage, None))))
            }
            event => convert::model::event(event),
        }
    }

    /// The provider names the model that answers. Servers of models that the catalog does not know
    /// answer with names of their own, such as that of a file: these are not compared.
    fn answered_by(&mut self, model: &str) -> Option<ModelEvent> {
        if !self.asked.is_known || is_same_model(model, &self.asked.id) {
            return None;
        }
        self.served_by = Some(self.catalog.find(model));
        let (from, to) = (self.asked.id.clone(), model.into());
        Some(ModelEvent::Notice(ModelNotice::Rerouted { from, to }))
    }

    fn used(&self, usage: &Usage, served_tier: Option<String>) -> ResponseUsage {
        let model = self.served_by.as_ref().unwrap_or(&self.asked);
        let tier = served_tier.or_else(|| self.tier.clone());
        // A provider that counts no tokens does not answer for nothing.
        let prices = model.prices.as_ref().filter(|_| *usage != Usage::default());
        let is_default = |tier: &String| matches!(tier.as_str(), "auto" | "default" | "standard");
        ResponseUsage {
            tokens: convert::model::tokens(usage),
            cost: prices.and_then(|prices| prices.cost(usage, tier.as_deref())),
            source: ResponseSource {
                provider: self.provider.clone(),
                model: model.id.clone(),
                service_tier: tier.filter(|tier| !is_default(tier)).map(Arc::from),
            },
        }
    }
}

fn verification(name: &str) -> Option<Verification> {
    (name == "trusted_access_for_cyber").then_some(Verification::TrustedAccessForCyber)
}
