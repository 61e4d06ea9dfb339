//! An agent: a server and the connection to it.

use std::sync::Arc;

use jsonrpc::Method;
use protocol::{
    InitializeResponse, ThreadForkParams, ThreadIdParams, ThreadListParams, ThreadResumeParams,
    ThreadStartParams,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::UserValue;
use crate::shared::Shared;
use crate::{
    AgentBuilder, Error, Input, Notification, NotificationHandle, StoredThreads, Thread,
    TurnResult, TypedResult,
};

/// A server and the connection to it, which is made again when it is lost, if the server is one that runs elsewhere
/// ([`AgentBuilder::address`]). When the agent is dropped the connection ends, and a server of its own with it; threads
/// and turns that are left return [`Error::ConnectionLost`].
pub struct Agent {
    shared: Arc<Shared>,
    server: InitializeResponse,
    defaults: ThreadStartParams,
}

impl Agent {
    /// The settings of a new agent: which server, which model, and what answers it.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), agentd_embed::Error> {
    /// use agentd_embed::{Agent, Approval};
    ///
    /// let agent = Agent::builder()
    ///     .cwd("/work/project")
    ///     .approve(|approval| async move { matches!(approval, Approval::FileChange(_)) })
    ///     .start()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> AgentBuilder {
        AgentBuilder::default()
    }

    pub(crate) fn new(
        shared: Arc<Shared>,
        server: InitializeResponse,
        defaults: ThreadStartParams,
    ) -> Self {
        Self { shared, server, defaults }
    }

    /// Returns the server's self-description.
    #[must_use]
    pub fn server(&self) -> &InitializeResponse {
        &self.server
    }

    /// Starts a thread. What the parameters leave open is that of the agent: model, working folder, tools.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn thread(&self, params: ThreadStartParams) -> Result<Thread, Error> {
        self.opening(None).thread(params).await
    }

    /// Loads a stored thread.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn resume(&self, thread_id: &str) -> Result<Thread, Error> {
        self.opening(None).resume(thread_id).await
    }

    /// Copies a stored thread.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn fork(&self, thread_id: &str) -> Result<Thread, Error> {
        self.opening(None).fork(thread_id).await
    }

    /// Opens threads with the application's own value for their callbacks and tools: [`crate::CallContext::user`].
    ///
    /// ```no_run
    /// # async fn example(agent: &agentd_embed::Agent) -> Result<(), agentd_embed::Error> {
    /// struct Customer {
    ///     id: u64,
    /// }
    ///
    /// let thread = agent.context(Customer { id: 7 }).resume("0199…").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn context<C: Send + Sync + 'static>(&self, value: C) -> InContext<'_> {
        self.opening(Some(Arc::new(value)))
    }

    /// Runs one turn in a new thread.
    ///
    /// # Errors
    /// See [`Thread::run`].
    pub async fn run(&self, message: impl Into<Input>) -> Result<TurnResult, Error> {
        self.thread(ThreadStartParams::default()).await?.run(message).await
    }

    /// Runs one turn in a new thread, whose answer is a value of a type.
    ///
    /// # Errors
    /// See [`Thread::run_as`].
    pub async fn run_as<T: JsonSchema + DeserializeOwned>(
        &self,
        message: impl Into<Input>,
    ) -> Result<TypedResult<T>, Error> {
        self.thread(ThreadStartParams::default()).await?.run_as(message).await
    }

    /// Calls a function with each notification, also those about no thread, in their order, in the task that reads the
    /// connection: it must return at once. Dropping the handle removes it.
    ///
    /// ```no_run
    /// # fn example(agent: &agentd_embed::Agent) {
    /// let handle = agent.on_notification(|notification| println!("{}", notification.method));
    /// # drop(handle);
    /// # }
    /// ```
    pub fn on_notification(
        &self,
        learn: impl Fn(&Notification) + Send + Sync + 'static,
    ) -> NotificationHandle {
        self.shared.handlers.add(learn)
    }

    /// The stored threads that fit the filters, in their order, read page by page; at most `limit`.
    ///
    /// ```no_run
    /// # async fn example(agent: &agentd_embed::Agent) -> Result<(), agentd_embed::Error> {
    /// let mut threads = agent.list(Default::default());
    /// while let Some(thread) = threads.next().await? {
    ///     println!("{} {}", thread.id, thread.preview);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn list(&self, filters: ThreadListParams) -> StoredThreads {
        StoredThreads::new(self.shared.clone(), filters)
    }

    /// Moves a thread out of the list.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn archive(&self, thread_id: &str) -> Result<(), Error> {
        let params = ThreadIdParams { thread_id: thread_id.to_owned() };
        self.shared.request::<protocol::ThreadArchive>(&params).await.map(|_| ())
    }

    /// Moves a thread back into the list.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn unarchive(&self, thread_id: &str) -> Result<(), Error> {
        let params = ThreadIdParams { thread_id: thread_id.to_owned() };
        self.shared.request::<protocol::ThreadUnarchive>(&params).await.map(|_| ())
    }

    /// Calls any method of the protocol.
    ///
    /// ```no_run
    /// # async fn example(agent: &agentd_embed::Agent) -> Result<(), agentd_embed::Error> {
    /// use agentd_embed::protocol::{ThreadList, ThreadListParams};
    ///
    /// let page = agent.request::<ThreadList>(&ThreadListParams::default()).await?;
    /// println!("{} threads", page.data.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn request<M: Method>(&self, params: &M::Params) -> Result<M::Result, Error> {
        self.shared.request::<M>(params).await
    }

    fn opening(&self, context: Option<UserValue>) -> InContext<'_> {
        InContext { agent: self, context }
    }

    /// Ends the connection, and waits for the end of a server of its own: a running turn is interrupted, and
    /// everything stored.
    pub async fn close(self) {
        self.shared.close();
        self.shared.ended().await;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Opens threads with a value of the application: [`Agent::context`].
#[must_use]
pub struct InContext<'a> {
    agent: &'a Agent,
    context: Option<UserValue>,
}

