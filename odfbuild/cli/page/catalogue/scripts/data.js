// The data of the page: the index at once, columns and details when they are asked for.

const byId = (id) => document.getElementById(id);
const index = JSON.parse(byId("index").textContent);
const word = (number) => number < 0 ? null : index.words[number];
const KINDS = { 0: "root", 1: "derivative", "-1": "unknown" };
const rows = index.rows.map(([name, kind, folder, owner, tags, state, time, records, inputs,
  summary, tests], number) => ({
  number, name, kind: KINDS[kind], folder: word(folder), owner: word(owner), tags: tags.map(word),
  state: index.states[state], time, records, inputs, summary, tests,
  text: [name, word(folder), word(owner), ...tags.map(word), summary].join("\n").toLowerCase(),
}));
const numberOf = new Map(rows.map(({ name, number }) => [name.toLowerCase(), number]));
const readers = rows.map(() => []);
for (const { number, inputs } of rows) {
  for (const each of inputs) if (typeof each === "number") readers[each].push(number);
}
const inputsOf = rows.map(({ inputs }) => inputs.filter((each) => typeof each === "number"));

async function unpack(id) {
  const bytes = Uint8Array.from(atob(byId(id).textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const chunks = new Map();
async function detailsOf(number) {
  const chunk = Math.floor(number / index.chunk);
  if (!chunks.has(chunk)) chunks.set(chunk, unpack(`details-${chunk}`));
  return (await chunks.get(chunk))[number % index.chunk];
}

// Of each dataset: description, columns (null: not known), columns that decide on its rows (same).
let columnsKnown = null;
const top = (name) => name.split(".")[0].toLowerCase();
async function readColumns() {
  const found = await unpack("columns");
  columnsKnown = found.map(([description, columns, shaping]) => ({
    description, shaping,
    columns: columns && columns.map(([name, type, required, sources]) =>
      ({ name, type, required, sources })),
  }));
  columnsKnown.forEach(({ description, columns }, number) => {
    rows[number].text += `\n${description}\n${(columns || []).map(({ name }) => name).join("\n")}`
      .toLowerCase();
  });
}
let reading = null;
const columnsRead = () => reading ||= readColumns();
