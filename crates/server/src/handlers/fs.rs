//! The file system. None of it works in this version: each method says so.

use jsonrpc::ErrorObject;
use protocol::{
    Empty, FsCopyParams, FsCreateDirectoryParams, FsGetMetadataParams, FsGetMetadataResponse,
    FsMethods, FsReadDirectoryParams, FsReadDirectoryResponse, FsReadFileParams,
    FsReadFileResponse, FsRemoveParams, FsUnwatchParams, FsWatchParams, FsWatchResponse,
    FsWriteFileParams,
};

use crate::connection::Cx;
use crate::handlers::not_implemented;
use crate::server::Server;

impl FsMethods<Cx> for Server {
    not_implemented! {
        fs_read_file(FsReadFileParams) -> FsReadFileResponse = "fs/readFile";
        fs_write_file(FsWriteFileParams) -> Empty = "fs/writeFile";
        fs_create_directory(FsCreateDirectoryParams) -> Empty = "fs/createDirectory";
        fs_get_metadata(FsGetMetadataParams) -> FsGetMetadataResponse = "fs/getMetadata";
        fs_read_directory(FsReadDirectoryParams) -> FsReadDirectoryResponse = "fs/readDirectory";
        fs_remove(FsRemoveParams) -> Empty = "fs/remove";
        fs_copy(FsCopyParams) -> Empty = "fs/copy";
        fs_watch(FsWatchParams) -> FsWatchResponse = "fs/watch";
        fs_unwatch(FsUnwatchParams) -> Empty = "fs/unwatch";
    }
}
