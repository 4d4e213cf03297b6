// Where boxes stand and edges run, in one of two forms: with columns, or with heads alone.

const CLOSED_FROM = 200;
let form = data.forms.closed && boxes.length > CLOSED_FROM ? "closed" : "open";
const placeOf = (box) => data.forms[form].places[box];
const bendsOf = (edge) => data.forms[form].bends[edge];
const sizeOf = () => data.forms[form].size;

const middle = (box, column) => placeOf(box)[1] +
  (column === WHOLE || form === "closed" ? data.head / 2 : data.head + (column + 0.5) * data.row);

// The heights at which edges arrive: those into one box beside each other.
const arrival = new Map();
function arrive() {
  const from = (edge) => bendsOf(edge).at(-1)?.[1] ?? middle(edges[edge][0], WHOLE);
  edgesInto.forEach((numbers, box) => {
    const room = data.head / (numbers.length + 1);
    [...numbers].sort((a, b) => from(a) - from(b) || a - b).forEach((edge, at) => {
      arrival.set(edge, { y: placeOf(box)[1] + room * (at + 1), room });
    });
  });
}

const SHOWN_TAGS = 40;
const shorten = (text) => [...text].length > 15 ? `${[...text].slice(0, 14).join("")}\u2026` : text;
const isCrowded = (edge) => edges.length > SHOWN_TAGS || arrival.get(edge).room < 11;
// How far an edge runs straight at its end: below its text, if that is always there.
const stub = (edge) => isCrowded(edge) ? 12 :
  18 + Math.min(60, 6 * [...shorten(edges[edge][2])].length);

// A way from the right of one box through bends to the left of another.
function way(edge, from, to) {
  const [source, derived] = edges[edge];
  const [left, , width] = placeOf(source);
  const end = placeOf(derived)[0];
  let [x, y] = [left + width, from];
  let text = `M${x},${y}`;
  const points = [...bendsOf(edge), [end - stub(edge), to], [end - 7, to]];
  points.forEach(([nextX, nextY], at) => {
    if (at % 2 === 1) text += `L${nextX},${nextY}`;
    else {
      const half = (x + nextX) / 2;
      text += `C${half},${y} ${half},${nextY} ${nextX},${nextY}`;
    }
    [x, y] = [nextX, nextY];
  });
  return text;
}
const tip = (box, y) => `M${placeOf(box)[0]},${y}l-8,-4.5v9z`;
