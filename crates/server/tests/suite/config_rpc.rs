//! Reading, writing and watching the configuration over the protocol.

use serde_json::{Value, json};
use testkit::TestEnvironment;

use crate::says;

async fn env() -> TestEnvironment {
    TestEnvironment::with_responses(json!([says("One."), says("Two."), says("Three.")])).await
}

fn write(key: &str, value: Value) -> Value {
    json!({ "keyPath": key, "value": value, "mergeStrategy": "replace" })
}

#[tokio::test]
async fn layers_and_origins_are_read() {
    let mut env = env().await;
    let project = env.workspace().join(".agent");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("config.toml"), "model_verbosity = \"high\"\n").unwrap();
    std::fs::create_dir(env.system_dir()).unwrap();
    std::fs::write(env.system_dir().join("config.toml"), "personality = \"friendly\"\n").unwrap();
    env.config_overrides.push("review_model=\"by-flag\"".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let read = json!({ "cwd": env.workspace(), "includeLayers": true });
    let before = peer.call("config/read", read.clone()).await;
    assert_eq!(peer.expect("configWarning").await["path"], json!(env.workspace()));
    assert_eq!(before["config"]["model"], "gpt-5");
    assert_eq!(before["config"]["personality"], "friendly");
    assert_eq!(before["config"]["model_verbosity"], Value::Null);
    let kinds = |read: &Value| -> Vec<String> {
        let layers = read["layers"].as_array().unwrap().iter();
        layers.map(|layer| layer["name"]["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&before), ["sessionFlags", "project", "user", "system"]);
    let reason = before["layers"][1]["disabledReason"].as_str().unwrap();
    assert!(reason.contains("not trusted"), "{reason}");
    assert_eq!(before["layers"][1]["config"], json!({}), "an untrusted file is not read");
    let trust =
        write(&format!("projects.\"{}\".trust_level", env.workspace().display()), json!("trusted"));
    assert_eq!(peer.call("config/value/write", trust).await["status"], "ok");
    let after = peer.call("config/read", read).await;
    assert_eq!(after["config"]["model_verbosity"], "high");
    assert_eq!(after["origins"]["model_verbosity"]["name"]["type"], "project");
    assert_eq!(after["origins"]["review_model"]["name"]["type"], "sessionFlags");
    assert_eq!(after["origins"]["personality"]["name"]["type"], "system");
    let version = after["origins"]["model"]["version"].as_str().unwrap();
    assert!(version.starts_with("sha256:"), "{version}");
}

#[tokio::test]
async fn writes_keep_comments_and_layout() {
    let env = env().await;
    let file = env.home().join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    env.write_config(&format!("# mine\n{text}\n[tui] # look\ntheme = \"x\" # nice\n"));
    let server = env.start();
    let mut peer = server.connect().await;
    let first = peer.call("config/value/write", write("tui.theme", json!("y"))).await;
    assert_eq!(first["status"], "ok");
    assert_eq!(first["filePath"], file.display().to_string());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("# mine\n"), "{text}");
    assert!(text.contains("[tui] # look\ntheme = \"y\" # nice\n"), "{text}");
    let mut stale = write("model", json!("other"));
    stale["expectedVersion"] = json!("sha256:0");
    let fault = peer.refused("config/value/write", stale).await;
    assert_eq!(fault.data["config_write_error_code"], "configVersionConflict");
    let mut fresh = write("model", json!("other"));
    fresh["expectedVersion"] = first["version"].clone();
    assert_eq!(peer.call("config/value/write", fresh).await["status"], "ok");
}

#[tokio::test]
async fn a_batch_is_written_as_a_whole_or_not_at_all() {
    let env = env().await;
    let file = env.home().join("config.toml");
    let before = std::fs::read(&file).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    for (edits, said) in [
        (
            json!([write("model", json!("a")), write("approval_policy", json!("sometimes"))]),
            "approval_policy",
        ),
        (json!([write("model", json!("a")), write("modle", json!("b"))]), "did you mean `model`"),
        (json!([write("model", json!("a")), write("model.deeper", json!(1))]), "not a table"),
        (json!([write("model", json!("a")), write("model_provider", json!("unknown"))]), "unknown"),
        (json!([write("model", json!("a")), write("a..b", json!(1))]), "a..b"),
    ] {
        let fault = peer.refused("config/batchWrite", json!({ "edits": edits })).await;
        assert_eq!(fault.data["config_write_error_code"], "configValidationError", "{said}");
        assert!(fault.message.contains(said), "{}", fault.message);
        assert_eq!(std::fs::read(&file).unwrap(), before, "{said}");
    }
    let elsewhere = env.root().join("other.toml");
    let mut other = json!({ "edits": [write("model", json!("a"))] });
    other["filePath"] = json!(elsewhere);
    let fault = peer.refused("config/batchWrite", other).await;
    assert_eq!(fault.data["config_write_error_code"], "configLayerReadonly");
    let upsert = |value| json!({ "keyPath": "tui", "value": value, "mergeStrategy": "upsert" });
    let both = json!({ "edits": [upsert(json!({ "theme": "a" })), upsert(json!({ "animations": false }))],
                       "reloadUserConfig": true });
    assert_eq!(peer.call("config/batchWrite", both).await["status"], "ok");
    let read = peer.call("config/read", json!({})).await;
    assert_eq!(read["config"]["tui"], json!({ "theme": "a", "animations": false }));
}

#[tokio::test]
async fn a_batch_with_a_key_twice_says_which_value_holds() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let twice = json!({ "edits": [write("model", json!("a")), write("\"model\"", json!("b"))] });
    let written = peer.call("config/batchWrite", twice).await;
    assert_eq!(written["status"], "okOverridden");
    let said = &written["overriddenMetadata"];
    assert!(said["message"].as_str().unwrap().starts_with("`model` is in several edits"), "{said}");
    assert_eq!(
        (&said["effectiveValue"], &said["overridingLayer"]["name"]["type"]),
        (&json!("b"), &json!("user"))
    );
    let warning = peer.expect("configWarning").await;
    assert!(
        warning["summary"].as_str().unwrap().starts_with("`model` is in several edits"),
        "{warning}"
    );
    assert_eq!(peer.call("config/read", json!({})).await["config"]["model"], "b");
    let number =
        peer.call("config/value/write", write("model_context_window", json!(9000.0))).await;
    assert_eq!(number["status"], "ok", "{number}");
}

#[tokio::test]
async fn a_write_that_a_flag_overrides_is_reported_as_overridden() {
    let mut env = env().await;
    env.config_overrides.push("model=\"by-flag\"".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let written = peer.call("config/value/write", write("model", json!("by-file"))).await;
    assert_eq!(written["status"], "okOverridden");
    assert_eq!(written["overriddenMetadata"]["effectiveValue"], "by-flag");
    assert_eq!(written["overriddenMetadata"]["overridingLayer"]["name"]["type"], "sessionFlags");
}

#[tokio::test]
async fn origins_name_the_layer_that_holds_the_value() {
    let mut env = env().await;
    std::fs::create_dir(env.system_dir()).unwrap();
    let system = "[tui]\ntheme = \"system\"\n[features]\nweb_search_request = true\n";
    std::fs::write(env.system_dir().join("config.toml"), system).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "tools_view_image = false\nprofile = \"p\"\n{config}\n[tui]\nanimations = false\n\
         [profiles.p]\nmodel_verbosity = \"low\"\n"
    ));
    for flag in ["tui.show_tooltips=false", "review_model=\"by-flag\"", "tui.theme=\"by-flag\""] {
        env.config_overrides.push(flag.to_owned());
    }
    let server = env.start();
    let mut peer = server.connect().await;
    let read = peer.call("config/read", json!({ "includeDefaults": true })).await;
    for (key, layer) in [
        ("tui.theme", "sessionFlags"),
        ("tui.animations", "user"),
        ("tui.show_tooltips", "sessionFlags"),
        ("tui.alternate_screen", "default"),
        ("features.web_search_request", "system"),
        ("web_search", "system"),
        ("tools.view_image", "user"),
        ("model_verbosity", "user"),
        ("review_model", "sessionFlags"),
        ("approval_policy", "default"),
    ] {
        assert_eq!(read["origins"][key]["name"]["type"], layer, "{key}: {}", read["origins"]);
    }
    // Of a table, another layer may hold a part.
    let table = json!({ "keyPath": "tui", "value": { "theme": "mine", "animations": true },
        "mergeStrategy": "upsert" });
    let written = peer.call("config/value/write", table).await;
    assert_eq!(written["status"], "okOverridden");
    let by = &written["overriddenMetadata"]["overridingLayer"]["name"]["type"];
    assert_eq!(by, "sessionFlags", "{written}");
}

