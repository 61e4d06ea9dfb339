//! Prompts and streamed events: between the session and the model crate.

use session::{
    GeneratedImage, ModelEvent, ModelItem, ModelItemKind, Phase, Prompt, SearchAction, Usage,
};

/// Leaves raw reasoning out.
pub fn drop_raw_reasoning(events: &mut Vec<ModelEvent>) {
    events.retain(|event| !matches!(event, ModelEvent::ReasoningDelta { .. }));
    for event in events {
        if let ModelEvent::ItemDone { item: ModelItem::Reasoning { content, .. }, .. } = event {
            content.clear();
        }
    }
}

/// An event of a streamed response; `None` for those that the session does not use, and those that
/// are converted with the prices of the model.
pub fn event(event: model::Event) -> Option<ModelEvent> {
    use model::Event;
    Some(match event {
        Event::TextDelta { index, text } => ModelEvent::TextDelta { index: at(index), text },
        Event::ItemAdded { index, kind, .. } => {
            ModelEvent::ItemAdded { index: at(index), kind: item_kind(&kind) }
        }
        Event::SummaryPartAdded { index, summary_index } => {
            ModelEvent::SummaryPartAdded { index: at(index), part: at(summary_index) }
        }
        Event::SummaryDelta { index, summary_index, text } => {
            ModelEvent::SummaryDelta { index: at(index), part: at(summary_index), text }
        }
        Event::ReasoningDelta { index, content_index, text } => {
            ModelEvent::ReasoningDelta { index: at(index), part: at(content_index), text }
        }
        Event::ItemDone { index, raw, item } => {
            ModelEvent::ItemDone { index: at(index), raw, item: model_item(item) }
        }
        Event::Held => ModelEvent::Held,
        Event::Sent => ModelEvent::Sent,
        Event::Paused => ModelEvent::Paused,
        Event::Created { .. }
        | Event::RateLimits(_)
        | Event::PlanUsage(_)
        | Event::Queued { .. }
        | Event::ServedBy { .. }
        | Event::VerificationRequested { .. }
        | Event::Contradiction(_)
        | Event::LeftOut(_)
        | Event::Completed { .. }
        | Event::Failed(_)
        | Event::ArgumentsDelta { .. }
        | Event::CustomInputDelta { .. } => {
            return None;
        }
    })
}

fn at(index: u32) -> usize {
    index as usize
}

fn item_kind(kind: &model::ItemKind) -> ModelItemKind {
    match kind {
        model::ItemKind::Message { phase } => {
            ModelItemKind::Message { phase: phase.map(self::phase) }
        }
        model::ItemKind::Reasoning => ModelItemKind::Reasoning,
        model::ItemKind::WebSearch { query } => ModelItemKind::WebSearch { query: query.clone() },
        model::ItemKind::ImageGeneration => ModelItemKind::ImageGeneration,
        _ => ModelItemKind::Other,
    }
}

fn phase(phase: model::Phase) -> Phase {
    match phase {
        model::Phase::Commentary => Phase::Commentary,
        model::Phase::FinalAnswer => Phase::FinalAnswer,
    }
}

fn model_item(item: model::Item) -> ModelItem {
    use model::Item;
    match item {
        Item::Message { text, phase } => ModelItem::Message { text, phase: phase.map(self::phase) },
        Item::Reasoning { summary, content } => ModelItem::Reasoning { summary, content },
        Item::FunctionCall { call_id, name, arguments } => {
            ModelItem::FunctionCall { call_id, name, arguments }
        }
        Item::CustomToolCall { call_id, name, input } => {
            ModelItem::CustomToolCall { call_id, name, input }
        }
        Item::ToolSearchCall { call_id, arguments } => {
            ModelItem::ToolSearchCall { call_id, arguments }
        }
        Item::WebSearch { query, action, failed } => {
            ModelItem::WebSearch { query, action: search_action(&action), failed }
        }
        Item::ImageGeneration { status, result, revised_prompt } => {
            ModelItem::ImageGeneration(GeneratedImage { status, result, revised_prompt })
        }
        Item::Other { kind, call_id } => ModelItem::Other { kind, call_id },
    }
}

fn search_action(action: &serde_json::Value) -> Option<SearchAction> {
    let text = |name: &str| action.get(name).and_then(|v| v.as_str()).map(str::to_owned);
    let queries = action
        .get("queries")
        .and_then(|v| v.as_array())
        .map(|queries| queries.iter().filter_map(|v| v.as_str()).map(str::to_owned).collect());
    Some(match action.get("type")?.as_str()? {
        "search" => SearchAction::Search { query: text("query"), queries },
        "open_page" => SearchAction::OpenPage { url: text("url") },
        "find_in_page" => SearchAction::FindInPage { url: text("url"), pattern: text("pattern") },
        _ => SearchAction::Other,
    })
}

/// Tokens as the session counts them.
pub fn tokens(usage: &model::Usage) -> Usage {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Usage {
        input: number(usage.input),
        cached_input: number(usage.cached_input),
        cache_write_input: number(usage.cache_write),
        output: number(usage.output),
        reasoning_output: number(usage.reasoning_output),
        total: number(usage.total),
    }
}

/// The request that a prompt stands for; `cache_key` keys the provider's prompt cache.
pub fn prompt(prompt: Prompt, cache_key: &str, info: &model::catalog::ModelInfo) -> model::Prompt {
    let effort = prompt.effort.filter(|_| info.supports_reasoning);
    let effort = effort.map(|effort| match info.nearest_effort(&effort) {
        Some(nearest) => nearest.to_string(),
        None => effort,
    });
    // Of an unknown model it is not known either, and the user asked for it.
    let takes_verbosity = info.supports_verbosity || !info.is_known;
    let summary = prompt.summary.filter(|_| info.supports_reasoning);
    let has_reasoning = effort.is_some() || summary.is_some();
    let arc = |text: String| std::sync::Arc::<str>::from(text);
    model::Prompt {
        model: arc(prompt.model),
        instructions: prompt.instructions,
        cache: {
            let session::CacheHints { stable, passing, is_long } = prompt.input.cache();
            model::CacheHints { stable, passing, is_long }
        },
        output: model::OutputLimits { longest: Some(info.max_output), stated: info.output_limit },
        input: prompt.input.into_items(),
        tools: prompt.tools,
        parallel_tool_calls: info.supports_parallel_tool_calls,
        reasoning: has_reasoning
            .then(|| model::Reasoning { effort: effort.map(arc), summary: summary.map(arc) }),
        verbosity: prompt.verbosity.filter(|_| takes_verbosity).map(arc),
        output_schema: prompt.output_schema,
        cache_key: Some(arc(cache_key.to_owned())),
        service_tier: prompt.service_tier.map(arc),
        include_encrypted_reasoning: info.supports_reasoning,
        reasoning_member: prompt.reasoning_member,
        left_out: prompt.left_out,
    }
}
