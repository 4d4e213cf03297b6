// Which view is shown: the part of the address behind # says so.

const views = [...document.querySelectorAll(".view")];
const HOME = index.plan ? "plan" : index.run ? "run" : "list";

function showView(id) {
  for (const view of views) view.hidden = view.id !== id;
  document.documentElement.dataset.view = id;
  for (const link of document.querySelectorAll("#top nav a")) {
    if (link.dataset.view === id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const heading = document.querySelector(`#${id} h1`);
  document.title = `${heading ? heading.textContent : ""} \u2013 ${index.project}`;
}

let first = true;
async function route() {
  const address = location.hash;
  const inside = address.length > 1 && !address.startsWith("#/") ? byId(address.slice(1)) : null;
  if (inside?.closest("#plan")) {
    showView("plan");
    first = false;
    inside.scrollIntoView();
    inside.focus({ preventScroll: true });
    return;
  }
  const [path, query = ""] = (address.startsWith("#/") ? address.slice(2) : "").split("?", 2);
  const [kind, ...parts] = path.split("/");
  let name, column;
  try { [name, column] = parts.map(decodeURIComponent); } catch { name = parts.join("/"); }
  if (kind === "dataset") {
    await showDataset(name || "", column);
    showView("dataset");
  } else if (kind === "graph") {
    showView("graph");
    await openGraph(query);
  } else if (["plan", "run"].includes(kind) && index[kind]) {
    showView(kind);
  } else if (!address.startsWith("#/") && HOME !== "list") {
    showView(HOME);
  } else {
    showView("list");
    takeQuery(query);
  }
  if (!first) {
    const target = column === undefined ? document.querySelector(".view:not([hidden]) h1") : byId("impact-title");
    if (column === undefined) window.scrollTo(0, 0);
    else target?.scrollIntoView({ block: "center" });
    target?.focus({ preventScroll: true });
  } else if (column !== undefined) byId("impact-title")?.scrollIntoView({ block: "center" });
  first = false;
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.target.closest("input, select, textarea")) return;
  const field = { list: words, graph: selector }[document.documentElement.dataset.view];
  if (!field) return;
  event.preventDefault();
  field.select();
  field.focus();
});

// On paper nothing can be opened or scrolled: all of a list is there, and what is folded is open.
window.addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  if (document.documentElement.dataset.view === "list" && shown < fitting.length) {
    shown = Math.min(fitting.length, 5000);
    showRows();
  }
  if (document.documentElement.dataset.view === "graph") fitPaper();
});
window.addEventListener("afterprint", backToScreen);

document.documentElement.classList.add("scripts");
window.addEventListener("hashchange", route);
startList();
startGraph();
route();
