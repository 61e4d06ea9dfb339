//! The report of a trial: a table on the terminal, and a page such as `docs/gateway-clients.md`.

use std::fmt::Write;

use super::outcome::{Check, Outcome};

/// The beginning of the page about the official clients.
pub(crate) const CLIENTS: &str = "\
# Official API clients

The official clients of this API work with the gateway unchanged: they need only its address and a
key. `cargo xtask interop` verifies this. It installs the clients below the target folder, in the
versions that `crates/gateway/tests/clients` pins, and runs one script for each client against a new
`agentd gateway` with the offline model as its upstream. The Python client validates every response
against the documented shape, with a few exceptions that its script explains. Retries are counted
both by the client and in the gateway's metrics.

Clients of other APIs reach [any model server](gateway-backends.md#wires) with these settings:

| client | setting |
|---|---|
| `anthropic`, `@anthropic-ai/sdk` | `base_url` is the gateway's address without `/v1`; the key as `api_key` |
| Claude Code | `ANTHROPIC_BASE_URL` is the address without `/v1`, `ANTHROPIC_AUTH_TOKEN` the key, `ANTHROPIC_MODEL` and `ANTHROPIC_DEFAULT_HAIKU_MODEL` models of the gateway |
| `google-genai`, `@google/genai` | `http_options.base_url` is the address, without a version; the key as `api_key` |
| Gemini CLI | `GOOGLE_GEMINI_BASE_URL` is the address, `GEMINI_API_KEY` the key, and `security.auth.selectedType` in `~/.gemini/settings.json` is `gemini-api-key` |
| Codex | a `model_providers` entry whose `base_url` is the address with `/v1`, and `env_key` the variable with the key |
| opencode | a provider with `npm` `@ai-sdk/openai-compatible`, whose `baseURL` is the address with `/v1` |

`cargo xtask interop \"gateway wires\"` verifies the Python clients in front of models of every other wire, and
`cargo xtask interop \"wire clients\"` the four agents: each completes a turn with a tool, without any other network. Where
spend is limited, Codex and Claude Code need a price for the web search that they offer: `tool_calls = { web_search = 0.01 }`.

```sh
cargo xtask interop             # needs python3 with venv and pip, node, npm, and a network the first time
cargo xtask interop --write     # writes this page
```
";

/// The beginning of the page about the frameworks.
pub(crate) const FRAMEWORKS: &str = "\
# Frameworks

Frameworks that speak to the hosted API, as they come from their registries, work with the gateway: they need only its
address and a key. `cargo xtask interop frameworks` verifies this, in the versions that
`crates/gateway/tests/frameworks` pins: texts come from the offline model, calls of tools and structured answers from
[scripted model servers](model-server.md), to which the gateway passes them on. The inspector of MCP starts
`agentd mcp-server`.

What some of them need besides address and key:

- LangChain: `check_embedding_ctx_length=False` for embeddings in Python, which are sent as token ids otherwise.
- LlamaIndex: `OpenAILike` for chat completions and a `context_window` for Responses, because it knows the windows of some
  models only.
- Vercel AI SDK: `.chat(…)` for chat completions; without it, Responses are used.
- openai-agents: `set_tracing_disabled(True)`; without it, traces are sent to its maker.

```sh
cargo xtask interop frameworks           # needs python3 with venv and pip, node, npm, and a network the first time
cargo xtask interop frameworks --write   # writes this page
```
";

/// Checks that passed, of how many, by group and client.
pub(crate) fn summary(outcomes: &[Outcome]) -> String {
    let mut rows = vec![row("", outcomes.iter().map(|outcome| outcome.language.to_owned()))];
    let counted = |outcome: &Outcome, wanted: &dyn Fn(&Check) -> bool| {
        let checks = || outcome.checks.iter().filter(|check| wanted(check));
        match (checks().filter(|check| check.passed).count(), checks().count()) {
            (passed, all) if passed == all => all.to_string(),
            (passed, all) => format!("{passed} of {all}"),
        }
    };
    for group in groups(outcomes) {
        let in_group = |check: &Check| check.group == group;
        rows.push(row(group, outcomes.iter().map(|outcome| counted(outcome, &in_group))));
    }
    rows.push(row("total", outcomes.iter().map(|outcome| counted(outcome, &|_| true))));
    rows.join("\n")
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    cells.fold(format!("{name:<18}"), |row, cell| format!("{row} {cell:>12}"))
}

/// In the order in which they come first.
fn groups(outcomes: &[Outcome]) -> Vec<&str> {
    let mut groups: Vec<&str> = Vec::new();
    for check in outcomes.iter().flat_map(|outcome| &outcome.checks) {
        if !groups.contains(&&*check.group) {
            groups.push(&check.group);
        }
    }
    groups
}

/// The page, when every check passed.
pub(crate) fn page(introduction: &str, outcomes: &[Outcome]) -> String {
    let mut page = format!("{introduction}\nLast run with:\n\n");
    // Writing to a text cannot fail.
    for outcome in outcomes {
        let _ = writeln!(
            page,
            "- {}: {}, {} checks",
            outcome.language,
            outcome.client,
            outcome.checks.len()
        );
    }
    let languages: Vec<&str> = outcomes.iter().map(|outcome| outcome.language).collect();
    let _ = writeln!(page, "\n| | | {} |", languages.join(" | "));
    let _ = writeln!(page, "|---|---|{}", "---|".repeat(languages.len()));
    for group in groups(outcomes) {
        for name in names(outcomes, group) {
            let has = |outcome: &Outcome| {
                let mut checks = outcome.checks.iter();
                let found = checks.any(|check| check.group == group && check.name == name);
                if found { "✓" } else { "–" }
            };
            let cells: Vec<&str> = outcomes.iter().map(has).collect();
            let _ = writeln!(page, "| {group} | {name} | {} |", cells.join(" | "));
        }
    }
    page
}

fn names<'o>(outcomes: &'o [Outcome], group: &str) -> Vec<&'o str> {
    let mut names: Vec<&str> = Vec::new();
    for check in outcomes.iter().flat_map(|outcome| &outcome.checks) {
        if check.group == group && !names.contains(&&*check.name) {
            names.push(&check.name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(language: &'static str, checks: &[(&str, &str, bool)]) -> Outcome {
        let check = |(group, name, passed): &(&str, &str, bool)| Check {
            group: (*group).to_owned(),
            name: (*name).to_owned(),
            passed: *passed,
        };
        let checks = checks.iter().map(check).collect();
        Outcome { language, client: format!("openai on {language}"), checks }
    }

    #[test]
    fn groups_are_counted() {
        let python = [("files", "list", true), ("files", "delete: no", false), ("chat", "x", true)];
        let outcomes = [outcome("Python", &python), outcome("JavaScript", &[("chat", "x", true)])];
        let lines: Vec<String> = summary(&outcomes)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines, ["Python JavaScript", "files 1 of 2 0", "chat 1 1", "total 2 of 3 1"]);
    }

    #[test]
    fn the_page_lists_every_check_once() {
        let python = [("files", "list", true), ("chat", "x", true)];
        let outcomes = [outcome("Python", &python), outcome("JavaScript", &[("chat", "x", true)])];
        let page = page(CLIENTS, &outcomes);
        assert!(page.contains("- Python: openai on Python, 2 checks\n"), "{page}");
        assert!(page.ends_with("| files | list | ✓ | – |\n| chat | x | ✓ | ✓ |\n"), "{page}");
    }
}
