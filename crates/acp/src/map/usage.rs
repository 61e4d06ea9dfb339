//! Tokens and costs.

use protocol::ThreadTokenUsage;

use crate::schema::update::{Cost, SessionUpdate};

/// The update about used tokens; `None` while the size of the model's context is not known.
pub(crate) fn update(usage: &ThreadTokenUsage) -> Option<SessionUpdate> {
    let size = u64::try_from(usage.model_context_window?).ok()?;
    let used = u64::try_from(usage.last.total_tokens).ok()?;
    let cost = usage.cost.as_ref().and_then(|cost| {
        // Exact decimals on one side, binary fractions on the other: for display.
        let amount = cost.thread.as_ref()?.parse().ok()?;
        Some(Cost { amount, currency: cost.currency.clone() })
    });
    Some(SessionUpdate::UsageUpdate { used, size, cost })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_request_fills_the_context_and_the_thread_has_the_cost() {
        let tokens = json!({ "totalTokens": 7, "inputTokens": 5, "cachedInputTokens": 0,
            "outputTokens": 2, "reasoningOutputTokens": 0 });
        let check = |window: Option<i64>, cost: serde_json::Value, expect: serde_json::Value| {
            let usage = json!({ "total": tokens, "last": tokens, "modelContextWindow": window, "cost": cost });
            let usage: ThreadTokenUsage = serde_json::from_value(usage).unwrap();
            assert_eq!(serde_json::to_value(update(&usage)).unwrap(), expect);
        };
        let update = json!({ "sessionUpdate": "usage_update", "used": 7, "size": 100 });
        check(Some(100), json!(null), update.clone());
        check(None, json!(null), json!(null));
        let unpriced = json!({ "currency": "USD", "last": null, "turn": null, "thread": null });
        check(Some(100), unpriced, update.clone());
        let priced = json!({ "currency": "USD", "last": "0.1", "turn": "0.1", "thread": "0.25" });
        let mut with_cost = update;
        with_cost["cost"] = json!({ "amount": 0.25, "currency": "USD" });
        check(Some(100), priced, with_cost);
    }
}
