// A query that the server answers, within its limits.

let asking = null;

function openQuestion(parameters) {
  const sql = parameters.get("sql");
  if (sql !== null) byId("sql").value = sql;
}

async function ask() {
  asking?.abort();
  const own = new AbortController();
  asking = own;
  const begun = performance.now();
  byId("cancel").hidden = false;
  byId("answer-state").textContent = "The answer is being computed.";
  byId("answer").replaceChildren();
  clearProblem();
  try {
    const found = await request("query", { signal: own.signal, body: {
      query: byId("sql").value, limit: Number(byId("limit").value), dataFormat: "JsonAoA",
      include: byId("proof").checked ? ["Schema", "Input", "Proof"] : ["Schema", "Input"] } });
    const { data, schema } = found.output;
    const seconds = ((performance.now() - begun) / 1000).toFixed(2);
    const most = data.length === Number(byId("limit").value) ? "; there may be more" : "";
    byId("answer-state").textContent = `${countOf(data.length, "row")} in ${seconds} s${most}`;
    byId("answer").replaceChildren(
      rowTable("Answer", schema.fields.map((each) => each.name), data),
      make("details", {}, make("summary", { text: "Blocks that were read" }),
        make("ul", {}, (found.input.datasets || []).map((each) => make("li", {}, datasetLink(each.alias), " ", make("code", { text: each.blockHash }))))),
      ...(found.proof ? [make("details", {}, make("summary", { text: "Proof" }),
        make("pre", { tabindex: "0", text: JSON.stringify({ commitment: found.commitment, proof: found.proof }, null, 2) }))] : []));
  } catch (error) {
    if (asking === own) byId("answer-state").textContent = error.name === "AbortError" ? "It was stopped." : "";
    showProblem(error);
  } finally {
    if (asking === own) {
      asking = null;
      byId("cancel").hidden = true;
    }
  }
}

function startQuestion() {
  byId("question").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("cancel").addEventListener("click", () => asking?.abort());
  byId("sql").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    ask();
  });
}
