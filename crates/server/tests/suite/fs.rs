//! Files and folders over the protocol: what the methods do, what they refuse, and with which words.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::says;

async fn environment() -> TestEnvironment {
    TestEnvironment::with_responses(json!([says("1")])).await
}

async fn read(client: &mut Peer, path: &std::path::Path) -> Vec<u8> {
    let read = client.call("fs/readFile", json!({ "path": path })).await;
    STANDARD.decode(read["dataBase64"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn files_are_written_read_listed_copied_and_removed() {
    let env = environment().await;
    let server = env.start();
    let mut client = server.connect().await;
    let at = |name: &str| env.workspace().join(name);
    let empty = json!({});

    assert_eq!(client.call("fs/createDirectory", json!({ "path": at("a/b") })).await, empty);
    for contents in [&b"\0\xff first"[..], b"", b"second"] {
        let params = json!({ "path": at("a/b/file"), "dataBase64": STANDARD.encode(contents) });
        assert_eq!(client.call("fs/writeFile", params).await, empty);
        assert_eq!(read(&mut client, &at("a/b/file")).await, contents);
    }
    std::os::unix::fs::symlink("b/file", at("a/link")).unwrap();
    let listed = client.call("fs/readDirectory", json!({ "path": at("a") })).await;
    assert_eq!(
        listed,
        json!({ "entries": [
            { "fileName": "b", "isFile": false, "isDirectory": true },
            { "fileName": "link", "isFile": true, "isDirectory": false },
        ] })
    );
    let metadata = client.call("fs/getMetadata", json!({ "path": at("a/link") })).await;
    assert_eq!(
        [&metadata["isFile"], &metadata["isDirectory"], &metadata["isSymlink"]],
        [true, false, true]
    );
    assert!(metadata["modifiedAtMs"].as_i64().unwrap() > 1_700_000_000_000, "{metadata}");

    let copy = json!({ "sourcePath": at("a"), "destinationPath": at("c"), "recursive": true });
    assert_eq!(client.call("fs/copy", copy).await, empty);
    assert_eq!(read(&mut client, &at("c/link")).await, b"second");
    assert_eq!(client.call("fs/remove", json!({ "path": at("a") })).await, empty);
    assert_eq!(client.call("fs/remove", json!({ "path": at("a") })).await, empty);
    assert!(!at("a").exists() && at("c/b/file").exists());
}

#[tokio::test]
async fn errors_name_the_path_and_the_reason() {
    let env = environment().await;
    let server = env.start();
    let mut client = server.connect().await;
    let at = |name: &str| env.workspace().join(name);
    std::fs::create_dir_all(at("full/below")).unwrap();
    std::fs::write(at("file"), "text").unwrap();
    let cases: &[(&str, Value, &str)] = &[
        ("fs/readFile", json!({ "path": "file" }), "`path` must be an absolute path"),
        ("fs/readFile", json!({ "path": at("none") }), "No such file"),
        ("fs/readFile", json!({ "path": at("full") }), "not a regular file"),
        ("fs/readFile", json!({ "path": "/dev/zero" }), "not a regular file"),
        ("fs/writeFile", json!({ "path": at("new"), "dataBase64": "%" }), "`dataBase64`"),
        ("fs/writeFile", json!({ "path": at("none/new"), "dataBase64": "" }), "No such file"),
        ("fs/createDirectory", json!({ "path": at("file/x") }), "Not a directory"),
        ("fs/createDirectory", json!({ "path": at("full"), "recursive": false }), "File exists"),
        ("fs/readDirectory", json!({ "path": at("file") }), "Not a directory"),
        ("fs/getMetadata", json!({ "path": at("none") }), "No such file"),
        ("fs/remove", json!({ "path": at("none"), "force": false }), "No such file"),
        ("fs/remove", json!({ "path": at("full"), "recursive": false }), "not empty"),
        ("fs/remove", json!({ "path": "/" }), "never removed"),
        (
            "fs/copy",
            json!({ "sourcePath": at("full"), "destinationPath": at("copy") }),
            "set `recursive`",
        ),
        (
            "fs/copy",
            json!({ "sourcePath": at("full"), "destinationPath": at("full/x"), "recursive": true }),
            "to itself",
        ),
    ];
    for (method, params, reason) in cases {
        let error = client.refused(method, params.clone()).await;
        assert!(error.message.contains(reason), "{method} {params}: {}", error.message);
    }
    assert!(!at("new").exists() && !at("copy").exists());
}

/// The codes of `docs/client.md`: the caller's errors, and the system's.
#[tokio::test]
async fn the_code_says_whose_an_error_is() {
    let env = environment().await;
    let server = env.start();
    let mut client = server.connect().await;
    let at = |name: &str| env.workspace().join(name);
    std::fs::create_dir_all(at("full/below")).unwrap();
    std::fs::write(at("file"), "text").unwrap();
    std::os::unix::fs::symlink("circle", at("circle")).unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    let written = |path: &std::path::Path| json!({ "path": path, "dataBase64": "" });
    let long = at(&"x".repeat(300));
    let cases = [
        ("fs/readFile", json!({ "path": at("none") }), -32600, "No such file"),
        ("fs/readFile", json!({ "path": at("file/x") }), -32600, "Not a directory"),
        ("fs/readFile", json!({ "path": at("full") }), -32600, "not a regular file"),
        ("fs/readFile", json!({ "path": at("circle") }), -32600, "Too many levels"),
        ("fs/writeFile", written(&at("circle")), -32600, "Too many levels"),
        ("fs/writeFile", written(&at("none/new")), -32600, "No such file"),
        ("fs/createDirectory", json!({ "path": at("file/x") }), -32600, "Not a directory"),
        (
            "fs/createDirectory",
            json!({ "path": at("full"), "recursive": false }),
            -32600,
            "File exists",
        ),
        ("fs/remove", json!({ "path": at("full"), "recursive": false }), -32600, "not empty"),
        ("fs/remove", json!({ "path": at("link/") }), -32602, "without the slash"),
        ("fs/readFile", json!({ "path": long }), -32602, "name too long"),
        ("fs/getMetadata", json!({ "path": "/a\0b" }), -32602, "`path` must not contain a NUL"),
        (
            "fs/watch",
            json!({ "watchId": "w", "path": "/a\0b" }),
            -32602,
            "`path` must not contain a NUL",
        ),
    ];
    for (method, params, code, reason) in cases {
        let error = client.refused(method, params.clone()).await;
        assert_eq!(error.code, code, "{method} {params}: {}", error.message);
        assert!(error.message.contains(reason), "{method} {params}: {}", error.message);
    }
    assert!(at("link").exists() && at("full/below").is_dir());
    #[cfg(target_os = "linux")]
    {
        let error =
            client.refused("fs/writeFile", json!({ "path": "/dev/full", "dataBase64": "eA==" }));
        assert_eq!(error.await.code, -32600, "a device is in the way");
        let error = client.refused("fs/createDirectory", json!({ "path": "/proc/none" })).await;
        assert_eq!(error.code, -32600, "{error:?}");
    }
}

/// Otherwise a client could change what the administrator lets it change in the sandbox alone.
#[tokio::test]
async fn requirements_without_full_access_permit_no_writes() {
    let env = environment().await;
    let requirements = "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    std::fs::create_dir(env.system_dir()).unwrap();
    std::fs::write(env.system_dir().join("requirements.toml"), requirements).unwrap();
    let server = env.start();
    let mut client = server.connect().await;
    let at = |name: &str| env.workspace().join(name);
    std::fs::write(at("file"), "text").unwrap();
    for (method, params) in [
        ("fs/writeFile", json!({ "path": at("file"), "dataBase64": "" })),
        ("fs/createDirectory", json!({ "path": at("new") })),
        ("fs/remove", json!({ "path": at("file") })),
        ("fs/copy", json!({ "sourcePath": at("file"), "destinationPath": at("new") })),
    ] {
        let error = client.refused(method, params).await;
        assert!(error.message.contains("`allowed_sandbox_modes`"), "{method}: {}", error.message);
    }
    assert_eq!(read(&mut client, &at("file")).await, b"text");
    assert!(!at("new").exists());
}
