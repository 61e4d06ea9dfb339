//! The names that tools of clients cannot have: those of built-in tools, and those that the model API
//! keeps for its own.

use super::BUILT_IN;

/// Namespaces of the model API. A function of one of these names is mistaken for what the API itself puts
/// there, or the request is refused.
const OF_MODEL_API: &[&str] = &[
    "api_tool",
    "browser",
    "code_interpreter",
    "computer",
    "container",
    "file_search",
    "functions",
    "image_gen",
    "image_generation",
    "local_shell",
    "multi_tool_use",
    "python",
    "python_user_visible",
    "submodel_delegator",
    "terminal",
    "tool_search",
    "web",
    "web_search",
];

/// Returns why a tool of a client cannot have this name, or be in a namespace of this name.
pub fn why_reserved(name: &str) -> Option<String> {
    if OF_MODEL_API.contains(&name) {
        let all = OF_MODEL_API.join("`, `");
        return Some(format!("`{name}` is reserved by the model API, as are `{all}`"));
    }
    BUILT_IN
        .iter()
        .any(|tool| tool.name() == name)
        .then(|| format!("`{name}` is the name of a built-in tool"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_api_and_of_built_in_tools_are_reserved() {
        let all = OF_MODEL_API.iter().map(|name| (*name).to_owned());
        for name in all.chain(BUILT_IN.iter().map(|tool| tool.name().into_owned())) {
            let why = why_reserved(&name).unwrap_or_default();
            assert!(why.starts_with(&format!("`{name}` is ")), "{name}: {why}");
        }
        for name in ["functions2", "my_python", "webhook", "search_web", "Functions"] {
            assert_eq!(why_reserved(name), None, "{name}");
        }
        assert!(OF_MODEL_API.is_sorted());
    }
}