#[tokio::test]
async fn a_change_applies_from_the_next_turn() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    let chosen = peer.start_thread(json!({ "model": "chosen" })).await;
    peer.run_turn(&thread, "One.").await;
    let changes = json!({ "edits": [
        write("model", json!("gpt-5-mini")),
        write("developer_instructions", json!("Mind the gap.")),
        write("tools.view_image", json!(false)),
    ] });
    peer.call("config/batchWrite", changes).await;
    peer.run_turn(&thread, "Two.").await;
    let request = env.model().requests().pop().unwrap();
    assert_eq!(request["model"], "gpt-5-mini");
    assert!(request["input"].to_string().contains("Mind the gap."), "{request}");
    assert!(!request["tools"].to_string().contains("view_image"), "{request}");
    peer.run_turn(&chosen, "One.").await;
    assert_eq!(env.model().requests().pop().unwrap()["model"], "chosen");
}

#[tokio::test]
async fn a_file_that_breaks_keeps_its_last_good_content() {
    let env = env().await;
    let file = env.home().join("config.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "One.").await;
    env.write_config(&format!("{good}\nbroken = = 1\n"));
    let about = |notice: &Value| {
        notice["summary"].as_str().is_some_and(|text| text.contains("config.toml"))
    };
    let notice = peer.expect_where("configWarning", about).await;
    assert_eq!(notice["path"], file.display().to_string());
    let line = good.lines().count() as u64 + 2;
    assert_eq!(notice["range"]["start"], json!({ "line": line, "column": 10 }), "{notice}");
    assert!(notice["details"].as_str().unwrap().contains("^"), "{notice}");
    assert_eq!(peer.run_turn(&thread, "Two.").await["status"], "completed");
    let fault = peer.refused("config/value/write", write("model", json!("x"))).await;
    assert!(fault.message.contains("not valid TOML: extra `=`"), "{}", fault.message);
    env.write_config(&good.replace("gpt-5", "mended"));
    peer.run_turn(&thread, "Three.").await;
    assert_eq!(env.model().requests().pop().unwrap()["model"], "mended");
}

#[tokio::test]
async fn a_key_that_needs_a_restart_is_reported() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    peer.start_thread(json!({})).await;
    peer.call("config/value/write", write("sqlite_home", json!("elsewhere"))).await;
    let about = |notice: &Value| {
        notice["summary"].as_str().is_some_and(|text| text.contains("sqlite_home"))
    };
    let notice = peer.expect_where("configWarning", about).await;
    assert!(notice["summary"].as_str().unwrap().contains("restart the server"), "{notice}");
}

