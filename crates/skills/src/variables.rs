//! Environment variables that a skill cannot ask for: they change which programs or code run, which settings
//! programs read, or where they connect.

/// Names, in capitals, with a blank between two.
const NAMES: [&str; 4] = [
    // What starts programs, and where they are found.
    "PATH HOME SHELL TMPDIR ENV IFS PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS CDPATH FPATH ZDOTDIR EDITOR \
     VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS SSH_AUTH_SOCK INPUTRC \
     VIMINIT EXINIT TERMINFO",
    // What loaders and language runtimes load.
    "GCONV_PATH LOCPATH NLSPATH GLIBC_TUNABLES CLASSPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS \
     JAVA_HOME MAVEN_OPTS MAVEN_ARGS GRADLE_OPTS GRADLE_USER_HOME NODE_OPTIONS NODE_PATH \
     NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED NODE_REPL_EXTERNAL_MODULE PERLLIB RUBYOPT RUBYLIB \
     GEM_HOME GEM_PATH BUNDLE_GEMFILE PHPRC PHP_INI_SCAN_DIR R_PROFILE R_PROFILE_USER R_ENVIRON \
     R_ENVIRON_USER R_LIBS R_LIBS_USER ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS GUILE_LOAD_PATH EMACSLOADPATH VIM \
     VIMRUNTIME",
    // What compilers and build tools run.
    "CC CXX CPP LD AR AS GCC_EXEC_PREFIX COMPILER_PATH LIBRARY_PATH CPATH RUSTC RUSTFLAGS RUSTDOC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER MAKEFLAGS MFLAGS \
     MAKEFILES GNUMAKEFLAGS GOFLAGS GOPROXY GOSUMDB GOROOT GOPATH GOENV",
    // Where programs connect, and whom they believe.
    "HOSTALIASES LOCALDOMAIN RES_OPTIONS SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE DOCKER_HOST \
     KUBECONFIG WGETRC NETRC SOCKS_SERVER",
];

/// Beginnings of names, in capitals.
const BEGINNINGS: [&str; 25] = [
    "GIT_",
    "LD_",
    "DYLD_",
    "BASH_",
    "PYTHON",
    "PERL5",
    "LUA_",
    "DOTNET_",
    "CORECLR_",
    "COR_",
    "OPENSSL_",
    "CURL_",
    "XDG_",
    "NPM_CONFIG_",
    "YARN_",
    "PIP_",
    "UV_",
    "CARGO_",
    "RUSTUP_",
    "DOCKER_CERT",
    "DOCKER_CONFIG",
    "CONDA_",
    "SYSTEMD_",
    "MALLOC_",
    "TCLLIB",
];

/// Endings of names, in capitals: addresses of proxies.
const ENDINGS: [&str; 1] = ["_PROXY"];

/// Endings of names of secrets, such as `GIT_TOKEN`, which no program reads as a setting of its own.
const SECRETS: [&str; 4] = ["_TOKEN", "_KEY", "_PASSWORD", "_SECRET"];

/// Returns whether the variable changes which programs or code run, or where programs connect.
/// Programs read some of them in small letters, too.
pub(crate) fn steers_programs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_secret = SECRETS.iter().any(|ending| name.ends_with(ending));
    let begins = BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    NAMES.iter().any(|names| names.split(' ').any(|known| known == name))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || (begins && !is_secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_steer_programs_are_known() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "BASH_FUNC_ls",
            "ENV",
            "PATH",
            "HTTPS_PROXY",
            "https_proxy",
            "no_proxy",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "PYTHONPATH",
            "PERL5OPT",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "npm_config_registry",
            "PIP_INDEX_URL",
            "CURL_HOME",
        ] {
            assert!(steers_programs(name), "{name}");
        }
        for name in [
            "API_KEY",
            "PDF_KEY",
            "GITHUB_TOKEN",
            "GIT_TOKEN",
            "NPM_TOKEN",
            "UV_PUBLISH_TOKEN",
            "ENVIRONMENT",
            "AWS_SECRET_ACCESS_KEY",
            "CARGO_REGISTRY_TOKEN",
            "DATABASE_URL",
            "LDAP_USER",
            "HOMEPAGE",
        ] {
            assert!(!steers_programs(name), "{name}");
        }
    }
}
