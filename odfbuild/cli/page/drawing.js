// Boxes and edges: made once, columns when they are first seen, and how a choice marks them.

const canvas = document.getElementById("canvas");
const make = (tag, className, text) => {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};
const shape = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

const world = make("div");
world.id = "world";
world.style.width = `${data.width}px`;
world.style.height = `${data.height}px`;
const lines = shape("svg", { width: data.width, height: data.height, "aria-hidden": "true" });
const overlay = shape("svg", { width: data.width, height: data.height, "aria-hidden": "true" });
world.append(lines);
const root = document.documentElement;
root.style.setProperty("--head", `${data.head}px`);
root.style.setProperty("--row", `${data.row}px`);

const drawn = boxes.map((box, number) => {
  const [left, top, width, height] = box.place;
  const element = make("div", number === data.root ? "box root" : "box");
  Object.assign(element.style, {
    left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`,
  });
  const head = make("button", "head");
  head.type = "button";
  head.tabIndex = -1;
  head.title = box.name;
  head.append(make("span", "name", box.name), make("span", "below", box.below),
    make("span", "mark", ""));
  head.dataset.box = number;
  head.dataset.column = WHOLE;
  element.append(head);
  world.append(element);
  return { element, head, columns: null };
});
world.append(overlay);
canvas.append(world);

// The elements of the columns of a box.
function columnElements(number) {
  const one = drawn[number];
  if (one.columns) return one.columns;
  const list = make("div", "columns");
  list.style.top = `${data.head - 1}px`;
  one.columns = columnsOf(number).map(([name], column) => {
    const button = make("button", "column");
    button.type = "button";
    button.tabIndex = -1;
    button.title = name;
    button.append(make("span", "", name), make("b", "", ""));
    button.dataset.box = number;
    button.dataset.column = column;
    list.append(button);
    return button;
  });
  if (one.columns.length) one.element.append(list);
  markColumns(number);
  return one.columns;
}
const elementOf = (box, column) => column === WHOLE ? drawn[box].head : columnElements(box)[column];

// The heights at which edges arrive: those into one box beside each other.
const arrival = new Map();
edgesInto.forEach((numbers, box) => {
  const from = (number) => edges[number][3].at(-1)?.[1] ??
    boxes[edges[number][0]].place[1] + data.head / 2;
  [...numbers].sort((a, b) => from(a) - from(b) || a - b).forEach((number, place) => {
    const room = data.head / (numbers.length + 1);
    arrival.set(number, { y: boxes[box].place[1] + room * (place + 1), room });
  });
});

const middle = (box, column) => boxes[box].place[1] +
  (column === WHOLE ? data.head / 2 : data.head + (column + 0.5) * data.row);

const SHOWN_TAGS = 40;
const shorten = (text) => [...text].length > 15 ? `${[...text].slice(0, 14).join("")}\u2026` : text;
const isCrowded = (number) => edges.length > SHOWN_TAGS || arrival.get(number).room < 11;
// How far an edge runs straight at its end: below its text, if that is always there.
const stub = (number) => isCrowded(number) ? 12 :
  18 + Math.min(60, 6 * [...shorten(edges[number][2])].length);

// A way from the right of one box through bends to the left of another.
function way(number, from, to) {
  const [source, derived, , bends] = edges[number];
  const [left, , width] = boxes[source].place;
  const end = boxes[derived].place[0];
  let [x, y] = [left + width, from];
  let text = `M${x},${y}`;
  const points = [...bends, [end - stub(number), to], [end - 7, to]];
  points.forEach(([nextX, nextY], place) => {
    if (place % 2 === 1) text += `L${nextX},${nextY}`;
    else {
      const half = (x + nextX) / 2;
      text += `C${half},${y} ${half},${nextY} ${nextX},${nextY}`;
    }
    [x, y] = [nextX, nextY];
  });
  return text;
}
const tip = (box, y) => {
  const x = boxes[box].place[0];
  return `M${x},${y}l-8,-4.5v9z`;
};

const edgeParts = edges.map(([source, derived, classifier], number) => {
  const { y } = arrival.get(number), crowded = isCrowded(number);
  const line = shape("path", { class: "edge", d: way(number, middle(source, WHOLE), y) });
  const head = shape("path", { class: "tip", d: tip(derived, y) });
  const tag = shape("text", { class: "tag", x: boxes[derived].place[0] - 12, y: y - 5 });
  tag.textContent = shorten(classifier);
  lines.append(line, head);
  if (!crowded) lines.append(tag);
  return { line, head, tag, crowded };
});

const edgeBetween = new Map(edges.map(([source, derived], number) =>
  [`${source}>${derived}`, number]));

// What is marked now: boxes, points and the links that are drawn over the edges.
let marked = { boxes: new Map(), points: new Map() };
const SIGNS = { up: "\u2191", down: "\u2193", here: "\u25cf" };
const SPOKEN = { up: ", it comes from this", down: ", this comes from it", here: ", chosen" };

function sign(element, place, label, how) {
  element.classList.remove("up", "down", "here");
  if (how) element.classList.add(how);
  place.textContent = how ? SIGNS[how] : "";
  element.setAttribute("aria-label", label + (how ? SPOKEN[how] : ""));
  element.setAttribute("aria-pressed", how === "here" ? "true" : "false");
}

function markColumns(number) {
  (drawn[number].columns || []).forEach((button, column) => {
    const how = marked.points.get(pointOf(number, column));
    sign(button, button.lastChild, `${boxes[number].name}.${columnsOf(number)[column][0]}`, how);
  });
}

function markBox(number) {
  const { element, head } = drawn[number], how = marked.boxes.get(number);
  element.classList.remove("up", "down", "here");
  if (how) element.classList.add(how);
  const own = marked.points.size ? marked.points.get(pointOf(number, WHOLE)) : how;
  const label = [boxes[number].name, boxes[number].below].filter(Boolean).join(", ");
  sign(head, head.lastChild, label, own);
  if (how) head.lastChild.textContent = SIGNS[how];
  markColumns(number);
}

// Mark boxes, points, edges and links: each a map from its key to up, down or here.
function mark(next) {
  marked = next;
  world.classList.toggle("chosen", next.boxes.size > 0);
  boxes.forEach((_, number) => markBox(number));
  edgeParts.forEach(({ line, head, tag, crowded }, number) => {
    const how = next.edges.get(number);
    for (const part of [line, head, tag]) {
      part.classList.remove("up", "down");
      if (how) part.classList.add(how);
    }
    if (crowded && how && next.near.has(number)) lines.append(tag);
    else if (crowded) tag.remove();
  });
  overlay.replaceChildren(...[...next.links].flatMap(([number, how]) => drawLink(number, how)));
}

function drawLink(number, how) {
  const [source, sourceColumn, derived, derivedColumn, use] = links[number];
  const edge = edgeBetween.get(`${source}>${derived}`);
  if (edge === undefined) return [];
  const to = derivedColumn === WHOLE ? arrival.get(edge).y : middle(derived, derivedColumn);
  const look = use === VALUE ? how : `${how} shapes`;
  return [
    shape("path", { class: look, d: way(edge, middle(source, sourceColumn), to) }),
    shape("path", { class: `tip ${how}`, d: tip(derived, to) }),
  ];
}
