// The graph: what is shown of it, what is chosen in it, keys, and the panel beside it.

const selector = byId("selector"), panel = byId("panel");
const FOLD_FROM = 300;
const folders = [...new Set(rows.map(({ folder }) => folder ?? "(no definition)"))].sort();
let folded = new Set(rows.length > FOLD_FROM && folders.length > 1 ? folders : []);
let chosenBox = null, focused = 0, graphShown = null;

function showGraph() {
  const error = byId("selector-error");
  error.textContent = "";
  let numbers;
  try { numbers = [...selectedBy(selector.value)].sort((a, b) => a - b); }
  catch (problem) {
    if (!(problem instanceof SelectorError)) throw problem;
    error.textContent = problem.message;
    return;
  }
  const [found] = boxesOf(numbers, folded);
  const count = byId("graph-count");
  chosenBox = null;
  focused = 0;
  if (found.length > MOST_BOXES) {
    draw([], folded);
    count.textContent = `${countOf(found.length, "box", "boxes")} are more than are drawn (${numeral(MOST_BOXES)}): ` +
      "name some datasets, or fold folders.";
  } else {
    draw(numbers, folded);
    const inFolders = boxes.filter(({ folder }) => folder !== undefined).length;
    count.textContent = `${numeral(numbers.length)} of ${countOf(rows.length, "dataset")}` +
      (inFolders ? `, ${countOf(inFolders, "folder")} folded` : "") +
      (withColumns && boxes.length > MOST_WITH_COLUMNS ? `. Columns are drawn for up to ${MOST_WITH_COLUMNS} boxes.` : "");
  }
  if (drawn.length) drawn[0].head.tabIndex = 0;
  byId("fold").setAttribute("aria-pressed", String(folded.size === folders.length && folders.length > 0));
  byId("with-columns").setAttribute("aria-pressed", String(withColumns));
  showPanel();
  fitReadable();
  place();
  const named = namedDataset();
  if (named !== undefined) { choose(named); if (!isSeen(named, WHOLE)) center(named, WHOLE); }
}

// The box of the one dataset whose neighbours a selector means.
function namedDataset() {
  const [, before, at, core, after] = ATOM.exec(selector.value.trim());
  const signed = before !== undefined || at !== undefined || after !== undefined;
  return signed ? boxOf.get(numberOf.get(core.toLowerCase())) : undefined;
}

// Fit, but no smaller than can be read; then what is left out can be moved to.
function fitReadable() {
  fit();
  if (view.scale >= 0.6 || !boxes.length) return;
  const [wide, high] = sizeOf(), { clientWidth, clientHeight } = canvas;
  view.scale = Math.min(1, Math.max(0.6, (clientWidth - 2 * MARGIN) / wide));
  view.x = Math.max(MARGIN, (clientWidth - wide * view.scale) / 2);
  view.y = Math.max(MARGIN, (clientHeight - high * view.scale) / 2);
}

// On paper nothing can be moved to: the graph is within the width and height of a page.
const PAPER = [624, 850], EDGE = 8;
let onScreen = null;
function fitPaper() {
  const [wide, high] = sizeOf();
  onScreen = { ...view };
  Object.assign(view, { x: EDGE, y: EDGE, scale: Math.min(1, PAPER[0] / wide, PAPER[1] / high) });
  byId("split").style.setProperty("--on-paper", `${Math.ceil(high * view.scale) + 2 * EDGE + 2}px`);
  place();
}
function backToScreen() {
  if (onScreen) Object.assign(view, onScreen);
  onScreen = null;
  place();
}

function reachInGraph(start, up) {
  const seen = new Set([start]), found = new Set(), pending = [start];
  while (pending.length) {
    for (const number of (up ? arcsInto : arcsOutOf)[pending.pop()]) {
      found.add(number);
      const next = arcs[number][up ? 0 : 1];
      if (!seen.has(next)) { seen.add(next); pending.push(next); }
    }
  }
  seen.delete(start);
  return [seen, found];
}

function choose(box, column = WHOLE) {
  chosenBox = box;
  markColumns(new Map(), []);
  if (box === null) { mark(new Map(), new Map()); showPanel(); return; }
  if (column !== WHOLE) { chooseColumn(boxes[box].number, columnsOf(box)[column].name); return; }
  const [up, upArcs] = reachInGraph(box, true), [down, downArcs] = reachInGraph(box, false);
  mark(new Map([...[...up].map((each) => [each, "up"]), ...[...down].map((each) => [each, "down"]), [box, "here"]]),
    new Map([...[...upArcs].map((each) => [each, "up"]), ...[...downArcs].map((each) => [each, "down"])]));
  showPanel();
}

