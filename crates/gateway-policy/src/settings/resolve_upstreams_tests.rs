//! Upstreams with several backends: what they inherit, and the mistakes in their settings.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::super::Settings;
use super::*;

fn read_in(folder: &Path, text: &str) -> Result<Settings, String> {
    let environment = |name: &str| match name {
        "KEY_A" => Some("key-a".to_owned()),
        "KEY_B" => Some("key-b".to_owned()),
        "KEY_C" => Some("key-a".to_owned()),
        "KEY_BAD" => Some("not sendable\n".to_owned()),
        _ => None,
    };
    let around =
        LoadContext { environment: &environment, folder, offline: "http://127.0.0.1:9/v1" };
    Settings::read(text, Path::new("g.toml"), around).map_err(|error| error.to_string())
}

fn read(text: &str) -> Result<Settings, String> {
    read_in(Path::new("/etc/gateway"), text)
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn backends_inherit_what_they_do_not_set() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("key"), "key-of-a-file\n", 0o644);
    let settings = read_in(
        folder.path(),
        r#"
[upstreams.main]
env_key = "KEY_A"
key_header = "api-key"
max_concurrency = 9
prompt_cache_retention = false
structured_output = true
health_path = "/health"
timeout_ms = 5000
backends = [
    { name = "a", base_url = "https://a.example/v1", base_urls = { eu = "https://eu.a.example/v1" } },
    { name = "b", base_url = "https://b.example/api/v1", weight = 3, priority = 1, max_concurrency = 2,
      env_keys = ["KEY_B", "KEY_A"], key_file = "key", prompt_cache_retention = true, key_header = "x-api-key",
      structured_output = false,
      health_path = "/up?x=1", health_interval_ms = 500, proxy = "http://proxy:3128" },
]
"#,
    );
    let settings = settings.unwrap();
    assert_eq!(settings.warnings.len(), 1, "others can read the key: {:?}", settings.warnings);
    let upstream = settings.default_upstream.unwrap();
    let [a, b] = &upstream.backends[..] else { panic!("two") };
    let keys =
        |of: &Backend| of.keys.iter().map(|key| key.key().reveal().to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (keys(a), keys(b)),
        (vec!["key-a".into()], vec!["key-b".into(), "key-a".into(), "key-of-a-file".into()])
    );
    assert_eq!((&*a.label, &*b.label), ("main/a", "main/b"));
    assert_eq!((a.weight, a.priority, b.weight, b.priority), (1, 0, 3, 1));
    assert_eq!((a.key_header, b.key_header), (KeyHeader::ApiKey, KeyHeader::XApiKey));
    assert_eq!((a.max_concurrency, b.max_concurrency), (Some(9), Some(2)));
    assert_eq!((a.prompt_cache_retention, b.prompt_cache_retention), (false, true));
    assert_eq!((a.structured_output, b.structured_output), (Some(true), Some(false)));
    let check =
        |path: &str, ms| HealthCheck { path: path.into(), interval: Duration::from_millis(ms) };
    assert_eq!(a.health_check, Some(check("/health", 10_000)));
    assert_eq!(b.health_check, Some(check("/up?x=1", 500)));
    assert_eq!(a.network.connect_timeout, Duration::from_secs(1));
    assert!(a.network.fingerprint != b.network.fingerprint && a.id != b.id);
    assert!(upstream.serves(Some("eu")) && !upstream.serves(Some("us")));
    assert_eq!((&*upstream.backend("b").name, &*upstream.backend("main").name), ("b", "a"));
}

#[test]
fn an_upstream_without_a_list_is_its_only_backend() {
    let settings =
        read("[upstreams.main]\nbase_url = 'http://a/v1'\nenv_keys = ['KEY_A', 'KEY_B']");
    let upstream = settings.unwrap().default_upstream.unwrap();
    let [only] = &upstream.backends[..] else { panic!("one") };
    assert_eq!((&*only.name, &*only.label, only.keys.len()), ("main", "main", 2));
    assert!(only.prompt_cache_retention && upstream.retry_unanswered);
    assert_eq!(only.structured_output, None);
    assert_eq!(only.network.connect_timeout, Duration::from_secs(10));
}

