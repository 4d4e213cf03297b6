// Boxes and edges of the graph: what is drawn now, and how a choice marks it.

const HEAD = 44, ROW = 20, MOST_BOXES = 2000, MOST_WITH_COLUMNS = 80, WHOLE = -1;
const canvas = byId("canvas"), world = make("div", { id: "world" });
const lines = shape("svg", { "aria-hidden": "true" }), overlay = shape("svg", { "aria-hidden": "true" });
canvas.append(world);

// What view.js asks for: boxes are datasets or folders, and their columns are drawn with them.
const data = { head: HEAD, row: ROW }, form = "closed";
let boxes = [], drawn = [], arcs = [], placed = { places: [], bends: [], size: [0, 0], layer: [] };
let arcsInto = [], arcsOutOf = [], paths = [], tips = [], boxOf = new Map(), withColumns = false;
const placeOf = (box) => placed.places[box];
const sizeOf = () => placed.size;
const columnsOf = (box) => boxes[box].columns || [];
const columnElements = (box) => drawn[box].columns;
const middle = (box, column) => placeOf(box)[1] + (column === WHOLE ? HEAD / 2 : HEAD + (column + 0.5) * ROW);

function boxesOf(numbers, folded) {
  const found = [], at = new Map(), groups = new Map();
  for (const number of numbers) {
    const folder = rows[number].folder ?? "(no definition)";
    if (folded.has(folder)) {
      if (!groups.has(folder)) {
        groups.set(folder, found.length);
        found.push({ folder, name: folder, members: [] });
      }
      found[groups.get(folder)].members.push(number);
      at.set(number, groups.get(folder));
    } else {
      at.set(number, found.length);
      found.push({ number, name: rows[number].name, members: [number] });
    }
  }
  for (const box of found) {
    box.below = box.folder === undefined ? `${rows[box.number].kind} \u00b7 ${rows[box.number].state}` :
      `folder \u00b7 ${countOf(box.members.length, "dataset")}`;
  }
  return [found, at];
}

function arcsOf(numbers, at) {
  const found = new Map();
  for (const number of numbers) {
    for (const input of inputsOf[number]) {
      const source = at.get(input), target = at.get(number);
      if (source !== undefined && source !== target) found.set(`${source}>${target}`, [source, target]);
    }
  }
  return [...found.values()];
}

function sizeOfBox(box) {
  const longest = Math.max(box.name.length * 8.8, box.below.length * 6.6, ...columnsOf(box.at).map(({ name }) => name.length * 7.4));
  return [Math.round(Math.min(340, Math.max(130, longest + 36))), HEAD + (box.columns?.length ? box.columns.length * ROW + 6 : 0)];
}

function draw(numbers, folded) {
  const [found, at] = boxesOf(numbers, folded);
  boxes = found;
  boxOf = at;
  arcs = arcsOf(numbers, at);
  boxes.forEach((box, number) => {
    box.at = number;
    box.columns = withColumns && box.number !== undefined && boxes.length <= MOST_WITH_COLUMNS ?
      (columnsKnown?.[box.number].columns || []).slice(0, 60) : [];
  });
  arcsInto = boxes.map(() => []);
  arcsOutOf = boxes.map(() => []);
  arcs.forEach(([source, target], number) => { arcsInto[target].push(number); arcsOutOf[source].push(number); });
  placed = layOut(boxes.map(sizeOfBox), arcs);
  // Lines arrive at a box in the order in which they come from, so that those of two boxes do not cross at it.
  const before = (number) => placed.bends[number].at(-1)?.[1] ?? middle(arcs[number][0], WHOLE);
  for (const into of arcsInto) into.sort((one, two) => before(one) - before(two));
  drawn = boxes.map(boxElement);
  paths = arcs.map((_, number) => shape("path", { class: "edge", d: wayOf(number) }));
  tips = arcs.map((_, number) => shape("path", { class: "tip", d: tipOf(number) }));
  lines.replaceChildren(...paths, ...tips);
  overlay.replaceChildren();
  const [wide, high] = sizeOf();
  for (const each of [lines, overlay]) { each.setAttribute("width", wide); each.setAttribute("height", high); }
  world.replaceChildren(lines, ...drawn.map(({ element }) => element), overlay);
}

