//! The metrics by project. A bounded number of projects have series of their own; all others share
//! the series `other`. A project keeps its place until the process ends, so that no count moves from
//! one series to another and none is dropped. The first places are those of the projects with most
//! requests in this month and the last one; places that are left go to projects as they come.

use std::collections::HashSet;
use std::sync::{PoisonError, RwLock};

use gateway_policy::dates::month;
use gateway_store::database::Database;
use gateway_store::ledger::{self, Entry};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use ratelimit::Micros;

/// The labels of all projects without a place.
const OTHER: &str = "other";

/// The metrics by project.
#[derive(Debug)]
pub(crate) struct ProjectMetrics {
    most: usize,
    /// Ids of projects with a place.
    placed: RwLock<HashSet<Box<str>>>,
    requests: Family<Requests, Counter>,
    tokens: Family<Tokens, Counter>,
    spend: Family<Project, Counter>,
    rejected: Family<Rejected, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Project {
    organization: String,
    project: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Requests {
    organization: String,
    project: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tokens {
    organization: String,
    project: String,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rejected {
    organization: String,
    project: String,
    dimension: &'static str,
}

impl ProjectMetrics {
    /// Places for `most` projects.
    pub(crate) fn new(most: usize, registry: &mut Registry) -> Self {
        let metrics = Self {
            most,
            placed: RwLock::default(),
            requests: Family::default(),
            tokens: Family::default(),
            spend: Family::default(),
            rejected: Family::default(),
        };
        let help = "Requests that reached a model, by project and by the status of their end";
        registry.register("project_requests", help, metrics.requests.clone());
        let help = "Tokens used, by project";
        registry.register("project_tokens", help, metrics.tokens.clone());
        let help = "Money spent, by project";
        registry.register("project_spend_microdollars", help, metrics.spend.clone());
        let help = "Requests refused because of a limit, by project";
        registry.register("project_rejected", help, metrics.rejected.clone());
        metrics
    }

    /// Gives places to the busiest projects of the ledger.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn place_busiest(
        &self,
        database: &Database,
        now: Micros,
    ) -> Result<(), gateway_store::Error> {
        let since = month(now).saturating_sub(1);
        let busiest = ledger::busiest_projects(database, since, self.most).await?;
        let mut placed = self.placed.write().unwrap_or_else(PoisonError::into_inner);
        placed.extend(busiest.into_iter().map(|(_, project)| project));
        Ok(())
    }

    /// Counts a settled request, and its tokens by kind.
    pub(crate) fn count(&self, entry: &Entry, tokens: &[(&'static str, u64)]) {
        let Project { organization, project } = self.labels(&entry.organization, &entry.project);
        for (kind, tokens) in tokens.iter().filter(|(_, tokens)| *tokens > 0) {
            let (organization, project) = (organization.clone(), project.clone());
            let labels = Tokens { organization, project, kind };
            self.tokens.get_or_create(&labels).inc_by(*tokens);
        }
        let labels = Project { organization, project };
        if entry.cost > 0 {
            self.spend.get_or_create(&labels).inc_by(entry.cost);
        }
        let Project { organization, project } = labels;
        let labels = Requests { organization, project, status: entry.status };
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts a refusal because of a limit.
    pub(crate) fn reject(&self, organization: &str, project: &str, dimension: &'static str) {
        let Project { organization, project } = self.labels(organization, project);
        self.rejected.get_or_create(&Rejected { organization, project, dimension }).inc();
    }

    fn labels(&self, organization: &str, project: &str) -> Project {
        match self.has_place(project) {
            true => Project { organization: organization.to_owned(), project: project.to_owned() },
            false => Project { organization: OTHER.to_owned(), project: OTHER.to_owned() },
        }
    }

    /// Returns whether a project has a place; takes one for it if there is one left.
    fn has_place(&self, project: &str) -> bool {
        let is_full = {
            let placed = self.placed.read().unwrap_or_else(PoisonError::into_inner);
            if placed.contains(project) {
                return true;
            }
            placed.len() >= self.most
        };
        if is_full {
            return false;
        }
        let mut placed = self.placed.write().unwrap_or_else(PoisonError::into_inner);
        // Another request may have taken the last place in between.
        if placed.len() < self.most {
            placed.insert(project.into());
        }
        placed.contains(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_count_is_lost_and_no_project_changes_its_series(
            most in 0_usize..4,
            projects in proptest::collection::vec(0_u8..8, 0..60),
        ) {
            let metrics = ProjectMetrics::new(most, &mut Registry::default());
            let mut seen = std::collections::HashMap::new();
            for project in &projects {
                let labels = metrics.labels("org-1", &format!("proj_{project}"));
                metrics.spend.get_or_create(&labels).inc();
                let known = seen.entry(*project).or_insert_with(|| labels.clone());
                prop_assert_eq!(&*known, &labels);
            }
            let series: HashSet<_> = seen.values().cloned().collect();
            prop_assert!(series.len() <= most + 1);
            let counted: u64 = series.iter().map(|of| metrics.spend.get_or_create(of).get()).sum();
            prop_assert_eq!(counted, projects.len() as u64);
        }
    }
}