#[tokio::test]
async fn features_are_listed_and_switched() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let (mut names, mut stages) = (Vec::new(), Vec::new());
    let mut cursor = Value::Null;
    loop {
        let page =
            peer.call("experimentalFeature/list", json!({ "limit": 5, "cursor": cursor })).await;
        for one in page["data"].as_array().unwrap() {
            names.push(one["name"].clone());
            let notice = ["displayName", "description", "announcement"];
            let is_announced = notice.iter().all(|member| one[member].is_string());
            assert!(is_announced || one["stage"] != "beta", "{one}");
            let works = one["stage"] != "underDevelopment";
            assert!(works || one["enabled"] == false && one["defaultEnabled"] == false, "{one}");
            stages.push(one["stage"].as_str().unwrap().to_owned());
        }
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(names.len(), 19, "{names:?}");
    for (name, stage) in [("codex_hooks", "underDevelopment"), ("prevent_idle_sleep", "beta")] {
        let at = names.iter().position(|known| known == name).unwrap();
        assert_eq!(stages[at], stage, "{name}");
    }
    // A request that contains an unknown feature switches no other.
    let set = json!({ "enablement": { "goals": true, "goal": true } });
    let fault = peer.refused("experimentalFeature/enablement/set", set).await;
    assert_eq!(fault.code, -32602);
    let set = json!({ "enablement": { "fast_mode": true, "prevent_idle_sleep": false } });
    let now = peer.call("experimentalFeature/enablement/set", set).await;
    assert_eq!(now["enablement"], json!({ "fast_mode": true, "prevent_idle_sleep": false }));
    let read = peer.call("config/read", json!({})).await;
    assert_eq!(read["config"]["features"]["goals"], Value::Null, "{read}");
    let set = json!({ "enablement": { "goals": true } });
    let now = peer.call("experimentalFeature/enablement/set", set).await;
    assert_eq!(now["enablement"], json!({ "goals": true }));
    let set = json!({ "enablement": { "shell_tool": false } });
    peer.call("experimentalFeature/enablement/set", set).await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "Go.").await;
    let tools = env.model().requests().pop().unwrap()["tools"].to_string();
    assert!(!tools.contains("exec_command"), "{tools}");
    let unknown = json!({ "enablement": { "shel_tool": false } });
    let fault = peer.refused("experimentalFeature/enablement/set", unknown).await;
    assert!(fault.message.contains("did you mean `shell_tool`"), "{}", fault.message);
}