#[test]
fn a_backend_has_the_time_for_a_first_byte_of_its_upstream_or_its_own() {
    let text = "[upstreams.m]\nfirst_byte_timeout_ms = 500\nbackends = [\
        { name = 'a', base_url = 'http://a/v1' },\
        { name = 'b', base_url = 'http://b/v1', first_byte_timeout_ms = 700 }]\n\
        [models.x]\nfirst_byte_timeout_ms = 900\n[models.y]\n";
    let settings = read(text).unwrap();
    let times = settings.upstreams[0].backends.iter().map(|backend| backend.first_byte_timeout);
    let milliseconds = |ms| Some(Duration::from_millis(ms));
    assert!(times.eq([milliseconds(500), milliseconds(700)]));
    let of = |model| settings.catalog.find(model).unwrap().first_byte_timeout;
    assert_eq!([of("x"), of("y")], [milliseconds(900), None]);
}

/// The same address and name keep their number in a changed file, so that the health stays.
#[test]
fn the_number_is_that_of_the_name_and_the_address() {
    let id = |text: &str| {
        let upstream = read(text).unwrap().default_upstream.unwrap();
        upstream.backends[0].id
    };
    let first = id("[upstreams.m]\nbackends = [{ name = 'a', base_url = 'http://a/v1' }]");
    for (same, text) in [
        (true, "[upstreams.m]\nbackends = [{ name = 'a', base_url = 'http://a/v1/', weight = 5 }]"),
        (false, "[upstreams.m]\nbackends = [{ name = 'a', base_url = 'http://b/v1' }]"),
        (false, "[upstreams.m]\nbackends = [{ name = 'b', base_url = 'http://a/v1' }]"),
        (false, "[upstreams.n]\nbackends = [{ name = 'a', base_url = 'http://a/v1' }]"),
    ] {
        assert_eq!(id(text) == first, same, "{text}");
    }
}

