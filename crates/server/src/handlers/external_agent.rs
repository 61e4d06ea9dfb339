//! The configuration and the sessions of other agents: what there is, and taking it over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::edit::Edit;
use migration::sessions::{self, SessionFile};
use migration::{Agent, IsChosen, Item, Kind, Part, Plan, Roots};
use protocol::config::{ConfigEdit, MergeStrategy};
use protocol::external_agent::{
    ExternalAgentConfigDetectParams, ExternalAgentConfigDetectResponse,
    ExternalAgentConfigImportParams, ExternalAgentConfigMigrationItem as WireItem,
    ExternalAgentConfigMigrationItemType as ItemType, MigrationDetails, NamedMigration,
    SessionMigration,
};
use protocol::{Empty, ExternalAgentConfigImportCompleted, ExternalAgentMethods};
use tokio::sync::Mutex;

use crate::imported_sessions::{self, Defaults};
use crate::imports::{self, Offer, Writes};
use crate::server::Server;
use services::error::Error;
use services::folders::{absolute, check_cwd};
use services::peer::Caller;
use services::warnings;

/// Folders and items of one request.
const MAX_GIVEN: usize = 64;
/// Time limit for reading or writing.
const FILES_TIMEOUT: Duration = Duration::from_secs(60);

/// Held by an import: two of them must not both add to a file that neither has read since.
static IMPORTING: Mutex<()> = Mutex::const_new(());

impl ExternalAgentMethods<Caller> for Server {
    /// Returns the items that are left to import. Files that cannot be used are reported by
    /// `configWarning`.
    async fn external_agent_config_detect(
        &self,
        caller: Caller,
        params: ExternalAgentConfigDetectParams,
    ) -> Result<ExternalAgentConfigDetectResponse, Error> {
        let roots = imports::roots(&self.services.options)?;
        let cwds = params.cwds.unwrap_or_default();
        at_most("cwds", cwds.len())?;
        let mut places = Vec::new();
        if params.include_home {
            places.push(None);
        }
        for cwd in &cwds {
            places.push(Some(self.project("cwds", cwd).await?));
        }
        let mut items = Vec::new();
        for project in places {
            let (offers, problems) = self.offers(&roots, project).await?;
            for problem in problems {
                warnings::send_plain(&caller.peer, problem);
            }
            let left = offers.iter().filter(|offer| !offer.plan.parts.is_empty());
            items.extend(left.map(|offer| wire_item(offer, &roots)));
        }
        if params.include_home {
            items.extend(self.offered_sessions(&caller, &roots).await?);
        }
        Ok(ExternalAgentConfigDetectResponse { items })
    }

    /// Imports items as they were detected; `details` may name fewer parts. All items are checked before
    /// the first is written, and each is written completely or not at all.
    async fn external_agent_config_import(
        &self,
        caller: Caller,
        params: ExternalAgentConfigImportParams,
    ) -> Result<Empty, Error> {
        let roots = imports::roots(&self.services.options)?;
        at_most("migrationItems", params.migration_items.len())?;
        let _importing = IMPORTING.lock().await;
        let (mut parts, mut sessions) = (Vec::new(), Vec::new());
        for (at, item) in params.migration_items.iter().enumerate() {
            let place = format!("`migrationItems[{at}]`");
            match self.find(&roots, item).await.map_err(|error| error.within(&place))? {
                Chosen::Parts(offer, names) => parts.push((*offer, names)),
                Chosen::Sessions(files) => sessions.extend(files),
            }
        }
        let writes = self.prepare_parts(&roots, parts).await?;
        self.check_settings(&roots, &writes).await?;
        self.check_sessions(&sessions).await?;
        for writes in writes {
            self.import_parts(&caller, writes).await?;
        }
        self.import_sessions(sessions).await?;
        self.services.configurations.source().reload();
        self.services.skills.announce_change();
        let (peer, gate) = (caller.peer.clone(), caller.gate());
        tokio::spawn(async move {
            gate.opened().await;
            peer.notify::<ExternalAgentConfigImportCompleted>(&Empty {});
        });
        Ok(Empty {})
    }
}

/// A client's choice for an import, found again by the server.
enum Chosen {
    /// The parts with these names, or all.
    Parts(Box<Offer>, Option<BTreeSet<String>>),
    Sessions(Vec<SessionFile>),
}

impl Server {
    async fn project(&self, member: &str, cwd: &str) -> Result<PathBuf, Error> {
        let folder = check_cwd(&self.services.files, absolute(member, cwd)?).await?;
        let place = folder.clone();
        let real = self.services.files.run(&folder, move || place.canonicalize()).await?;
        real.map_err(|error| Error::invalid_params(format!("`{member}`: {cwd}: {error}")))
    }

