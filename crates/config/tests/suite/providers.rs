//! Model providers from files and environment variables.

use config::table::ProviderPlatform;
use config::{CloudAuth, Config, HttpProvider, Provider};

use crate::TestHome;

fn http(config: &Config, id: &str) -> HttpProvider {
    match &config.providers[id] {
        Provider::Http(http) => http.as_ref().clone(),
        Provider::Offline => panic!("{id} is offline"),
    }
}

// Effect of `model_providers.<id>.name`, `model_providers.<id>.wire_api`.
#[test]
fn custom() {
    let config = TestHome::with(
        r#"
        model_provider = "mine"
        [model_providers.mine]
        name = "Mine"
        base_url = "http://127.0.0.1:1/v1/"
        env_key = "MY_KEY"
        env_key_instructions = "ask Ada"
        env_http_headers = { X-Org = "MY_ORG", X-None = "EMPTY" }
        http_headers = { X-A = "b" }
        query_params = { v = "1" }
        request_max_retries = 0
        stream_max_retries = 2
        stream_idle_timeout_ms = 10
        wire_api = "responses"
        "#,
    )
    .config();
    let mine = http(&config, "mine");
    assert_eq!((mine.name.as_str(), mine.base_url.as_str()), ("Mine", "http://127.0.0.1:1/v1"));
    assert_eq!(mine.http_headers.keys().collect::<Vec<_>>(), ["X-A", "X-Org"]);
    assert_eq!(mine.http_headers["X-Org"].expose(), "org-7");
    assert_eq!((mine.request_max_retries, mine.stream_max_retries), (0, 2));
    assert_eq!(mine.stream_idle_timeout.as_millis(), 10);
    assert_eq!(mine.query_params["v"], "1");
    assert!(!mine.compress_requests);
    let secret = config.secret_variables.iter().filter(|name| !name.starts_with("OTEL_"));
    assert_eq!(
        secret.collect::<Vec<_>>(),
        ["AGENT_API_KEY", "EMPTY", "MY_KEY", "MY_ORG", "OPENAI_API_KEY"]
    );
}

#[test]
fn a_websocket_is_of_responses_alone() {
    let with = |wire: &str| {
        TestHome::with(&format!(
            "model_provider = \"p\"\n[model_providers.p]\nbase_url = \"https://p\"\nsupports_websockets = true\n\
             wire_api = \"{wire}\"\n"
        ))
    };
    for wire in ["messages", "chat", "gemini"] {
        let error = with(wire).error();
        let expect = ["model_providers.p.supports_websockets", wire, "remove one"];
        assert!(expect.iter().all(|part| error.contains(part)), "{error}");
    }
    for wire in ["responses", "auto"] {
        assert!(http(&with(wire).config(), "p").supports_websockets, "{wire}");
    }
}

// Effect of `model_providers.<id>.experimental_bearer_token`.
// Effect of `model_providers.<id>.requires_default_auth`.
#[test]
fn credentials() {
    let home = TestHome::with(
        "[model_providers.keyed]\nbase_url = \"http://k\"\nenv_key = \"MY_KEY\"\nexperimental_bearer_token = \"inline\"\n\
         [model_providers.token]\nbase_url = \"http://t\"\nexperimental_bearer_token = \"inline\"\n\
         [model_providers.borrowing]\nbase_url = \"http://b\"\nrequires_default_auth = true\n",
    );
    let config = home.config();
    let credential =
        |id: &str| http(&config, id).credential.map(|secret| secret.expose().to_owned());
    assert_eq!(credential("keyed").as_deref(), Some("secret-1"));
    assert_eq!(credential("token").as_deref(), Some("inline"));
    assert_eq!(http(&config, "borrowing").env_key.as_deref(), Some("AGENT_API_KEY"));
    assert!(!format!("{:?}", http(&config, "keyed")).contains("secret-1"));
}

