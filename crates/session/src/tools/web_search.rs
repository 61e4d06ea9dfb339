//! The provider's own web search: offered like a tool, carried out by the provider, never called
//! here.

/// Its definition: the JSON that the configuration makes, `None` when search is off.
pub(super) fn definition(configured: Option<&str>) -> Option<String> {
    configured.map(str::to_owned)
}
