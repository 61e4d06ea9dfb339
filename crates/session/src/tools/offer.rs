//! Writes the definitions of a thread's tools as JSON, and lets threads share them.

use std::sync::Arc;

use super::{BUILT_IN, Tool, offered, web_search};
use crate::port::tool_set::{Offer, ToolSet};

impl Offer {
    /// Writes the definitions of `tools`.
    pub fn new(tools: ToolSet) -> Self {
        let [search, open_search] = &tools.web_search;
        let confined = write(&tools, search.as_deref());
        let unconfined = match search == open_search {
            true => confined.clone(),
            false => write(&tools, open_search.as_deref()),
        };
        Self { tools: Arc::new(tools), confined, unconfined }
    }
}

fn write(tools: &ToolSet, search: Option<&str>) -> Arc<str> {
    let built_in = BUILT_IN.iter().filter_map(|tool| offered(*tool, tools));
    let dynamic = tools.dynamic.iter().filter_map(|tool| tool.definition(tools));
    let search = web_search::definition(search);
    let all: Vec<String> = built_in.chain(dynamic).chain(search).collect();
    format!("[{}]", all.join(",")).into()
}

/// Offers that threads share. Most threads of a server offer the same tools, so their definitions
/// are written once.
#[derive(Debug, Default)]
pub struct OfferCache(Vec<Offer>);

impl OfferCache {
    /// Offers kept; those of further sets of tools belong to their threads alone.
    const MAX: usize = 32;

    /// The offer of `tools`.
    pub fn offer(&mut self, tools: ToolSet) -> Offer {
        if let Some(known) = self.0.iter().find(|offer| *offer.tools() == tools) {
            return known.clone();
        }
        let offer = Offer::new(tools);
        if self.0.len() < Self::MAX {
            self.0.push(offer.clone());
        }
        offer
    }
}