// Effect of `model_providers.<id>.tls.ca-certificate`.
// Effect of `model_providers.<id>.tls.client-certificate`.
// Effect of `model_providers.<id>.tls.client-private-key`.
#[test]
fn tls_files() {
    let with = |tls: &str| {
        TestHome::with(&format!(
            "model_provider = \"p\"\n[model_providers.p]\nbase_url = \"https://p\"\ntls = {{ {tls} }}\n"
        ))
    };
    let both = with(
        "ca-certificate = \"/etc/ca.pem\", client-certificate = \"me.pem\", \
         client-private-key = \"/keys/me.pem\"",
    );
    let tls = http(&both.config(), "p").tls;
    assert_eq!(tls.ca_certificate.unwrap().to_str(), Some("/etc/ca.pem"));
    assert!(tls.client_certificate.unwrap().is_absolute());
    assert_eq!(tls.client_private_key.unwrap().to_str(), Some("/keys/me.pem"));
    let half = with("client-certificate = \"me.pem\"").resolved().unwrap_err().to_string();
    assert!(half.contains("model_providers.p.tls.client-private-key"), "{half}");
}

const BEDROCK: &str = "model_provider = \"p\"\n[model_providers.p]\nwire_api = \"messages\"\n\
                       base_url = \"https://bedrock-runtime.eu-west-1.amazonaws.com\"\n";

// Effect of `model_providers.<id>.auth`, `model_providers.<id>.platform`.
// Effect of `model_providers.<id>.aws.region`.
// Effect of `model_providers.<id>.aws.profile`.
#[test]
fn an_aws_account() {
    let with = |keys: &str| http(&TestHome::with(&format!("{BEDROCK}{keys}")).config(), "p");
    let aws = |provider: HttpProvider| match provider.cloud {
        Some(CloudAuth::Aws(auth)) => auth,
        other => panic!("{other:?}"),
    };
    let plain = with("auth = \"aws-sigv4\"");
    assert_eq!(plain.platform, ProviderPlatform::Bedrock);
    let plain = aws(plain);
    assert_eq!(
        (&*plain.region, plain.service, &*plain.profile),
        ("eu-west-1", "bedrock", "default")
    );
    assert!(!plain.profile_is_named && plain.keys.is_some() && plain.container.is_none());
    assert!(plain.profile_files.iter().all(|file| file.to_string_lossy().contains("/me/.aws/c")));
    assert_eq!(plain.metadata.as_deref(), Some("http://169.254.169.254"));
    assert!(!format!("{plain:?}").contains("aws-secret-1"));
    let named =
        aws(with("auth = \"aws-sigv4\"\naws = { region = \"us-east-2\", profile = \"work\" }"));
    assert_eq!((&*named.region, &*named.profile, named.keys), ("us-east-2", "work", None));
    assert!(named.profile_is_named);
    let direct = with("platform = \"direct\"");
    assert_eq!((direct.platform, direct.cloud), (ProviderPlatform::Direct, None));
    let config = TestHome::with(&format!("{BEDROCK}auth = \"aws-sigv4\"")).config();
    assert!(config.secret_variables.contains(&"AWS_SECRET_ACCESS_KEY".to_owned()));
}

#[test]
fn contradictions_of_clouds_are_refused() {
    let elsewhere = BEDROCK.replace("https://bedrock-runtime.eu-west-1.amazonaws.com", "https://h");
    for (text, part) in [
        (
            format!("{BEDROCK}auth = \"aws-sigv4\"\nenv_key = \"MY_KEY\""),
            "remove `env_key`, or `auth`",
        ),
        (
            BEDROCK.replace("messages", "chat"),
            "`model_providers.p.wire_api`: Amazon Bedrock speaks",
        ),
        (format!("{elsewhere}auth = \"aws-sigv4\""), "`model_providers.p.aws.region`: missing"),
        (
            format!("{}platform = \"vertex\"", elsewhere.replace("messages", "chat")),
            "`model_providers.p.wire_api`: Vertex AI speaks",
        ),
    ] {
        let message = TestHome::with(&text).error();
        assert!(message.contains(part), "{text:?} gave {message:?}");
    }
}

// Effect of `model_providers.<id>.google.credentials-file`.
#[test]
fn a_google_account() {
    let base = "[model_providers.p]\nwire_api = \"gemini\"\nauth = \"google\"\n\
        base_url = \"https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/google\"\n";
    let with = |keys: &str| http(&TestHome::with(&format!("{base}{keys}")).config(), "p");
    let google = |provider: HttpProvider| match provider.cloud {
        Some(CloudAuth::Google(auth)) => auth,
        other => panic!("{other:?}"),
    };
    let plain = with("");
    assert_eq!(plain.platform, ProviderPlatform::Vertex);
    let plain = google(plain);
    assert_eq!((plain.file, &*plain.metadata), (None, "http://metadata.google.internal"));
    let default = plain.default_file.unwrap();
    assert!(default.ends_with("me/.config/gcloud/application_default_credentials.json"));
    let named = google(with("google = { credentials-file = \"/keys/account.json\" }"));
    assert_eq!(named.file.unwrap().to_str(), Some("/keys/account.json"));
}

