//! Valid files, and the errors of invalid ones.

use std::path::Path;

use super::*;
use crate::price::{Asked, Quantities, Reported};

pub(crate) const OFFLINE: &str = "http://127.0.0.1:9/v1";

fn read(text: &str) -> Result<Settings, String> {
    read_file(text).map_err(|error| error.to_string())
}

fn read_file(text: &str) -> Result<Settings, Error> {
    let environment = |name: &str| (name == "UPSTREAM_KEY").then(|| "secret-key".to_owned());
    let around = LoadContext {
        environment: &environment,
        folder: Path::new("/etc/gateway"),
        offline: OFFLINE,
    };
    Settings::read(text, Path::new("g.toml"), around)
}

const FULL: &str = r#"
listen = "127.0.0.1:0"
default_upstream = "main"
[store]
url = "sqlite:///var/lib/gateway.db"
[limits]
url = "redis://127.0.0.1:6379"
lease_ms = 500
[upstreams.other]
base_url = "http://other:8000/api/v1/"
[upstreams.main]
base_url = "https://main/v1"
env_key = "UPSTREAM_KEY"
base_urls = { eu = "https://eu.main/v1" }
[models."big-2026-08-01"]
aliases = ["big"]
shared_limit = "big-family"
long_context_tokens = 128000
shutdown_date = "2027-02-26"
successor = "big-2026-01-01"
price = { input = 1.25, cached_input = 0.125, output = 10.0 }
[models."big-2026-01-01"]
upstream = "other"
free = true
shared_limit = "big-family"
[tiers.free.limits.big]
rpm = 3
tpm = 40000
[tiers.2.limits."big-family"]
tpm = 100000
[tiers.2]
paid_usd = 60
"#;

#[test]
fn the_kind_of_an_error_tells_syntax_from_values() {
    assert_eq!(read_file("listen = 1").unwrap_err().kind(), ErrorKind::Syntax);
    let contradiction = "[models.a]\nupstream = \"b\"";
    assert_eq!(read_file(contradiction).unwrap_err().kind(), ErrorKind::InvalidValue);
    let around = LoadContext { environment: &|_| None, folder: Path::new("/"), offline: OFFLINE };
    let missing = Settings::load(Path::new("/nowhere/g.toml"), around).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Unreadable);
    let text = missing.to_string();
    assert!(text.starts_with("/nowhere/g.toml: cannot be read: ") && text.ends_with("permissions"));
}

#[test]
fn a_whole_file() {
    let settings = read(FULL).unwrap();
    let model = settings.catalog.find("big").unwrap();
    assert_eq!(&*model.name, "big-2026-08-01");
    assert_eq!(&*model.upstream.name, "main");
    assert_eq!(model.upstream.backends[0].keys[0].key().reveal(), "secret-key");
    assert!(!format!("{settings:?}").contains("secret-key"));
    assert_eq!(model.limits(Tier::Free).rpm, Some(3));
    assert_eq!(model.limits(Tier::Five).tpm, Some(40_000), "the nearest lower tier's");
    assert_eq!(model.group_limits(Tier::One), LimitSet::default());
    assert_eq!(model.group_limits(Tier::Three).tpm, Some(100_000));
    let shutdown = model.shutdown.as_ref().unwrap();
    assert_eq!(
        (shutdown.at, shutdown.at - shutdown.deprecated_from),
        (1_803_600_000_000_000, 180 * ratelimit::DAY)
    );
    let price = model.price_at(0, false).unwrap();
    let cost = |used: &Quantities| price.cost_of(used, &Asked::default(), &Reported::default());
    assert_eq!(cost(&Quantities::of_tokens(8, 1)), 20);
    let cached = Quantities { cached: 8, ..Quantities::of_tokens(9, 0) };
    assert_eq!(cost(&cached), 3, "1.25 + 1 micro-dollars, rounded up");
    let other = settings.catalog.find("big-2026-01-01").unwrap();
    assert_eq!(
        (&*other.upstream.backends[0].base.path, other.upstream.backends[0].base.origin.host()),
        ("/api/v1", Some("other"))
    );
    assert_eq!(settings.tier_for(5_999), Tier::One);
    assert_eq!(settings.tier_for(6_000), Tier::Two);
    assert_eq!(settings.tier(Tier::Five).monthly_limit, 200_000_000_000);
    assert_eq!(
        settings.limits,
        LimitsUrl::Redis {
            url: "redis://127.0.0.1:6379".into(),
            lease: Duration::from_millis(500),
            durable: false,
        }
    );
}

#[test]
fn an_empty_file_answers_from_the_offline_model() {
    let settings = read("").unwrap();
    assert_eq!(settings.store, StoreUrl::Sqlite("/etc/gateway/gateway.db".into()));
    let model = settings.catalog.find("offline").unwrap();
    assert_eq!(model.upstream.backends[0].base.origin.authority().unwrap().as_str(), "127.0.0.1:9");
    assert_eq!(settings.tier(Tier::Free).monthly_limit, 100_000_000);
}

