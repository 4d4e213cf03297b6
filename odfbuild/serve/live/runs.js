// Runs as they are recorded, and one of them as it happens.

const OUTCOMES = {
  running: ["\u25b6", "info"], done: ["\u2713", "good"], partly: ["!", "warn"], failed: ["\u2717", "bad"],
  stopped: ["\u25a0", "warn"], interrupted: ["!", "warn"], skipped: ["\u2212", "warn"], "not-begun": ["\u25cb", "none"],
};
const outcomeBadge = (outcome) => {
  const [sign, tone] = OUTCOMES[outcome] || ["?", "none"];
  return badge(outcome, tone, sign);
};
const minutesText = (minutes) => minutes < 120 ? `${minutes} min` : `${numeral(Math.floor(minutes / 60))} h ${minutes % 60} min`;
const secondsText = (seconds) => seconds < 10 ? `${seconds.toFixed(2)} s` : seconds < 120 ? `${seconds.toFixed(0)} s` : minutesText(Math.round(seconds / 60));
const lasted = (run) => ((run.ended ? millis(run.ended) : Date.now()) - millis(run.started)) / 1000;

async function openRuns() {
  const view = byId("runs");
  view.replaceChildren(make("h1", { id: "runs-title", tabindex: "-1", text: "Runs" }), make("div", { id: "run-rows" }));
  await keepFresh(3, async (own) => {
    const found = await request("system/runs?limit=100");
    if (own.ends) return;
    const lines = found.runs.map((run) => make("tr", {},
      headCell(make("a", { class: "name", href: `#/runs/${encodeURIComponent(run.id)}`, text: run.id })),
      make("td", { text: run.command }), make("td", {}, outcomeBadge(run.outcome)), make("td", {}, since(run.started)),
      make("td", { class: "amount", text: run.outcome === "interrupted" ? "" : secondsText(lasted(run)) }),
      amount(run.steps), amount(run.blocks), amount(run.records), make("td", { text: `${run.user} at ${run.host}` })));
    byId("run-rows").replaceChildren(
      found.damaged.length ? make("p", { class: "notice warn", text: `Records that are damaged: ${found.damaged.join(", ")}` }) : "",
      lines.length ? cardTable("Runs, newest first", ["Run", "Command", "Outcome", "Began", ...["Took", "Steps", "Blocks", "Rows"].map(amountHead), "By"], lines) :
        make("p", { class: "faint", text: "There are no records of runs." }));
  });
}

async function openRun(id) {
  const view = byId("runs");
  const events = [];
  view.replaceChildren(make("nav", { class: "crumbs", "aria-label": "Place" }, make("a", { href: "#/runs", text: "Runs" })),
    make("h1", { id: "runs-title", tabindex: "-1", text: `Run ${id}` }), make("div", { id: "run" }));
  await keepFresh(2, async (own) => {
    let found;
    do {
      found = await request(`system/runs/${encodeURIComponent(id)}?after=${events.length}`);
      if (own.ends) return;
      events.push(...found.events);
    } while (found.more);
    showRun(found.run, events);
    if (found.run.outcome !== "running") stopRefreshing();
  });
}

function showRun(run, events) {
  const begun = millis(run.started), end = run.ended ? millis(run.ended) : Math.max(Date.now(), begun + 1);
  const steps = new Map();
  const problems = [];
  for (const each of events) {
    for (const [code, what, why, fix] of (each.errors || []).map((e) => [e.code, e.what, e.why, e.fix])) problems.push([each.dataset, [code, what, why, fix]]);
    if (!each.step) continue;
    if (!steps.has(each.step)) steps.set(each.step, { dataset: each.dataset, blocks: 0, records: 0, outcome: "running" });
    const step = steps.get(each.step);
    if (each.event === "dataset_started") Object.assign(step, { work: each.work, from: millis(each.time) });
    if (each.event === "slice_committed") {
      step.blocks += each.blocks || 0;
      step.records += each.records || 0;
    }
    if (each.event === "dataset_finished") Object.assign(step, { outcome: each.outcome, to: millis(each.time), because: each.because });
  }
  const lines = [...steps.values()].map((step) => make("tr", {},
    headCell(datasetLink(step.dataset)), make("td", { text: step.work || "" }), make("td", {}, outcomeBadge(step.outcome), step.because ? make("span", { class: "sub", text: `because of ${step.because}` }) : null),
    make("td", { class: "amount", text: step.from ? secondsText(((step.to || end) - step.from) / 1000) : "" }),
    amount(step.blocks), amount(step.records), make("td", {}, track(step, begun, end))));
  byId("run").replaceChildren(
    make("dl", { class: "facts" }, fact("Outcome", outcomeBadge(run.outcome)), fact("Command", run.command), fact("Began", since(run.started)),
      fact(run.ended ? "Took" : "Has taken", secondsText(lasted(run))), fact("Steps", `${numeral(run.done)} of ${numeral(run.steps)} done`), fact("By", `${run.user} at ${run.host}, ${run.version}`),
      run.follows ? fact("Follows", make("a", { href: `#/runs/${encodeURIComponent(run.follows)}`, text: run.follows })) : null),
    ...problems.map(([dataset, problem]) => make("div", {}, dataset ? make("h3", {}, datasetLink(dataset)) : null, notice(problem))),
    make("h2", { text: "Steps" }),
    lines.length ? cardTable("Steps", ["Dataset", "Work", "Outcome", ...["Took", "Blocks", "Rows"].map(amountHead), whenHead((end - begun) / 1000)], lines) : make("p", { class: "faint", text: "None has begun." }));
}

const whenHead = (seconds) => ({ class: "when", text: "When",
  parts: [make("span", { class: "axis" }, make("span", { text: "0 s" }), make("span", { text: secondsText(seconds) }))] });

// When a step ran, as a part of the whole run.
function track(step, begun, end) {
  if (!step.from) return null;
  const whole = Math.max(1, end - begun), to = step.to || end;
  const tone = (OUTCOMES[step.outcome] || ["", "info"])[1];
  const drawing = shape("svg", { class: "track", viewBox: "0 0 1000 16", preserveAspectRatio: "none", role: "img",
    "aria-label": `from ${secondsText((step.from - begun) / 1000)} to ${secondsText((to - begun) / 1000)}` });
  const x = 1000 * (step.from - begun) / whole;
  drawing.append(shape("rect", { class: tone, x, y: 3, height: 10, rx: 2, width: Math.max(4, 1000 * (to - begun) / whole - x) }));
  return drawing;
}