// Effect of `model_provider`.
#[test]
fn selected() {
    assert_eq!(TestHome::new().config().provider.id(), "default");
    let home = TestHome::with("model_provider = \"offline\"\n");
    assert_eq!(home.config().provider.ready(), Ok(()));
    for (text, expected) in [
        (
            "model_provider = \"offlin\"",
            ":1:18: `model_provider`: the model provider `offlin` is not defined; did you mean `offline`? Defined: `default`, `lmstudio`, `offline`, `ollama`",
        ),
        (
            "[model_providers.offline]\nbase_url = \"http://x\"",
            "`model_providers.offline`: the built-in provider `offline` cannot be redefined",
        ),
        ("[model_providers.default]\nbase_url = \"http://x\"", "set `default_provider_base_url`"),
        (
            "model_provider = \"x\"\n[model_providers.x]\nname = \"X\"",
            "`model_providers.x.base_url`: missing; write the provider's address",
        ),
        (
            "model_provider = \"x\"\n[model_providers.x]\nbase_url = \"ftp://h\"",
            ":3:12: `model_providers.x.base_url` must be a string with an address",
        ),
    ] {
        let message = TestHome::with(text).error();
        assert!(message.contains(expected), "{text:?} gave {message:?}");
    }
}

// Effect of `default_provider_base_url`.
#[test]
fn default_address() {
    let config = TestHome::with("default_provider_base_url = \"https://api.test/v1/\"").config();
    assert_eq!(http(&config, "default").base_url, "https://api.test/v1");
    assert!(!http(&config, "default").compress_requests, "a proxy may not read it");
    assert!(http(&TestHome::with("").config(), "default").compress_requests);
    let off = TestHome::with("features.enable_request_compression = false").config();
    assert!(!http(&off, "default").compress_requests);
    let message = off.provider.ready().unwrap_err().to_string();
    assert!(
        message.contains("AGENT_API_KEY, which is not set: set it, or OPENAI_API_KEY"),
        "{message}"
    );
    assert!(TestHome::with("default_provider_base_url = \"https:///v1\"").resolved().is_err());
}

#[test]
fn a_provider_with_the_default_login_names_all_ways_to_a_credential() {
    let message = |keys: &str| {
        let text = format!(
            "model_provider = \"p\"\n[model_providers.p]\nbase_url = \"https://h\"\n{keys}\n"
        );
        TestHome::with(&text).config().provider.ready().unwrap_err().to_string()
    };
    assert_eq!(
        message("requires_default_auth = true"),
        "the provider `p` needs the environment variable AGENT_API_KEY, which is not set: set it, or \
         OPENAI_API_KEY, to the key of your account; or log in (`agentd login`)"
    );
    assert_eq!(
        message("requires_default_auth = true\nenv_key = \"UNSET_KEY\""),
        "the provider `p` needs the environment variable UNSET_KEY, which is not set: set it; or log in \
         (`agentd login`)"
    );
    let own = message("requires_default_auth = true\nenv_key_instructions = \"Ask Ada\"");
    assert!(own.ends_with(": Ask Ada; or log in (`agentd login`)"), "{own}");
    let other = message("env_key = \"UNSET_KEY\"\nenv_key_instructions = \"Ask Ada\"");
    assert!(other.ends_with("UNSET_KEY, which is not set: Ask Ada"), "{other}");
}

// Effect of `oss_provider`.
#[test]
fn local() {
    for (id, port) in [("ollama", 11434), ("lmstudio", 1234)] {
        let config =
            TestHome::with(&format!("model_provider = \"{id}\"\noss_provider = \"{id}\"\n"))
                .config();
        assert_eq!(config.provider.ready(), Ok(()));
        assert!(http(&config, id).base_url.contains(&port.to_string()));
        assert_eq!(config.oss_provider.unwrap().as_str(), id);
    }
    let local = http(&TestHome::new().config(), "ollama").local;
    assert_eq!(local.map(|kind| kind.as_str()), Some("ollama"));
    let moved =
        TestHome::with("[model_providers.ollama]\nbase_url = \"http://gpu:11434/v1\"\n").config();
    assert_eq!(http(&moved, "ollama").base_url, "http://gpu:11434/v1");
}
