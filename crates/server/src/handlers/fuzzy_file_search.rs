//! Search of files by approximate name: once, or in sessions whose query changes (experimental).

use std::path::PathBuf;
use std::sync::Arc;

use file_search::{Hit, Query, Report};
use protocol::{
    Empty, FuzzyFileSearchMatchType, FuzzyFileSearchParams, FuzzyFileSearchResponse,
    FuzzyFileSearchResult, FuzzyFileSearchSessionCompleted,
    FuzzyFileSearchSessionCompletedNotification, FuzzyFileSearchSessionStartParams,
    FuzzyFileSearchSessionStopParams, FuzzyFileSearchSessionUpdateParams,
    FuzzyFileSearchSessionUpdated, FuzzyFileSearchSessionUpdatedNotification, FuzzyMethods,
};

use crate::server::Server;
use services::error::Error;
use services::folders::absolute;
use services::peer::{Caller, Peer};
use services::warnings;

/// Most roots of a search.
const MAX_ROOTS: usize = 16;
/// Longest id of a session, and longest token, in bytes.
const MAX_ID: usize = 256;

impl FuzzyMethods<Caller> for Server {
    /// Ends early when the client disconnects.
    async fn fuzzy_file_search(
        &self,
        caller: Caller,
        params: FuzzyFileSearchParams,
    ) -> Result<FuzzyFileSearchResponse, Error> {
        if let Some(token) = &params.cancellation_token {
            check_id("cancellationToken", token)?;
        }
        let query = Query::new(&params.query)?;
        let folders = folders(&params.roots)?;
        let searches = &self.services.searches;
        let one_shot = searches.begin(caller.peer.id, params.cancellation_token);
        caller.begun();
        let hits = searches.search(&one_shot, folders, query).await?;
        Ok(FuzzyFileSearchResponse { files: results(&params.roots, hits) })
    }

    async fn fuzzy_file_search_session_start(
        &self,
        caller: Caller,
        params: FuzzyFileSearchSessionStartParams,
    ) -> Result<Empty, Error> {
        let FuzzyFileSearchSessionStartParams { session_id, roots } = params;
        check_id("sessionId", &session_id)?;
        let folders = folders(&roots)?;
        let searches = self.services.searches.clone();
        let starting = searches.register(caller.peer.id, session_id.clone())?;
        caller.begun();
        let report = reporter(caller.peer.clone(), session_id, roots);
        let session = searches.start(folders, report).await?;
        let gate = caller.gate();
        tokio::spawn(async move {
            // What a session finds is sent after the response.
            gate.opened().await;
            searches.run(&starting, session);
        });
        Ok(Empty {})
    }

    async fn fuzzy_file_search_session_update(
        &self,
        caller: Caller,
        params: FuzzyFileSearchSessionUpdateParams,
    ) -> Result<Empty, Error> {
        let query = Query::new(&params.query)?;
        let searches = self.services.searches.clone();
        let connection = caller.peer.id;
        let order = searches.next_query(connection, &params.session_id)?;
        let gate = caller.gate();
        tokio::spawn(async move {
            gate.opened().await;
            searches.update(connection, params.session_id, order, query);
        });
        Ok(Empty {})
    }

    async fn fuzzy_file_search_session_stop(
        &self,
        caller: Caller,
        params: FuzzyFileSearchSessionStopParams,
    ) -> Result<Empty, Error> {
        self.services.searches.stop(caller.peer.id, &params.session_id)?;
        Ok(Empty {})
    }
}

/// Sends a session's client what it reports.
fn reporter(
    peer: Arc<Peer>,
    session_id: String,
    roots: Vec<String>,
) -> impl FnMut(Report<'_>) + Send + 'static {
    move |report| match report {
        Report::Results(query, hits) => {
            peer.notify::<FuzzyFileSearchSessionUpdated>(
                &FuzzyFileSearchSessionUpdatedNotification {
                    session_id: session_id.clone(),
                    query: query.to_owned(),
                    files: results(&roots, hits),
                },
            );
        }
        Report::Complete => {
            let session_id = session_id.clone();
            peer.notify::<FuzzyFileSearchSessionCompleted>(
                &FuzzyFileSearchSessionCompletedNotification { session_id },
            );
        }
        Report::Failed(error) => {
            warnings::send_warning(&peer, format!("file search `{session_id}`: {error}"));
        }
    }
}

fn folders(roots: &[String]) -> Result<Vec<PathBuf>, Error> {
    let count = roots.len();
    if !(1..=MAX_ROOTS).contains(&count) {
        return Err(Error::invalid_params(format!(
            "`roots` must name 1 to {MAX_ROOTS} folders, found {count}"
        )));
    }
    let folders = roots.iter().enumerate();
    folders.map(|(at, root)| absolute(&format!("roots[{at}]"), root)).collect()
}

fn check_id(member: &str, id: &str) -> Result<(), Error> {
    if (1..=MAX_ID).contains(&id.len()) {
        return Ok(());
    }
    Err(Error::invalid_params(format!(
        "`{member}` must have 1 to {MAX_ID} bytes, found {}",
        id.len()
    )))
}

fn results(roots: &[String], hits: Vec<Hit>) -> Vec<FuzzyFileSearchResult> {
    let result = |hit: Hit| FuzzyFileSearchResult {
        root: roots.get(hit.root).cloned().unwrap_or_default(),
        match_type: match hit.is_folder {
            true => FuzzyFileSearchMatchType::Directory,
            false => FuzzyFileSearchMatchType::File,
        },
        file_name: hit.file_name().to_owned(),
        score: hit.score,
        indices: (!hit.indices.is_empty()).then_some(hit.indices),
        path: hit.path,
    };
    hits.into_iter().map(result).collect()
}
