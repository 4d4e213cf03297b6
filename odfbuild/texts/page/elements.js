// Elements made of texts: nothing that the data holds is ever taken for markup.

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [type, act] of Object.entries(value)) element.addEventListener(type, act);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return element;
}
const shape = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

const numeral = (number) => number.toLocaleString("en");
const countOf = (number, one, many = `${one}s`) => `${numeral(number)} ${number === 1 ? one : many}`;

function moment(millis) {
  const at = new Date(millis);
  return Number.isNaN(at.getTime()) ? null : at;
}
function timeText(millis) {
  const at = moment(millis);
  return at ? `${at.toISOString().replace("T", " ").slice(0, 16)} UTC` : `${millis} ms since 1970`;
}
const AGES = [[31536e6, "year"], [2592e6, "month"], [864e5, "day"], [36e5, "hour"], [6e4, "minute"]];
function ageText(millis) {
  const gone = Date.now() - millis;
  for (const [size, name] of AGES) {
    const number = Math.floor(Math.abs(gone) / size);
    if (number >= 1) return gone > 0 ? `${countOf(number, name)} ago` : `in ${countOf(number, name)}`;
  }
  return "just now";
}
// An age, with the time itself for who points at it, and on paper.
const timeOf = (millis, titled = true) => millis === null || millis === undefined ? make("span", { class: "faint", text: "none" }) :
  make("time", { datetime: moment(millis)?.toISOString(), title: titled && timeText(millis), text: ageText(millis) });

function notice([code, what, why, fix], tone = "bad") {
  return make("div", { class: `notice ${tone}` },
    make("p", {}, make("strong", { text: code }), ` ${what}`),
    why ? make("p", { class: "faint", text: why }) : null,
    fix ? make("p", { text: `To mend it: ${fix}` }) : null);
}

// A head is a text, or attributes that have one.
function table(caption, heads, lines, attributes = {}) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", attributes,
      make("caption", { class: "unseen", text: caption }),
      make("thead", {}, make("tr", {}, heads.map(columnHead))),
      make("tbody", {}, lines)));
}
function columnHead(head) {
  const { parts = [], ...attributes } = typeof head === "string" ? { text: head } : head;
  return make("th", { scope: "col", ...attributes }, ...parts);
}
const cell = (label, ...children) => make("td", { "data-label": label }, ...children.filter((each) => each !== null && each !== ""));
const headCell = (...children) => make("th", { scope: "row" }, ...children);
