//! Reading and writing the configuration. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    ConfigBatchWriteParams, ConfigMethods, ConfigReadParams, ConfigReadResponse,
    ConfigRequirementsReadResponse, ConfigValueWriteParams, ConfigWriteResponse, Empty,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl ConfigMethods<Cx> for Server {
    not_implemented! {
        config_read(ConfigReadParams) -> ConfigReadResponse = "config/read";
        config_value_write(ConfigValueWriteParams) -> ConfigWriteResponse = "config/value/write";
        config_batch_write(ConfigBatchWriteParams) -> ConfigWriteResponse = "config/batchWrite";
        config_requirements_read(Empty) -> ConfigRequirementsReadResponse = "configRequirements/read";
    }
}
