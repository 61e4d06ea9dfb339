//! Asks about hosts that no list contains, once per host, protocol and port for all concurrent
//! connections.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    Http,
    Https,
    Socks5Tcp,
    Socks5Udp,
}

/// The target of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// A name or an address in lower case.
    pub host: String,
    pub port: u16,
    pub protocol: Protocol,
}

/// Decides about hosts that no list contains.
pub trait Asker: Send + Sync {
    /// Returns whether the target may be reached. Dropping the future withdraws the question.
    fn ask(&self, target: Target) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// Concurrent questions; the hosts of further ones are refused.
const MAX_QUESTIONS: usize = 32;

pub(super) struct Gate {
    asker: Option<Arc<dyn Asker>>,
    asked: Arc<Mutex<HashMap<Target, PendingAnswer>>>,
}

/// Distributes an answer to all waiting connections.
type PendingAnswer = Arc<watch::Sender<Option<bool>>>;

impl Gate {
    pub(super) fn new(asker: Option<Arc<dyn Asker>>) -> Self {
        Self { asker, asked: Arc::default() }
    }

    /// The answer of the asker, which remembers decisions.
    pub(super) async fn may_reach(&self, target: &Target) -> bool {
        let Some(asker) = &self.asker else { return false };
        let mut answer = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            match asked.get(target) {
                Some(sender) => sender.subscribe(),
                None if asked.len() >= MAX_QUESTIONS => return false,
                None => {
                    let (sender, answer) = watch::channel(None);
                    let sender = Arc::new(sender);
                    asked.insert(target.clone(), sender.clone());
                    let (question, all) = (asker.ask(target.clone()), self.asked.clone());
                    let target = target.clone();
                    // Continues if the connection that asked first is closed, because others wait.
                    tokio::spawn(async move {
                        let decided = tokio::select! {
                            decided = question => decided,
                            () = sender.closed() => false,
                        };
                        all.lock().unwrap_or_else(PoisonError::into_inner).remove(&target);
                        sender.send_replace(Some(decided));
                    });
                    answer
                }
            }
        };
        answer.wait_for(Option::is_some).await.is_ok_and(|decided| *decided == Some(true))
    }
}
