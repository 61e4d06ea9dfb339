//! The commands after a slash.

use protocol::{
    HooksListParams, OpeningOverrides, ReasoningEffort, ReviewStartParams, ReviewTarget,
    SkillsListParams, ThreadGoalSetParams, ThreadIdParams, ThreadNameSetParams, ThreadStartParams,
};
use serde_json::json;

use crate::app::events::Effect;
use crate::app::filling::What;
use crate::app::program::{App, word};
use crate::app::{
    access, account, appearance, completion, earlier, feedback, images, lists, login, mcp, memory,
    messages, model_choice, models, opening, own_prompts, plan, queueing, reading, removing,
    status_report, taking, terminals, vi, worktrees,
};
use crate::composer::{Command, Draft};
use crate::picker::{Picker, Row};

/// A command: its name, what follows it, and what it does.
struct Entry {
    name: &'static str,
    argument: &'static str,
    what: &'static str,
    /// True if it works while a turn runs.
    any_time: bool,
    run: fn(&mut App, &str),
}

const fn entry(
    name: &'static str,
    argument: &'static str,
    what: &'static str,
    any_time: bool,
    run: fn(&mut App, &str),
) -> Entry {
    Entry { name, argument, what, any_time, run }
}

const COMMANDS: &[Entry] = &[
    entry("account", "", "show the account and the remaining limits", true, account::show_account),
    entry("agents", "", "show the thread of an agent", true, choose_agent),
    entry(
        "approvals",
        "[read-only|ask|edit|full-access]",
        "choose what the agent may do, for this thread or from now on",
        true,
        access::choose,
    ),
    entry("archive", "", "archive this thread and start a new one", false, removing::archive),
    entry("clear", "", "start a new thread on an empty screen", false, clear_screen),
    entry("compact", "", "summarize the conversation to free context", false, |app, _| {
        if let Some(thread_id) = app.thread_id() {
            let params = ThreadIdParams { thread_id };
            app.call_or_report::<protocol::ThreadCompactStart>(
                &params,
                "The thread was not compacted",
            );
        }
    }),
    entry(
        "copy",
        "[code|N]",
        "copy the latest answer, or a block of its code, to the terminal's clipboard",
        true,
        taking::copy,
    ),
    entry(
        "cost",
        "",
        "show the tokens and the cost of this thread",
        true,
        status_report::show_cost,
    ),
    entry(
        "delete",
        "",
        "delete this thread permanently, after confirmation",
        false,
        removing::delete,
    ),
    entry("diff", "", "show all changes of the latest turn", true, show_diff),
    entry(
        "edit",
        "",
        "edit an earlier message and continue from there",
        false,
        earlier::choose_message,
    ),
    entry("exit", "", "quit", true, |app, _| app.quit()),
    entry("export", "[FILE]", "write the thread to a file as Markdown", true, taking::export),
    entry("feedback", "[NOTE]", "write a report to share", true, feedback::give_feedback),
    entry("fork", "", "continue in a copy of this thread", false, |app, _| {
        if let Some(id) = app.thread_id() {
            opening::fork_thread(app, id, OpeningOverrides::default());
        }
    }),
    entry("goal", "[TEXT|clear]", "set, show or clear the goal of the thread", true, set_goal),
    entry("help", "", "list the commands", true, show_help),
    entry("hooks", "", "list the hooks and which of them run", true, show_hooks),
    entry("image", "PATH", "add an image to the message", true, images::add_image),
    entry("init", "", "let the agent write an AGENTS.md for this folder", false, init),
    entry("login", "", "choose an account, a key or another model provider", false, login::log_in),
    entry("logout", "", "delete the credentials", false, account::log_out),
    entry(
        "mcp",
        "[login NAME]",
        "list the MCP servers and their tools, or log in at one",
        true,
        mcp::mcp,
    ),
    entry(
        "memory",
        "[on|off|reset]",
        "use notes of earlier threads, or delete them",
        true,
        memory::memory,
    ),
    entry("mention", "[FILE]", "add a file to the message", true, mention),
    entry("model", "[NAME [EFFORT]]", "list the models, or choose one", true, set_model),
    entry("new", "", "start a new thread", false, start_new),
    entry("permissions", "[read-only|ask|edit|full-access]", "as /approvals", true, access::choose),
    entry(
        "plan",
        "[on|off|MESSAGE]",
        "show the plan; plan without changing anything",
        true,
        plan::plan,
    ),
    entry("ps", "", "list running commands, with their output", true, terminals::show_terminals),
    entry(
        "queue",
        "",
        "list, edit, move, start and remove queued messages",
        true,
        queueing::show_queue,
    ),
    entry("quit", "", "quit", true, |app, _| app.quit()),
    entry("raw", "", "show messages with or without formatting", true, appearance::toggle_raw),
    entry("rename", "NAME", "name this thread", true, rename),
    entry("resume", "[ID]", "open another thread", false, resume),
    entry(
        "review",
        "[TEXT]",
        "review uncommitted changes, or what the text describes",
        false,
        review,
    ),
    entry(
        "search",
        "[WORDS]",
        "find a thread by what was said in it, in all folders",
        false,
        lists::search_threads,
    ),
    entry("skills", "", "list the skills", true, show_skills),
    entry(
        "status",
        "",
        "show the thread, its settings and its use",
        true,
        status_report::show_status,
    ),
    entry(
        "statusline",
        "",
        "choose the items of the status line",
        true,
        appearance::choose_status_line,
    ),
    entry(
        "stop",
        "",
        "end the commands that run in the background",
        true,
        terminals::stop_terminals,
    ),
    entry("theme", "[NAME]", "choose the colours for code", true, appearance::set_theme),
    entry("transcript", "", "read the whole thread, with a search", true, reading::read_transcript),
    entry("undo", "", "undo the latest turn and its file changes", false, earlier::undo),
    entry("vim", "", "switch between Vi and Emacs keys", true, vi::toggle_vi),
    entry(
        "worktree",
        "[list|new|merge|remove [NAME]]",
        "work in a git worktree of the thread's own, merge it, remove it",
        false,
        worktrees::worktree,
    ),
];