#[tokio::test]
async fn what_has_no_effect_is_marked() {
    let env = env().await;
    let file = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(&format!(
        "windows_wsl_setup_acknowledged = true\n{file}\n\
         [features]\nundo = false\ngoals = true\n"
    ));
    let server = env.start();
    let mut peer = server.connect().await;
    let windows = "has no effect yet: it requires the sandbox on Windows";
    for defaults in [false, true] {
        let read = peer.call("config/read", json!({ "includeDefaults": defaults })).await;
        for (key, value, layer, held_off) in [
            ("features.undo", json!(false), "user", Value::Null),
            ("features.goals", json!(true), "user", Value::Null),
            ("windows_wsl_setup_acknowledged", json!(true), "user", json!(windows)),
            ("model", json!("gpt-5"), "user", Value::Null),
        ] {
            let found = key.split('.').fold(&read["config"], |table, part| &table[part]);
            let origin = &read["origins"][key];
            assert_eq!(
                (found, &origin["name"]["type"], &origin["heldOff"]),
                (&value, &json!(layer), &held_off),
                "{key}"
            );
        }
        // A default is `heldOff` too.
        let hidden = &read["origins"]["windows.sandbox_private_desktop"];
        let expected = if defaults { json!(windows) } else { Value::Null };
        assert_eq!(hidden["heldOff"], expected);
    }
}