#[test]
fn urls_with_passwords_may_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let around = LoadContext { environment: &|_| None, folder: folder.path(), offline: OFFLINE };
    let read = |text: &str| {
        let settings = Settings::read(text, Path::new("g.toml"), around);
        settings.map_err(|error| error.to_string())
    };
    let text =
        "state_folder = \"state\"\n[store]\nurl_file = \"store\"\n[limits]\nurl_file = \"limits\"";
    let missing = read(text).unwrap_err();
    assert!(missing.starts_with("g.toml:3: store.url_file: "), "{missing}");
    std::fs::write(folder.path().join("store"), "postgres://user:secret@host/name\n").unwrap();
    std::fs::write(folder.path().join("limits"), "rediss://:secret@host\n").unwrap();
    let settings = read(text).unwrap();
    assert_eq!(settings.store, StoreUrl::Postgres("postgres://user:secret@host/name".into()));
    let LimitsUrl::Redis { url, .. } = settings.limits else { panic!("{:?}", settings.limits) };
    assert_eq!(url, "rediss://:secret@host");
    assert_eq!(settings.state_folder, Some(folder.path().join("state")));
    std::fs::write(folder.path().join("limits"), "http://:secret@host").unwrap();
    let wrong = read(text).unwrap_err();
    assert!(
        wrong.contains("limits.url_file: must be memory:") && !wrong.contains("secret"),
        "{wrong}"
    );
    let both = read("[store]\nurl = \"sqlite://a\"\nurl_file = \"store\"").unwrap_err();
    assert_eq!(both, "g.toml:3: store.url_file: there is `url`, too; remove one of them");
}

#[test]
fn the_first_upstream_serves_requests_without_a_model() {
    let settings =
        read("[upstreams.z]\nbase_url='http://z/v1'\n[upstreams.a]\nbase_url='http://a/v1'")
            .unwrap();
    assert_eq!(&*settings.default_upstream.unwrap().name, "z");
}

