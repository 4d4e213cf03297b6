// Which view is shown: the part of the address behind # says so.

const views = [...document.querySelectorAll(".view")];

function showView(id) {
  for (const view of views) view.hidden = view.id !== id;
  for (const link of document.querySelectorAll("#top nav a")) {
    if (link.dataset.view === (["dataset", "row"].includes(id) ? "list" : id)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let isFirst = true;
let routed = null; // the last call of `route`; what fails of others is not shown
async function route() {
  stopRefreshing();
  clearProblem();
  at = null;
  const own = routed = {};
  const [path, given = ""] = (location.hash.startsWith("#/") ? location.hash.slice(2) : "").split("?", 2);
  const [kind, ...rest] = path.split("/");
  const parameters = new URLSearchParams(given);
  let name = rest.join("/");
  try { name = decodeURIComponent(name); } catch { /* it is looked for as it is */ }
  const id = { dataset: "dataset", row: "row", query: "query", runs: "runs", graph: "graph" }[kind] || "list";
  showView(id);
  const opening = id === "dataset" ? openDataset(name, parameters) : id === "row" ? openRow(name, parameters) : id === "query" ? openQuestion(parameters) :
    id === "graph" ? openGraph(parameters) : id === "runs" ? (name ? openRun(name) : openRuns()) : openList();
  const focus = () => {
    const heading = document.querySelector(".view:not([hidden]) h1");
    document.title = `${heading?.textContent || "Datasets"} \u2013 odfbuild`;
    if (!isFirst) heading?.focus({ preventScroll: true });
  };
  focus();
  if (!isFirst) window.scrollTo(0, 0);
  try {
    await opening;
    if (["block", "since", "rows", "asOf"].some((each) => parameters.has(each))) byId("rows-title")?.scrollIntoView();
  } catch (error) {
    if (own === routed) showProblem(error);
  }
  isFirst = false;
}

byId("token-button").addEventListener("click", () => {
  const form = byId("token-form");
  form.hidden = !form.hidden;
  byId("token-button").setAttribute("aria-expanded", String(!form.hidden));
  if (!form.hidden) byId("token").focus();
});
// What another token has shown.
function forget() {
  asking?.abort();
  known = [];
  drawn = null;
  answers.clear();
  for (const id of ["summary", "list-rows", "graph-summary", "graph-room", "dataset", "row", "answer-state", "answer", "runs"]) byId(id).replaceChildren();
}
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = byId("token").value.trim();
  if (given) sessionStorage.setItem(KEPT, given);
  else sessionStorage.removeItem(KEPT);
  byId("token").value = "";
  byId("token-form").hidden = true;
  byId("token-button").setAttribute("aria-expanded", "false");
  byId("token-button").focus();
  forget();
  route();
});
byId("words").addEventListener("input", showList);
byId("filters").addEventListener("submit", (event) => event.preventDefault());

document.documentElement.classList.add("scripts");
startQuestion();
startGraph();
window.addEventListener("hashchange", route);
route();
