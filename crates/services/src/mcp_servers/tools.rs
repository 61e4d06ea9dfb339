//! The tools that a thread offers of its MCP servers: what each is called for the model, what its calls
//! are bound to, and when the user is asked. All of it is made before a turn and holds for the turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use config::Config;
use config::table::{McpServer, ToolApproval as Mode};
use mcp::{Catalog, Hints, Tool};
use serde_json::Value;
use session::{ServerTool, ToolApproval, ToolEffect, ToolTarget};
use sha2::{Digest as _, Sha256};
use skills::catalog::RemoteSkill;

use super::apps::{Apps, approval};
use crate::server_skills::{READ_DESCRIPTION, READ_TOOL, for_catalog, read_digest, read_schema};

/// Longest name of a function, in characters.
const MAX_NAME: usize = 64;
/// Hexadecimal digits that tell names apart that are not the server's own.
const MARK: usize = 8;
/// Longest description for the model, in bytes.
const MAX_DESCRIPTION: usize = 4096;

/// The tools that a thread offers of its MCP servers.
#[derive(Default)]
pub(crate) struct Offered {
    /// The state that the tools were made from.
    made_of: Option<MadeOf>,
    tools: Arc<[ServerTool]>,
    /// The servers that the turn can call.
    servers: Vec<mcp::Server>,
    /// Where a tool stands since it was first offered: those that come later follow.
    places: BTreeMap<String, usize>,
    /// The servers that were named as late.
    late: BTreeSet<String>,
}

/// The servers whose tools are known, each with the generation of its list; and the configuration.
struct MadeOf {
    generations: BTreeMap<String, u64>,
    config: Arc<Config>,
}

impl Offered {
    /// The tools of the servers as they are known now, if they are others than before. A server that is
    /// started again keeps its tools until it lists others, and so does one that has failed.
    pub(super) fn refreshed(
        &mut self,
        servers: &[mcp::Server],
        config: &Arc<Config>,
    ) -> Option<Arc<[ServerTool]>> {
        self.servers = servers.to_vec();
        let known = servers.iter().filter_map(|server| {
            Some((server.name().to_owned(), (server.definition(), server.catalog()?)))
        });
        let known: Known<'_> = known.collect();
        let generations: BTreeMap<String, u64> =
            known.iter().map(|(name, (_, catalog))| (name.clone(), catalog.generation)).collect();
        let is_same = match &self.made_of {
            Some(before) => {
                before.generations == generations && Arc::ptr_eq(&before.config, config)
            }
            None => generations.is_empty(),
        };
        if is_same {
            return None;
        }
        let mut tools = tools(&known, config);
        for tool in &tools {
            let next = self.places.len();
            self.places.entry(tool.name.clone()).or_insert(next);
        }
        tools.sort_by_key(|tool| self.places.get(&tool.name).copied());
        self.made_of = Some(MadeOf { generations, config: config.clone() });
        let is_changed = *self.tools != *tools;
        self.tools = tools.into();
        is_changed.then(|| self.tools.clone())
    }

    /// Of these servers those that still start for the first time, so that their tools are missing. Each is
    /// returned once.
    pub(super) fn late(&mut self, servers: &[mcp::Server]) -> Vec<String> {
        let late = servers.iter().filter(|server| {
            server.catalog().is_none() && matches!(server.state(), mcp::State::Starting)
        });
        late.map(|server| server.name().to_owned())
            .filter(|name| self.late.insert(name.clone()))
            .collect()
    }

    /// The skills of the servers, as they are known now.
    pub(super) fn skills(&self) -> Vec<RemoteSkill> {
        let digest = read_digest().bytes();
        let reading = self.tools.iter().filter(|tool| tool.target.digest == digest);
        let skills = reading.filter_map(|tool| {
            let server = self.servers.iter().find(|it| it.name() == tool.target.server)?;
            Some(for_catalog(server, &tool.name))
        });
        skills.flatten().collect()
    }

