// The web client in Chromium: every state of the page under axe-core, a checker of accessibility that others wrote,
// light and dark, on a desktop and on a phone; then the checks of the other files. One line per check, and a count at
// the end. Environment: AGENTD (the program), and what harness.mjs names. Exits with 1 if a check fails. Names of
// parts as arguments select them.

import { browse, counts, end, part } from "./harness.mjs";

const PARTS = {
  states: async (browser) => (await import("./states.mjs")).checkStates(browser),
  layout: async (browser) => (await import("./layout.mjs")).checkLayout(browser),
  composer: async (browser) => (await import("./composer.mjs")).checkComposer(browser),
  queue: async (browser) => (await import("./queue.mjs")).checkQueue(browser),
  search: async (browser) => (await import("./search.mjs")).checkSearch(browser),
  asking: async (browser) => (await import("./asking.mjs")).checkAsking(browser),
  actions: async (browser) => (await import("./actions.mjs")).checkActions(browser),
  setup: async (browser) => (await import("./setup.mjs")).checkSetup(browser),
  folders: async (browser) => (await import("./folders.mjs")).checkFolders(browser),
  code: async (browser) => (await import("./code.mjs")).checkCode(browser),
  keyboard: async (browser) => (await import("./keyboard.mjs")).checkKeyboard(browser),
  "first-day": async (browser) => (await import("./first-day.mjs")).checkFirstDay(browser),
  scroll: async (browser) => (await import("./scroll.mjs")).checkScroll(browser),
};

const wanted = process.argv.slice(2);
const browser = browse();
for (const [name, run] of Object.entries(PARTS)) {
  if (!wanted.length || wanted.includes(name)) await part(name, () => run(browser));
}
await end();
process.exit(counts());
