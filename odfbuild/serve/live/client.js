// Requests to the server of this page, with the token that its reader has given.

const byId = (id) => document.getElementById(id);
const KEPT = "odfbuild-token";

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const token = () => sessionStorage.getItem(KEPT) || "";

// Numbers that JavaScript would write otherwise are kept as they are written, below a name that no data can know.
const EXACT = `number-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
const parsed = (text) => JSON.parse(text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g,
  (part) => part[0] === '"' || String(Number(part)) === part ? part : `{"${EXACT}":"${part}"}`));
const isExact = (value) => value !== null && typeof value === "object" && EXACT in value;
const KEPT_NUMBER = new RegExp(`\\{\\s*"${EXACT}":\\s*"([^"]*)"\\s*\\}`, "g");
const written = (value, indent) => JSON.stringify(value, null, indent).replace(KEPT_NUMBER, "$1");

// Answers that are asked for again and again, with their tags: what has not changed is not sent again.
const answers = new Map();
async function request(path, { body, signal, again } = {}) {
  const headers = {}, before = again && answers.get(path);
  if (before) headers["if-none-match"] = before.tag;
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer.");
  }
  if (before && response.status === 304) return before.value;
  const text = await response.text();
  if (response.ok) {
    const value = parsed(text), tag = response.headers.get("etag");
    if (again && tag) answers.set(path, { tag, value });
    return value;
  }
  let message = text.trim();
  try { message = JSON.parse(text).message || message; } catch { /* it is a text */ }
  throw new Refusal(response.status, message || `The server answered ${response.status}.`);
}

// Where a dataset is below this page: a name that leads elsewhere is of none.
function placeOf(name) {
  const parts = name.split("/");
  if (parts.length > 2 || parts.some((part) => ["", ".", ".."].includes(part))) throw new Refusal(404, "There is no such dataset.");
  return parts.map(encodeURIComponent).join("/");
}
const query = (parameters) => new URLSearchParams(
  Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined)).toString();

function showProblem(error) {
  if (error?.name === "AbortError") return;
  if (!(error instanceof Refusal)) console.error(error);
  const asks = error.status === 401;
  byId("problem").replaceChildren(make("div", { class: "notice bad" },
    make("p", { text: error.message || String(error) }),
    asks ? make("p", { text: "Give a token with the button at the top; odfbuild token new makes one." }) : null));
}
const clearProblem = () => byId("problem").replaceChildren();

const millis = (text) => Date.parse(text);
const since = (text) => text ? timeOf(millis(text)) : make("span", { class: "faint", text: "none" });
const bytesText = (size) => {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; size >= 1000 && at < units.length - 1; at++) size /= 1000;
  return `${at ? size.toPrecision(3) : size} ${units[at]}`;
};
const shortHash = (hash) => make("span", { class: "hash", title: hash, text: hash.slice(-8) });
const badge = (text, tone, sign) => make("span", { class: `badge ${tone}` }, make("b", { "aria-hidden": "true", text: sign }), ` ${text}`);
const amountHead = (text) => ({ text, class: "amount" });
const amount = (number) => make("td", { class: "amount", text: number === null || number === undefined ? "" : numeral(number) });

// A table whose lines are cards where it is narrow: then each cell says what it is.
function cardTable(caption, heads, lines, kind = "") {
  for (const line of lines) {
    [...line.cells].slice(1).forEach((each, at) => each.setAttribute("data-label", heads[at + 1].text || heads[at + 1]));
  }
  return table(caption, heads, lines, { class: `cards ${kind}`.trim() });
}

// A part of the page that is asked for anew while it is looked at.
let refreshing = null;
function keepFresh(seconds, act) {
  stopRefreshing();
  const own = { ends: false };
  refreshing = own;
  const step = async () => {
    if (own.ends) return;
    if (!document.hidden) {
      try {
        await act(own);
        if (!own.ends) byId("fresh").textContent = `As of ${new Date().toLocaleTimeString()}`;
        if (!own.ends) clearProblem();
      } catch (error) {
        if (!own.ends) showProblem(error);
      }
    }
    if (!own.ends) own.timer = setTimeout(step, seconds * 1000);
  };
  return step();
}
function stopRefreshing() {
  if (!refreshing) return;
  refreshing.ends = true;
  clearTimeout(refreshing.timer);
  refreshing = null;
  byId("fresh").textContent = "";
}
