// How the rows of a dataset differ between two of its blocks.

const CHANGES = 200; // that are shown

async function showChanges(own) {
  const { block, from, place, name } = own;
  const found = await request(`${place}/changes?${query({ since: from, block, limit: CHANGES })}`);
  if (own !== at) return;
  const { key, columns, rows } = found;
  const total = found.added + found.removed + found.changed;
  const shown = rows.reduce((sum, { times }) => sum + times, 0);
  const parts = [`${numeral(found.added)} added`, `${numeral(found.removed)} removed`,
    key.length ? `${numeral(found.changed)} changed (by ${key.join(", ")})` : null];
  byId("rows").replaceChildren(
    make("p", {}, "How the rows at block ", shortHash(block || own.head?.hash), " differ from those at block ", shortHash(from), ". ",
      make("a", { href: `${datasetAddress(name)}?${query({ since: from, block })}`, text: "Show the rows that came" }), " ", allLink(own)),
    make("p", { role: "status", class: "number", text: total === 0 ? "They are the same." :
      `${countOf(total, "row")}: ${parts.filter(Boolean).join(", ")}${shown < total ? `; the first ${numeral(shown)} are shown` : ""}` }),
    ...(rows.length ? [changeTable(columns, rows)] : []));
}

function changeTable(names, rows) {
  const isAmount = names.map((_, at) => rows.some(({ before, after }) => isNumeral((after || before)[at])));
  const kind = ({ before, after }) => before === null ? "added" : after === null ? "removed" : "changed";
  return table("Changes", ["Change", ...names.map((text, at) => isAmount[at] ? amountHead(text) : text)], rows.map((each) => make("tr", { class: kind(each) },
    headCell(each.times > 1 ? `${kind(each)}, ${numeral(each.times)} times` : kind(each)),
    names.map((_, at) => changeCell(each.before, each.after, at)))));
}

function changeCell(before, after, at) {
  if (before === null || after === null) return valueCell((after || before)[at]);
  if (written(before[at]) === written(after[at])) return valueCell(after[at]);
  const [was, is] = [before[at], after[at]].map((value) => value === null ? "null" : begin(valueText(value)));
  return make("td", { class: isNumeral(after[at]) ? "amount" : "cell short" }, make("del", { text: was }), " ", make("ins", { text: is }));
}
