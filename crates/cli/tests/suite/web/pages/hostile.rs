//! Content that means harm, that is huge or that is none.

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::web::{Site, answer, call, check_errors, send, start_thread};

/// No longer than this may the page take no input, on a machine that is busy with other tests.
const LONGEST_PAUSE_MS: u64 = 5_000;

fn hostile_answer() -> &'static str {
    "<img src=x onerror=\"window.harmed = 1\"><script>window.harmed = 2</script>\n\n\
     [click](javascript:window.harmed=3) [data](data:text/html,<script>) <javascript:alert(1)>\n\n\
     [fine](https://example.com/\"onmouseover=\"window.harmed=4) ![x](http://example.com/pixel.png)\n\n\
     | <b>a</b> | <iframe src=javascript:window.harmed=5> |\n|---|---|\n| <svg onload=window.harmed=6> | `</code><script>` |\n\n\
     ```</pre><script>window.harmed = 7</script>\n</code></pre><script>window.harmed = 8</script>\n```\n"
}

#[test]
fn what_the_model_commands_and_files_say_is_text() {
    let shown = "touch 'a\u{202e}b\u{200b}c' \u{1b}[31m <b>";
    let question = json!({"id": "q", "header": "<b>H\u{202e}</b>", "question": "<script>q</script>",
        "options": [{"label": "<i>A</i>", "description": "<img src=x>"}, {"label": "B\u{200b}", "description": "b"}]});
    let site = Site::new(&json!([
        {"steps": [call("exec_command", json!({"cmd": shown}))]},
        {"steps": [call("request_user_input", json!({"questions": [question]}))]},
        {"steps": [{"message": {"text": hostile_answer(), "phase": "final_answer"}}]},
    ]));
    let folder = site.env.work().join("<img src=x onerror=window.harmed=9>\u{202e}");
    std::fs::create_dir(&folder).unwrap();
    for (name, contents) in [
        (
            "<b>bold\u{202e}.txt",
            b"<script>window.harmed = 10</script>\na\xe2\x80\xaeb\n".as_slice(),
        ),
        ("broken.png", b"no image"),
        ("bytes.bin", &[0, 159, 146, 150]),
        (
            "dot.gif",
            b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;",
        ),
        ("link.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.harmed=11'/>"),
    ] {
        std::fs::write(folder.join(name), contents).unwrap();
    }
    let mut browser = Browser::start();
    browser.open(&site.url);
    start_thread(&mut browser, &folder);
    browser.resize(360, 740);
    send(&mut browser, "<img src=x onerror=window.harmed=12>\u{202e}");
    browser.wait_for(".request .subject", "touch 'a\\u{202e}b\\u{200b}c' \\u{1b}[31m <b>");
    answer(&mut browser, ".request .buttons button:nth-child(3)");
    browser.wait_for(".request legend", "<b>H\\u{202e}</b>");
    browser.wait_for(".request label", "B\\u{200b}");
    answer(&mut browser, ".request label");
    browser.click(".request .primary");
    browser.wait_for(".turn[data-status=completed] figure", "window.harmed = 8");
    let links = "[...document.querySelectorAll('.markdown a')].map((one) => [one.protocol, one.rel, one.target])";
    let safe = json!(["https:", "noopener noreferrer", "_blank"]);
    let links = browser.evaluate(links);
    assert!(
        links.as_array().unwrap().iter().all(|link| link[0] == "https:" || link[0] == "http:"),
        "{links}"
    );
    assert_eq!(links[0], safe);
    let made =
        "document.querySelectorAll('#turns :is(script, iframe, img, svg:not(.icon), b, i)').length";
    assert_eq!(browser.evaluate(made), 0);
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 360);

    // The files: text, an image, and what is neither.
    browser.click("#panel-toggle");
    browser.click("#tab-files");
    browser.wait_for("#pane-files .entry", "<b>bold\\u{202e}.txt");
    let open = |browser: &mut Browser, name: &str| {
        browser.wait_for("#pane-files .entry", name);
        browser.evaluate(&format!(
            "[...document.querySelectorAll('.entry')].find((one) => one.textContent.includes({})).click()",
            json!(name)
        ));
    };
    let back = |browser: &mut Browser| browser.click("#pane-files .bar button");
    open(&mut browser, "bold");
    browser.wait_for("#pane-files .line", "<script>window.harmed = 10</script>");
    browser.wait_for("#pane-files .line .hidden-char", "\\u{202e}");
    assert_eq!(browser.evaluate("document.activeElement.textContent"), "Back to the folder");
    back(&mut browser);
    open(&mut browser, "dot.gif");
    browser.wait("document.querySelector('#pane-files img')");
    let decoded = "(async (image) => { await image.decode(); return image.naturalWidth; })\
                   (document.querySelector('#pane-files img'))";
    assert_eq!(browser.evaluate(decoded), 1);
    back(&mut browser);
    open(&mut browser, "broken.png");
    browser.wait_for("#pane-files", "broken.png cannot be shown as an image: 8 bytes.");
    back(&mut browser);
    open(&mut browser, "bytes.bin");
    browser.wait_for("#pane-files .empty", "Not a text file: 4 bytes.");
    back(&mut browser);
    open(&mut browser, "link.svg");
    browser.wait_for("#pane-files .line", "onload=");
    back(&mut browser);
    browser.wait_for("#pane-files .entry", "link.svg");
    std::fs::remove_file(folder.join("link.svg")).unwrap();
    open(&mut browser, "link.svg");
    browser.wait("document.querySelector('#pane-files [role=alert]')");
    // The panel lies over the page, and Tab stays in it.
    assert_eq!(browser.evaluate("document.querySelector('main').inert"), true);
    browser.evaluate("document.getElementById('tab-files').focus()");
    browser.press("Escape");
    assert_eq!(
        browser.evaluate("[document.activeElement.id, document.querySelector('main').inert]"),
        json!(["panel-toggle", false])
    );
    assert_eq!(browser.evaluate("window.harmed ?? null"), Value::Null);
    check_errors(&mut browser);
}