#[test]
fn mistakes_name_the_line_and_the_key() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("writable"), "secret", 0o666);
    write(&folder.path().join("empty"), "\n", 0o600);
    write(&folder.path().join("lines"), "one\ntwo", 0o600);
    write(&folder.path().join("no.pem"), "no certificate", 0o600);
    let check = |text: &str, expected: &str| {
        let error = read_in(folder.path(), text).unwrap_err();
        assert!(error.starts_with("g.toml:") && error.contains(expected), "{text}\n{error}");
        assert!(!error.contains('\n') && !error.contains("u:secret"), "{error}");
    };
    let list = |second: &str| {
        format!(
            "[upstreams.m]\n[[upstreams.m.backends]]\nname = 'a'\nbase_url = 'http://a/v1'\n\
             [[upstreams.m.backends]]\n{second}"
        )
    };
    check("[upstreams.m]", "1: upstreams.m: has no `base_url`");
    check("[upstreams.m]\nbackends = []", "2: upstreams.m.backends: has 0 backends");
    check("[upstreams.m]\nbackends = 5", "2: invalid type");
    check(
        "[upstreams.m]\nbase_url = 'http://a'\nbackends = [{ name = 'b', base_url = 'http://b' }]",
        "2: upstreams.m.base_url: stands next to `backends`",
    );
    check(
        &list("name = 'a'\nbase_url = 'http://b/v1'"),
        "6: upstreams.m.backends.1.name: `a` is the name of another backend already",
    );
    check(
        "[upstreams.m]\nbackends = [\n{ name = 'a', base_url = 'http://a' },\n\
         { name = 'a', base_url = 'http://b' }]",
        "4: upstreams.m.backends.1.name: `a` is the name",
    );
    check(&list("base_url = 'http://b/v1'"), "5: upstreams.m.backends.1: has no `name`");
    check(&list("name = 'b/c'\nbase_url = 'http://b'"), "6: upstreams.m.backends.1.name: `b/c`");
    check(&list("name = ''\nbase_url = 'http://b'"), "upstreams.m.backends.1.name: ``");
    check(&list("name = 'b'"), "5: upstreams.m.backends.1: has no `base_url`");
    check(&list("name = 'b'\nbase_url = 'b'"), "7: upstreams.m.backends.1.base_url: ");
    check(
        &list("name = 'b'\nbase_url = 'http://a/v1'"),
        "7: upstreams.m.backends.1.base_url: is that of the backend `a`",
    );
    check(&list("name = 'b'\nbase_url = 'http://b'\ntimeout_ms = 5"), "unknown field");
    let b = |more: &str| list(&format!("name = 'b'\nbase_url = 'http://b'\n{more}"));
    for (setting, expected) in [
        ("key_header = 'cookie'", "key_header"),
        ("weight = 0", "must be 1 to 1000"),
        ("weight = 1001", "must be 1 to 1000"),
        ("weight = -1", "invalid value"),
        ("weight = '1'", "invalid type"),
        ("priority = 101", "must be 0 to 100"),
        ("max_concurrency = 0", "must be 1 to 1000000"),
        ("env_key = 'NONE'", "the environment variable NONE is not set"),
        ("env_keys = ['KEY_A', 'NONE']", "the environment variable NONE is not set"),
        ("env_keys = []", "names 0 keys; 1 to 16"),
        ("env_key = 'KEY_BAD'", "cannot be sent in a header"),
        ("env_keys = ['KEY_A', 'KEY_C']", "is the same as that of the variable KEY_C"),
        ("key_file = 'gone'", "gone: No such file"),
        ("key_file = '.'", "not a regular file"),
        ("key_file = 'writable'", "writable"),
        ("key_file = 'empty'", "empty"),
        ("key_files = ['lines']", "cannot be sent in a header"),
        ("ca_file = 'gone.pem'", "gone.pem: "),
        ("ca_file = 'no.pem'", "no certificate"),
        ("proxy = 'ftp://u:secret@p'", "is not the address of a proxy"),
        ("proxy = ''", "is not the address of a proxy"),
        ("health_path = 'health'", "is not a path"),
        ("health_path = '//other.example/health'", "is not a path"),
        ("health_path = 'http://other.example/'", "is not a path"),
        ("health_interval_ms = 1000", "requires a health_path"),
        ("health_path = '/h'\nhealth_interval_ms = 0", "must be 10 to 3600000"),
    ] {
        check(&b(setting), expected);
        if !matches!(expected, "invalid value" | "invalid type") {
            check(&b(setting), "upstreams.m.backends.1.");
        }
    }
    check("[upstreams.m]\nbase_url = 'http://a'\nweight = 2", "unknown field `weight`");
    check("[upstreams.m]\nbase_url = 'http://a'\nconnect_timeout_ms = 0", "must be at least 1");
    check(
        "[upstreams.m]\nkey_file = 'gone'\nbackends = [{ name = 'a', base_url = 'http://a' }]",
        "2: upstreams.m.key_file: ",
    );
    let many: Vec<String> =
        (0..65).map(|at| format!("{{ name = 'n{at}', base_url = 'http://n{at}' }}")).collect();
    check(&format!("[upstreams.m]\nbackends = [{}]", many.join(",")), "has 65 backends; 1 to 64");
}

#[test]
fn mistakes_of_the_environment_are_found() {
    for (variable, value) in [("HTTPS_PROXY", "ftp://u:secret@p"), ("SSL_CERT_FILE", "/gone.pem")] {
        let environment = |name: &str| (name == variable).then(|| value.to_owned());
        let around = LoadContext {
            environment: &environment,
            folder: Path::new("/"),
            offline: "http://127.0.0.1:9/v1",
        };
        let error = Settings::read("", Path::new("g.toml"), around).unwrap_err().to_string();
        assert!(error.contains(variable) && !error.contains("secret"), "{error}");
    }
}
