// What is chosen, what that marks, and what is told of it beside the graph.

const panel = document.getElementById("panel"), told = document.getElementById("told");
const throughRows = document.getElementById("rows");
let chosen = null;

const titleOf = (box, column) => column === WHOLE ? boxes[box].name :
  `${boxes[box].name}.${columnsOf(box)[column][0]}`;
const countOf = (count, one, many) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

function choose(box, column = WHOLE) {
  chosen = box === null ? null : { box, column };
  if (!chosen) {
    mark(nothing());
    told.textContent = "Nothing is chosen.";
  } else if (column === WHOLE) markDataset(box);
  else markColumn(box, column);
  showPanel();
  const hash = chosen ? `#${encodeURIComponent(titleOf(box, column))}` : "#";
  if (location.hash === hash || !chosen && !location.hash) return;
  try { history.replaceState(null, "", hash); } catch { /* not every browser lets a file do so */ }
}

function markDataset(box) {
  const up = edgesFrom(box, true), down = edgesFrom(box, false);
  mark({
    ...nothing(),
    boxes: new Map([...[...up.boxes].map((each) => [each, "up"]),
      ...[...down.boxes].map((each) => [each, "down"]), [box, "here"]]),
    edges: new Map([...[...up.edges].map((each) => [each, "up"]),
      ...[...down.edges].map((each) => [each, "down"])]),
    near: new Set([...edgesInto[box], ...edgesOutOf[box]]),
  });
  told.textContent = `${boxes[box].name}: it comes from ` +
    `${countOf(up.boxes.size, "dataset", "datasets")}, ` +
    `${countOf(down.boxes.size, "comes", "come")} from it.`;
}

function markColumn(box, column) {
  const found = { up: linksFrom(box, column, true, throughRows.checked),
    down: linksFrom(box, column, false, throughRows.checked) };
  const points = new Map(), near = new Map(), drawnLinks = new Map(), counts = {};
  for (const how of ["up", "down"]) {
    for (const point of found[how].points) {
      points.set(point, how);
      near.set(Number(point.split(":")[0]), how);
    }
    for (const number of found[how].links) drawnLinks.set(number, how);
    counts[how] = [...found[how].points].filter((point) => !point.endsWith(`:${WHOLE}`)).length;
  }
  points.set(pointOf(box, column), "here");
  near.set(box, "here");
  mark({ ...nothing(), boxes: near, points, links: drawnLinks });
  told.textContent = `${titleOf(box, column)}: it comes from ` +
    `${countOf(counts.up, "column", "columns")}, ` +
    `${countOf(counts.down, "comes", "come")} from it.`;
}

// Choose what is looked for, and bring it in sight; columns are shown for a column.
function goTo(box, column) {
  if (column !== WHOLE && form === "closed") show("open");
  choose(box, column);
  center(box, column);
}

// Elements of the panel

function itemOf(box, column, text, role) {
  const item = make("li"), button = make("button", "", text);
  button.type = "button";
  button.addEventListener("click", () => goTo(box, column));
  item.append(button);
  if (role) item.append(make("span", "role", ` ${role}`));
  return item;
}

function list(heading, items, none) {
  const parts = [make("h3", "", heading)];
  if (items.length) {
    const element = make("ul");
    element.append(...items);
    parts.push(element);
  } else parts.push(make("p", "role", none));
  return parts;
}

const numberOf = new Map(boxes.map((box, number) => [box.name.toLowerCase(), number]));

// A column by the names of its dataset and its own, which may not be on the page.
function reference([dataset, column]) {
  const text = `${dataset}.${column}`, box = numberOf.get(dataset.toLowerCase());
  if (box === undefined) return make("li", "", text);
  const same = (name) => columnsOf(box).findIndex(([each]) =>
    each.toLowerCase() === name.toLowerCase());
  const exact = same(column), at = exact < 0 ? same(column.split(".")[0]) : exact;
  return itemOf(box, at < 0 ? WHOLE : at, text);
}

