// Find a dataset or a column by a part of its name.

const search = document.getElementById("search"), found = document.getElementById("found");
const MOST_FOUND = 50;
const entries = boxes.flatMap((box, number) => [
  { box: number, column: WHOLE, text: box.name },
  ...columnsOf(number).map((_, column) => ({ box: number, column, text: titleOf(number, column) })),
]).map((each) => ({ ...each, low: each.text.toLowerCase() }));
let hits = [], at = -1;

function rank({ low, column, box }, wanted) {
  const own = column === WHOLE ? low : columnsOf(box)[column][0].toLowerCase();
  if (low === wanted) return 0;
  if (own === wanted) return 1;
  return own.startsWith(wanted) ? 2 : own.includes(wanted) ? 3 : 4;
}

function findAll() {
  const wanted = search.value.trim().toLowerCase();
  const matching = wanted ? entries.filter(({ low }) => low.includes(wanted)) : [];
  const ranked = matching.map((each) => [rank(each, wanted), each]);
  hits = ranked.sort(([a], [b]) => a - b).slice(0, MOST_FOUND).map(([, each]) => each);
  const items = hits.map(({ text, column }, number) => {
    const item = make("li", "", text + (column === WHOLE ? "" : "  (column)"));
    item.id = `hit${number}`;
    item.setAttribute("role", "option");
    item.addEventListener("pointerdown", (event) => { event.preventDefault(); take(number); });
    return item;
  });
  const note = !wanted ? null : !hits.length ? "Nothing is called that." :
    matching.length > hits.length ? `and ${matching.length - hits.length} more` : null;
  if (note) {
    const item = make("li", "note", note);
    item.setAttribute("role", "option");
    item.setAttribute("aria-disabled", "true");
    items.push(item);
  }
  found.replaceChildren(...items);
  found.hidden = !wanted;
  search.setAttribute("aria-expanded", String(!found.hidden));
  if (wanted) told.textContent = `${matching.length} found`;
  point(hits.length ? 0 : -1);
}

function point(number) {
  at = number;
  [...found.children].forEach((item, each) =>
    item.setAttribute("aria-selected", String(each === at)));
  if (at >= 0) {
    search.setAttribute("aria-activedescendant", `hit${at}`);
    found.children[at].scrollIntoView({ block: "nearest" });
  } else search.removeAttribute("aria-activedescendant");
}

function close() {
  found.hidden = true;
  search.setAttribute("aria-expanded", "false");
  search.removeAttribute("aria-activedescendant");
}

function take(number) {
  const hit = hits[number];
  if (!hit) return;
  close();
  goTo(hit.box, hit.column);
  focusOn(hit.box, hit.column);
}

search.addEventListener("input", findAll);
search.addEventListener("focus", () => { if (search.value.trim()) findAll(); });
search.addEventListener("blur", close);
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    if (hits.length) point((at + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length);
  } else if (event.key === "Enter") { event.preventDefault(); take(at); }
  else if (event.key === "Escape") {
    event.stopPropagation();
    if (found.hidden) canvas.focus();
    close();
  }
});
