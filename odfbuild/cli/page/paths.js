// What leads to what: datasets along edges, columns along links.

const data = JSON.parse(document.getElementById("data").textContent);
const { boxes, edges, links } = data;
const VALUE = 0, ROWS = 1, UNKNOWN = 2, WHOLE = -1;

const edgesInto = boxes.map(() => []), edgesOutOf = boxes.map(() => []);
edges.forEach(([source, derived], number) => {
  edgesInto[derived].push(number);
  edgesOutOf[source].push(number);
});

const linksInto = new Map(), linksOutOf = new Map();
const pointOf = (box, column) => `${box}:${column}`;
const put = (map, key, number) => map.has(key) ? map.get(key).push(number) : map.set(key, [number]);
links.forEach(([source, sourceColumn, derived, derivedColumn], number) => {
  put(linksOutOf, pointOf(source, sourceColumn), number);
  put(linksInto, pointOf(derived, derivedColumn), number);
});

const columnsOf = (box) => boxes[box].columns || [];

// The edges on the way from a dataset, up (to what it comes from) or down.
function edgesFrom(box, up) {
  const seen = new Set([box]), found = new Set(), pending = [box];
  while (pending.length) {
    for (const number of (up ? edgesInto : edgesOutOf)[pending.pop()]) {
      const next = edges[number][up ? 0 : 1];
      found.add(number);
      if (!seen.has(next)) { seen.add(next); pending.push(next); }
    }
  }
  seen.delete(box);
  return { boxes: seen, edges: found };
}

// The links on the way from a column; `rows` goes through what decides on rows as well.
function linksFrom(box, column, up, rows) {
  const seen = new Set(), found = new Set(), pending = [];
  const meet = (at, which) => {
    const point = pointOf(at, which);
    if (!seen.has(point)) { seen.add(point); pending.push([at, which]); }
  };
  meet(box, column);
  while (pending.length) {
    const [at, which] = pending.pop();
    const near = (up ? linksInto : linksOutOf);
    const numbers = [...(near.get(pointOf(at, which)) || [])];
    if (which !== WHOLE) numbers.push(...(near.get(pointOf(at, WHOLE)) || []));
    else if (!up) columnsOf(at).forEach((_, each) => meet(at, each));
    for (const number of numbers) {
      const [source, sourceColumn, derived, derivedColumn, use] = links[number];
      if (use === ROWS && !rows) continue;
      found.add(number);
      if (up) meet(source, sourceColumn);
      else meet(derived, derivedColumn);
    }
  }
  seen.delete(pointOf(box, column));
  return { points: seen, links: found };
}
