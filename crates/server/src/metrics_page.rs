//! The server's part of the page of metrics (`/metrics`). The transports add what they know: see
//! [`Server::metrics`].

use telemetry::{Page, names};

use crate::server::Server;

/// A sum over several queues, and the longest of them.
#[derive(Clone, Copy, Default)]
struct Depth {
    sum: usize,
    max: usize,
}

impl Depth {
    fn over(depths: impl Iterator<Item = usize>) -> Self {
        depths.fold(Self::default(), |depth, one| Self {
            sum: depth.sum.saturating_add(one),
            max: depth.max.max(one),
        })
    }
}

impl Server {
    /// The page with the values of this moment. It shows numbers, and names from configurations: no texts of
    /// users or models, no paths, no credentials. Takes the lock of each connection for an instant, and
    /// waits for no thread.
    #[must_use]
    pub fn metrics(&self) -> Page {
        let services = &self.services;
        let mut page = Page::new(services.telemetry.figures());
        let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
        let build =
            [("version", services.options.version.as_str()), ("os", system), ("arch", machine)];
        page.set_of(names::BUILD_INFO, &build, 1.0);
        let threads = services.threads.all();
        page.set(names::THREADS, threads.len() as f64);
        let commands = Depth::over(threads.iter().map(|thread| thread.queued_commands()));
        page.set(names::THREAD_COMMANDS, commands.sum as f64);
        page.set(names::THREAD_COMMANDS_MAX, commands.max as f64);
        page.set(names::REQUESTS_RUNNING, services.unanswered.count() as f64);
        self.add_queues(&mut page);
        page
    }

    fn add_queues(&self, page: &mut Page) {
        let peers = self.services.connections.all();
        page.set(names::CONNECTIONS, peers.len() as f64);
        let unread: Vec<(usize, usize)> = peers
            .iter()
            // A message that arrives between the two counts as on disk for this page.
            .map(|peer| (peer.outbox.held_bytes(), peer.outbox.queued_bytes()))
            .collect();
        let all = Depth::over(unread.iter().map(|(_, all)| *all));
        let held = Depth::over(unread.iter().map(|(held, all)| *held.min(all)));
        page.set_of(names::OUTGOING_BYTES, &[("place", "memory")], held.sum as f64);
        let on_disk = all.sum.saturating_sub(held.sum);
        page.set_of(names::OUTGOING_BYTES, &[("place", "disk")], on_disk as f64);
        page.set(names::OUTGOING_BYTES_MAX, all.max as f64);
        let (records, bytes) = self.services.telemetry.queued();
        page.set(names::TELEMETRY_RECORDS, records as f64);
        page.set(names::TELEMETRY_BYTES, bytes as f64);
    }
}
