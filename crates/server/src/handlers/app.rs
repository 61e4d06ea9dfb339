//! Apps, for clients.

use protocol::AppMethods;
use protocol::app::{AppInfo, AppListParams, AppListResponse};

use crate::handlers::page::PAGE;
use crate::server::Server;
use services::error::Error;
use services::peer::Caller;
use services::warnings;

impl AppMethods<Caller> for Server {
    /// By id. Waits for servers that start; those that fail are reported to the client. The cursor is the
    /// id of the last app of the page before.
    async fn app_list(
        &self,
        caller: Caller,
        params: AppListParams,
    ) -> Result<AppListResponse, Error> {
        let AppListParams { cursor, limit, thread_id, force_refetch } = params;
        let mcp = &self.services.mcp;
        let (apps, problems) = match thread_id {
            Some(thread) => {
                self.loaded_thread(&thread).await?;
                mcp.apps_of_thread(&thread, force_refetch).await?
            }
            None => {
                let cwd = &self.services.options.cwd;
                let loaded = self.services.configurations.in_folder(cwd, None).await?;
                mcp.apps_of_folder(cwd, &loaded.resolved.config, force_refetch).await
            }
        };
        for problem in problems {
            warnings::send_warning(&caller.peer, problem);
        }
        page(apps, cursor.as_deref(), limit)
    }
}

fn page(
    mut apps: Vec<AppInfo>,
    cursor: Option<&str>,
    limit: Option<u32>,
) -> Result<AppListResponse, Error> {
    if let Some(cursor) = cursor {
        let at = apps.iter().position(|app| app.id == cursor).ok_or_else(|| {
            Error::invalid_params("`cursor` is not a cursor of this list")
                .next_step("begin the list without a cursor")
        })?;
        apps.drain(..=at);
    }
    let rows = PAGE.rows(limit) as usize;
    let has_more = apps.len() > rows;
    apps.truncate(rows);
    let next_cursor = apps.last().filter(|_| has_more).map(|app| app.id.clone());
    Ok(AppListResponse { data: apps, next_cursor })
}
