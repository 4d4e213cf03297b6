// One row, and the rows that it was made of: each leads to its own, down to the sources.

async function openRow(name, parameters) {
  const [offset, block] = [parameters.get("offset"), parameters.get("block")];
  const body = make("div", {}, make("p", { role: "status", text: "Its origins are being determined." }));
  byId("row").replaceChildren(crumbs(name), make("h1", { id: "row-title", tabindex: "-1", text: rowTitle(name, offset) }), body);
  let found;
  try {
    at = { name, place: placeOf(name) };
    const own = at;
    found = await request(`${own.place}/origins?${query({ offset, block })}`);
    if (own !== at) return;
  } catch (error) {
    body.replaceChildren();
    throw error;
  }
  body.replaceChildren(
    found.row === null ? make("p", { class: "faint", text: found.damage === "lost-data" ? "Its file is missing." : `Its file cannot be read: ${found.damage}.` }) : valueTable(found),
    make("h2", { text: "Where it comes from" }),
    make("p", {}, `Block ${numeral(found.block.sequence)}, `, since(found.block.time), ", ", shortHash(found.block.hash),
      `, which wrote ${offsetsText([found.block.offsets])}.`),
    ...(found.query === null ? sourceLines(found) : madeLines(found, name)));
}

const crumbs = (name) => make("nav", { class: "crumbs", "aria-label": "Place" },
  make("a", { href: "#/", text: "Datasets" }), " \u203a ", make("a", { href: datasetAddress(name), text: name }));
const isOffset = (text) => /^\d+$/.test(text ?? "");
const rowTitle = (name, offset) => isOffset(offset) ? `Row at offset ${BigInt(offset).toLocaleString("en-US")} of ${name}` : `A row of ${name}`;
// A text that others wrote, which must not reorder what is around it.
const isolated = (text) => make("bdi", { text });
const rowAddress = (name, offset, block) => `#/row/${encodeURIComponent(name)}?${query({ offset: written(offset), block })}`;
const rowLink = (name, offset, block) => make("a", { href: rowAddress(name, offset, block), text: numeral(offset) });
const spanText = ({ start, end }) => start === end ? numeral(start) : `${numeral(start)} to ${numeral(end)}`;
function offsetsText(spans, more = 0) {
  const one = spans.length === 1 && spans[0].start === spans[0].end && !more;
  return `${one ? "offset" : "offsets"} ${spans.map(spanText).join(", ")}${more ? ` and ${numeral(more)} more` : ""}`;
}

// The values of a row, and of which columns they were made.
function valueTable({ row, columns }) {
  const made = new Map((columns || []).map((each) => [each.name, each]));
  const heads = columns ? ["Column", "Value", "Made of"] : ["Column", "Value"];
  return table("Values", heads, row.map(([name, value]) => make("tr", {},
    headCell(make("span", { class: "name", text: name })), plainCell(value), columns ? make("td", {}, madeOf(made.get(name))) : null)));
}
const plainCell = (value) => make("td", { class: value === null ? "faint" : "cell alone", text: valueText(value) });
function madeOf(column) {
  if (!column) return "";
  if (column.from.length === 0) return "no column";
  return `${column.copied ? "copied from" : "computed from"} ${column.from.join(", ")}`;
}

function sourceLines({ source, lines, merged }) {
  const named = [source.source === null ? null : `${source.kind} ${source.source}`, source.state === source.source ? null : source.state].filter(Boolean);
  const parts = [make("p", {}, named.length ? "From " : "The chain does not name its source.",
    named.length ? make("code", { text: named.join(", ") }) : null, merged ? " or an earlier one: blocks were merged since." : "")];
  if (lines) parts.push(lines.file === null ? make("p", { class: "faint" }, "Its line is not known: ", isolated(lines.unknown), ".") : linesOf(lines));
  return parts;
}
// The lines of the file that have the values of the row; there may be several that are equal.
function linesOf({ file, lines, more, by_row: byRow }) {
  const unit = `${byRow ? "row" : "line"}${lines.length > 1 ? "s" : ""}`;
  return make("p", {}, `${unit[0].toUpperCase()}${unit.slice(1)} `, make("strong", { text: lines.map(numeral).join(", ") }),
    more ? ` and ${numeral(more)} more` : "", lines.length > 1 ? ", which have equal values," : "", " of ", make("code", { text: file }), ".");
}

function madeLines(found, name) {
  const parts = [make("details", {}, make("summary", {}, "The query, of ", isolated(found.query.engine || "an unknown engine")),
    ...found.query.steps.map((each) => make("pre", { tabindex: "0", text: each.alias ? `${each.alias}: ${each.text}` : each.text })))];
  if (found.comes === false) parts.push(make("p", { text: "It takes a row back: the rows below are those that row had been made of." }));
  if (found.reason) parts.push(make("p", {}, badge("not exact", "warn", "!"), " ", isolated(found.reason), "."));
  if (found.columns === null && found.comes !== null) parts.push(make("p", { class: "faint", text: "Which columns a value was computed from is known of queries for Spark only." }));
  if (found.takes_back !== null) parts.push(make("p", {}, "It takes back the row at offset ", rowLink(name, found.takes_back, found.at), "."));
  for (const input of found.inputs) parts.push(...inputParts(input, found));
  if (found.hidden) parts.push(make("p", { class: "faint", text: `${countOf(found.hidden, "input")} that you may not read ${found.hidden === 1 ? "is" : "are"} not shown.` }));
  return parts;
}

function inputParts(input, { comes }) {
  const { name, block } = input;
  const heading = make("h3", {}, make("a", { href: datasetAddress(name), text: name }));
  if (input.missing) return [heading, make("p", { class: "faint", text: "The rows that the step read are not in its chain now." })];
  if (input.rows.length === 0) {
    if (comes !== null) return [heading, make("p", { class: "faint", text: "None of its rows." })];
    const read = input.looked_at;
    return [heading, make("p", {}, read === null ? "The step read none of its rows." : `The step read ${offsetsText([read])}: `,
      ...(read === null ? [] : [rowLink(name, read.start, block), " is the first, ", rowLink(name, read.end, block), " the last."]))];
  }
  const stored = input.rows.filter((each) => each.values !== null);
  const gone = input.rows.filter((each) => each.values === null).map((each) => rowLink(name, each.offset, block));
  const place = input.columns.indexOf(input.offset_column);
  const address = (offset) => rowAddress(name, offset, block);
  const more = input.more ? `, the first ${numeral(input.rows.length)} of ${numeral(input.rows.length + input.more)} rows` : "";
  const among = input.of > input.rows.length + input.more ? `, among ${countOf(input.of, "candidate")}` : "";
  return [heading, make("p", { text: `Made of ${offsetsText(input.offsets, input.more_offsets)}${more}${among}.` }),
    ...(stored.length ? [rowTable(`Rows of ${name}`, input.columns, stored.map((each) => each.values), place, address)] : []),
    ...(gone.length ? [make("p", { class: "faint" }, "Of others the file is missing or damaged: offset ", ...gone.flatMap((each, at) => at ? [", ", each] : [each]), ".")] : [])];
}