#[tokio::test]
async fn servers_of_tools_are_read_again() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    assert_eq!(peer.call("config/mcpServer/reload", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_configuration_is_read_for_an_existing_folder() {
    let env = env().await;
    let file = env.workspace().join("file");
    std::fs::write(&file, "").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let not_a_folder = format!("`cwd`: {} is not a folder", file.display());
    for (cwd, reason) in [
        (json!("sub"), "`cwd` must be an absolute path, found `sub`"),
        (json!("/nowhere"), "`cwd`: /nowhere is not a folder"),
        (json!(file), not_a_folder.as_str()),
    ] {
        let fault = peer.refused("config/read", json!({ "cwd": cwd })).await;
        assert_eq!((fault.code, fault.message.as_str()), (-32602, reason));
    }
}

/// Counts opens of the user's file, as reported by the kernel.
#[cfg(target_os = "linux")]
struct OpenCounter(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl OpenCounter {
    fn watch(file: &std::path::Path) -> Self {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let events = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&events, file, WatchFlags::OPEN | WatchFlags::ACCESS).unwrap();
        Self(events)
    }

    /// The number of opens since the last call.
    fn count(&self) -> usize {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = rustix::fs::inotify::Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while reader.next().is_ok() {
            count += 1;
        }
        count
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_ordinary_turn_reads_no_configuration_file() {
    let env = env().await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    peer.run_turn(&thread, "One.").await;
    let opens = OpenCounter::watch(&env.home().join("config.toml"));
    peer.run_turn(&thread, "Two.").await;
    let second = peer.start_thread(json!({})).await;
    peer.run_turn(&second, "One.").await;
    assert_eq!(opens.count(), 0, "neither a turn nor a further thread reads the file");
    peer.call("config/value/write", write("model_verbosity", json!("low"))).await;
    assert!(opens.count() > 0, "the trace hears what does");
}

#[tokio::test]
async fn a_broken_project_file_is_reported_too() {
    let env = env().await;
    let project = env.workspace().join(".agent");
    std::fs::create_dir(&project).unwrap();
    let file = project.join("config.toml");
    std::fs::write(&file, "model = \"of-the-project\"\n").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let key = format!("projects.\"{}\".trust_level", env.workspace().display());
    peer.call("config/value/write", write(&key, json!("trusted"))).await;
    let thread = peer.start_thread(json!({})).await;
    std::fs::write(&file, "sandbox_mode = 5\n").unwrap();
    let about = |notice: &Value| notice["path"] == file.display().to_string();
    let notice = peer.expect_where("configWarning", about).await;
    assert_eq!(notice["range"]["start"], json!({ "line": 1, "column": 16 }), "{notice}");
    peer.run_turn(&thread, "Go.").await;
    assert_eq!(env.model().requests().pop().unwrap()["model"], "of-the-project");
}

#[tokio::test]
async fn a_thread_that_moves_follows_the_project_there() {
    let env = env().await;
    let other = env.root().join("other");
    std::fs::create_dir_all(other.join(".agent")).unwrap();
    std::fs::write(other.join(".agent/config.toml"), "model = \"of-the-other\"\n").unwrap();
    let server = env.start();
    let mut peer = server.connect().await;
    let key = format!("projects.\"{}\".trust_level", other.display());
    peer.call("config/value/write", write(&key, json!("trusted"))).await;
    let thread = peer.start_thread(json!({})).await;
    let text = json!([{ "type": "text", "text": "Go." }]);
    peer.run_turn_with(json!({ "threadId": thread, "input": text, "cwd": other })).await;
    peer.run_turn(&thread, "And on.").await;
    assert_eq!(env.model().requests().pop().unwrap()["model"], "of-the-other");
}

#[tokio::test]
async fn effective_values_are_read_with_their_defaults() {
    let mut env = env().await;
    env.config_overrides.push("sandbox_workspace_write.network_access=true".to_owned());
    env.config_overrides.push("features.prevent_idle_sleep=true".to_owned());
    let server = env.start();
    let mut peer = server.connect().await;
    let set = peer.call("config/read", json!({ "includeDefaults": null })).await;
    assert_eq!(set["config"]["approval_policy"], Value::Null, "not set: {set}");
    let read = peer.call("config/read", json!({ "includeDefaults": true })).await;
    for (key, value, layer) in [
        ("model", json!("gpt-5"), "user"),
        ("approval_policy", json!("on-request"), "default"),
        ("sandbox_mode", json!("read-only"), "default"),
        ("allow_login_shell", json!(true), "default"),
        ("project_doc_max_bytes", json!(32_768), "default"),
        ("web_search", json!("cached"), "default"),
        ("sqlite_home", json!(env.home()), "default"),
        ("log_dir", json!(env.home().join("log")), "default"),
        ("sandbox_workspace_write.network_access", json!(true), "sessionFlags"),
        ("sandbox_workspace_write.exclude_slash_tmp", json!(false), "default"),
        ("shell_environment_policy.inherit", json!("all"), "default"),
        ("features.shell_tool", json!(true), "default"),
        ("features.multi_agent", json!(true), "default"),
        ("features.skill_mcp_dependency_install", json!(true), "default"),
        ("features.prevent_idle_sleep", json!(true), "sessionFlags"),
    ] {
        let found = key.split('.').fold(&read["config"], |table, part| &table[part]);
        assert_eq!(*found, value, "{key}");
        assert_eq!(read["origins"][key]["name"]["type"], layer, "{key}");
    }
    // Every value has an origin, and every origin has a value.
    fn leaves(value: &Value) -> usize {
        match value {
            Value::Object(members) if !members.is_empty() => members.values().map(leaves).sum(),
            _ => 1,
        }
    }
    assert_eq!(leaves(&read["config"]), read["origins"].as_object().unwrap().len());
}
