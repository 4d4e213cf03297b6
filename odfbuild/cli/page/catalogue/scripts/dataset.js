// The page of one dataset.

const article = byId("dataset");
let asked = 0;

async function showDataset(name, column) {
  const number = numberOf.get(name.toLowerCase()), mine = asked += 1;
  if (number === undefined) {
    article.replaceChildren(make("h1", { id: "dataset-title", tabindex: "-1", text: "No such dataset" }),
      make("p", {}, "Nothing here is called ", make("code", { text: name }), "."),
      make("p", {}, make("a", { href: "#/", text: "All datasets" })));
    return;
  }
  const [details] = await Promise.all([detailsOf(number), columnsRead()]);
  if (mine !== asked) return;
  article.replaceChildren(...datasetParts(number, details, column));
}

function section(id, heading, ...children) {
  const found = children.flat().filter(Boolean);
  return found.length ? make("section", { "aria-labelledby": `${id}-title`, id: `part-${id}` },
    make("h2", { id: `${id}-title`, tabindex: "-1", text: heading }), found) : null;
}

function datasetParts(number, details, column) {
  const row = rows[number], known = columnsKnown[number];
  const parts = [
    section("facts", "Facts", factList(row, details)),
    section("columns", "Columns", columnParts(number, column)),
    section("neighbours", "Inputs and readers", neighbourParts(number, details)),
    section("query", "Query", queryParts(number, details)),
    section("sources", "Source", (details.sources || []).flatMap(([title, text]) =>
      [make("h3", { text: title }), make("pre", { tabindex: "0", text })])),
    section("tests", "Tests", testParts(row, details)),
    section("history", "History", historyParts(details)),
    section("files", "Attachments", (details.attachments || []).map(([path, text]) =>
      make("details", {}, make("summary", { text: path }), make("pre", { tabindex: "0", text })))),
  ].filter(Boolean);
  return [
    make("nav", { class: "crumbs", "aria-label": "Where this is" }, make("a", { href: "#/", text: "Datasets" }),
      ...row.folder ? [" / ", make("a", { href: `#/?${new URLSearchParams({ folder: row.folder })}`, text: row.folder })] : []),
    make("h1", { id: "dataset-title", tabindex: "-1", text: row.name }),
    make("p", { class: "badges" }, make("span", { class: "badge", text: row.kind }), " ", stateBadge(row.state), " ",
      tagBadges(row.tags)),
    ...(details.problems || []).map((each) => notice(each)),
    known.description ? make("p", { class: "lead prose", text: known.description }) :
      make("p", { class: "faint", text: "No description: SetInfo in the definition holds one." }),
    make("nav", { class: "contents", "aria-label": "On this page" }, make("ul", {}, parts.map((part) => {
      const heading = part.querySelector("h2");
      return make("li", {}, make("a", { href: addressOf(number), text: heading.textContent, on: { click: (event) => {
        event.preventDefault();
        part.scrollIntoView();
        heading.focus({ preventScroll: true });
      } } }));
    }))),
    ...parts,
  ];
}

function factList(row, details) {
  const code = (text) => text ? make("code", { text }) : null;
  const moments = (millis) => millis === null || millis === undefined ? null : make("span", {}, timeOf(millis, false),
    make("span", { class: "faint", text: ` (${timeText(millis)})` }));
  const facts = [
    ["Owner", row.owner || "none given"],
    ["Licence", details.licence ? [...new Set(details.licence)].filter(Boolean).join(", ") : "none given"],
    ["Keywords", (details.keywords || []).join(", ")],
    ["Last block", moments(row.time)],
    ["Rows", row.records === null ? null : `${countOf(row.records, "record")} in ${countOf(details.blocks, "block")}`],
    ["Watermark", moments(details.watermark)],
    ["Freshness", details.lag],
    ["Defined in", code(details.place && details.place + (details.instance ? ` [${details.instance}]` : ""))],
    ["Package", details.package], ["DID", code(details.did)], ["Head", code(details.head)],
  ].filter(([, value]) => value);
  return make("dl", { class: "facts" }, facts.map(([label, value]) =>
    make("div", {}, make("dt", { text: label }), make("dd", {}, value))));
}

function columnParts(number, chosen) {
  const { columns } = columnsKnown[number];
  if (!columns) return [make("p", { text: "They are not known before the first rows come, or an engine looks at the query." })];
  const lines = columns.map((each) => make("tr", { class: chosen !== undefined && top(each.name) === top(chosen) ? "chosen" : null },
    headCell(make("a", { class: "name", href: addressOf(number, each.name), text: each.name.trim() ? each.name : "(blank)" })),
    cell("Type", make("code", { text: each.type || "not known" }), each.required ? make("span", { class: "faint", text: " never null" }) : null),
    cell("Made of", ...sourceList(each.sources))));
  const impact = chosen === undefined ? null : impactBox(number, chosen);
  return [impact, make("p", { class: "hint", text: "Choose a column to see what it comes from and what reads it." }),
    table(`Columns of ${rows[number].name}`, ["Column", "Type", "Made of"], lines, { class: "cards" })];
}

const sourceList = (sources) => !sources ? [make("span", { class: "faint", text: "not known" })] :
  !sources.length ? [make("span", { class: "faint", text: "\u2013" })] :
    sources.flatMap((each, at) => at ? [", ", columnLink(each)] : [columnLink(each)]);

