// What a column reaches, as `odfbuild impact` says it, and what it comes from.

const isUnknown = (number) => {
  const { columns, shaping } = columnsKnown[number];
  return !columns || !shaping || columns.some(({ sources }) => !sources);
};

// Of each dataset that a change of some columns (null: all) reaches: its columns (null: all), how.
function reachOf(start, column) {
  const incoming = new Map([[start, column === null ? null : new Set([top(column)])]]);
  const found = new Map(), pending = [start];
  const holds = ([at, name]) => {
    const what = incoming.get(at);
    return what !== undefined && (what === null || what.has(top(name)));
  };
  while (pending.length) {
    const source = pending.pop();
    for (const number of readers[source]) {
      if (number === start) continue;
      const { columns, shaping } = columnsKnown[number];
      const doubtful = isUnknown(number) || inputsOf[number].some((each) => found.get(each)?.unknown);
      const rowsReached = doubtful || shaping.some(holds) || inputsOf[number].some((each) => incoming.get(each) === null);
      const touched = doubtful ? [] : columns.filter(({ sources }) => sources.some(holds));
      if (!rowsReached && !touched.length) continue;
      const names = rowsReached ? (doubtful ? [] : columns.map(({ name }) => name)) : touched.map(({ name }) => name);
      const before = found.get(number);
      const next = { columns: names, rows: rowsReached, value: doubtful || touched.length > 0, unknown: doubtful };
      if (before && before.columns.length === next.columns.length && before.rows === next.rows &&
        before.unknown === next.unknown && before.value === next.value) continue;
      found.set(number, next);
      incoming.set(number, rowsReached ? null : new Set(names.map(top)));
      pending.push(number);
    }
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

// The columns that the values of a column come from, nearest first: [dataset, column, steps].
function originsOf(start, column) {
  const seen = new Set([`${start}:${top(column)}`]), found = [];
  let edge = [[start, column]];
  for (let steps = 1; edge.length; steps += 1) {
    const next = [];
    for (const [at, name] of edge) {
      if (typeof at !== "number") continue;
      const own = (columnsKnown[at].columns || []).find((each) => top(each.name) === top(name));
      for (const [source, sourceName] of own?.sources || []) {
        const key = `${source}:${top(sourceName)}`;
        if (seen.has(key)) continue;
        seen.add(key);
        found.push([source, sourceName, steps]);
        next.push([source, sourceName]);
      }
    }
    edge = next;
  }
  return found;
}

const howReached = ({ rows: all, value, unknown, columns }) => unknown ? "may be: its query is not understood" :
  all ? (value ? "its values, and which rows there are, so all columns" : "which rows there are, so all columns") :
    `columns: ${columns.join(", ")}`;