    /// Returns whether a server is defined as it was when the tools were offered: another one under
    /// its name may be trusted less.
    pub(super) fn is_bound_to(&self, server: &mcp::Server) -> bool {
        self.servers.iter().any(|bound| bound.definition() == server.definition())
    }
}

/// The servers whose tools are known, by name.
type Known<'s> = BTreeMap<String, (&'s mcp::Definition, Arc<Catalog>)>;

/// The tools of these servers, by the names of server and tool. Of two with one name, only the first
/// is offered.
fn tools(known: &Known<'_>, config: &Config) -> Vec<ServerTool> {
    let apps = Apps::new(config);
    let mut names = BTreeSet::new();
    let mut offered = Vec::new();
    for (server, (definition, catalog)) in known {
        let Some(entry) = config.mcp_servers.get(server) else { continue };
        let is_trusted = !config.untrusted_servers.contains(server);
        let server_digest = definition.digest().bytes();
        let mut listed: Vec<&Arc<Tool>> = catalog.tools.iter().collect();
        // The order of a list says nothing, and may change from one list to the next.
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        for tool in listed {
            let connector = apps.connector(tool);
            if connector.as_ref().is_some_and(|connector| !apps.offers(connector, tool)) {
                continue;
            }
            let by_server = mode(entry, &tool.name);
            let chosen = match &connector {
                Some(connector) => apps.mode(connector, &tool.name, by_server),
                None => by_server,
            };
            let approval = user_approval(chosen, is_trusted);
            let name = model_name(server, &tool.name);
            if !names.insert(name.clone()) {
                tracing::warn!(
                    target: "server::mcp",
                    "the tool `{}` of `{server}` has the name of another one and is not offered",
                    tool.name
                );
                continue;
            }
            let target = ToolTarget {
                server: server.clone(),
                tool: tool.name.clone(),
                title: title(&tool.json),
                digest: tool.digest.bytes(),
                server_digest,
                effect: effect(tool.hints, is_trusted),
                approval,
                connector,
                app_resource: app_resource(&tool.json),
            };
            offered.push(ServerTool {
                name,
                description: description(&tool.json),
                schema: tool.parameters.to_string(),
                target: Arc::new(target),
            });
        }
        if !catalog.skills.is_empty() {
            let name = model_name(server, READ_TOOL);
            // A tool of the server that has this name keeps it.
            let is_free = names.insert(name.clone());
            let name = if is_free { name } else { model_name(server, "read skill file") };
            let by_server = mode(entry, READ_TOOL);
            let approval = user_approval(by_server, is_trusted);
            offered.push(skill_reader((server, server_digest), name, approval));
        }
    }
    offered
}

/// The tool that reads files of a server's skills.
fn skill_reader(
    (server, server_digest): (&str, [u8; 16]),
    name: String,
    approval: ToolApproval,
) -> ServerTool {
    let target = ToolTarget {
        server: server.to_owned(),
        tool: READ_TOOL.to_owned(),
        title: None,
        digest: read_digest().bytes(),
        server_digest,
        effect: ToolEffect::ReadOnly,
        approval,
        connector: None,
        app_resource: None,
    };
    ServerTool {
        name,
        description: READ_DESCRIPTION.to_owned(),
        schema: read_schema().to_string(),
        target: Arc::new(target),
    }
}

/// Returns the user's choice about approvals. It is not meant for a server or an app that a project
/// or a client has put in the place of the user's own.
fn user_approval(chosen: Option<Mode>, is_trusted: bool) -> ToolApproval {
    match approval(chosen) {
        ToolApproval::Approve if !is_trusted => ToolApproval::Auto,
        approval => approval,
    }
}