function about(box) {
  const one = boxes[box];
  const parts = [];
  const facts = [["Kind", one.kind], ["Home", one.home], ...one.facts].filter(([, text]) => text);
  if (facts.length) {
    const element = make("dl");
    for (const [label, text] of facts) element.append(make("dt", "", label), make("dd", "", text));
    parts.push(element);
  }
  if (one.more) parts.push(make("p", "", "More is known than this page shows."));
  return parts;
}

function aboutDataset(box) {
  const one = boxes[box], parts = about(box);
  parts.push(...list("Made of",
    edgesInto[box].map((each) => itemOf(edges[each][0], WHOLE, boxes[edges[each][0]].name,
      `as ${edges[each][2]}`)), "Nothing on this page."));
  parts.push(...list("Used by",
    edgesOutOf[box].map((each) => itemOf(edges[each][1], WHOLE, boxes[edges[each][1]].name,
      `as ${edges[each][2]}`)), "Nothing on this page."));
  parts.push(...shapedBy(one));
  if (one.columns) {
    parts.push(...list("Columns",
      one.columns.map(([name], column) => itemOf(box, column, name)), "None."));
  } else if (one.columns === null) {
    parts.push(make("h3", "", "Columns"),
      make("p", "", "They cannot be determined: they may come from all of its inputs."));
  }
  if (one.query) parts.push(make("h3", "", "Query"), Object.assign(make("pre", "", one.query), { tabIndex: 0 }));
  return parts;
}

function shapedBy(one) {
  const parts = [];
  if (one.clauses.length) parts.push(make("p", "", one.clauses.join(", ")));
  if (one.rows === null) parts.push(make("p", "", "Which columns decide cannot be determined."));
  else if (one.rows?.length) {
    const element = make("ul");
    element.append(...one.rows.map(reference));
    parts.push(element);
  }
  return parts.length ? [make("h3", "", "What shapes its rows"), ...parts] : [];
}

function aboutColumn(box, column) {
  const users = (use) => (linksOutOf.get(pointOf(box, column)) || [])
    .filter((number) => (links[number][4] === VALUE) === use)
    .map((number) => links[number])
    .map(([, , derived, at]) => itemOf(derived, at, titleOf(derived, at)));
  const maybe = (linksOutOf.get(pointOf(box, WHOLE)) || []).map((number) => links[number])
    .filter(([, , , , use]) => use === UNKNOWN)
    .map(([, , derived]) => itemOf(derived, WHOLE, boxes[derived].name));
  const item = itemOf(box, WHOLE, boxes[box].name);
  const back = make("ul");
  back.append(item);
  return [
    make("p", "", "A column of"), back,
    ...list("Its values come from", columnsOf(box)[column][1].map(reference),
      boxes[box].rows?.length ? "No column: they are made here." : "No column on this page."),
    ...list("They go into", users(true), "Nothing on this page."),
    ...list("They decide on the rows of", users(false), "Nothing on this page."),
    ...maybe.length ? list("They may go into", maybe, "") : [],
    ...shapedBy(boxes[box]),
  ];
}

function showPanel() {
  const heading = make("h2", "", chosen ? titleOf(chosen.box, chosen.column) : "Nothing is chosen");
  heading.id = "subject";
  const told = !chosen ? overview() : chosen.column === WHOLE ? aboutDataset(chosen.box) :
    aboutColumn(chosen.box, chosen.column);
  panel.replaceChildren(heading, ...told);
  panel.scrollTop = 0;
}

function overview() {
  const columns = boxes.reduce((sum, each) => sum + (each.columns?.length || 0), 0);
  const counts = [countOf(boxes.length, "dataset", "datasets"),
    countOf(edges.length, "relation", "relations"),
    ...columns ? [countOf(columns, "column", "columns")] : []];
  return [
    make("p", "", `${counts.join(", ")}, ${data.about}.`),
    make("p", "", columns ? "Choose a dataset or a column to see where it comes from and where " +
      "it goes." : "Choose a dataset to see where it comes from and where it goes."),
    ...list("Asked for", [itemOf(data.root, WHOLE, boxes[data.root].name)], ""),
  ];
}