const NO_HOOKS: &str = "There are no hooks. Define them in hooks.json, in the agent's home or in a \
    project's .agent folder; see `agentd hooks --help`.";

/// The commands, for the completion of the composer.
pub(super) fn command_list() -> Vec<Command> {
    COMMANDS
        .iter()
        .map(|it| Command {
            name: it.name.to_owned(),
            description: it.what.to_owned(),
            hint: Some(it.argument.to_owned()).filter(|hint| !hint.is_empty()),
            is_available: true,
        })
        .collect()
}

/// Runs what was typed after a slash. What is not a command is not sent: a mistyped one would start a turn.
pub(super) fn command(app: &mut App, name: &str, rest: &str, draft: Draft) {
    let Some(command) = COMMANDS.iter().find(|it| it.name == name) else {
        if let Some(message) = own_prompts::message(app, name, &draft) {
            return messages::submit(app, message);
        }
        let names = COMMANDS.iter().map(|it| it.name).chain(app.own_prompts.names());
        let near = names.map(|it| (strsim::jaro_winkler(name, it), it));
        let near = near.filter(|(similarity, _)| *similarity > 0.8);
        let near = near.max_by(|(a, _), (b, _)| a.total_cmp(b));
        let hint = match near {
            Some((_, near)) => format!("Did you mean /{near}?"),
            None => "/help lists all of them.".to_owned(),
        };
        app.notice(format!(
            "Unknown command: /{name}. {hint} Start the line with a space to send it as a message."
        ));
        return app.writing.composer_mut().restore(draft);
    };
    if app.session.turn.is_some() && !command.any_time {
        app.notice(format!("/{name} is not available during a turn. Esc interrupts the turn."));
        app.writing.composer_mut().restore(draft);
        return;
    }
    if command.argument.is_empty() && !rest.trim().is_empty() {
        app.notice(format!(
            "/{name} takes no argument. Start the line with a space to send it as a message."
        ));
        return app.writing.composer_mut().restore(draft);
    }
    // What an earlier command said would stand under this one.
    app.output.clear_notice();
    (command.run)(app, rest.trim());
}

/// True if the command works while a turn runs, so that it begins none.
fn is_for_any_time(name: &str) -> bool {
    COMMANDS.iter().any(|it| it.name == name && it.any_time)
}

fn show_help(app: &mut App, _: &str) {
    let mut text = String::new();
    for command in COMMANDS {
        let name = format!("/{} {}", command.name, command.argument);
        text.push_str(&format!("{name:<42} {}\n", command.what));
    }
    text.push_str(&app.own_prompts.help());
    text.push_str("Enter sends (also into a running turn), Tab sends at its end, Shift+Enter or Ctrl+J breaks the line.\n");
    text.push_str("Esc interrupts, Ctrl+G opens the editor, Ctrl+R finds an earlier message, Ctrl+C twice quits.");
    app.info(&text);
}

fn choose_agent(app: &mut App, _: &str) {
    if app.session.agents.is_empty() {
        return app.info("This thread has no agents.");
    }
    let row = |(thread, state): (&String, &protocol::CollabAgentState)| Row {
        id: thread.clone(),
        title: format!("{:?}", state.status),
        detail: state.message.clone().unwrap_or_default(),
        has_hit: false,
        columns: vec![thread.clone()],
    };
    let rows = app.session.agents.iter().map(row).collect();
    lists::choose(app, Picker::fixed("Choose an agent", rows), What::Agents);
}

fn show_diff(app: &mut App, _: &str) {
    if app.session.diff.is_empty() {
        return app.info("The latest turn changed no files.");
    }
    let lines = crate::diff::unified(&app.session.diff, &app.context());
    if lines.len() > app.output.size().rows / 2 {
        return reading::read_lines(app, "Changes of the latest turn", lines);
    }
    app.print(lines);
    app.print([crate::text::Line::default()]);
}

fn show_skills(app: &mut App, _: &str) {
    let params =
        SkillsListParams { cwds: vec![app.working_folder()], ..SkillsListParams::default() };
    app.call_and_show::<protocol::SkillsList>(&params, |list| {
        let skills = list.data.iter().flat_map(|folder| &folder.skills);
        let lines = skills.map(|skill| format!("${}  {}", skill.name, skill.description));
        lines_or(lines, "There are no skills: agentd skills new")
    });
}