function boxElement(box, number) {
  const [left, upper, wide, high] = placeOf(number);
  const button = (kind, column, ...parts) => make("button", { type: "button", class: kind, tabindex: "-1", "data-box": number,
    "data-column": column }, ...parts, make("span", { class: "unseen how" }));
  const head = button("head", WHOLE, make("span", { class: "name", text: box.name }), " ", make("span", { class: "below", text: box.below }),
    make("span", { class: "mark", "aria-hidden": "true" }));
  const columns = columnsOf(number).map(({ name }, column) => button("column", column, make("span", { text: name })));
  const element = make("div", { class: box.folder === undefined ? "box" : "box folder" }, head, columns);
  Object.assign(element.style, { left: `${left}px`, top: `${upper}px`, width: `${wide}px`, height: `${high}px` });
  return { element, head, columns };
}
// How a box or a column is marked, for those who hear it.
function say(button, how) {
  button.querySelector(".how").textContent = how ? `, ${SPOKEN[how]}` : "";
}

function arrivalOf(number) {
  const [, target] = arcs[number], into = arcsInto[target];
  return placeOf(target)[1] + HEAD / (into.length + 1) * (into.indexOf(number) + 1);
}
function curve([x, y], points) {
  let text = `M${x},${y}`;
  points.forEach(([nextX, nextY], at) => {
    const half = (x + nextX) / 2;
    if (nextX <= x) text += `C${x + 90},${y - 70} ${nextX - 90},${nextY - 70} ${nextX},${nextY}`; // in a circle
    else text += at % 2 === 1 && points.length > 1 && at < points.length ? `L${nextX},${nextY}` : `C${half},${y} ${half},${nextY} ${nextX},${nextY}`;
    [x, y] = [nextX, nextY];
  });
  return text;
}
function wayOf(number) {
  const [source, target] = arcs[number], [left, , wide] = placeOf(source), y = arrivalOf(number);
  return curve([left + wide, middle(source, WHOLE)], [...placed.bends[number], [placeOf(target)[0] - 7, y]]);
}
const tipOf = (number) => `M${placeOf(arcs[number][1])[0]},${arrivalOf(number)}l-8,-4.5v9z`;

// Mark boxes and edges: maps from their numbers to up, down or here.
const MARKS = { up: "\u2191", down: "\u2193", here: "\u25cf" };
const SPOKEN = { up: "it comes from this", down: "this comes from it", here: "chosen" };
function mark(boxMarks, arcMarks) {
  world.classList.toggle("chosen", boxMarks.size > 0);
  drawn.forEach(({ element, head }, number) => {
    const how = boxMarks.get(number);
    element.classList.remove("up", "down", "here");
    if (how) element.classList.add(how);
    head.querySelector(".mark").textContent = how ? MARKS[how] : "";
    say(head, how);
  });
  paths.forEach((path, number) => {
    const how = arcMarks.get(number) || "";
    path.setAttribute("class", `edge ${how}`);
    tips[number].setAttribute("class", `tip ${how}`);
  });
}

// Mark columns, by dataset and name, and draw the lines between those that are drawn.
function markColumns(marks, links) {
  drawn.forEach(({ columns }, box) => columns.forEach((button, column) => {
    button.classList.remove("up", "down", "here");
    const how = marks.get(`${boxes[box].number}:${top(columnsOf(box)[column].name)}`);
    if (how) button.classList.add(how);
    say(button, how);
  }));
  overlay.replaceChildren(...links.flatMap(([from, to, how]) => {
    const [start, end] = [from, to].map(([number, column]) => {
      const box = boxOf.get(number);
      if (box === undefined) return null;
      const at = columnsOf(box).findIndex((each) => top(each.name) === top(column));
      return [box, at];
    });
    if (!start || !end) return [];
    const [left, , wide] = placeOf(start[0]);
    return [shape("path", { class: `link ${how}`, d: curve([left + wide, middle(...start)], [[placeOf(end[0])[0], middle(...end)]]) })];
  }));
}
