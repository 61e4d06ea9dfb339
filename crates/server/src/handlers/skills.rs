//! Skills. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    SkillsConfigWriteParams, SkillsConfigWriteResponse, SkillsListParams, SkillsListResponse,
    SkillsMethods,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl SkillsMethods<Cx> for Server {
    not_implemented! {
        skills_list(SkillsListParams) -> SkillsListResponse = "skills/list";
        skills_config_write(SkillsConfigWriteParams) -> SkillsConfigWriteResponse = "skills/config/write";
    }
}