/// Returns the model's name for a tool: `mcp__SERVER__TOOL` where that is a name of a function and
/// can only be read in one way; otherwise a similar name that ends with a digest of both.
fn model_name(server: &str, tool: &str) -> String {
    let plain = format!("mcp__{server}__{tool}");
    let is_unambiguous = !server.contains("__") && !server.ends_with('_') && !server.is_empty();
    if is_unambiguous && plain.len() <= MAX_NAME && plain.chars().all(is_of_name) {
        return plain;
    }
    let digest = Sha256::digest(format!("{server}\0{tool}"));
    let mark: String = digest.iter().map(|byte| format!("{byte:02x}")).take(MARK / 2).collect();
    let similar = plain.chars().map(|letter| if is_of_name(letter) { letter } else { '_' });
    let similar: String = similar.take(MAX_NAME - MARK - 1).collect();
    format!("{similar}_{mark}")
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// Returns the effect of a tool by its server's description, which counts against it always, and
/// for it only where the server is trusted.
fn effect(hints: Hints, is_trusted: bool) -> ToolEffect {
    match (hints.destructive, hints.read_only) {
        (Some(true), _) => ToolEffect::Destructive,
        (_, Some(true)) if is_trusted => ToolEffect::ReadOnly,
        (Some(false), _) if is_trusted => ToolEffect::Additive,
        _ => ToolEffect::Unknown,
    }
}

/// When the user is asked about a tool, as the entry of its server says.
fn mode(entry: &McpServer, tool: &str) -> Option<Mode> {
    let of_tool = entry.tools.get(tool).and_then(|tool| tool.approval_mode);
    of_tool.or(entry.default_tools_approval_mode)
}

fn title(json: &Value) -> Option<String> {
    let title = json.get("title").or_else(|| json.get("annotations")?.get("title"));
    title.and_then(Value::as_str).map(str::to_owned)
}

fn description(json: &Value) -> String {
    let text = json.get("description").and_then(Value::as_str).unwrap_or_default();
    match text.len() > MAX_DESCRIPTION {
        true => format!("{}…", &text[..text.floor_char_boundary(MAX_DESCRIPTION)]),
        false => text.to_owned(),
    }
}

/// Where a client finds a user interface for results of the tool.
fn app_resource(json: &Value) -> Option<String> {
    let meta = json.get("_meta")?;
    let uri = meta.get("ui").and_then(|ui| ui.get("resourceUri")).or(meta.get("ui/resourceUri"));
    uri.and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_functions_and_never_two_tools() {
        let plain = [("files", "read"), ("my-server", "get_x"), ("a_b", "__c"), ("a", "b__c")];
        for (server, tool) in plain {
            assert_eq!(model_name(server, tool), format!("mcp__{server}__{tool}"));
        }
        let long = "x".repeat(200);
        let odd = [
            ("a__b", "c"),
            ("a_", "b"),
            ("a", "read file"),
            ("a", "read.file"),
            ("a", "read/file"),
            ("ä", "b"),
            ("a", "日本"),
            ("", "b"),
            ("a", long.as_str()),
            (long.as_str(), "b"),
        ];
        let mut names = BTreeSet::new();
        for (server, tool) in plain.into_iter().chain(odd) {
            let name = model_name(server, tool);
            assert!(name.len() <= MAX_NAME && name.chars().all(is_of_name), "{name}");
            assert!(name.starts_with("mcp_"), "{name}");
            assert_eq!(name, model_name(server, tool));
            assert!(names.insert(name), "{server} {tool}");
        }
    }

    #[test]
    fn a_server_is_believed_what_speaks_against_it() {
        let hints = |read_only, destructive| Hints { read_only, destructive, ..Hints::default() };
        let (yes, no) = (Some(true), Some(false));
        for (hints, trusted, untrusted) in [
            (hints(None, None), ToolEffect::Unknown, ToolEffect::Unknown),
            (hints(None, yes), ToolEffect::Destructive, ToolEffect::Destructive),
            (hints(no, yes), ToolEffect::Destructive, ToolEffect::Destructive),
            (hints(None, no), ToolEffect::Additive, ToolEffect::Unknown),
            (hints(yes, None), ToolEffect::ReadOnly, ToolEffect::Unknown),
            (hints(yes, yes), ToolEffect::Destructive, ToolEffect::Destructive),
            (hints(no, None), ToolEffect::Unknown, ToolEffect::Unknown),
        ] {
            assert_eq!((effect(hints, true), effect(hints, false)), (trusted, untrusted));
        }
    }
}