impl InContext<'_> {
    /// As [`Agent::thread`].
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn thread(self, params: ThreadStartParams) -> Result<Thread, Error> {
        let defaults = &self.agent.defaults;
        let params = ThreadStartParams {
            model: params.model.or_else(|| defaults.model.clone()),
            model_provider: params.model_provider.or_else(|| defaults.model_provider.clone()),
            cwd: params.cwd.or_else(|| defaults.cwd.clone()),
            dynamic_tools: params.dynamic_tools.or_else(|| defaults.dynamic_tools.clone()),
            ..params
        };
        self.open(protocol::ThreadStart::NAME, &params).await
    }

    /// As [`Agent::resume`].
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn resume(self, thread_id: &str) -> Result<Thread, Error> {
        let thread_id = thread_id.to_owned();
        let params = ThreadResumeParams { thread_id, exclude_turns: true, ..Default::default() };
        self.resume_with(params).await
    }

    /// Loads a stored thread with settings of its own.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn resume_with(self, params: ThreadResumeParams) -> Result<Thread, Error> {
        self.open(protocol::ThreadResume::NAME, &params).await
    }

    /// As [`Agent::fork`].
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn fork(self, thread_id: &str) -> Result<Thread, Error> {
        let thread_id = thread_id.to_owned();
        let params = ThreadForkParams { thread_id, exclude_turns: true, ..Default::default() };
        self.fork_with(params).await
    }

    /// Copies a stored thread with settings of its own.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn fork_with(self, params: ThreadForkParams) -> Result<Thread, Error> {
        self.open(protocol::ThreadFork::NAME, &params).await
    }

    async fn open(self, method: &str, params: &impl Serialize) -> Result<Thread, Error> {
        let shared = self.agent.shared.clone();
        let state = shared.open(method, params, self.context).await?;
        Ok(Thread { shared, state })
    }
}
