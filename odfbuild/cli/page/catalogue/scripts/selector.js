// Selectors as on the command line: names, globs, +up, down+, methods; space is either, comma both.

class SelectorError extends Error {}
const METHODS = {
  tag: (row, like) => row.tags.some((each) => like.test(each)),
  owner: (row, like) => row.owner !== null && like.test(row.owner),
  kind: (row, like) => like.test(row.kind),
  state: (row, like) => like.test(row.state) || like.test(row.state.replaceAll(" ", "-")),
  path: (row, like) => row.folder !== null && row.folder.split("/").some((_, at, parts) =>
    like.test(parts.slice(0, at + 1).join("/"))),
};
const globOf = (text) => new RegExp(`^${[...text].map((sign) => sign === "*" ? ".*" : sign === "?" ? "." :
  sign.replace(/[\\^$.|?*+()[\]{}\/-]/, "\\$&")).join("")}$`, "i");
const ATOM = /^(?:(\d*)\+|(@))?(.*?)(?:\+(\d*))?$/;

function selectedBy(text) {
  const terms = text.trim().split(/\s+/).filter(Boolean);
  if (!terms.length) return new Set(rows.keys());
  const found = new Set();
  for (const term of terms) {
    const parts = term.split(",").filter(Boolean).map(atomOf);
    if (!parts.length) continue;
    for (const each of parts[0]) if (parts.every((part) => part.has(each))) found.add(each);
  }
  return found;
}

function atomOf(text) {
  const [, before, at, core, after] = ATOM.exec(text);
  if (!core) throw new SelectorError(`${text}: a name is missing.`);
  const start = coreOf(core, before !== undefined || after !== undefined || at !== undefined);
  const found = new Set(start);
  const steps = (number) => number ? Number(number) : Infinity;
  if (before !== undefined) walk(start, inputsOf, steps(before), found);
  if (after !== undefined) walk(start, readers, steps(after), found);
  if (at) {
    walk(start, readers, Infinity, found);
    walk([...found], inputsOf, Infinity, found);
  }
  return found;
}

function walk(start, links, steps, found) {
  let edge = [...start];
  const seen = new Set(edge);
  for (let step = 0; edge.length && step < steps; step += 1) {
    edge = edge.flatMap((each) => links[each]).filter((each) => !seen.has(each) && seen.add(each));
    for (const each of edge) found.add(each);
  }
}

// A name with a sign is exact, if there is one of that name; else it is a part of one.
function coreOf(core, signed) {
  const colon = core.indexOf(":");
  if (colon > 0) {
    const method = METHODS[core.slice(0, colon)];
    if (!method) throw new SelectorError(`${core}: methods here are ${Object.keys(METHODS).join(", ")}.`);
    const like = globOf(core.slice(colon + 1).replace(/^\.\//, "").replace(/\/$/, ""));
    return rows.filter((row) => method(row, like)).map(({ number }) => number);
  }
  if (/[*?]/.test(core)) {
    const like = globOf(core);
    return rows.filter(({ name }) => like.test(name)).map(({ number }) => number);
  }
  const exact = numberOf.get(core.toLowerCase());
  if (signed && exact !== undefined) return [exact];
  return rows.filter(({ name }) => name.toLowerCase().includes(core.toLowerCase())).map(({ number }) => number);
}
