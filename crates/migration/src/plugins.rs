//! Plugins of Claude Code. They are not taken over, because that would fetch them: what to do instead is
//! reported.

use std::path::Path;

use serde_json::Value;

use crate::agent::Agent;
use crate::error::Error;
use crate::item::{Detected, Roots};
use crate::source;

/// Plugins that are reported of one file.
const MOST: usize = 50;

/// Reports the plugins that the settings in `path` switch on and that are not installed here.
pub(crate) fn report(settings: &Value, path: &Path, roots: &Roots, detected: &mut Detected) {
    let Some(switches) = settings["enabledPlugins"].as_object() else { return };
    let enabled = switches.iter().filter(|(_, on)| **on == true).map(|(id, _)| id.as_str());
    let known = roots.user_home.join(".claude/plugins/known_marketplaces.json");
    // Without it, only the sources are unknown.
    let known = source::json(&roots.user_home, &known).ok().flatten().unwrap_or_default();
    for id in enabled.take(MOST) {
        let Some((name, marketplace)) = id.rsplit_once('@') else { continue };
        if is_installed(roots, marketplace, name) {
            continue;
        }
        let places = [&settings["extraKnownMarketplaces"][marketplace], &known[marketplace]];
        let place = places.iter().find_map(|place| address(&place["source"]));
        let add = match place {
            Some(place) => format!("`agentd plugins marketplace add {}`", visible::exact(place)),
            None => format!("add its marketplace `{}`", visible::exact(marketplace)),
        };
        let id = visible::exact(id);
        let why = format!(
            "the plugin `{id}` of {} is not taken over, because an import fetches nothing: {add}, then \
             `agentd plugins install {id}`",
            Agent::ClaudeCode.name()
        );
        detected.problems.push(Error::contents(path, why));
    }
}

/// Returns the address of a source in the form that `agentd plugins marketplace add` accepts.
fn address(source: &Value) -> Option<&str> {
    let key = match source["source"].as_str()? {
        "github" => "repo",
        "git" | "url" => "url",
        "directory" => "path",
        _ => return None,
    };
    source[key].as_str()
}

fn is_installed(roots: &Roots, marketplace: &str, name: &str) -> bool {
    let is_part = |text: &str| !text.is_empty() && text != ".." && !text.contains('/');
    let folder = roots.agent_home.join("plugins/cache").join(marketplace).join(name);
    is_part(marketplace) && is_part(name) && folder.is_dir()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plugins_that_are_not_installed_are_reported_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path();
        let roots = Roots {
            user_home: home.to_owned(),
            agent_home: home.join(".agent"),
            machine_settings: home.join("etc"),
            project_folder: ".agent",
        };
        std::fs::create_dir_all(home.join(".agent/plugins/cache/m/there")).unwrap();
        std::fs::create_dir_all(home.join(".claude/plugins")).unwrap();
        let known = json!({ "n": { "source": { "source": "git", "url": "https://x/n.git" } } });
        let file = home.join(".claude/plugins/known_marketplaces.json");
        std::fs::write(file, known.to_string()).unwrap();
        let settings = json!({
            "enabledPlugins": { "a@m": true, "off@m": false, "there@m": true, "b@n": true,
                "c@o": true, "bad": true },
            "extraKnownMarketplaces": { "m": { "source": { "source": "github", "repo": "o/m" } } },
        });
        let mut detected = Detected::default();
        report(&settings, Path::new("/s.json"), &roots, &mut detected);
        let messages: Vec<String> = detected.problems.iter().map(ToString::to_string).collect();
        let ends = [
            "`agentd plugins marketplace add o/m`, then `agentd plugins install a@m`",
            "`agentd plugins marketplace add https://x/n.git`, then `agentd plugins install b@n`",
            "add its marketplace `o`, then `agentd plugins install c@o`",
        ];
        assert_eq!(messages.len(), ends.len(), "{messages:?}");
        for (message, end) in messages.iter().zip(ends) {
            assert!(message.starts_with("/s.json: the plugin `"), "{message}");
            assert!(message.ends_with(end), "{message}");
        }
    }
}
