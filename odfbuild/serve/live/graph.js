// Which dataset reads which, as they are now.

const MOST_DRAWN = 400, DEEP = 46, LETTER = 8.4, MOST_LETTERS = 36;
const around = () => byId("around");
let drawn = null; // the answer and the words that are drawn

const graphAddress = (name) => `#/graph?${query({ around: name })}`;

async function openGraph(parameters) {
  around().value = parameters.get("around") || "";
  drawn = null;
  await keepFresh(5, async (own) => {
    const found = await request("system/status", { again: true });
    if (own.ends) return;
    known = found.datasets;
    showGraph();
  });
}

// Datasets of some words, or of one name, and all that they are made of and that is made of them.
function chosenForGraph(wanted) {
  const byIds = new Map(known.map((each) => [each.id, each])), readers = new Map();
  for (const each of known) {
    for (const input of each.inputs) readers.set(input, [...(readers.get(input) || []), each]);
  }
  const named = known.filter((each) => each.alias.toLowerCase() === wanted);
  const start = named.length ? named : known.filter((each) => wanted.split(/\s+/).every((word) => each.alias.toLowerCase().includes(word)));
  const found = new Set(start);
  const follow = (next) => {
    const pending = [...start], seen = new Set(start);
    while (pending.length) {
      for (const each of next(pending.pop())) {
        if (each && !seen.has(each)) { seen.add(each); found.add(each); pending.push(each); }
      }
    }
  };
  follow((each) => each.inputs.map((id) => byIds.get(id)));
  follow((each) => readers.get(each.id) || []);
  return [known.filter((each) => found.has(each)), wanted ? new Set(start) : new Set()];
}

function showGraph() {
  const wanted = around().value.trim().toLowerCase();
  if (drawn && drawn[0] === known && drawn[1] === wanted) return;
  drawn = [known, wanted];
  const [found, marked] = chosenForGraph(wanted);
  const room = byId("graph-room"), summary = byId("graph-summary");
  if (known.length === 0) summary.textContent = "There are no datasets that you may read.";
  else summary.textContent = `${numeral(found.length)} of ${countOf(known.length, "dataset")}` +
    (found.length > MOST_DRAWN ? `. Up to ${MOST_DRAWN} are drawn: name some of them.` : "");
  if (found.length === 0 || found.length > MOST_DRAWN) { room.replaceChildren(); return; }
  const focused = document.activeElement?.closest?.("#graph-room a")?.getAttribute("href");
  room.replaceChildren(picture(found, marked));
  if (focused) [...room.querySelectorAll("a")].find((each) => each.getAttribute("href") === focused)?.focus({ preventScroll: true });
}

const stateText = (each) => each.damage ? "damaged" : each.locked ? "is being changed" : each.behind ? `${countOf(each.behind, "row")} behind` :
  each.behind === 0 ? "up to date" : countOf(each.records || 0, "row");
const toneOf = (each) => each.damage ? "bad" : each.locked || each.behind ? "info" : each.behind === 0 ? "good" : "";
const shortName = (name) => name.length > MOST_LETTERS ? `\u2026${name.slice(1 - MOST_LETTERS)}` : name;

function picture(found, marked) {
  const numbers = new Map(found.map((each, number) => [each.id, number]));
  const arcs = found.flatMap((each, target) => [...new Set(each.inputs)].map((id) => [numbers.get(id), target]))
    .filter(([source, target]) => source !== undefined && source !== target);
  const sizes = found.map((each) => [24 + LETTER * Math.max(shortName(each.alias).length, stateText(each).length, 12), DEEP]);
  const { places, bends, size: [wide, high] } = layOut(sizes, arcs);
  const drawing = shape("svg", { viewBox: `-4 -4 ${wide + 8} ${high + 8}`, width: wide + 8, height: high + 8, class: "datasets" });
  arcs.forEach(([source, target], number) => {
    const [left, top, width] = places[source], [to, toTop] = places[target];
    let [x, y] = [left + width, top + DEEP / 2], way = `M${x},${y}`;
    for (const [nextX, nextY] of [...bends[number], [to - 7, toTop + DEEP / 2]]) {
      const half = (x + nextX) / 2;
      way += `C${half},${y} ${half},${nextY} ${nextX},${nextY}`;
      [x, y] = [nextX, nextY];
    }
    drawing.append(shape("path", { class: "edge", d: way }), shape("path", { class: "tip", d: `M${to},${y}l-8,-4.5v9z` }));
  });
  found.forEach((each, number) => {
    const [left, top, width, height] = places[number];
    const link = shape("a", { href: datasetAddress(each.alias), class: `box ${toneOf(each)}${marked.has(each) ? " here" : ""}` });
    const title = shape("title", {}), name = shape("text", { x: left + 12, y: top + 19, class: "name" });
    const state = shape("text", { x: left + 12, y: top + 37, class: "state" });
    title.textContent = each.alias;
    name.textContent = shortName(each.alias);
    state.textContent = stateText(each);
    link.append(title, shape("rect", { x: left, y: top, width, height, rx: 7 }), name, state);
    drawing.append(link);
  });
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph of datasets" }, drawing);
}

// The inputs and readers of one dataset, for its own page.
function neighbourParts(id) {
  const own = known.find((each) => each.id === id);
  const list = (title, found) => make("div", {}, make("h3", { text: `${title} (${numeral(found.length)})` }),
    found.length ? make("ul", {}, found.map((each) => make("li", {}, datasetLink(each.alias), " ", stateOf(each)))) :
      make("p", { class: "faint", text: "None that you may read." }));
  if (!own) return [];
  return [make("h2", { text: "Inputs and readers" }), make("div", { class: "two" },
    own.kind === "Root" ? make("div", {}, make("h3", { text: "Inputs" }), make("p", { class: "faint", text: "None: it is read from a source." })) :
      list("Inputs", known.filter((each) => own.inputs.includes(each.id))),
    list("Read by", known.filter((each) => each.inputs.includes(id)))),
  make("p", {}, make("a", { href: graphAddress(own.alias), text: "Show it in the graph" }))];
}

function startGraph() {
  byId("graph-filter").addEventListener("submit", (event) => event.preventDefault());
  around().addEventListener("input", showGraph);
}