function chooseColumn(number, column) {
  const origins = originsOf(number, column), reached = reachOf(number, column);
  const marks = new Map(), columnMarks = new Map(), links = [];
  const note = (at, how) => { const box = boxOf.get(at); if (box !== undefined) marks.set(box, how); };
  for (const [at, name] of origins) { note(at, "up"); columnMarks.set(`${at}:${top(name)}`, "up"); }
  for (const [at, { columns }] of reached) {
    note(at, "down");
    for (const name of columns) columnMarks.set(`${at}:${top(name)}`, "down");
  }
  note(number, "here");
  columnMarks.set(`${number}:${top(column)}`, "here");
  for (const { number: at } of boxes) {
    if (at === undefined) continue;
    for (const { name, sources } of columnsKnown[at].columns || []) {
      for (const [source, sourceName] of sources || []) {
        const [one, other] = [columnMarks.get(`${source}:${top(sourceName)}`), columnMarks.get(`${at}:${top(name)}`)];
        if (one === "up" && (other === "up" || other === "here")) links.push([[source, sourceName], [at, name], "up"]);
        if (other === "down" && (one === "down" || one === "here")) links.push([[source, sourceName], [at, name], "down"]);
      }
    }
  }
  const between = new Map(arcs.flatMap(([source, target], at) => {
    const [one, other] = [marks.get(source), marks.get(target)];
    if (one === "up" && (other === "up" || other === "here")) return [[at, "up"]];
    return other === "down" && (one === "down" || one === "here") ? [[at, "down"]] : [];
  }));
  mark(marks, between);
  markColumns(columnMarks, links);
  chosenBox = boxOf.get(number) ?? null;
  showPanel(column);
}

function showPanel(column) {
  if (chosenBox === null || !boxes[chosenBox]) { panel.replaceChildren(...folderList()); return; }
  const box = boxes[chosenBox];
  panel.replaceChildren(...box.folder === undefined ? datasetPanel(box.number, column) : folderPanel(box));
}

function folderList() {
  const parts = [make("h2", { text: "Nothing is chosen" }), make("p", { class: "hint", text: "Choose a box to see what it comes from and where it goes." })];
  if (folders.length < 2) return parts;
  const lists = folders.map((folder) => make("li", {}, make("label", {}, make("input", { type: "checkbox", checked: folded.has(folder),
    on: { change: (event) => { setFolded(folder, event.target.checked); } } }), ` ${folder}`)));
  return [...parts, make("fieldset", {}, make("legend", { text: "Folders shown as one box" }), make("ul", { class: "plain" }, lists))];
}

function setFolded(folder, fold) {
  if (fold) folded.add(folder); else folded.delete(folder);
  showGraph();
  [...panel.querySelectorAll("label")].find((each) => each.textContent.trim() === folder)?.firstChild.focus();
}

function folderPanel(box) {
  const most = 200;
  return [make("h2", { text: box.folder }), make("p", { text: countOf(box.members.length, "dataset") }),
    make("button", { type: "button", text: "Unfold", on: { click: () => { folded.delete(box.folder); showGraph(); canvas.focus(); } } }),
    make("ul", { class: "plain" }, box.members.slice(0, most).map((each) => make("li", {}, nameLink(each)))),
    box.members.length > most ? make("p", { class: "faint", text: `and ${numeral(box.members.length - most)} more` }) : null].filter(Boolean);
}

function datasetPanel(number, column) {
  const row = rows[number], known = columnsKnown?.[number];
  const parts = [make("h2", {}, nameLink(number)), make("p", {}, make("span", { class: "badge", text: row.kind }), " ", stateBadge(row.state)),
    row.summary ? make("p", { text: row.summary }) : null,
    make("p", { class: "faint", text: `${countOf(row.inputs.length, "input")}, read by ${countOf(readers[number].length, "dataset")}` }),
    make("p", {}, make("button", { type: "button", text: "Only what is around it", on: { click: () => {
      selector.value = `+${row.name}+`;
      selectorChanged();
    } } }))];
  if (column !== undefined) {
    const reached = reachOf(number, column);
    parts.push(make("p", { role: "status" }, make("code", { text: column }), `: comes from ${countOf(originsOf(number, column).length, "column")}; ` +
      `a change of it affects ${countOf(reached.size, "dataset")}. `, make("a", { href: addressOf(number, column), text: "Which" })));
  }
  if (known?.columns) {
    parts.push(make("h3", { text: "Columns" }), make("ul", { class: "plain" }, known.columns.slice(0, 300).map(({ name, type }) => make("li", {},
      make("button", { type: "button", class: "name", "aria-pressed": String(name === column), text: name, on: { click: () => {
        chooseColumn(number, name);
        [...panel.querySelectorAll("li button")].find((each) => each.textContent === name)?.focus();
      } } }), make("span", { class: "faint", text: ` ${type}` })))));
  }
  return parts.filter(Boolean);
}

