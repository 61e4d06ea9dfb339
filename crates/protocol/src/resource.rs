//! The resources: the groups of methods, each with one module and one trait.

/// Calls a macro with each resource's name, its module and its trait.
macro_rules! resources {
    ($with:ident) => {
        $with! {
            Connection: connection::ConnectionMethods,
            Thread: thread::ThreadMethods,
            Memory: memory::MemoryMethods,
            Goal: goal::GoalMethods,
            Queue: queue::QueueMethods,
            Search: search::SearchMethods,
            Turn: turn::TurnMethods,
            Review: review::ReviewMethods,
            Collaboration: collaboration::CollaborationMethods,
            Command: command::CommandMethods,
            Process: process::ProcessMethods,
            Fs: fs::FsMethods,
            Model: model::ModelMethods,
            Features: features::FeaturesMethods,
            Config: config::ConfigMethods,
            Account: account::AccountMethods,
            App: app::AppMethods,
            Marketplace: marketplace::MarketplaceMethods,
            Plugin: plugin::PluginMethods,
            PluginShare: plugin_share::PluginShareMethods,
            Mcp: mcp::McpMethods,
            Skills: skills::SkillsMethods,
            Hooks: hooks::HooksMethods,
            Fuzzy: fuzzy::FuzzyMethods,
            Realtime: realtime::RealtimeMethods,
            Windows: windows::WindowsMethods,
            Worktree: worktree::WorktreeMethods,
            Feedback: feedback::FeedbackMethods,
            ExternalAgent: external_agent::ExternalAgentMethods,
        }
    };
}

macro_rules! resource_names {
    ($($resource:ident: $module:ident::$trait:ident,)+) => {
        /// A group of methods: one module, one trait.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Resource {
            $(
                #[doc = concat!("Methods of [`crate::", stringify!($module), "`].")]
                $resource,
            )+
        }
    };
}

resources!(resource_names);

pub(crate) use resources;
