//! The task of a server: starts it, watches it, starts it again after a while when it ends, and ends it
//! when it is no longer wanted.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientRequest, ListToolsRequest, SubscriptionFilter};
use tokio::time::{Instant, sleep, timeout};

use crate::calls::ActiveCall;
use crate::catalog::{Builder, Catalog};
use crate::connect::{Connection, Connector};
use crate::eras::Era;
use crate::error::{Error, ErrorKind};
use crate::server::pages::Pages;
use crate::server::requests::value;
use crate::server::skills;
use crate::server::{Live, Server, Shared, State};

/// Pause before the first new start; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Failed starts after which a server is started again only when it is next needed.
const MAX_ATTEMPTS: u32 = 8;
/// A server that ran for this long begins with the first pause again.
const STEADY: Duration = Duration::from_secs(60);
/// Shortest time between two lists of tools.
const REFRESH_PAUSE: Duration = Duration::from_millis(500);
/// Maximum wait for a list of changed tools.
const LONGEST_LIST: Duration = Duration::from_secs(300);
/// Pages of a list of tools.
const MAX_PAGES: usize = 100;

/// Runs a server until it is stopped.
pub(crate) async fn run(shared: Arc<Shared>, connector: Arc<Connector>) {
    tokio::select! {
        () = keep_running(&shared, &connector) => {}
        () = shared.stopped() => {}
    }
    // The connection was dropped, which ends the program.
    shared.set_live(None);
    shared.set_state(State::Cancelled);
}

async fn keep_running(shared: &Arc<Shared>, connector: &Connector) {
    let mut attempts = 0;
    loop {
        shared.set_state(State::Starting);
        let begun = Instant::now();
        let error = match start(shared, connector).await {
            Ok((connection, catalog)) => {
                shared.set_live(Some(connection.live.clone()));
                warn(&catalog);
                shared.set_state(State::Ready(Arc::new(catalog)));
                let begun = Instant::now();
                let error = tokio::select! {
                    error = serve(shared, connection) => Some(error),
                    () = shared.reconnect.notified() => None,
                };
                shared.set_live(None);
                if begun.elapsed() >= STEADY {
                    attempts = 0;
                }
                match error {
                    Some(error) => error,
                    None => continue,
                }
            }
            Err(error) => error,
        };
        let (name, seconds) = (&shared.definition.name, begun.elapsed().as_secs());
        tracing::warn!(target: "mcp", "the server `{name}` failed after {seconds} s: {error}");
        let can_recover = !matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::Configuration);
        attempts += 1;
        let pause = (can_recover && attempts < MAX_ATTEMPTS)
            .then(|| FIRST_PAUSE.saturating_mul(1 << (attempts - 1)).min(LONGEST_PAUSE));
        shared.set_next_start(pause.map(|pause| Instant::now() + pause));
        shared.set_state(State::Failed(error));
        match pause {
            // A wish for the server ends the pause.
            Some(pause) => drop(timeout(pause, shared.wake.notified()).await),
            None => {
                shared.wake.notified().await;
                attempts = 0;
            }
        }
    }
}

/// Connects and lists the tools and skills, within the time limit of a start.
async fn start(
    shared: &Arc<Shared>,
    connector: &Connector,
) -> Result<(Connection, Catalog), Error> {
    let limit = shared.definition.startup_timeout;
    let work = async {
        let connection = connector.connect(shared).await?;
        let changes = shared.tool_changes();
        let listed = catalog(shared, &connection.live).await;
        let catalog = listed.map_err(|error| match connection.live.end.get() {
            Some(reason) => ended(&reason),
            None => error,
        })?;
        shared.set_listed_changes(changes);
        Ok((connection, catalog))
    };
    match timeout(limit, work).await {
        Ok(started) => started,
        Err(_) => {
            let seconds = limit.as_secs_f64();
            let message = format!(
                "the server was not ready within {seconds} s; set `startup_timeout_sec` if it needs \
                 more time"
            );
            Err(Error::new(ErrorKind::TimedOut, message))
        }
    }
}

/// Watches a connection to its end. Returns why it ended.
async fn serve(shared: &Arc<Shared>, connection: Connection) -> Error {
    let Connection { service, live, era } = connection;
    // Dropped, it ends the connection.
    let mut closed = std::pin::pin!(service.waiting());
    let mut changes = std::pin::pin!(changes(shared, &live, era));
    let mut relisting = std::pin::pin!(relisting(shared, &live));
    loop {
        tokio::select! {
            _ = &mut closed => break,
            () = &mut changes => break,
            () = &mut relisting => break,
            () = shared.roots_changed.notified() => {
                if era == Era::Handshake {
                    // A server that is gone is noticed elsewhere.
                    let _ = live.peer.notify_roots_list_changed().await;
                }
            }
        }
    }
    live.end.get().map_or_else(Error::ended, |reason| ended(&reason))
}

/// Lists the tools again whenever they have changed. Never returns.
async fn relisting(shared: &Shared, live: &Live) {
    loop {
        shared.refresh.notified().await;
        relist(shared, live).await;
        // A server that reports a change with each list is asked no more often.
        sleep(REFRESH_PAUSE).await;
    }
}

