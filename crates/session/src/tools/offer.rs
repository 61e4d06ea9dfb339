//! Writes the definitions of a thread's tools as JSON, and lets threads share them.

use std::sync::{Arc, OnceLock};

use super::tool_search::ToolSearch;
use super::{BUILT_IN, Tool, dynamic, is_withheld, offered, server_tool, web_search};
use crate::instructions;
use crate::port::tool_index::{SearchableTool, ToolIndex};
use crate::port::tool_set::{ExternalTool, FoundTool, Offer, SearchTool, ToolSet};

/// Most tools of a request, those found by searches aside.
const MAX_LISTED: usize = 40;
/// Most bytes of the definitions in a request that are not built in, those found by searches aside: some
/// 50,000 tokens, which every request of the thread repeats.
const MAX_LISTED_BYTES: usize = 192 << 10;

impl ToolSet {
    /// These tools, with those deferred that do not fit into a request. It depends on no mode of a
    /// turn, so that the requests of a thread list the same tools.
    #[must_use]
    pub fn deferring(self) -> Self {
        if is_withheld(&ToolSearch, &self) {
            return Self { deferred_from: None, ..self };
        }
        let full = Self { goal: true, reads_only: false, dynamic: Arc::default(), ..self.clone() };
        let built_in = BUILT_IN.iter().filter(|tool| offered(**tool, &full).is_some()).count()
            + usize::from(self.web_search.iter().any(Option::is_some));
        let listed = || self.external().enumerate().filter(|(_, tool)| !tool.defer_loading());
        let size = |tool: ExternalTool<'_>| {
            tool.full_name().len() + tool.description().len() + tool.schema().len()
        };
        let bytes: usize = listed().map(|(_, tool)| size(tool)).sum();
        let fits = built_in + listed().count() <= MAX_LISTED && bytes <= MAX_LISTED_BYTES;
        // With the search itself, which is then offered too.
        let room = MAX_LISTED.saturating_sub(built_in + 1);
        let mut bytes = 0;
        let first = listed().enumerate().find(|(count, (_, tool))| {
            bytes += size(*tool);
            *count >= room || bytes > MAX_LISTED_BYTES
        });
        let first = first.map(|(_, (place, _))| place).filter(|_| !fits);
        Self { deferred_from: Some(first.unwrap_or(usize::MAX)), ..self }
    }
}

impl Offer {
    /// Writes the definitions of `tools`.
    pub fn new(tools: ToolSet) -> Self {
        Self::sharing_index(tools, Arc::default())
    }

    /// As [`Offer::new`], for tools that differ from these only by the built-in ones.
    pub(crate) fn variant(&self, tools: ToolSet) -> Self {
        Self::sharing_index(tools, self.index.clone())
    }

    fn sharing_index(tools: ToolSet, index: Arc<OnceLock<ToolIndex>>) -> Self {
        let [search, open_search] = &tools.web_search;
        let confined = write(&tools, search.as_deref());
        let unconfined = match search == open_search {
            true => confined.clone(),
            false => write(&tools, open_search.as_deref()),
        };
        let instructions = instructions::built_in(&tools);
        Self { tools: Arc::new(tools), confined, unconfined, instructions, index }
    }

    /// The deferred tools that fit a query best.
    pub(crate) fn search(&self, query: &str, limit: usize) -> Vec<FoundTool> {
        let places = self.index().search(query, limit);
        let deferred: Vec<ExternalTool<'_>> = self.tools.deferred().collect();
        places
            .into_iter()
            .filter_map(|place| deferred.get(place).map(|tool| found(*tool)))
            .collect()
    }

    /// The deferred tools of these names.
    pub(crate) fn found_tools<'n>(&self, names: impl Iterator<Item = &'n str>) -> Vec<FoundTool> {
        let mut names = names.peekable();
        if names.peek().is_none() {
            return Vec::new();
        }
        let deferred: Vec<ExternalTool<'_>> = self.tools.deferred().collect();
        let place = |name: &str| self.index().place(name);
        names.filter_map(|name| Some(found(*deferred.get(place(name)?)?))).collect()
    }

    /// The definitions of a request in a thread that has loaded these tools.
    pub(crate) fn json_with<'n>(
        &self,
        is_unconfined: bool,
        loaded: impl Iterator<Item = &'n str>,
    ) -> Arc<str> {
        let listed = self.json(is_unconfined);
        if self.tools.search == SearchTool::Native {
            return listed;
        }
        let loaded = self.found_tools(loaded);
        // The search itself is among the listed ones.
        let Some(rest) = listed.strip_suffix(']').filter(|_| !loaded.is_empty()) else {
            return listed;
        };
        let definitions: Vec<String> =
            loaded.iter().map(|tool| tool.definition.to_string()).collect();
        format!("{rest},{}]", definitions.join(",")).into()
    }

    fn index(&self) -> &ToolIndex {
        self.index.get_or_init(|| {
            ToolIndex::new(self.tools.deferred().map(|tool| SearchableTool {
                name: tool.full_name(),
                description: tool.description(),
                schema: tool.schema(),
            }))
        })
    }
}

fn found(tool: ExternalTool<'_>) -> FoundTool {
    let definition = match tool {
        ExternalTool::Client(tool) => dynamic::definition(tool),
        ExternalTool::Server(tool) => server_tool::definition(tool),
    };
    FoundTool {
        name: tool.full_name().into_owned(),
        description: tool.description().to_owned(),
        definition: serde_json::from_str(&definition).unwrap_or_default(),
    }
}

impl<'t> ExternalTool<'t> {
    pub(super) fn as_tool(self) -> &'t dyn Tool {
        match self {
            Self::Client(tool) => tool,
            Self::Server(tool) => tool,
        }
    }
}

fn write(tools: &ToolSet, search: Option<&str>) -> Arc<str> {
    let built_in = BUILT_IN.iter().filter_map(|tool| offered(*tool, tools));
    let (clients, servers): (Vec<_>, Vec<_>) =
        tools.listed().partition(|tool| matches!(tool, ExternalTool::Client(_)));
    let written = |tool: ExternalTool<'_>| tool.as_tool().definition(tools);
    let clients = clients.into_iter().filter_map(written);
    let search = web_search::definition(search);
    // Tools of servers come last: those that join later leave the others in their places, and
    // requests begin as before.
    let servers = servers.into_iter().filter_map(written);
    let all: Vec<String> = built_in.chain(clients).chain(search).chain(servers).collect();
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
        if self.0.len() >= Self::MAX {
            // Values that no thread uses make room.
            self.0.retain(|offer| Arc::strong_count(&offer.tools) > 1);
        }
        if self.0.len() < Self::MAX {
            self.0.push(offer.clone());
        }
        offer
    }
}
