//! The model's knowledge of a thread: its history, the settings of its last introduction, and the
//! fragments for its next request.

use crate::cache_life::CacheLife;
use crate::configuration::Configuration;
use crate::cx::Cx;
use crate::history::{self, History};
use crate::port::effect::Record;
use crate::port::fragment::{Fragment, Mark};
use crate::port::item::UserContent;
use crate::port::prompt::CacheHints;
use crate::port::settings::Settings;
use crate::port::thread::ProjectDocument;
use crate::{Id, Millis, context, documents, skill_variables};

/// Characters of a preview.
const MAX_PREVIEW: usize = 1000;

/// The model's knowledge of a thread.
pub(crate) struct Conversation {
    history: History,
    /// True if the history was restored.
    is_restored: bool,
    /// The settings that the model knows.
    introduced: Option<Settings>,
    /// The fragments that the restored history lacked, outputs and input that waited, until a turn
    /// stores them.
    repairs: Vec<Fragment>,
    /// For the model's next request, besides changed settings.
    announcements: Vec<Fragment>,
    /// The project documents below the working folder that the history has, by path.
    documents: Vec<String>,
    /// True if the thread has its preview.
    has_preview: bool,
    cache: CacheLife,
    /// Those of the last request.
    cache_hints: CacheHints,
}

impl Conversation {
    pub(crate) fn new(
        introduced: Option<Settings>,
        has_preview: bool,
        documents: Vec<String>,
    ) -> Self {
        Self {
            history: History::default(),
            is_restored: false,
            introduced,
            repairs: Vec::new(),
            announcements: Vec::new(),
            documents,
            has_preview,
            cache: CacheLife::default(),
            cache_hints: CacheHints::default(),
        }
    }

    /// A request with the history is sent now.
    pub(crate) fn note_request(&mut self, now: Millis) {
        let (items, compacted) = (self.history.fragments().len(), self.history.compacted());
        self.cache_hints = self.cache.request(now, items, compacted);
    }

    /// The parts of the last request that later ones repeat.
    pub(crate) fn cache_hints(&self) -> CacheHints {
        self.cache_hints
    }

    pub(crate) fn is_restored(&self) -> bool {
        self.is_restored
    }

    /// Takes over the stored history, and completes one that a crash cut short. `is_set`: whether commands of
    /// the thread have this variable of the user.
    pub(crate) fn restore(
        &mut self,
        stored: Vec<Fragment>,
        is_set: impl Fn(&str) -> bool,
        cx: &mut Cx,
    ) {
        let (history, mut waiting) = history::received(stored);
        let mut history = history::with_unique_calls(history);
        for fragment in history.iter_mut().chain(&mut waiting) {
            fragment.mark = fragment.effective_mark();
        }
        self.repairs = history::missing_outputs(&history);
        self.repairs.extend(waiting);
        self.repairs.extend(skill_variables::lost(&history, is_set));
        history.extend(self.repairs.iter().cloned());
        // Session ids that an earlier run gave the model must not name other commands now. A run
        // takes at most eight numbers for each fragment that it leaves.
        cx.skip_numbers(1 + 8 * history.len() as u64);
        self.history = History::new(history);
        self.is_restored = true;
        self.note_documents(cx);
    }

