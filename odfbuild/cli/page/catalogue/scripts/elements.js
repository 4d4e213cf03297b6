// Elements of a catalogue: links to datasets and columns, states, tags.

const addressOf = (number, column) => `#/dataset/${encodeURIComponent(rows[number].name)}` +
  (column === undefined ? "" : `/${encodeURIComponent(column)}`);
const nameLink = (number) => make("a", { class: "name", href: addressOf(number), text: rows[number].name });
// A dataset by its number, or the name of one that the page does not show.
const reference = (at) => typeof at === "number" ? nameLink(at) :
  make("span", {}, make("span", { class: "name", text: at }), make("span", { class: "faint", text: " (not shown here)" }));
const columnLink = ([at, column]) => typeof at === "number" ?
  make("a", { class: "name", href: addressOf(at, column), text: `${rows[at].name}.${column}` }) :
  make("span", { class: "name", text: `${at}.${column}` });

const SIGNS = {
  "up to date": ["\u2713", "good"], applied: ["\u2713", "good"], behind: ["\u21bb", "info"],
  failed: ["\u2717", "bad"], skipped: ["\u2212", "warn"], damaged: ["\u2717", "bad"], "wrong definition": ["!", "bad"],
  "test failed": ["\u2717", "bad"], passed: ["\u2713", "good"], warned: ["!", "warn"],
  changed: ["~", "info"], "not applied": ["\u25cb", "none"], "not declared": ["?", "warn"],
};
function stateBadge(state) {
  const [sign, tone] = SIGNS[state];
  return make("span", { class: `badge ${tone}` }, make("b", { "aria-hidden": "true", text: sign }), ` ${state}`);
}
const tagBadges = (tags) => tags.map((tag) => make("span", { class: "badge tag", text: tag }));