#[test]
fn the_host_contains_a_non_default_port() {
    for (url, host) in [
        ("http://a/v1", "a"),
        ("http://a:80/v1", "a"),
        ("https://a:443", "a"),
        ("https://a:80/v1", "a:80"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
    ] {
        let settings = read(&format!("[upstreams.z]\nbase_url='{url}'")).unwrap();
        assert_eq!(settings.default_upstream.unwrap().backends[0].base.host, host, "{url}");
    }
}

#[test]
fn errors_name_the_line_and_the_key() {
    let check = |text: &str, expected: &str| {
        let error = read(text).unwrap_err();
        assert!(error.starts_with("g.toml:") && error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    };
    check("listen = 5", "1: invalid type");
    check("\nlisten_on = 'x'", "2: unknown field `listen_on`");
    check("[store]\nurl = 'mysql://x'", "2: store.url: must be sqlite:");
    check("[limits]\nurl = 'none'", "2: limits.url: must be memory:");
    check("[upstreams.a]\nbase_url = 'ftp://a'", "2: upstreams.a.base_url: ");
    check("[upstreams.a]\nbase_url = 'http://u:p@a'", "2: upstreams.a.base_url: must not contain");
    check(
        "[upstreams.a]\nbase_url = 'http://a'\nenv_key = 'NONE'",
        "3: upstreams.a.env_key: the environment variable NONE",
    );
    check(
        "default_upstream = 'b'\n[upstreams.a]\nbase_url = 'http://a'",
        "1: default_upstream: there is no upstream",
    );
    check("[models.a]\nupstream = 'b'", "2: models.a.upstream: there is no upstream");
    check(
        "[models.a]\naliases = ['x']\n[models.b]\naliases = ['x']",
        "4: models.b.aliases: `x` is already a name of the model `a`",
    );
    check("[models.a]\naliases = ['b']\n[models.b]", "models.a.aliases: `b` is already a name");
    check(
        "[models.a]\naliases = ['x']\n[tiers.1.limits.a]\nrpm=1\n[tiers.1.limits.x]\nrpm=1",
        "tiers.1.limits.x: its model has limits",
    );
    check("[tiers.6]", "1: tiers.6: is not a tier");
    check("[tiers.1.limits.nothing]\nrpm = 1", "1: tiers.1.limits.nothing: there is no model");
    check("[models.a]\nshutdown_date = '2027-02-30'", "2: models.a.shutdown_date: ");
    check("[models.a]\nsuccessor = 'b'", "2: models.a.successor: requires a shutdown_date");
    for (successor, mistake) in
        [("b", "there is no model or alias `b`"), ("x", "is the model itself")]
    {
        let text = format!(
            "[models.a]\naliases = ['x']\nshutdown_date = '2027-02-26'\nsuccessor = '{successor}'"
        );
        check(&text, &format!("4: models.a.successor: {mistake}"));
    }
    check("[models.'']", "models.\"\": has an empty name");
    check("[models.a]\nupstream_model = ''", "2: models.a.upstream_model: is empty");
    for wrong in ["127.0.0.1", "127.0.0.1:70000", ":8080", "", "unix:///tmp/s", "http://a:80"] {
        let expected = format!("1: listen: `{wrong}` must be an address and a port");
        check(&format!("listen = '{wrong}'"), &expected);
    }
    check(
        "listen = '127.0.0.1:9100'\n[metrics]\nlisten = '127.0.0.1:9100'",
        "3: metrics.listen: is the address of `listen`",
    );
    for wrong in ["x", "grpc://a:4317", "http://"] {
        let text = format!("[telemetry]\notlp_endpoint = '{wrong}'");
        check(&text, "2: telemetry.otlp_endpoint: must look like http://host:4318");
    }
    check(
        "[models.a]\nprice = { input = -1.0 }",
        "2: models.a.price.input: -1 is not a valid price",
    );
    check(
        "[admin]\ntoken_file = '/nonexistent'",
        "2: admin.token_file: /nonexistent: No such file",
    );
    check(
        "[server]\ntrusted_proxies = ['proxy.example']",
        "2: server.trusted_proxies: `proxy.example` is neither an address nor a range",
    );
    check(
        "[models.a]\nprice = { input = 1.0, training = 3.0 }",
        "models.a.max_trained_tokens: is missing, though `training` has a price",
    );
    check("[models.a]\nmax_trained_tokens = 0", "2: models.a.max_trained_tokens: must be 1 to");
    check(
        "[models.a]\nfirst_byte_timeout_ms = 600000",
        "2: models.a.first_byte_timeout_ms: must be at least 1 and less than the timeout_ms",
    );
    check("[server]\nmax_body_bytes = 0", "2: server.max_body_bytes: must be 1 to");
    for seconds in ["0", "59", "2592001"] {
        let text = format!("[server]\nbackground_expiry_seconds = {seconds}");
        check(&text, "2: server.background_expiry_seconds: must be 60 to 2592000");
    }
    check("[server]\nbackground_expiry_seconds = -1", "2: invalid value");
    for wrong in ["9100", "localhost:9100", "127.0.0.1", "127.0.0.1:70000", ""] {
        let text = format!("[metrics]\nlisten = '{wrong}'");
        check(&text, &format!("2: metrics.listen: `{wrong}` must be an address and a port"));
    }
    check("[metrics]\ntop_projects = 1001", "2: metrics.top_projects: must be 0 to 1000");
    check("[metrics]\ntop_projects = -1", "2: invalid value");
    check("[metrics]\ntoken_file = '/nonexistent'", "2: metrics.token_file: /nonexistent: No such");
    check("[metrics]\ntoken = 'x'", "2: unknown field `token`");
    check("[alerts]\nwebhook_url = 'https://a'", "2: alerts.webhook_url: needs `secret_file`");
    check("[alerts]\nsecret_file = 'x'", "2: alerts.secret_file: needs `webhook_url`");
    let both = |url: &str| format!("[alerts]\nwebhook_url = '{url}'\nsecret_file = '/nonexistent'");
    check(&both("ftp://a"), "2: alerts.webhook_url: must look like https://host/path");
    check(&both("https://u:p@a"), "2: alerts.webhook_url: must not contain a user");
    check(&both("https://a"), "3: alerts.secret_file: /nonexistent: No such file");
    check("[models.'*']", "models.\"*\": is reserved for");
    check("[tiers.1.limits.offline]\nrpm = -1", "2: invalid value");
}

/// The configuration in the documentation is valid.
#[test]
fn the_documented_example_is_valid() {
    let pages = [
        include_str!("../../../../docs/gateway.md"),
        include_str!("../../../../docs/gateway-backends.md"),
        include_str!("../../../../docs/gateway-prices.md"),
    ];
    for page in pages {
        let blocks: Vec<&str> = page.split("```toml\n").skip(1).collect();
        assert!(!blocks.is_empty());
        for block in blocks {
            read(block.split("```").next().unwrap()).unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn a_token_file_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    let text = format!("[admin]\ntoken_file = '{}'", path.display());
    let writable = [0o620, 0o602, 0o666].map(|mode| (mode, false));
    let readable = [0o644, 0o640, 0o604, 0o600, 0o400].map(|mode| (mode, true));
    for (mode, accepted) in writable.into_iter().chain(readable) {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(read(&text).is_ok(), accepted, "{mode:o}");
    }
    assert_eq!(read(&text).unwrap().admin_token.unwrap().reveal(), "0123456789abcdef");
}
