//! Goals of threads. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    GoalMethods, ThreadGoalClearResponse, ThreadGoalGetResponse, ThreadGoalSetParams,
    ThreadGoalSetResponse, ThreadIdParams,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl GoalMethods<Cx> for Server {
    not_implemented! {
        thread_goal_set(ThreadGoalSetParams) -> ThreadGoalSetResponse = "thread/goal/set";
        thread_goal_get(ThreadIdParams) -> ThreadGoalGetResponse = "thread/goal/get";
        thread_goal_clear(ThreadIdParams) -> ThreadGoalClearResponse = "thread/goal/clear";
    }
}