fn show_hooks(app: &mut App, _: &str) {
    let params = HooksListParams { cwds: vec![app.working_folder()] };
    app.call_and_show::<protocol::HooksList>(&params, |list| {
        let hooks = list.data.into_iter().flat_map(|folder| folder.hooks);
        let lines = hooks.map(|hook| {
            let handler = hook.command.unwrap_or_else(|| word(&hook.handler_type));
            format!("{}  {handler}", word(&hook.event_name))
        });
        lines_or(lines, NO_HOOKS)
    });
}

fn set_model(app: &mut App, rest: &str) {
    let mut words = rest.split_whitespace();
    let Some(model) = words.next() else {
        return model_choice::choose_model(app);
    };
    let effort = match words.next() {
        None => None,
        Some(effort) => match serde_json::from_value::<ReasoningEffort>(json!(effort)) {
            Ok(effort) => Some(effort),
            // The request for the next turn would be refused, long after this.
            Err(_) => {
                return app.error(&format!(
                    "unknown effort {effort:?}: choose none, minimal, low, medium, high or xhigh"
                ));
            }
        },
    };
    models::check_model(app, model.to_owned(), effort);
}

fn set_goal(app: &mut App, rest: &str) {
    let Some(thread_id) = app.thread_id() else { return };
    match rest {
        "" => app.call_and_show::<protocol::ThreadGoalGet>(&ThreadIdParams { thread_id }, |read| {
            match read.goal {
                Some(goal) => format!("The goal: {}", goal.objective),
                None => "This thread has no goal.".to_owned(),
            }
        }),
        "clear" => app
            .call_and_show::<protocol::ThreadGoalClear>(&ThreadIdParams { thread_id }, |_| {
                "The goal is cleared.".to_owned()
            }),
        goal => {
            let objective = Some(goal.to_owned());
            let params =
                ThreadGoalSetParams { thread_id, objective, status: None, token_budget: None };
            app.call_and_show::<protocol::ThreadGoalSet>(&params, |_| {
                "The agent works until it reaches the goal. /goal clear stops that.".to_owned()
            });
        }
    }
}

/// The list of files opens while the word is written.
fn mention(app: &mut App, file: &str) {
    app.writing.type_words(&format!("@{file}"));
    completion::search(app);
}

fn init(app: &mut App, _: &str) {
    let prompt = "Write an AGENTS.md for this folder: how it is organised, how it is built and tested, \
                  and the conventions that a new contributor has to know. Read what is there first, and \
                  keep it short.";
    messages::start_turn(app, Draft::plain(prompt));
}

fn rename(app: &mut App, name: &str) {
    let Some(thread_id) = app.session.id.clone().filter(|_| !name.is_empty()) else {
        return app.notice("The name is missing: /rename NAME");
    };
    let params = ThreadNameSetParams { thread_id, name: name.to_owned() };
    app.call_or_report::<protocol::ThreadNameSet>(&params, "The thread was not renamed");
}

fn resume(app: &mut App, id: &str) {
    if id.is_empty() {
        return lists::choose_thread(app);
    }
    opening::resume_thread(app, id.to_owned(), OpeningOverrides::default());
}

fn review(app: &mut App, text: &str) {
    let target = match text {
        "" => ReviewTarget::UncommittedChanges {},
        text => ReviewTarget::Custom { instructions: text.to_owned() },
    };
    if let Some(thread_id) = app.thread_id() {
        let params = ReviewStartParams { thread_id, target, delivery: None };
        app.call_or_report::<protocol::ReviewStart>(&params, "No review was started");
    }
}

fn clear_screen(app: &mut App, _: &str) {
    app.output.emit(Effect::Clear);
    start_new(app, "");
}

/// In the same folder: a server that runs elsewhere has another one.
fn start_new(app: &mut App, _: &str) {
    let cwd = Some(app.working_folder());
    opening::start_thread(app, &ThreadStartParams { cwd, ..ThreadStartParams::default() });
}

/// Sends what waits here, up to the first message that begins a turn. The queue of the thread comes before.
pub(super) fn next_queued(app: &mut App) {
    while app.session.turn.is_none()
        && !app.session.queue.goes_on()
        && !app.login.holds()
        && let Some(draft) = app.outbox.queue_mut().pop_front()
    {
        app.keep_soon();
        let Some((name, rest)) = draft.command() else {
            let is_shell = draft.shell().is_some();
            messages::submit(app, draft);
            match is_shell || app.session.id.is_none() {
                true => return,
                false => continue,
            }
        };
        let (name, rest) = (name.to_owned(), rest.to_owned());
        command(app, &name, &rest, draft);
        // It begins a turn, or opens another thread, with an answer that comes later.
        if !is_for_any_time(&name) {
            return;
        }
    }
}

/// The lines as a text, or `none` where there are none.
fn lines_or(lines: impl Iterator<Item = String>, none: &str) -> String {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { none.to_owned() } else { lines.join("\n") }
}
