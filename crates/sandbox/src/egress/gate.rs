//! Asks about a host that is on no list: once for a host, protocol and port, however many
//! connections want it at the same time.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// How a command wants to reach a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Http,
    Https,
    Socks5Tcp,
    Socks5Udp,
}

/// What a command wants to reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// A name or an address, in lower case.
    pub host: String,
    pub port: u16,
    pub protocol: Protocol,
}

/// Who is asked about a host that is on no list.
pub trait Asker: Send + Sync {
    /// Whether it may be reached. Dropping the future takes the question back.
    fn ask(&self, target: Target) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// Questions that wait for their answer at once; one more is refused.
const MAX_QUESTIONS: usize = 32;

pub(super) struct Gate {
    asker: Option<Arc<dyn Asker>>,
    asked: Arc<Mutex<HashMap<Target, Told>>>,
}

/// Tells all who wait for one answer.
type Told = Arc<watch::Sender<Option<bool>>>;

impl Gate {
    pub(super) fn new(asker: Option<Arc<dyn Asker>>) -> Self {
        Self { asker, asked: Arc::default() }
    }

    /// The answer; the asker remembers what it wants to remember.
    pub(super) async fn may_reach(&self, target: &Target) -> bool {
        let Some(asker) = &self.asker else { return false };
        let mut answer = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            match asked.get(target) {
                Some(tell) => tell.subscribe(),
                None if asked.len() >= MAX_QUESTIONS => return false,
                None => {
                    let (tell, answer) = watch::channel(None);
                    let tell = Arc::new(tell);
                    asked.insert(target.clone(), tell.clone());
                    let (question, all) = (asker.ask(target.clone()), self.asked.clone());
                    let target = target.clone();
                    // Goes on when the connection that asked first is closed: others wait too.
                    tokio::spawn(async move {
                        let decided = tokio::select! {
                            decided = question => decided,
                            () = tell.closed() => false,
                        };
                        all.lock().unwrap_or_else(PoisonError::into_inner).remove(&target);
                        tell.send_replace(Some(decided));
                    });
                    answer
                }
            }
        };
        answer.wait_for(Option::is_some).await.is_ok_and(|decided| *decided == Some(true))
    }
}