    /// Drops the history, because stored turns were removed: it is restored before the next turn,
    /// which introduces the model to the settings again.
    pub(crate) fn forget(&mut self) {
        self.history = History::default();
        self.cache.replaced();
        self.is_restored = false;
        self.introduced = None;
        self.repairs.clear();
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    pub(crate) fn introduced(&self) -> Option<&Settings> {
        self.introduced.as_ref()
    }

    pub(crate) fn set_introduced(&mut self, settings: Option<Settings>) {
        self.introduced = settings;
    }

    /// Returns the number of introductions in the history.
    pub(crate) fn introductions(&self) -> usize {
        let is_context = |fragment: &&Fragment| fragment.mark == Mark::Context;
        self.history.fragments().iter().filter(is_context).count()
    }

    /// Returns the number of fragments that a compaction keeps word for word.
    pub(crate) fn kept_fragments(&self) -> usize {
        self.history.fragments().iter().filter(|fragment| fragment.is_kept()).count()
    }

    /// Appends to the history, and stores it.
    pub(crate) fn remember(&mut self, turn: Option<&Id>, fragments: Vec<Fragment>, cx: &mut Cx) {
        if !fragments.is_empty() {
            // What is stored is what was sent.
            let fragments: Vec<Fragment> = fragments.into_iter().map(history::sendable).collect();
            self.history.extend(fragments.iter().cloned());
            let mut stored = std::mem::take(&mut self.repairs);
            stored.extend(fragments);
            cx.persist(Record::History { turn: turn.cloned(), fragments: stored });
        }
    }

    /// Stores what completed a restored history, so that it is in the same place next time.
    pub(crate) fn store_repairs(&mut self, turn: &Id, cx: &mut Cx) {
        let fragments = std::mem::take(&mut self.repairs);
        if !fragments.is_empty() {
            cx.persist(Record::History { turn: Some(turn.clone()), fragments });
        }
    }

    /// Adds to the model's next request.
    pub(crate) fn announce(&mut self, fragment: Fragment) {
        self.announcements.push(fragment);
    }

    /// Adds a project document to the model's next request, unless it has it as it is. `room`: bytes of
    /// all documents below the working folder. Returns whether it adds one that is cut for want of room.
    pub(crate) fn offer_document(&mut self, document: &ProjectDocument, room: usize) -> bool {
        let given = documents::given(self.history.fragments().iter().chain(&self.announcements));
        let of_others = given.iter().filter(|(path, _)| *path != document.path);
        let used: usize = of_others.map(|(_, part)| documents::size(part)).sum();
        let part = documents::part(document, room.saturating_sub(used));
        let last = given.iter().find(|(path, _)| *path == document.path);
        let is_new = match last {
            Some((_, last)) => last.text != part.fragment.text,
            // There is nothing to say of one that the model never had and that is empty.
            None => documents::size(&part.fragment) > 0 || part.is_cut,
        };
        if is_new {
            self.announcements.push(part.fragment);
        }
        is_new && part.is_cut
    }

    /// The project documents that the model has or gets with its next request, as they are now.
    pub(crate) fn last_documents(&self) -> Vec<Fragment> {
        let parts = self.history.fragments().iter().chain(&self.announcements);
        let given = documents::given(parts).into_iter().map(|(_, part)| part);
        given.filter(|part| documents::size(part) > 0).cloned().collect()
    }

    /// The project documents that the thread's next request adds.
    pub(crate) fn announced_documents(&self) -> Vec<Fragment> {
        let given = documents::given(self.announcements.iter());
        given.into_iter().map(|(_, part)| part.clone()).collect()
    }

    /// The paths of the project documents below the working folder that the model has.
    pub(crate) fn documents(&self) -> &[String] {
        &self.documents
    }

    fn note_documents(&mut self, cx: &mut Cx) {
        let given = documents::given(self.history.fragments().iter());
        let given = given.into_iter().filter(|(_, part)| documents::size(part) > 0);
        let documents: Vec<String> = given.map(|(path, _)| path).collect();
        if documents != self.documents {
            self.documents.clone_from(&documents);
            cx.persist(Record::ProjectDocuments(documents));
        }
    }

    /// Adds to the model's next request what it does not know yet of the settings.
    pub(crate) fn introduce(
        &mut self,
        turn: &Id,
        configuration: &Configuration,
        goal: Option<Fragment>,
        cx: &mut Cx,
    ) {
        let settings = configuration.settings();
        let announcements = std::mem::take(&mut self.announcements);
        let mut parts = self.history.fragments().iter().rev();
        let last_catalog = parts.find(|part| context::is_skills_message(part));
        let skills = context::skills_change(last_catalog, configuration.skills());
        let mut fragments = match &self.introduced {
            None => {
                let mut all = context::introduction(configuration.context(), settings);
                all.extend(goal);
                all
            }
            Some(old) if old != settings => {
                context::changes(configuration.context(), old, settings)
            }
            Some(_) if announcements.is_empty() && skills.is_none() => return,
            Some(_) => Vec::new(),
        };
        fragments.extend(skills);
        fragments.extend(announcements);
        self.introduced = Some(settings.clone());
        cx.persist(Record::Introduced(Box::new(settings.clone())));
        self.remember(Some(turn), fragments, cx);
        self.note_documents(cx);
    }

    /// Replaces the history by what a compaction made of it, which introduces the settings.
    pub(crate) fn replace(
        &mut self,
        turn: &Id,
        fragments: Vec<Fragment>,
        settings: &Settings,
        cx: &mut Cx,
    ) {
        self.history = History::new(fragments.clone());
        self.cache.replaced();
        self.announcements.clear();
        self.introduced = Some(settings.clone());
        cx.persist(Record::Introduced(Box::new(settings.clone())));
        cx.persist(Record::HistoryReplaced { turn: turn.clone(), fragments });
        self.note_documents(cx);
    }

    /// Names the thread in lists by the first text of the user's first message.
    pub(crate) fn preview(&mut self, content: &[UserContent], cx: &mut Cx) {
        let text = content.iter().find_map(|part| match part {
            UserContent::Text { text, .. } => Some(text),
            _ => None,
        });
        if let Some(text) = text {
            self.preview_text(text, cx);
        }
    }

    /// As [`Conversation::preview`], with this text.
    pub(crate) fn preview_text(&mut self, text: &str, cx: &mut Cx) {
        if !self.has_preview {
            self.has_preview = true;
            cx.persist(Record::Preview(text.chars().take(MAX_PREVIEW).collect()));
        }
    }
}
