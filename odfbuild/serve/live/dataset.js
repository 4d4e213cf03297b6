// One dataset: its columns, its rows as of any block, its history.

const PAGE = 50;
let at = null; // which rows are shown

async function openDataset(name, parameters) {
  const block = parameters.get("block"), from = parameters.get("since"), asOf = parameters.get("asOf");
  const isCurrent = asOf !== null || parameters.get("rows") === "current", isCompared = parameters.get("rows") === "changes";
  const crumbs = make("nav", { class: "crumbs", "aria-label": "Place" }, make("a", { href: "#/", text: "Datasets" }));
  const body = make("div", {}, make("p", { role: "status", text: "It is being read." }));
  byId("dataset").replaceChildren(crumbs, make("h1", { id: "dataset-title", tabindex: "-1", text: name }), body);
  const place = placeOf(name);
  at = { name, place, block, from, asOf, isCurrent, isCompared };
  const own = at;
  const [metadata, history, status] = await Promise.all([
    request(`${place}/metadata?include=Seed,Info,License,Schema,Vocab,Attachments`), request(`${place}/history?limit=${PAGE}`), request("system/status")]);
  if (own !== at) return;
  known = status.datasets;
  const now = known.find((each) => each.id === metadata.output.seed?.datasetId);
  own.aliases = new Map(status.datasets.map((each) => [each.id, each.alias]));
  const { seed, info, license, schema, vocab, attachments } = metadata.output;
  own.offsets = vocab?.offsetColumn || "offset";
  own.head = history.blocks[0];
  body.replaceChildren(
    ...(info?.description ? [make("p", { class: "prose lead", text: info.description })] : []),
    make("p", {}, (info?.keywords || []).map((each) => make("span", { class: "badge tag", text: each }))),
    make("dl", { class: "facts" },
      fact("Kind", seed?.datasetKind), now ? fact("State", stateOf(now) || stateText(now)) : null,
      now ? fact("Rows", numeral(now.records ?? 0)) : null, now ? fact("Watermark", since(now.watermark)) : null, fact("Id", make("code", { text: seed?.datasetId })),
      fact("Last change", since(own.head?.systemTime)), fact("Head", make("code", { text: own.head?.hash })),
      license ? fact("Licence", `${license.name} (${license.spdxId || license.shortName})`) : null),
    make("p", {}, make("a", { href: `#/query?sql=${encodeURIComponent(`select * from "${name}" limit 100`)}`, text: "Query it" })),
    ...attachmentParts(attachments),
    make("h2", { text: "Columns" }), columnTable(schema),
    make("h2", { id: "rows-title", tabindex: "-1", text: "Rows" }), viewForm(own), make("div", { id: "rows" }, make("p", { role: "status", text: "They are being read." })),
    ...neighbourParts(seed?.datasetId),
    make("h2", { text: "History" }), make("div", { id: "history" }));
  showHistory(own, history);
  await showRows(own);
}

const fact = (name, value) => make("div", {}, make("dt", { text: name }), make("dd", {}, value || "unknown"));
function attachmentParts(attachments) {
  return (attachments?.attachments?.items || []).map((each) => make("details", {},
    make("summary", { text: each.path }), make("div", { class: "prose", text: each.content })));
}

function columnTable(schema) {
  const fields = schema?.fields || [];
  if (fields.length === 0) return make("p", { class: "faint", text: "It has no columns yet." });
  return cardTable("Columns", ["Column", "Type", "Description"], fields.map((each) => make("tr", {},
    headCell(make("span", { class: "name", text: each.name })), make("td", { class: "type" }, make("code", { text: typeText(each.type) })),
    make("td", { class: "cell", text: each.extra?.["opendatafabric.org/description"] || "" }))));
}

// How many rows there were by a block.
async function rowsBy(place, block) {
  let next = block;
  while (next) {
    const found = await request(`${place}/history?${query({ from: next, limit: PAGE })}`);
    for (const { event } of found.blocks) {
      if (event.newData) return event.newData.offsetInterval.end + 1;
      if (event.kind === "AddData" || event.kind === "ExecuteTransform") return (event.prevOffset ?? -1) + 1;
    }
    next = found.next;
  }
  return 0;
}