/// Lists the changed tools, and tries again when that fails. A list that takes long is taken when it arrives,
/// unless a further change makes it outdated before.
async fn relist(shared: &Shared, live: &Live) {
    let name = &shared.definition.name;
    for attempt in 0..MAX_ATTEMPTS {
        let changes = shared.tool_changes();
        let mut listed = std::pin::pin!(refresh(shared, live, LONGEST_LIST));
        let done = match timeout(shared.definition.startup_timeout, &mut listed).await {
            Ok(done) => done,
            Err(_) => {
                // What waits for the list goes on with the previous one.
                shared.set_listed_changes(changes);
                tracing::warn!(target: "mcp", "`{name}` takes long to list its changed tools");
                tokio::select! {
                    biased;
                    done = listed => done,
                    () = shared.refresh.notified() => continue,
                }
            }
        };
        shared.set_listed_changes(changes);
        let Err(error) = done else { return };
        tracing::warn!(target: "mcp", "the changed tools of `{name}` cannot be read: {error}");
        let pause = FIRST_PAUSE.saturating_mul(1 << attempt).min(LONGEST_PAUSE);
        // A further change ends the pause.
        drop(timeout(pause, shared.refresh.notified()).await);
    }
}

/// Subscribes to changes of the lists where a server of the new era announces them. Never returns.
async fn changes(shared: &Arc<Shared>, live: &Live, era: Era) {
    let filter = announced(live);
    if era == Era::Discover
        && filter != SubscriptionFilter::default()
        && let Ok(mut subscription) = live.peer.listen(filter).await
    {
        // The changes themselves are handled as they arrive.
        while let Ok(Some(_)) = subscription.next().await {}
        let name = &shared.definition.name;
        tracing::debug!(target: "mcp", "the server `{name}` ended its subscription");
    }
    std::future::pending::<()>().await;
}

/// The lists whose changes the server announces.
fn announced(live: &Live) -> SubscriptionFilter {
    let capabilities = &live.capabilities;
    let is_set = |announces: Option<bool>| announces.filter(|announces| *announces);
    let mut filter = SubscriptionFilter::default();
    filter.tools_list_changed =
        is_set(capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
    filter.resources_list_changed =
        is_set(capabilities.resources.as_ref().and_then(|resources| resources.list_changed));
    filter.prompts_list_changed =
        is_set(capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
    filter
}

impl Server {
    /// As [`Server::ready`], with the tools requested again.
    ///
    /// # Errors
    /// Why it failed, or why the list cannot be read.
    pub async fn refetch(&self) -> Result<Arc<Catalog>, Error> {
        self.ready().await?;
        if let Some(live) = self.shared.live() {
            refresh(&self.shared, &live, self.shared.definition.startup_timeout).await?;
        }
        self.ready().await
    }
}

/// Lists the tools again, within a limit. A list that cannot be read leaves the previous one in force.
///
/// # Errors
/// The list cannot be read in time.
async fn refresh(shared: &Shared, live: &Live, limit: Duration) -> Result<(), Error> {
    let listed = async {
        // The list that was requested last is in force.
        let _listing = shared.listing.lock().await;
        let catalog = catalog(shared, live).await?;
        let State::Ready(before) = shared.state.borrow().clone() else { return Ok(()) };
        if catalog.tools != before.tools || catalog.skills != before.skills {
            warn(&catalog);
            shared.replace_catalog(Arc::new(catalog));
        }
        Ok(())
    };
    timeout(limit, listed).await.unwrap_or_else(|_| {
        let seconds = limit.as_secs_f64();
        let message = format!("the server did not list its tools within {seconds} s");
        Err(Error::new(ErrorKind::TimedOut, message))
    })
}

/// The tools and the skills.
async fn catalog(shared: &Shared, live: &Live) -> Result<Catalog, Error> {
    let skills = async { Ok(skills::list(shared, live).await) };
    let ((mut catalog, age), skills) = tokio::try_join!(tools(shared, live), skills)?;
    let ages = [age, skills.age].into_iter().filter(|age| !age.is_zero());
    shared.set_tools_age(ages.min().unwrap_or_default());
    catalog.skills = skills.skills;
    catalog.warnings.extend(skills.warnings);
    Ok(catalog)
}

/// The tools of all pages, and for how long the server allows them to be kept.
async fn tools(shared: &Shared, live: &Live) -> Result<(Catalog, Duration), Error> {
    let mut builder = Builder::new(&shared.definition);
    let mut is_whole = live.capabilities.tools.is_none();
    let active = ActiveCall::new(None, None, None);
    let _ended = active.end_on_drop();
    let mut pages = Pages::default();
    for _ in 0..MAX_PAGES {
        if is_whole {
            break;
        }
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(pages.params()));
        let answer = shared.send(live, &active, None, request).await?;
        let entries = pages.take(&value(&answer)?, "tools")?;
        is_whole = pages.are_all();
        if !builder.add(entries) {
            break;
        }
    }
    let age = if live.capabilities.tools.is_some() { pages.age() } else { Duration::ZERO };
    Ok((builder.finish(shared.next_generation(), is_whole), age))
}

fn warn(catalog: &Catalog) {
    for warning in &catalog.warnings {
        tracing::warn!(target: "mcp", "{warning}");
    }
}

fn ended(reason: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the server ended: {reason}"))
}
