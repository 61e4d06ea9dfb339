//! Current readings of meters.

use std::sync::Arc;

use ratelimit::{Draw, Micros, State};

use crate::Services;
use gateway_policy::dates;
use gateway_policy::plan::{Meter, Plan};
use gateway_policy::settings::{Model, Settings};
use gateway_policy::tenants::{Caller, Organization, Project};

/// Meters per call.
const TOGETHER: usize = 64;

/// A meter and its reading.
pub(super) struct Reading {
    pub(super) meter: Meter,
    pub(super) state: State,
}

/// Reads meters, in the given order.
///
/// # Errors
/// The store of the limits is unreachable.
pub(super) async fn read(
    services: &Services,
    organization: &str,
    meters: Vec<Meter>,
    now: Micros,
) -> Result<Vec<Reading>, ratelimit::Error> {
    let month = dates::month(now);
    let mut states = Vec::with_capacity(meters.len());
    for part in meters.chunks(TOGETHER) {
        let draws: Vec<_> = part
            .iter()
            .map(|meter| Draw { meter: &meter.name, bound: meter.bound(month), amount: 0, set: 0 })
            .collect();
        let read = services.limits.look(organization, &draws, services.clock.steady()).await?;
        if read.len() != draws.len() {
            return Err(ratelimit::Error::unreachable("its answer is incomplete"));
        }
        states.extend(read);
    }
    let reading = |(meter, state)| Reading { meter, state };
    Ok(meters.into_iter().zip(states).map(reading).collect())
}

/// The meters that requests for a model draw on.
pub(super) fn meters(
    organization: &Arc<Organization>,
    project: &Arc<Project>,
    model: &Model,
    settings: &Settings,
) -> Vec<Meter> {
    let caller = Caller {
        key: "".into(),
        organization: Arc::clone(organization),
        project: Arc::clone(project),
        models: None,
        derived: Default::default(),
    };
    Plan::new(&caller, model, settings).all().to_vec()
}
