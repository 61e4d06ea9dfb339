//! `agentd doctor` as a user runs it: whether a first turn would work, and what is in the file of `--bundle`, what
//! is not, and which files it never touches.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::common::{TestEnvironment, listing, stderr, stdout};
use crate::mcp::SERVER;

const SECRET: &str = "sk-proj-Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MDEyMzQ1Njc4OTA";

/// The files of a bundle by name.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let file = flate2::read::GzDecoder::new(fs::File::open(path).unwrap());
    let mut archive = tar::Archive::new(file);
    let files = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let name = entry.path().unwrap().display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name.strip_prefix("agentd-bundle/").unwrap().to_owned(), text)
    });
    files.collect()
}

#[test]
fn a_bundle_has_what_support_needs_and_no_secrets() {
    let env = TestEnvironment::new();
    let log = env.home().join("log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("agentd.log"), format!("started\napi_key={SECRET}\nended\n")).unwrap();
    let config = format!(
        "model = \"gpt-5\"\n[model_providers.mine]\nname = \"m\"\nbase_url = \"https://u:{SECRET}@h/v1\"\n\
         experimental_bearer_token = \"plain words\"\nhttp_headers = {{ x-team = \"very blue\" }}\n\
         [features]\ngoals = true\n"
    );
    fs::write(env.home().join("config.toml"), config).unwrap();
    let output = env.run(&["doctor", "--bundle", "b.tar.gz", "--yes"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let path = env.work().join("b.tar.gz");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpacked(&path);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "configuration.toml",
        "doctor.txt",
        "features.txt",
        "log/agentd.log",
        "sandbox.txt",
        "stores.txt",
        "system.txt",
    ];
    assert_eq!(names, expected);
    for name in expected {
        assert!(stdout(&output).contains(&format!("  {name} ")), "{}", stdout(&output));
    }
    for (name, text) in &files {
        for hidden in [SECRET, "plain words", "very blue"] {
            assert!(!text.contains(hidden), "{name}: {text}");
        }
    }
    for (name, part) in [
        ("configuration.toml", "model = \"gpt-5\"  # "),
        ("configuration.toml", "config.toml:1"),
        ("doctor.txt", "configuration: can be used"),
        ("features.txt", "goals = true"),
        ("log/agentd.log", "started\napi_key=[redacted]\nended\n"),
        ("sandbox.txt", "seccomp"),
        ("stores.txt", "config.toml: "),
        ("stores.txt", "log: folder, 1 files, "),
        ("system.txt", "agentd "),
        ("system.txt", "AGENT_HOME"),
    ] {
        assert!(files[name].contains(part), "{name}: {part}:\n{}", files[name]);
    }
    assert!(stdout(&output).contains("1 secret removed"), "{}", stdout(&output));
}

#[test]
fn nothing_is_written_unasked_or_over_another_file() {
    let env = TestEnvironment::new();
    fs::write(env.work().join("taken"), "mine").unwrap();
    fs::write(env.work().join("target"), "mine").unwrap();
    symlink("target", env.work().join("link")).unwrap();
    symlink("nowhere", env.work().join("dangling")).unwrap();
    fs::create_dir(env.work().join("folder")).unwrap();
    let before = fs::read_dir(env.work()).unwrap().count();
    for (arguments, why) in [
        (vec!["doctor", "--bundle", "new"], "add `--yes` to write the bundle"),
        (vec!["doctor", "--bundle"], "add `--yes` to write the bundle"),
        (vec!["doctor", "--bundle", "taken", "--yes"], "exists and is not replaced"),
        (vec!["doctor", "--bundle", "link", "--yes"], "exists and is not replaced"),
        (vec!["doctor", "--bundle", "dangling", "--yes"], "exists and is not replaced"),
        (vec!["doctor", "--bundle", "folder", "--yes"], "is a folder: name a file in it"),
        (vec!["doctor", "--bundle", "none/b", "--yes"], "cannot write"),
        (vec!["doctor", "--yes"], "--bundle"),
    ] {
        let output = env.run(&arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(fs::read_dir(env.work()).unwrap().count(), before);
    assert_eq!(fs::read_to_string(env.work().join("taken")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(env.work().join("target")).unwrap(), "mine");
}

#[test]
fn a_hostile_home_is_described_within_bounds() {
    let env = TestEnvironment::new();
    let log = env.home().join("log");
    fs::create_dir_all(&log).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        log.join("agentd.1.log"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("/etc/passwd", log.join("agentd.2.log")).unwrap();
    symlink("/", env.home().join("all")).unwrap();
    // Ten gigabytes, most of which are a hole.
    let mut huge = fs::File::create(log.join("agentd.log")).unwrap();
    huge.seek(SeekFrom::Start(10 << 30)).unwrap();
    huge.write_all(format!("\napi_key={SECRET}\nthe end\n").as_bytes()).unwrap();
    fs::write(env.home().join("a\u{1b}[2J\nb"), "").unwrap();
    fs::write(env.home().join("config.toml"), "model = [broken").unwrap();
    let output = env.run(&["doctor", "--bundle", "b.tar.gz", "--yes"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let files = unpacked(&env.work().join("b.tar.gz"));
    assert!(files["log/agentd.log"].ends_with("api_key=[redacted]\nthe end\n"));
    assert!(files["log/agentd.log"].len() < 4 << 20);
    for (name, kind) in [("log/agentd.1.log", "FIFO"), ("log/agentd.2.log", "link")] {
        let text = &files[name];
        assert!(text.starts_with("not read: ") && text.contains(kind), "{text}");
        assert!(!text.contains("root:"), "{text}");
    }
    assert!(files["configuration.toml"].starts_with("the configuration cannot be used"));
    let stores = &files["stores.txt"];
    assert!(stores.contains("  all: a symbolic link\n"), "{stores}");
    assert!(
        !stores.contains('\u{1b}') && stores.contains("a\\u{1b}[2J\\nb: 0 bytes\n"),
        "{stores}"
    );
}

/// Runs the doctor with this configuration. Returns its page.
fn examined(env: &TestEnvironment, config: &str, is_well: bool) -> String {
    fs::write(env.home().join("config.toml"), config).unwrap();
    let output = env.run(&["doctor"]);
    let page = stdout(&output);
    assert_eq!(output.status.code(), Some(i32::from(!is_well)), "{page}{}", stderr(&output));
    page
}

/// Asserts that each of these is in the page, in this order.
fn has(page: &str, parts: &[&str]) {
    let mut rest = page;
    for part in parts {
        let found = rest.split_once(part);
        (_, rest) = found.unwrap_or_else(|| panic!("{part:?} is not there, or not next:\n{page}"));
    }
}

/// A configuration with a provider at this address.
fn provider(url: &str, key: &str, model: &str) -> String {
    format!(
        "model_provider = \"mine\"\n{model}[model_providers.mine]\nbase_url = \"{url}\"\n\
         experimental_bearer_token = \"{key}\"\n"
    )
}

#[test]
fn each_obstacle_of_a_first_turn_has_its_row_and_the_next_step() {
    let env = TestEnvironment::new();
    let page = examined(&env, "", false);
    has(
        &page,
        &[
            "ok      provider: `default` at https://api.openai.com/v1; not contacted without a key\n",
            "PROBLEM key: there is none for `default`\n        ",
            "AGENT_API_KEY",
            "PROBLEM first turn: it fails: there is no key for the provider `default`\n",
        ],
    );
    let url = listing::start(&["small", "large"]);
    let page = examined(&env, &provider(&url, "wrong", ""), false);
    has(&page, &["PROBLEM key: ", "does not accept it", "wrong key", "\n        Replace the key"]);
    has(&page, &["PROBLEM first turn: it fails: the provider `mine` does not accept the key\n"]);
    let page = examined(&env, &provider(&url, listing::KEY, "model = \"smal\"\n"), false);
    has(
        &page,
        &[
            "answers; it lists 2 models\n",
            "PROBLEM model: the provider `mine` does not list `smal`\n",
            "        Set `model` in config.toml to a model of the provider, such as `small`, `large`.\n",
            "PROBLEM first turn: it fails",
        ],
    );
    let page = examined(&env, &provider(&listing::closed(), listing::KEY, ""), false);
    has(
        &page,
        &["PROBLEM provider: `mine` at ", "cannot reach ", "`model_providers.mine.base_url`"],
    );
    let page = examined(&env, "model = [broken", false);
    has(&page, &["PROBLEM configuration", "PROBLEM first turn: it fails: the configuration"]);
    // Neither secrets nor what is not asked.
    assert!(!page.contains(listing::KEY) && !page.contains("provider:"), "{page}");
}

#[test]
fn a_key_of_the_environment_that_no_provider_uses_is_named_and_not_shown() {
    let env = TestEnvironment::new();
    let page_with = |config: &str| {
        fs::write(env.home().join("config.toml"), config).unwrap();
        let output = env.agentd(&["doctor"]).env("ANTHROPIC_API_KEY", "sk-ant-x").output().unwrap();
        stdout(&output)
    };
    let page = page_with("model_provider = \"offline\"\n");
    has(
        &page,
        &[
            "ok      key: ANTHROPIC_API_KEY is set, and no provider uses it: it could be that of Claude\n",
            "`[model_providers.anthropic]` with `base_url = \"https://api.anthropic.com\"`",
            "`wire_api = \"messages\"`",
            "ok      first turn: asks `demo` of `offline`",
        ],
    );
    assert!(!page.contains("sk-ant-x"), "{page}");
    let used = "model_provider = \"offline\"\n[model_providers.c]\nbase_url = \"https://api.anthropic.com\"\n";
    let page = page_with(used);
    assert!(!page.contains("ANTHROPIC_API_KEY"), "{page}");
}

#[test]
fn a_first_turn_that_works_is_described() {
    let env = TestEnvironment::new();
    fs::create_dir(env.work().join(".git")).unwrap();
    fs::write(env.work().join(".git/HEAD"), "ref: refs/heads/trunk\n").unwrap();
    fs::write(env.work().join("AGENTS.md"), "Be brief.\n").unwrap();
    let url = listing::start(&["small", "large"]);
    let model =
        "model = \"large\"\nsandbox_mode = \"workspace-write\"\napproval_policy = \"never\"\n";
    let page = examined(&env, &provider(&url, listing::KEY, model), true);
    let work = env.work().canonicalize().unwrap();
    has(
        &page,
        &[
            "ok      provider: `mine` at http://127.0.0.1:",
            "answers; it lists 2 models\n",
            "ok      key: from `experimental_bearer_token` of the configuration\n",
            "ok      model: `large`, which the provider lists\n",
            "ok      MCP: no servers\n",
            "ok      git: ",
            "is in a repository, branch trunk\n",
            &format!("ok      first turn: asks `large` of `mine`, in {}\n", work.display()),
            "        sandbox: workspace-write; asks for approval: never\n",
            "        the folder is not trusted",
            "        instructions: ",
            "AGENTS.md\n",
        ],
    );
    assert!(!page.contains(listing::KEY), "{page}");
}

#[test]
fn mcp_servers_are_started_and_only_a_required_one_stops_a_turn() {
    let env = TestEnvironment::new();
    let offline = "model_provider = \"offline\"\n";
    let good = format!("[mcp_servers.good]\ncommand = \"sh\"\nargs = [\"-c\", '''{SERVER}''']\n");
    let bad = "[mcp_servers.bad]\ncommand = \"false\"\n";
    let page = examined(&env, &format!("{offline}{good}"), true);
    has(&page, &["ok      MCP: good: 1 tools\n", "ok      first turn: asks "]);
    let page = examined(&env, &format!("{offline}{good}{bad}"), false);
    has(
        &page,
        &[
            "PROBLEM MCP: bad: ",
            "`agentd mcp get bad`",
            "ok      MCP: good: 1 tools\n",
            "ok      first turn",
        ],
    );
    let page = examined(&env, &format!("{offline}{bad}required = true\n"), false);
    has(
        &page,
        &["PROBLEM MCP: bad: ", "PROBLEM first turn: it fails: the required MCP server `bad`"],
    );
}

#[test]
fn git_that_is_missing_is_a_problem() {
    let env = TestEnvironment::new();
    fs::write(env.home().join("config.toml"), "model_provider = \"offline\"\n").unwrap();
    let output = env.agentd(&["doctor"]).env("PATH", env.tmp()).output().unwrap();
    has(&stdout(&output), &["PROBLEM git: there is no `git` on the PATH\n        Install git"]);
    assert_eq!(output.status.code(), Some(1));
}
