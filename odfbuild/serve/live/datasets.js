// The list of datasets, as they are now.

let known = [];
const words = () => byId("words");

async function openList() {
  await keepFresh(5, async (own) => {
    const found = await request("system/status", { again: true });
    if (own.ends) return;
    known = found.datasets;
    showList();
  });
}

const datasetAddress = (name) => `#/dataset/${encodeURIComponent(name)}`;
const datasetLink = (name) => make("a", { class: "name", href: datasetAddress(name), text: name });

function stateOf(each) {
  if (each.damage) return badge(`damaged: ${each.damage}`, "bad", "\u2717");
  if (each.locked) return badge("is being changed", "info", "\u25b6");
  if (each.behind) return badge(`${countOf(each.behind, "row")} behind`, "info", "\u21bb");
  if (each.behind === 0) return badge("up to date", "good", "\u2713");
  return null;
}

function showList() {
  const wanted = words().value.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = known.filter((each) => wanted.every((word) => each.alias.toLowerCase().includes(word)));
  const shown = fitting.slice(0, 500);
  byId("summary").textContent = known.length === 0 ? "There are no datasets that you may read." :
    `${countOf(fitting.length, "dataset")}${fitting.length > shown.length ? `, the first ${numeral(shown.length)} are shown` : ""}`;
  const lines = shown.map((each) => make("tr", {},
    headCell(datasetLink(each.alias)),
    make("td", { text: each.kind === null ? "" : each.kind.toLowerCase() }),
    make("td", {}, stateOf(each)),
    amount(each.records),
    make("td", { class: "amount", text: each.size === null ? "" : bytesText(each.size) }),
    make("td", {}, since(each.watermark)),
    make("td", {}, since(each.time))));
  byId("list-rows").replaceChildren(lines.length === 0 ? "" :
    cardTable("List of datasets", ["Dataset", "Kind", "State", amountHead("Rows"), amountHead("Size"), "Watermark", "Last change"], lines));
}
