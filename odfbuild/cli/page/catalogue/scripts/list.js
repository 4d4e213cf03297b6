// The list of datasets: words and choices narrow it down, heads of columns sort it.

const PAGE = 100;
const DAY = 864e5;
const filters = {
  kind: byId("by-kind"), state: byId("by-state"), folder: byId("by-folder"), owner: byId("by-owner"),
  tag: byId("by-tag"), age: byId("by-age"),
};
const words = byId("words");
const AGE_CHOICES = [["1", "within a day"], ["7", "within a week"], ["30", "within 30 days"],
  ["old", "longer than 30 days ago"], ["none", "no block yet"]];
const SORTS = {
  name: ["Dataset", (a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0],
  kind: ["Kind", (a, b) => a.kind.localeCompare(b.kind)],
  state: ["State", (a, b) => index.states.indexOf(a.state) - index.states.indexOf(b.state)],
  records: ["Rows", (a, b) => (b.records ?? -1) - (a.records ?? -1)],
  time: ["Last block", (a, b) => (b.time ?? -Infinity) - (a.time ?? -Infinity)],
  owner: ["Owner", (a, b) => (a.owner || "\uffff").localeCompare(b.owner || "\uffff")],
};
let sorted = "", backwards = false, shown = PAGE, fitting = rows;

function fillChoices() {
  const counts = (of) => {
    const found = new Map();
    for (const row of rows) for (const each of [of(row)].flat()) if (each) found.set(each, (found.get(each) || 0) + 1);
    return [...found].sort(([a], [b]) => a < b ? -1 : 1);
  };
  const fill = (select, choices) => {
    select.replaceChildren(make("option", { value: "", text: "any" }), ...choices.map(([value, text]) =>
      make("option", { value, text })));
    select.closest(".field").hidden = !choices.length;
  };
  const counted = (of) => counts(of).map(([value, number]) => [value, `${value} (${numeral(number)})`]);
  fill(filters.kind, counted(({ kind }) => kind));
  fill(filters.state, counted(({ state }) => state));
  fill(filters.folder, counted(({ folder }) => folder));
  fill(filters.owner, counted(({ owner }) => owner));
  fill(filters.tag, counted(({ tags }) => tags));
  fill(filters.age, index.applied ? AGE_CHOICES : []);
}

function isOfAge({ time }, age) {
  if (age === "none") return time === null;
  if (time === null) return false;
  const gone = Date.now() - time;
  return age === "old" ? gone > 30 * DAY : gone <= Number(age) * DAY;
}

function fits(row, wanted, chosen) {
  return wanted.every((each) => row.text.includes(each)) &&
    (!chosen.kind || row.kind === chosen.kind) && (!chosen.state || row.state === chosen.state) &&
    (!chosen.folder || row.folder === chosen.folder) && (!chosen.owner || row.owner === chosen.owner) &&
    (!chosen.tag || row.tags.includes(chosen.tag)) && (!chosen.age || isOfAge(row, chosen.age));
}

function listRow(row) {
  return make("tr", {},
    headCell(nameLink(row.number), ...row.summary ? [make("span", { class: "sub", text: row.summary })] : [],
      ...row.tags.length ? [make("span", { class: "sub" }, tagBadges(row.tags))] : []),
    cell("Kind", row.kind), cell("State", stateBadge(row.state)),
    cell("Rows", make("span", { class: "number", text: row.records === null ? "\u2013" : numeral(row.records) })),
    cell("Last block", timeOf(row.time)), cell("Owner", row.owner || make("span", { class: "faint", text: "none" })));
}

const listBody = byId("datasets").tBodies[0];
function showList() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = Object.fromEntries(Object.entries(filters).map(([name, { value }]) => [name, value]));
  fitting = rows.filter((row) => fits(row, wanted, chosen));
  if (sorted) fitting.sort((a, b) => SORTS[sorted][1](a, b) || a.number - b.number);
  if (backwards) fitting.reverse();
  showRows();
  byId("count").textContent = fitting.length === rows.length ? countOf(rows.length, "dataset") :
    `${numeral(fitting.length)} of ${countOf(rows.length, "dataset")}`;
}

function showRows() {
  listBody.replaceChildren(...fitting.slice(0, shown).map(listRow));
  if (!fitting.length) {
    const text = rows.length ? "No dataset fits. Take a word away, or clear the search." : "The project has no datasets yet.";
    listBody.append(make("tr", {}, make("td", { colspan: 6, class: "empty", text })));
  }
  const left = fitting.length - shown, more = byId("more");
  more.hidden = left <= 0;
  more.textContent = `Show ${numeral(Math.min(left, 5 * PAGE))} more of ${numeral(left)}`;
}

function filterChanged() {
  shown = PAGE;
  showList();
  const query = new URLSearchParams();
  if (words.value.trim()) query.set("q", words.value.trim());
  for (const [name, { value }] of Object.entries(filters)) if (value) query.set(name, value);
  const text = query.toString();
  setAddress(text ? `#/?${text}` : "#/");
}

function setAddress(hash) {
  try { history.replaceState(null, "", hash); } catch { /* not every browser lets a file do so */ }
}

function takeQuery(text) {
  const query = new URLSearchParams(text);
  words.value = query.get("q") || "";
  for (const [name, select] of Object.entries(filters)) select.value = query.get(name) || "";
  shown = PAGE;
  showList();
}

function listHeads() {
  byId("datasets").tHead.rows[0].replaceChildren(...Object.entries(SORTS).map(([name, [text]]) => {
    const head = make("th", { scope: "col" });
    head.append(make("button", { type: "button", class: "sort", on: { click: () => {
      backwards = sorted === name ? !backwards : false;
      sorted = name;
      for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
      const falls = (name === "records" || name === "time") !== backwards;
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      showList();
    } } }, text));
    return head;
  }));
}

function startList() {
  fillChoices();
  listHeads();
  const kinds = ["root", "derivative"].map((kind) => [kind, rows.filter((row) => row.kind === kind).length]);
  const parts = kinds.filter(([, number]) => number).map(([kind, number]) => countOf(number, kind));
  byId("summary").textContent = [`Target ${index.target}`, ...parts].join(" \u00b7 ");
  if (rows.length && !index.applied) {
    byId("notices").append(make("div", { class: "notice info" }, make("p", {},
      make("strong", { text: "Nobody has applied this project yet. " }),
      "What is here is what the definitions say: there are no rows and no blocks.")));
  }
  if (typeof DecompressionStream === "undefined") {
    byId("notices").append(notice(["old browser", "This browser cannot unpack what the pages of datasets and the graph show.", "",
      "open the file in a newer one"], "warn"));
  }
  byId("notices").append(...index.problems.map((each) => notice(each)));
  words.addEventListener("input", filterChanged);
  for (const select of Object.values(filters)) select.addEventListener("change", filterChanged);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("clear").addEventListener("click", () => {
    words.value = "";
    for (const select of Object.values(filters)) select.value = "";
    filterChanged();
    words.focus();
  });
  byId("more").addEventListener("click", () => {
    const next = shown;
    shown += 5 * PAGE;
    showRows();
    listBody.rows[next]?.querySelector("a")?.focus();
  });
  columnsRead().then(() => { if (words.value) showList(); });
}
