// Rows as tables: values are texts, whatever they hold.

// A text that looks like null, or like a text in quotes, is in quotes.
const valueText = (value) => typeof value === "string" && value !== "null" && !value.startsWith('"') ? value : written(value);

const isNumeral = (value) => typeof value === "number" || isExact(value);

const SHORT = 32; // characters that stay on one line
const LONG = 10000; // characters that are shown at once: a browser takes a second for each few hundred thousand
function valueCell(value) {
  if (value === null || value === undefined) return make("td", { class: "faint", text: "null" });
  const isNumber = isNumeral(value);
  const text = valueText(value);
  const cell = make("td", { class: isNumber ? "amount" : text.length <= SHORT ? "cell short" : "cell", text: begin(text) });
  if (text.length > LONG) cell.append(make("p", { class: "more" }, make("button", {
    type: "button", text: `All of ${countOf(text.length, "character")}`, on: { click: () => { cell.textContent = text; } } })));
  return cell;
}

// The first characters of a text; of a pair that stands for one character, both or none.
const begin = (text) => text.slice(0, text.length > LONG && /[\ud800-\udbff]/.test(text[LONG - 1]) ? LONG - 1 : LONG);

// The values of the column `link`, by number, lead to the address that a function returns for each.
function rowTable(caption, names, rows, link = -1, address = null) {
  const types = names.map((_, at) => rows.some((row) => isNumeral(row[at])));
  const heads = names.map((text, at) => types[at] ? amountHead(text) : text);
  return table(caption, heads, rows.map((row) => make("tr", {}, row.map((value, at) =>
    at === link ? make("td", { class: "amount" }, make("a", { href: address(value), text: valueText(value) })) : valueCell(value)))));
}

function typeText(type) {
  if (typeof type !== "object" || type === null) return String(type);
  const { kind, inner, ...rest } = type;
  if (kind === "Option") return `${typeText(inner)} or null`;
  if (kind === "List") return `List(${typeText(type.itemType)})`;
  if (kind === "Struct") return `Struct(${type.fields.map((each) => `${each.name}: ${typeText(each.type)}`).join(", ")})`;
  const more = Object.entries(rest).filter(([, value]) => value !== null);
  if (more.length === 0) return kind;
  return `${kind}(${more.map(([name, value]) => `${name}: ${valueText(value)}`).join(", ")})`;
}
