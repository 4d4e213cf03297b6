// Keys, clicks and buttons, and what is seen at first.

let current = { box: data.root, column: WHOLE };

function focusOn(box, wanted) {
  const column = form === "closed" ? WHOLE : wanted;
  elementOf(current.box, current.column).tabIndex = -1;
  current = { box, column };
  const element = elementOf(box, column);
  element.tabIndex = 0;
  if (!isSeen(box, column)) center(box, column);
  element.focus({ preventScroll: true });
}

// The boxes of each layer from top to bottom, for the keys that go up and down.
const layers = new Map(), layerOf = boxes.map((_, number) => placeOf(number)[0]);
boxes.forEach((_, number) => put(layers, layerOf[number], number));
for (const layer of layers.values()) layer.sort((a, b) => placeOf(a)[1] - placeOf(b)[1]);

function beside(box, step) {
  const layer = layers.get(layerOf[box]);
  return layer[layer.indexOf(box) + step];
}
const reaches = () => form === "open" && view.scale >= FAR;

function nextDown({ box, column }) {
  if (column + 1 < columnsOf(box).length && reaches()) return { box, column: column + 1 };
  const next = beside(box, 1);
  return next === undefined ? null : { box: next, column: WHOLE };
}

function nextUp({ box, column }) {
  if (column !== WHOLE) return { box, column: column - 1 };
  const next = beside(box, -1);
  if (next === undefined) return null;
  return { box: next, column: reaches() ? columnsOf(next).length - 1 : WHOLE };
}

function nextAside({ box, column }, up) {
  const link = column === WHOLE ? undefined :
    (up ? linksInto : linksOutOf).get(pointOf(box, column))?.[0];
  if (link !== undefined) {
    const [source, sourceColumn, derived, derivedColumn] = links[link];
    return up ? { box: source, column: sourceColumn } : { box: derived, column: derivedColumn };
  }
  const edge = (up ? edgesInto : edgesOutOf)[box][0];
  return edge === undefined ? null : { box: edges[edge][up ? 0 : 1], column: WHOLE };
}

const STEP = 80;
const PANS = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP],
  ArrowDown: [0, -STEP] };
const GOES = { ArrowLeft: (from) => nextAside(from, true), ArrowRight: (from) =>
  nextAside(from, false), ArrowUp: nextUp, ArrowDown: nextDown };

canvas.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in PANS)) {
    if (event.key === "Enter" && event.target === canvas) {
      event.preventDefault();
      focusOn(current.box, current.column);
    }
    return;
  }
  event.preventDefault();
  if (event.target === canvas || event.shiftKey) { move(...PANS[event.key]); return; }
  const next = GOES[event.key](current);
  if (next) focusOn(next.box, next.column);
});

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target === search) return;
  if (event.key === "+" || event.key === "=") zoom(1.25);
  else if (event.key === "-") zoom(0.8);
  else if (event.key === "0") fit();
  else if (event.key === "c") toggle();
  else if (event.key === "/") search.select();
  else if (event.key === "Escape") choose(null);
  else return;
  event.preventDefault();
});

canvas.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) { choose(null); return; }
  const box = Number(button.dataset.box), column = Number(button.dataset.column);
  choose(box, column);
  focusOn(box, column);
});

document.getElementById("larger").addEventListener("click", () => zoom(1.25));
document.getElementById("smaller").addEventListener("click", () => zoom(0.8));
document.getElementById("fit").addEventListener("click", fit);
const columnsButton = document.getElementById("columns");
columnsButton.addEventListener("click", toggle);
throughRows.addEventListener("change", () => {
  if (chosen) choose(chosen.box, chosen.column);
});

// Show columns or not, with what is looked at where it was.
function show(next) {
  const { box } = chosen || current, top = placeOf(box)[1];
  arrange(next);
  view.y += (top - placeOf(box)[1]) * view.scale;
  place();
  columnsButton.setAttribute("aria-pressed", String(form === "open"));
}
function toggle() {
  if (!data.forms.closed) return;
  show(form === "open" ? "closed" : "open");
  if (canvas.contains(document.activeElement) && document.activeElement !== canvas) {
    focusOn(current.box, current.column);
  }
}

const theme = document.getElementById("theme");
const THEMES = ["system", "light", "dark"];
theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || "system") + 1) % THEMES.length];
  if (next === "system") delete root.dataset.theme;
  else root.dataset.theme = next;
  theme.textContent = `Theme: ${next}`;
});

function fromAddress() {
  let wanted;
  try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { return false; }
  const hit = wanted && entries.find(({ text }) => text === wanted);
  if (!hit) return false;
  goTo(hit.box, hit.column);
  return true;
}
window.addEventListener("hashchange", fromAddress);
window.addEventListener("resize", place);

document.getElementById("title").textContent = data.title;
canvas.setAttribute("aria-label", `Graph of ${countOf(boxes.length, "dataset", "datasets")}`);
document.getElementById("through").hidden = !links.length;
document.querySelector(".sign.shapes").hidden = !links.length;
drawn[data.root].head.tabIndex = 0;
columnsButton.hidden = !data.forms.closed;
columnsButton.setAttribute("aria-pressed", String(form === "open"));
arrange(form);
showPanel();
fit();
if (!fromAddress() && view.scale < 0.45) { view.scale = 0.8; center(data.root, WHOLE); }
