//! The managed network of a permission profile (`permissions.<name>.network`), and the thread that is
//! asked about hosts that are on no list.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use config::Config;
use sandbox::egress::{Asker, Egress, Outside, Protocol, Target};
use session::{NetworkProtocol, NetworkTarget, SandboxPolicy};
use tokio::sync::{mpsc, oneshot};

use services::allowed::MachineInput;
use services::egress_policy::egress_policy;
use services::error::Error;
use services::options::Options;
use services::thread_port::Command;

/// The managed network of commands under `policy`; `None` when they have none.
///
/// # Errors
/// A part of the profile that cannot be enforced, naming its key. Then no command may be started.
pub fn managed_network(
    policy: &SandboxPolicy,
    config: &Config,
    options: &Options,
    asker: Option<Arc<dyn Asker>>,
) -> Result<Option<Arc<Egress>>, Error> {
    let SandboxPolicy::Profile { name, managed: true, .. } = policy else { return Ok(None) };
    let Some(profile) = config.permission_profiles.get(name) else {
        return Err(Error::invalid_params(format!(
            "the permission profile `{name}` was removed from the configuration, so its managed \
             network cannot be set up"
        ))
        .next_step("define it again, or choose another profile"));
    };
    let policy = egress_policy(name, &profile.network, &options.environment)?;
    Ok(Some(Arc::new(Egress::new(policy, asker, Outside::real()))))
}

/// Asks the clients of a thread about what one of its commands wants to reach.
pub(crate) struct ThreadAsker {
    pub thread: mpsc::Sender<Command>,
    /// The command's number in the session.
    pub process: u64,
}

/// Keys of questions, unique in the process.
static NEXT_QUESTION: AtomicU64 = AtomicU64::new(0);

impl Asker for ThreadAsker {
    fn ask(&self, target: Target) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let question = PendingQuestion {
            thread: self.thread.clone(),
            key: NEXT_QUESTION.fetch_add(1, Ordering::Relaxed),
            answered: false,
        };
        let (process, target) = (self.process, session_target(target));
        Box::pin(async move {
            let mut question = question;
            let (answer, answered) = oneshot::channel();
            let input = MachineInput::NetworkAsk { process, key: question.key, target };
            if question
                .thread
                .send(Command::Reach { input, key: question.key, answer })
                .await
                .is_err()
            {
                return false;
            }
            let allowed = answered.await;
            question.answered = true;
            // A thread that has ended allows nothing.
            allowed.unwrap_or(false)
        })
    }
}

/// Withdraws itself when it is dropped without an answer.
struct PendingQuestion {
    thread: mpsc::Sender<Command>,
    key: u64,
    answered: bool,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.answered {
            return;
        }
        let (thread, key) = (self.thread.clone(), self.key);
        runtime.spawn(async move {
            // A thread that has ended has no questions.
            let _ = thread.send(Command::Input(MachineInput::NetworkWithdrawn { key })).await;
        });
    }
}

fn session_target(target: Target) -> NetworkTarget {
    let protocol = match target.protocol {
        Protocol::Http => NetworkProtocol::Http,
        Protocol::Https => NetworkProtocol::Https,
        Protocol::Socks5Tcp => NetworkProtocol::Socks5Tcp,
        Protocol::Socks5Udp => NetworkProtocol::Socks5Udp,
    };
    NetworkTarget { host: target.host, port: target.port, protocol }
}
