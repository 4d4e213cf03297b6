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
const lines = shape("svg", { "aria-hidden": "true" });
const overlay = shape("svg", { "aria-hidden": "true" });
world.append(lines);
const root = document.documentElement;
root.style.setProperty("--head", `${data.head}px`);
root.style.setProperty("--row", `${data.row}px`);

const drawn = boxes.map((box, number) => {
  const element = make("div", number === data.root ? "box root" : "box");
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

const edgeParts = edges.map(([, , classifier]) => {
  const line = shape("path", { class: "edge" }), head = shape("path", { class: "tip" });
  const tag = shape("text", { class: "tag" });
  tag.textContent = shorten(classifier);
  lines.append(line, head);
  return { line, head, tag };
});

const edgeBetween = new Map(edges.map(([source, derived], number) =>
  [`${source}>${derived}`, number]));

// What is marked now: boxes, points and the links that are drawn over the edges.
const nothing = () => ({
  boxes: new Map(), points: new Map(), edges: new Map(), links: new Map(), near: new Set(),
});
let marked = nothing();
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
  edgeParts.forEach(({ line, head, tag }, number) => {
    const how = next.edges.get(number);
    for (const part of [line, head, tag]) {
      part.classList.remove("up", "down");
      if (how) part.classList.add(how);
    }
    if (!isCrowded(number) || how && next.near.has(number)) lines.append(tag);
    else tag.remove();
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

// Put everything where it is in a form.
function arrange(next) {
  form = next;
  arrive();
  world.classList.toggle("closed", form === "closed");
  const [wide, high] = sizeOf();
  Object.assign(world.style, { width: `${wide}px`, height: `${high}px` });
  for (const each of [lines, overlay]) {
    each.setAttribute("width", wide);
    each.setAttribute("height", high);
  }
  drawn.forEach(({ element }, number) => {
    const [left, top, width, height] = placeOf(number);
    Object.assign(element.style, {
      left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`,
    });
  });
  edgeParts.forEach(({ line, head, tag }, number) => {
    const [source, derived] = edges[number], { y } = arrival.get(number);
    line.setAttribute("d", way(number, middle(source, WHOLE), y));
    head.setAttribute("d", tip(derived, y));
    tag.setAttribute("x", placeOf(derived)[0] - 12);
    tag.setAttribute("y", y - 5);
  });
  mark(marked);
}