function selectorChanged() {
  const text = selector.value.trim();
  setAddress(text ? `#/graph?${new URLSearchParams({ show: text })}` : "#/graph");
  if (text && selectedSmall()) folded = new Set();
  showGraph();
}
function selectedSmall() {
  try { return selectedBy(selector.value).size <= FOLD_FROM; } catch { return false; }
}

// Focus on a box or a column, and bring it in sight.
function focusOn(box, column = WHOLE) {
  for (const each of canvas.querySelectorAll("[tabindex='0']")) each.tabIndex = -1;
  focused = box;
  const element = column === WHOLE ? drawn[box].head : drawn[box].columns[column];
  element.tabIndex = 0;
  if (!isSeen(box, column)) center(box, column);
  element.focus({ preventScroll: true });
}

function nextOf(box, column, key) {
  if (key === "ArrowDown" && column + 1 < columnsOf(box).length) return [box, column + 1];
  if (key === "ArrowUp" && column !== WHOLE) return [box, column - 1];
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const arc = (key === "ArrowLeft" ? arcsInto : arcsOutOf)[box][0];
    return arc === undefined ? null : [arcs[arc][key === "ArrowLeft" ? 0 : 1], WHOLE];
  }
  const layer = boxes.map((_, at) => at).filter((at) => placed.layer[at] === placed.layer[box])
    .sort((a, b) => placeOf(a)[1] - placeOf(b)[1]);
  const next = layer[layer.indexOf(box) + (key === "ArrowDown" ? 1 : -1)];
  return next === undefined ? null : [next, WHOLE];
}

const PANS = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 80], ArrowDown: [0, -80] };
canvas.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const onBox = event.target.dataset?.box;
  if (event.key in PANS) {
    event.preventDefault();
    if (onBox === undefined || event.shiftKey) { move(...PANS[event.key]); return; }
    const next = nextOf(Number(onBox), Number(event.target.dataset.column), event.key);
    if (next) focusOn(...next);
  } else if (event.key === "Enter" && event.target === canvas && boxes.length) {
    event.preventDefault();
    focusOn(Math.min(focused, boxes.length - 1));
  } else if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") fit();
  else if (event.key === "Escape") choose(null);
});
canvas.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) { choose(null); return; }
  const box = Number(button.dataset.box), column = Number(button.dataset.column);
  choose(box, column);
  focusOn(box, column);
});
// What a column comes from and goes to is shown under the pointer, too, while nothing is chosen.
canvas.addEventListener("pointerover", (event) => {
  const button = event.target.closest?.("button.column");
  if (!button || chosenBox !== null) return;
  const box = Number(button.dataset.box), column = Number(button.dataset.column);
  chooseColumn(boxes[box].number, columnsOf(box)[column].name);
  chosenBox = null;
  button.addEventListener("pointerleave", () => { if (chosenBox === null) choose(null); }, { once: true });
});

function startGraph() {
  byId("larger").addEventListener("click", () => zoom(1.25));
  byId("smaller").addEventListener("click", () => zoom(0.8));
  byId("fit").addEventListener("click", fit);
  byId("fold").hidden = folders.length < 2;
  byId("fold").addEventListener("click", () => {
    folded = new Set(folded.size === folders.length ? [] : folders);
    showGraph();
  });
  byId("with-columns").addEventListener("click", () => { withColumns = !withColumns; showGraph(); });
  byId("graph-tools").addEventListener("submit", (event) => event.preventDefault());
  let waiting = null;
  selector.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(selectorChanged, rows.length > 2000 ? 250 : 60);
  });
  window.addEventListener("resize", () => { if (!byId("graph").hidden) place(); });
}

async function openGraph(query) {
  await columnsRead();
  const wanted = new URLSearchParams(query).get("show") || "";
  if (graphShown === wanted && boxes.length) return;
  graphShown = wanted;
  selector.value = wanted;
  if (wanted && selectedSmall()) folded = new Set();
  showGraph();
}