function impactBox(number, chosen) {
  const own = columnsKnown[number].columns.find((each) => top(each.name) === top(chosen));
  if (!own) return make("p", { class: "notice warn", text: `There is no column ${chosen}.` });
  const origins = originsOf(number, own.name), reached = [...reachOf(number, own.name)];
  return make("section", { class: "impact", "aria-labelledby": "impact-title" },
    make("h3", { id: "impact-title", tabindex: "-1" }, "Column ", make("code", { text: own.name })),
    make("h4", { text: "Comes from" }),
    origins.length ? make("ul", {}, origins.map(([at, name, steps]) => make("li", {}, columnLink([at, name]),
      steps > 1 ? make("span", { class: "faint", text: ` ${steps} steps away` }) : null))) :
      make("p", { text: own.sources ? "No other column." : "Not known." }),
    make("h4", { text: "A change of it affects" }),
    reached.length ? make("ul", {}, reached.map(([at, how]) => make("li", {}, nameLink(at),
      make("span", { class: "faint", text: ` ${howReached(how)}` })))) : make("p", { text: "No other dataset." }),
    make("p", {}, make("a", { href: addressOf(number), text: "Close" })));
}

function neighbourParts(number, details) {
  const inputs = (details.inputs || []).map(([name, at]) => make("li", {}, reference(at),
    make("span", { class: "faint", text: ` as ${name}` })));
  const reading = readers[number].map((each) => make("li", {}, nameLink(each)));
  const reached = reachOf(number, null).size;
  return [
    make("div", { class: "two" },
      make("div", {}, make("h3", { text: `Inputs (${inputs.length})` }),
        inputs.length ? make("ul", {}, inputs) : make("p", { class: "faint", text: "None: it is read from a source." })),
      make("div", {}, make("h3", { text: `Read by (${reading.length})` }),
        reading.length ? make("ul", {}, reading) : make("p", { class: "faint", text: "No dataset here." }))),
    make("p", { text: reached ? `A change of it affects ${countOf(reached, "dataset")} in all.` : "A change of it affects no other dataset." }),
    make("p", {}, make("a", { href: `#/graph?${new URLSearchParams({ show: `+${rows[number].name}+` })}`, text: "Show it in the graph" })),
  ];
}

function queryParts(number, details) {
  if (!details.engine) return [];
  const { shaping } = columnsKnown[number];
  return [
    make("p", { class: "faint", text: `Engine: ${details.engine}` }),
    ...(details.query || []).flatMap(([alias, text]) => [alias ? make("h3", { text: alias }) : null, make("pre", { tabindex: "0", text })]),
    shaping === null ? make("p", { text: "Which columns decide on its rows is not known." }) :
      shaping.length ? make("p", {}, "Rows are decided on by ", sourceList(shaping)) : null,
  ];
}

function testParts(row, details) {
  if (!details.tests) return [make("p", { class: "faint", text: "None below tests/data or tests/unit is about it." })];
  const judged = details.tests.some(([, , , , , outcome]) => outcome);
  const heads = ["Test", ...judged ? ["Result"] : [], "Kind", "If it fails", "Looks at", "Written in"];
  return [table(`Tests of ${row.name}`, heads, details.tests.map(([kind, label, severity, about, place, outcome, said]) =>
    make("tr", {}, headCell(label), judged ? cell("Result", outcome ? stateBadge(outcome) : "not run", said && ` ${said}`) : null,
      cell("Kind", kind), cell("If it fails", severity), cell("Looks at", about),
      cell("Written in", make("code", { text: place })))), { class: "cards" })];
}

function historyParts(details) {
  const blocks = details.history || [];
  if (!details.blocks) return [make("p", { class: "faint", text: "No block yet: it was not applied." })];
  const slices = blocks.filter(([, , , count]) => count !== null).reverse();
  return [
    slices.length > 1 ? barsOf(slices) : null,
    make("h3", { text: "Schema" }),
    details.schemas ? make("ul", {}, details.schemas.map(([sequence, time, changes]) => make("li", {}, `Block ${numeral(sequence)}, `, timeOf(time), ": ",
      make("span", { text: changes.join(", ") || "the same columns in another form" })))) :
      make("p", { class: "faint", text: details.older ? "No change in the blocks that are shown." : "No schema yet." }),
    make("h3", { text: "Blocks" }),
    table("Blocks, the newest first", ["Block", "Event", "Rows", "Written", "Watermark", "Hash"], blocks.map(([sequence, time, event, count, watermark, hash]) =>
      make("tr", {}, headCell(numeral(sequence)), cell("Event", event),
        cell("Rows", count === null ? null : make("span", { class: "number", text: numeral(count) })),
        cell("Written", make("time", { text: timeText(time) })), cell("Watermark", watermark === null ? "" : timeText(watermark)),
        cell("Hash", make("code", { text: hash })))), { class: "cards blocks" }),
    details.older ? make("p", { class: "faint", text: `${countOf(details.older, "older block is", "older blocks are")} not shown: odfbuild log has them.` }) : null,
  ];
}

// Rows that each block brought, as bars; the table below has the numbers.
function barsOf(slices) {
  const most = Math.max(1, ...slices.map(([, , , count]) => count)), width = 14, height = 64;
  const picture = shape("svg", { viewBox: `0 0 ${slices.length * width} ${height}`, class: "bars", role: "img", preserveAspectRatio: "none",
    "aria-label": `Rows by block, oldest first: ${numeral(Math.min(...slices.map((each) => each[3])))} to ${numeral(most)}` });
  slices.forEach(([sequence, time, , count], at) => {
    const tall = count ? Math.max(2, count / most * (height - 4)) : 0.75;
    const bar = shape("rect", { x: at * width + 1, y: height - tall, width: width - 3, height: tall });
    const title = shape("title", {});
    title.textContent = `Block ${sequence}, ${timeText(time)}: ${countOf(count, "row")}`;
    bar.append(title);
    picture.append(bar);
  });
  picture.style.width = `${slices.length * width}px`;
  return make("figure", {}, picture, make("figcaption", { class: "faint", text: `Rows by block, at most ${numeral(most)}` }));
}
