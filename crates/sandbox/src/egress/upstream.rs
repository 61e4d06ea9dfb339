//! The upstream proxy.

/// A proxy for all connections (`allow_upstream_proxy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    /// Hosts that are reached without it: names, and suffixes with a leading dot.
    except: Vec<String>,
}

impl Upstream {
    /// Parses `http://[user:password@]host:port` and a list in the form of `NO_PROXY`. `None` for
    /// another kind of proxy.
    pub fn parse(url: &str, no_proxy: &str, base64: impl Fn(&[u8]) -> String) -> Option<Self> {
        let rest = url.strip_prefix("http://").unwrap_or(url);
        if rest.contains("://") {
            return None;
        }
        let rest = rest.trim_end_matches('/');
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(u, p)| (Some(u), p));
        let (host, port) = place.rsplit_once(':')?;
        let except = no_proxy.split(',').map(|name| name.trim().to_ascii_lowercase());
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
            authorization: user.map(|user| format!("Basic {}", base64(user.as_bytes()))),
            except: except.filter(|name| !name.is_empty()).collect(),
        })
    }

    pub(super) fn serves(&self, host: &str) -> bool {
        !self.except.iter().any(|name| {
            let bare = name.trim_start_matches('*').trim_start_matches('.');
            name == "*" || host == bare || host.strip_suffix(bare).is_some_and(|f| f.ends_with('.'))
        })
    }

    pub(super) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}