/// Notes the longest time in which the page took no input.
const WATCH: &str = "(() => {
    window.longest = 0;
    let last = performance.now();
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
        const now = performance.now();
        window.longest = Math.max(window.longest, now - last);
        last = now;
        setTimeout(() => channel.port2.postMessage(0), 5);
    };
    channel.port2.postMessage(0);
})()";

#[test]
fn the_page_stays_usable_with_huge_threads_and_changes() {
    let lines: String = (0..20_000).map(|at| format!("+line {at}\n")).collect();
    let patch = format!("*** Begin Patch\n*** Add File: large.txt\n{lines}*** End Patch\n");
    let mut many: Vec<Value> = (0..5_000)
        .map(|at| json!({"message": {"text": format!("Message **{at}**."), "phase": "commentary"}}))
        .collect();
    many.push(json!({"custom_tool_call": {"name": "apply_patch", "input": patch}}));
    let list = "- a line of *text* with `code`\n".repeat(20_000);
    let site = Site::new(&json!([
        {"steps": many},
        {"steps": [{"message": {"text": list, "chunk_chars": 4000, "phase": "commentary"}},
            {"message": {"text": "The end.", "phase": "final_answer"}}]},
    ]));
    let mut browser = Browser::start();
    browser.open(&site.url);
    start_thread(&mut browser, &site.env.work());
    browser.evaluate(WATCH);
    send(&mut browser, "Begin.");
    browser.wait_for(".request h3", "Make these changes?");
    answer(&mut browser, ".request .primary");
    browser.wait_for(".turn[data-status=completed]", "The end.");
    assert_eq!(browser.evaluate("document.querySelectorAll('.items > li').length"), 5005);
    assert_eq!(browser.evaluate("document.querySelectorAll('.fileChange tr').length"), 600);
    browser.click(".fileChange .more");
    assert_eq!(browser.evaluate("document.querySelectorAll('.fileChange tr').length"), 5600);
    browser.click("#panel-toggle");
    browser.wait_for("#pane-changes .hint", "1 file, +20000 −0 in the latest turn");
    send(&mut browser, "Typed");
    let longest = browser.evaluate("Math.round(longest)").as_u64().unwrap();
    assert!(longest < LONGEST_PAUSE_MS, "{longest} ms");
    // Files beyond those that are drawn at once are drawn when they are opened.
    let drawn = browser.evaluate(
        "import('/items.js').then(({changeCards}) => {
            const diff = Array.from({length: 500}, (_, at) => `line ${at}`).join('\\n');
            const changes = Array.from({length: 300}, (_, at) => ({path: `/f${at}`, kind: {type: 'add'}, diff}));
            const cards = changeCards(changes, '/', null);
            document.body.append(...cards);
            const count = () => cards.reduce((sum, card) => sum + card.querySelectorAll('tr').length, 0);
            const before = count();
            cards.at(-1).querySelector('summary').click();
            return new Promise((resolve) => setTimeout(() => resolve([before, count()]), 100));
        })",
    );
    assert_eq!(drawn, json!([2000, 2500]));
    browser.check_errors();
}
