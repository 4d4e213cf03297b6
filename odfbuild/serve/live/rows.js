// Rows as tables: values are texts, whatever they hold.

function valueText(value) {
  if (isExact(value)) return value[EXACT];
  if (typeof value === "string") return value;
  return JSON.stringify(value, (_, each) => isExact(each) ? each[EXACT] : each);
}

function valueCell(value) {
  if (value === null || value === undefined) return make("td", { class: "faint", text: "null" });
  const isNumber = typeof value === "number" || isExact(value);
  return make("td", { class: isNumber ? "amount" : "cell", text: valueText(value) });
}

function rowTable(caption, names, rows) {
  const types = names.map((_, at) => rows.some((row) => typeof row[at] === "number" || isExact(row[at])));
  const heads = names.map((text, at) => types[at] ? amountHead(text) : text);
  return table(caption, heads, rows.map((row) => make("tr", {}, row.map(valueCell))));
}

function typeText(type) {
  if (typeof type !== "object" || type === null) return String(type);
  const { kind, inner, ...rest } = type;
  if (kind === "Option") return `${typeText(inner)} or null`;
  if (kind === "List") return `List of ${typeText(type.itemType)}`;
  const more = Object.entries(rest).filter(([, value]) => value !== null);
  if (more.length === 0) return kind;
  return `${kind}(${more.map(([name, value]) => `${name}: ${valueText(value)}`).join(", ")})`;
}