    async fn offers(
        &self,
        roots: &Roots,
        project: Option<PathBuf>,
    ) -> Result<(Vec<Offer>, Vec<String>), Error> {
        let place = project.clone().unwrap_or_else(|| roots.user_home.clone());
        let roots = roots.clone();
        let reading = self
            .services
            .files
            .run_within(FILES_TIMEOUT, &place, move || imports::offers(&roots, project.as_deref()));
        Ok(reading.await?)
    }

    async fn session_files(&self, roots: &Roots) -> Result<(Vec<SessionFile>, Vec<String>), Error> {
        let home = roots.user_home.clone();
        let reading = self.services.files.run_within(FILES_TIMEOUT, &roots.user_home, move || {
            let (found, problems) = sessions::files(&home);
            (found, problems.iter().map(ToString::to_string).collect())
        });
        Ok(reading.await?)
    }

    /// The newest sessions that are not imported yet.
    async fn offered_sessions(
        &self,
        caller: &Caller,
        roots: &Roots,
    ) -> Result<Vec<WireItem>, Error> {
        let (found, problems) = self.session_files(roots).await?;
        for problem in problems {
            warnings::send_plain(&caller.peer, problem);
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let store = self.services.store.get().await?;
        let mut items: Vec<(Agent, Vec<SessionMigration>)> = Vec::new();
        let mut count = 0;
        for file in found {
            if store.thread(&file.thread_id()).await?.is_some() {
                continue;
            }
            let Some(session) = self.shown_session(&file).await? else { continue };
            match items.iter_mut().find(|(agent, _)| *agent == file.agent) {
                Some((_, sessions)) => sessions.push(session),
                None => items.push((file.agent, vec![session])),
            }
            count += 1;
            if count == sessions::MAX_OFFERED {
                break;
            }
        }
        Ok(items.into_iter().map(session_item).collect())
    }

    /// Returns a session as clients see it; `None` if it cannot be imported.
    async fn shown_session(&self, file: &SessionFile) -> Result<Option<SessionMigration>, Error> {
        let (place, of) = (file.path.clone(), file.clone());
        let reading = self.services.files.run(&place, move || sessions::read_head(&of));
        let Ok(head) = reading.await? else { return Ok(None) };
        // A file without a message of the user, such as one that was cut off, has nothing to show.
        let (Some(cwd), false) = (head.cwd, head.turns.is_empty()) else { return Ok(None) };
        // A thread cannot have a folder that depends on where a program was started.
        if !Path::new(&cwd).is_absolute() {
            return Ok(None);
        }
        let path = file.path.to_string_lossy().into_owned();
        Ok(Some(SessionMigration { path, cwd, title: head.title }))
    }

    /// Returns the server's own findings for an item of a client.
    async fn find(&self, roots: &Roots, item: &WireItem) -> Result<Chosen, Error> {
        if item.item_type == ItemType::Sessions {
            return self.find_sessions(roots, item).await;
        }
        let project = match &item.cwd {
            Some(cwd) => Some(self.project("cwd", cwd).await?),
            None => None,
        };
        let (mut offers, problems) = self.offers(roots, project).await?;
        offers.retain(|offer| item_type(offer.item.kind) == item.item_type);
        let found =
            offers.iter().position(|offer| imports::description(offer, roots) == item.description);
        let Some(offer) = found.map(|at| offers.swap_remove(at)) else {
            let why = match offers.is_empty() && !problems.is_empty() {
                // Its source may be among them.
                true => format!("; these files cannot be used: {}", problems.join("; ")),
                false => ", or its source has changed since it was shown".to_owned(),
            };
            return Err(not_offered(&format!("there is no such item any longer{why}")));
        };
        let names = match &item.details {
            Some(details) => chosen_names(offer.item.kind, details)?,
            None => None,
        };
        let is_known = |name: &&String| offer.item.parts.iter().any(|part| part.name == **name);
        if let Some(unknown) = names.iter().flatten().find(|name| !is_known(name)) {
            return Err(not_offered(&format!("it has no part `{}`", visible::exact(unknown))));
        }
        Ok(Chosen::Parts(Box::new(offer), names))
    }

    async fn find_sessions(&self, roots: &Roots, item: &WireItem) -> Result<Chosen, Error> {
        if item.cwd.is_some() {
            return Err(not_offered("sessions have no `cwd`"));
        }
        let given = item.details.as_ref().map(|details| &*details.sessions).unwrap_or_default();
        if given.is_empty() || given.len() > sessions::MAX_OFFERED {
            return Err(Error::invalid_params(format!(
                "`details.sessions` must name 1 to {} sessions, not {}",
                sessions::MAX_OFFERED,
                given.len()
            )));
        }
        let (found, _) = self.session_files(roots).await?;
        let mut files = Vec::with_capacity(given.len());
        for session in given {
            let file = found.iter().find(|file| file.path == Path::new(&session.path));
            let file = file.ok_or_else(|| {
                not_offered(&format!("there is no session {}", visible::exact(&session.path)))
            })?;
            if self.shown_session(file).await?.as_ref() != Some(session) {
                let path = visible::exact(&session.path);
                let why = format!("the session {path} has changed since it was shown");
                return Err(not_offered(&why));
            }
            files.push(file.clone());
        }
        Ok(Chosen::Sessions(files))
    }

    /// Returns the changes for the chosen parts, for the home and each project.
    async fn prepare_parts(
        &self,
        roots: &Roots,
        chosen: Vec<(Offer, Option<BTreeSet<String>>)>,
    ) -> Result<Vec<Writes>, Error> {
        let mut places: BTreeMap<Option<PathBuf>, Vec<_>> = BTreeMap::new();
        for (offer, names) in chosen {
            places.entry(offer.item.project.clone()).or_default().push((offer, names));
        }
        let mut all = Vec::with_capacity(places.len());
        for (project, chosen) in places {
            let (place, roots) = (roots.write_root(project.as_deref()), roots.clone());
            let planning = self.services.files.run_within(FILES_TIMEOUT, &place, move || {
                imports::prepared(planned(&chosen, project.as_deref(), &roots)?, project, &roots)
            });
            all.push(planning.await??);
        }
        Ok(all)
    }

    /// Checks that the user's file could have the settings.
    async fn check_settings(&self, roots: &Roots, writes: &[Writes]) -> Result<(), Error> {
        let of_home = writes.iter().find(|writes| writes.project.is_none());
        let edits: Vec<Edit> = of_home.iter().flat_map(|of| imports::edits(&of.plan)).collect();
        if edits.is_empty() {
            return Ok(());
        }
        let (source, roots) = (self.services.configurations.source().clone(), roots.clone());
        let place = roots.agent_home.clone();
        let checking = self.services.files.run(&place, move || {
            let text = migration::configuration_text(&roots, None, config::CONFIG_FILE);
            let text = text.map_err(|error| Error::failed(error.to_string()))?.unwrap_or_default();
            let text = config::edit::apply(&text, &edits)
                .map_err(|error| Error::failed(error.to_string()))?;
            source.check_text(&text, &edits)?;
            Ok::<_, Error>(())
        });
        checking.await?
    }

    async fn import_parts(&self, caller: &Caller, writes: Writes) -> Result<(), Error> {
        let place = writes.project.clone().unwrap_or_else(|| self.services.options.home.clone());
        let writing = self.services.files.run_within(FILES_TIMEOUT, &place, move || {
            imports::write_files(&writes)?;
            Ok::<_, Error>(writes)
        });
        let Writes { project, plan, .. } = writing.await??;
        if project.is_some() || plan.settings.is_empty() {
            return Ok(());
        }
        let edits = imports::edits(&plan).map(|edit| ConfigEdit {
            key_path: edit.key_path,
            value: edit.value,
            merge_strategy: MergeStrategy::Replace,
        });
        self.write(caller, edits.collect(), None, None).await.map(drop)
    }

    /// Checks that each session can be read.
    async fn check_sessions(&self, files: &[SessionFile]) -> Result<(), Error> {
        for file in files {
            let (place, of) = (file.path.clone(), file.clone());
            let reading = self
                .services
                .files
                .run_within(FILES_TIMEOUT, &place, move || sessions::read(&of).map(drop));
            reading.await?.map_err(|error| Error::failed(error.to_string()))?;
        }
        Ok(())
    }

    async fn import_sessions(&self, files: Vec<SessionFile>) -> Result<(), Error> {
        let store = self.services.store.get().await?;
        for file in files {
            let thread = file.thread_id();
            if store.thread(&thread).await?.is_some() {
                continue;
            }
            let (place, of) = (file.path.clone(), file.clone());
            let pool = &self.services.files;
            let reading = pool.run_within(FILES_TIMEOUT, &place, move || sessions::read(&of));
            let session = reading.await?.map_err(|error| Error::failed(error.to_string()))?;
            let options = &self.services.options;
            let config = self.services.configurations.own()?.resolved.config;
            let settings = self.services.defaults.settings(&config, &options.cwd);
            let defaults = Defaults {
                model: settings.model.to_string(),
                model_provider: settings.provider.clone(),
                version: options.version.clone(),
                source: options.session_source.clone(),
                now: options.clock.now_ms() / 1000,
            };
            store.commit(imported_sessions::writes(&file, &session, defaults)?).await?;
            self.services.store.release(&thread).await;
        }
        Ok(())
    }
}

/// Returns the changes of the chosen parts of one place's items.
fn planned(
    chosen: &[(Offer, Option<BTreeSet<String>>)],
    project: Option<&Path>,
    roots: &Roots,
) -> Result<Plan, Error> {
    let failed = |error: migration::Error| Error::failed(error.to_string());
    let configuration = migration::configuration(roots, project, config::CONFIG_FILE);
    let configuration = configuration.map_err(failed)?;
    let are_chosen: Vec<_> = chosen
        .iter()
        .map(|(_, names)| {
            move |part: &Part| names.as_ref().is_none_or(|names| names.contains(&part.name))
        })
        .collect();
    let items: Vec<(&Item, IsChosen<'_>)> = chosen
        .iter()
        .zip(&are_chosen)
        .map(|((offer, _), is_chosen)| (&offer.item, is_chosen as IsChosen<'_>))
        .collect();
    let plan = migration::plan_together(&items, roots, &configuration).map_err(failed)?;
    // Something has taken the place since the items were found.
    let known: Vec<&String> = chosen.iter().flat_map(|(offer, _)| &offer.plan.conflicts).collect();
    match plan.conflicts.iter().find(|new| !known.contains(new)) {
        Some(conflict) => {
            let message = format!("nothing was imported: {conflict}");
            Err(Error::wrong_state(message).next_step("call externalAgentConfig/detect"))
        }
        None => Ok(plan),
    }
}

fn at_most(member: &str, count: usize) -> Result<(), Error> {
    match count {
        0..=MAX_GIVEN => Ok(()),
        _ => Err(Error::invalid_params(format!(
            "`{member}` has {count} entries, at most {MAX_GIVEN} are allowed; send several requests"
        ))),
    }
}

fn not_offered(why: &str) -> Error {
    Error::invalid_params(why)
        .next_step("call externalAgentConfig/detect, and send what it returns")
}

fn item_type(kind: Kind) -> ItemType {
    match kind {
        Kind::Instructions => ItemType::AgentsMd,
        Kind::Permissions | Kind::Settings => ItemType::Config,
        Kind::Skills => ItemType::Skills,
        Kind::McpServers => ItemType::McpServerConfig,
        Kind::Subagents => ItemType::Subagents,
        Kind::Hooks => ItemType::Hooks,
        Kind::Commands => ItemType::Commands,
    }
}

/// The names of parts in the details of a client; `None` for an item without parts to choose from.
///
/// # Errors
/// The details name no part, or parts of another kind: neither means all.
fn chosen_names(kind: Kind, details: &MigrationDetails) -> Result<Option<BTreeSet<String>>, Error> {
    let mut others = details.clone();
    let (member, named) = match kind {
        Kind::McpServers => ("mcpServers", std::mem::take(&mut others.mcp_servers)),
        Kind::Subagents => ("subagents", std::mem::take(&mut others.subagents)),
        Kind::Hooks => ("hooks", std::mem::take(&mut others.hooks)),
        Kind::Commands => ("commands", std::mem::take(&mut others.commands)),
        Kind::Instructions | Kind::Settings | Kind::Permissions | Kind::Skills => ("", Vec::new()),
    };
    if others != MigrationDetails::default() {
        return Err(not_offered("its `details` name parts of another kind of item"));
    }
    if member.is_empty() {
        return Ok(None);
    }
    if named.is_empty() {
        return Err(Error::invalid_params(format!("`details.{member}` is empty"))
            .next_step("leave the item out to import nothing of it, or `details` to import all"));
    }
    Ok(Some(named.into_iter().map(|part| part.name).collect()))
}

fn wire_item(offer: &Offer, roots: &Roots) -> WireItem {
    let Item { kind, project, .. } = &offer.item;
    let parts =
        || offer.plan.parts.iter().map(|name| NamedMigration { name: name.clone() }).collect();
    let mut details = MigrationDetails::default();
    match kind {
        Kind::McpServers => details.mcp_servers = parts(),
        Kind::Subagents => details.subagents = parts(),
        Kind::Hooks => details.hooks = parts(),
        Kind::Commands => details.commands = parts(),
        Kind::Instructions | Kind::Settings | Kind::Permissions | Kind::Skills => {}
    }
    WireItem {
        item_type: item_type(*kind),
        description: imports::description(offer, roots),
        cwd: project.as_ref().map(|project| project.to_string_lossy().into_owned()),
        details: (details != MigrationDetails::default()).then_some(details),
    }
}

fn session_item((agent, sessions): (Agent, Vec<SessionMigration>)) -> WireItem {
    let count = sessions.len();
    WireItem {
        item_type: ItemType::Sessions,
        description: format!(
            "Import {count} sessions of {} as threads, the newest first",
            agent.name()
        ),
        cwd: None,
        details: Some(MigrationDetails { sessions, ..MigrationDetails::default() }),
    }
}