// Which rows are shown: those recorded, those that nothing took back, or those in force at an event time.
function viewForm(own) {
  const choice = make("select", { id: "rows-view" }, [["log", "as recorded"], ["current", "current"], ["asOf", "in force at"]].map(([value, text]) =>
    make("option", { value, text, selected: value === (own.asOf !== null ? "asOf" : own.isCurrent ? "current" : "log") })));
  const time = make("input", { id: "rows-time", type: "text", autocomplete: "off", spellcheck: "false", placeholder: "2031-04-01T12:00:00Z", value: own.asOf ?? "" });
  const timed = make("label", { hidden: choice.value !== "asOf" }, "Event time ", time);
  choice.addEventListener("change", () => { timed.hidden = choice.value !== "asOf"; });
  const go = (event) => {
    event.preventDefault();
    const { block, from } = own;
    const view = choice.value === "log" ? { block, since: from } : choice.value === "current" ? { block, rows: "current" } : { block, asOf: time.value.trim() };
    location.hash = `${datasetAddress(own.name)}?${query(view)}`;
  };
  return make("form", { class: "choices", "aria-label": "Rows", on: { submit: go } },
    make("label", {}, "Show rows ", choice), timed, make("button", { text: "Show" }));
}

// The last rows that nothing took back by a block, but `skip` of them; of each key the version of a time.
async function showCurrent(own, skip = 0) {
  const turned = own.turned = {};
  const { block, asOf, place } = own;
  const found = await request(`${place}/tail?${query({ block, skip, limit: PAGE, current: true, asOf, dataFormat: "JsonAoA", include: "Schema" })}`);
  if (own !== at || turned !== own.turned) return;
  const names = found.schema.fields.map((each) => each.name);
  const turn = (by, text, usable) => make("button", { type: "button", disabled: !usable, text,
    on: { click: () => { showCurrent(own, skip + by).then(() => byId("rows-title").focus(), showProblem); } } });
  const which = [asOf === null ? "Current rows" : `Rows in force at ${asOf}`, block ? `, as they were known by block ` : null, block ? shortHash(block) : null];
  byId("rows").replaceChildren(make("p", {}, ...which.filter(Boolean), ". ", allLink(own)),
    make("p", { role: "status", class: "number", text: found.data.length === 0 ? "There are none." :
      skip === 0 ? `The last ${countOf(found.data.length, "row")}` : `${countOf(found.data.length, "row")} before the last ${numeral(skip)}` }),
    ...(found.data.length ? [rowTable("Rows", names, found.data)] : []),
    make("p", { class: "choices" }, turn(PAGE, "Earlier", found.data.length === PAGE), turn(-PAGE, "Later", skip > 0)));
}

// Rows but the last `skip`: what is asked for last is shown.
async function showRows(own, skip = 0) {
  if (own.isCurrent) return showCurrent(own, skip);
  if (own.isCompared && own.from) return showChanges(own);
  const turned = own.turned = {};
  const isOver = () => own !== at || turned !== own.turned;
  const block = own.block || own.head?.hash;
  const [all, before] = await Promise.all([rowsBy(own.place, block), own.from ? rowsBy(own.place, own.from) : 0]);
  const room = byId("rows");
  if (isOver()) return;
  const total = Math.max(0, all - before);
  const parts = [];
  if (own.from) parts.push(make("p", {}, "Rows that came after block ", shortHash(own.from), " up to block ", shortHash(block), ". ",
    make("a", { href: `${datasetAddress(own.name)}?${query({ since: own.from, block: own.block, rows: "changes" })}`, text: "Compare the two versions" }), " ", allLink(own)));
  else if (own.block) parts.push(make("p", {}, "As they were by block ", shortHash(block), ". ", allLink(own)));
  if (total === 0) {
    room.replaceChildren(...parts, make("p", { class: "faint", text: "There are none." }));
    return;
  }
  const limit = Math.min(PAGE, total - skip);
  const found = await request(`${own.place}/tail?${query({ block, skip, limit, dataFormat: "JsonAoA", include: "Schema" })}`);
  if (isOver()) return;
  const last = all - skip;
  const names = found.schema.fields.map((each) => each.name);
  const turn = (by, text, usable) => make("button", { type: "button", disabled: !usable, text,
    on: { click: () => { showRows(own, skip + by).then(() => byId("rows-title").focus(), showProblem); } } });
  room.replaceChildren(...parts,
    make("p", { role: "status", class: "number", text: `Rows ${numeral(last - limit + 1)} to ${numeral(last)} of ${numeral(all)}` }),
    rowTable("Rows", names, found.data, names.indexOf(own.offsets), (offset) => rowAddress(own.name, offset, block)),
    make("p", { class: "choices" }, turn(PAGE, "Earlier", skip + limit < total), turn(-PAGE, "Later", skip > 0)));
}
const allLink = (own) => make("a", { href: datasetAddress(own.name), text: "Show all as recorded" });

const blockText = (event) => {
  const rows = event.newData ? countOf(event.newData.offsetInterval.end - event.newData.offsetInterval.start + 1, "row") : null;
  const more = event.newWatermark ? `watermark ${event.newWatermark}` : null;
  return [event.kind, rows, more].filter(Boolean).join(", ");
};

// What a block was made of: rows of inputs, or what a source had.
function originLines(event, aliases) {
  if (event.kind === "AddData") return event.newSourceState ? [make("p", { class: "sub", text: `from ${event.newSourceState.value}` })] : [];
  return (event.queryInputs || []).map((input) => {
    const alias = aliases.get(input.datasetId);
    const { prevOffset, newOffset } = input;
    if (newOffset === undefined || newOffset === prevOffset) return null;
    const rows = `rows ${numeral((prevOffset ?? -1) + 2)} to ${numeral(newOffset + 1)}`;
    const place = alias && `${datasetAddress(alias)}?${query({ since: input.prevBlockHash, block: input.newBlockHash })}`;
    return make("p", { class: "sub" }, "from ", place ? make("a", { href: place, text: rows }) : rows, " of ",
      make("span", { class: "name", text: alias || input.datasetId }));
  });
}

function showHistory(own, first) {
  let { blocks, next } = first;
  const room = byId("history");
  const show = () => {
    const lines = blocks.map(({ hash, sequenceNumber, systemTime, event }, number) => {
      const older = blocks[number + 1]?.hash;
      return make("tr", {}, headCell(make("span", { class: "number", text: numeral(sequenceNumber) })),
        make("td", {}, since(systemTime)),
        make("td", {}, make("details", {}, make("summary", { text: blockText(event) }), make("pre", { tabindex: "0", text: written(event, 2) })), originLines(event, own.aliases)),
        make("td", {}, shortHash(hash)),
        make("td", {},
          make("a", { href: `${datasetAddress(own.name)}?${query({ block: hash })}`, "aria-label": `rows by block ${sequenceNumber}`, text: "rows by then" }), " ",
          event.newData && older ? make("a", { href: `${datasetAddress(own.name)}?${query({ since: older, block: hash })}`, "aria-label": `rows of block ${sequenceNumber}`, text: "rows of it" }) : null, " ",
          make("a", { href: `${datasetAddress(own.name)}?${query({ since: hash })}`, "aria-label": `rows since block ${sequenceNumber}`, text: "rows since" })));
    });
    room.replaceChildren(cardTable("Blocks, newest first", ["Block", "When", "What", "Hash", "Rows"], lines, "history"),
      next ? make("p", { class: "more" }, make("button", { type: "button", text: "Earlier blocks", on: { click: () => more().catch(showProblem) } })) : "");
  };
  const more = async () => {
    const found = await request(`${own.place}/history?${query({ from: next, limit: PAGE })}`);
    blocks = [...blocks, ...found.blocks];
    ({ next } = found);
    show();
  };
  show();
}
