// What part of the world is seen, and how large.

const LEAST = 0.005, MOST = 3, FAR = 0.35;
const view = { x: 0, y: 0, scale: 1 };
const scaleText = document.getElementById("scale");

function place() {
  world.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
  scaleText.textContent = `${Math.round(view.scale * 100)} %`;
  world.classList.toggle("far", view.scale < FAR);
  world.style.setProperty("--hair", `${Math.max(1.5, 0.7 / view.scale)}px`);
  world.style.setProperty("--thick", `${1.5 / view.scale}px`);
  if (view.scale >= FAR) fillSeen();
}

// Make the columns of the boxes that are in sight.
function fillSeen() {
  const { clientWidth, clientHeight } = canvas;
  if (form === "closed") return;
  boxes.forEach((_, number) => {
    if (drawn[number].columns || !columnsOf(number).length) return;
    const [left, top, width, height] = placeOf(number);
    const x = view.x + left * view.scale, y = view.y + top * view.scale;
    if (x < clientWidth && y < clientHeight && x + width * view.scale > 0 &&
      y + height * view.scale > 0) columnElements(number);
  });
}

function move(x, y) {
  view.x += x;
  view.y += y;
  place();
}

function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = Math.min(MOST, Math.max(LEAST, view.scale * factor));
  view.x = x - (x - view.x) * scale / view.scale;
  view.y = y - (y - view.y) * scale / view.scale;
  view.scale = scale;
  place();
}

const MARGIN = 28;
function fit() {
  const { clientWidth, clientHeight } = canvas, [wide, high] = sizeOf();
  const fitting = Math.min((clientWidth - 2 * MARGIN) / wide, (clientHeight - 2 * MARGIN) / high);
  view.scale = Math.max(LEAST, Math.min(1.25, fitting));
  view.x = (clientWidth - wide * view.scale) / 2;
  view.y = (clientHeight - high * view.scale) / 2;
  place();
}

// Bring a point of a box to the middle, large enough to be read.
function center(box, column) {
  const [left, , width] = placeOf(box);
  view.scale = Math.max(view.scale, 0.9);
  view.x = canvas.clientWidth / 2 - (left + width / 2) * view.scale;
  view.y = canvas.clientHeight / 2 - middle(box, column) * view.scale;
  place();
}

function isSeen(box, column) {
  const [left, , width] = placeOf(box);
  const x = view.x + left * view.scale, y = view.y + middle(box, column) * view.scale;
  return view.scale >= FAR && x >= 0 && x + width * view.scale <= canvas.clientWidth &&
    y >= 12 && y <= canvas.clientHeight - 12;
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const step = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  if (event.shiftKey) move(-(event.deltaX + event.deltaY) * step, 0);
  else zoom(Math.exp(-event.deltaY * step * (event.ctrlKey ? 0.01 : 0.0016)),
    ...insideOf(event));
}, { passive: false });

function insideOf(event) {
  const edge = canvas.getBoundingClientRect();
  return [event.clientX - edge.left, event.clientY - edge.top];
}

// Dragging with one pointer, pinching with two; a click that ends a drag chooses nothing.
const held = new Map();
let dragged = false, pressed = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  held.set(event.pointerId, insideOf(event));
  if (held.size === 1) { dragged = false; pressed = insideOf(event); }
});
canvas.addEventListener("pointermove", (event) => {
  const before = held.get(event.pointerId);
  if (!before) return;
  const now = insideOf(event);
  const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
  if (!dragged && !other && Math.hypot(now[0] - pressed[0], now[1] - pressed[1]) < 5) return;
  if (!dragged) {
    dragged = true;
    canvas.classList.add("moving");
    for (const id of held.keys()) canvas.setPointerCapture(id);
    if (!other) { move(now[0] - pressed[0], now[1] - pressed[1]); held.set(event.pointerId, now); }
    return;
  }
  held.set(event.pointerId, now);
  if (!other) move(now[0] - before[0], now[1] - before[1]);
  else {
    const far = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
    zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }
});
for (const name of ["pointerup", "pointercancel"]) {
  window.addEventListener(name, (event) => {
    held.delete(event.pointerId);
    if (!held.size) canvas.classList.remove("moving");
    setTimeout(() => { if (!held.size) dragged = false; });
  });
}
canvas.addEventListener("click", (event) => {
  if (dragged) { event.stopPropagation(); event.preventDefault(); }
  dragged = false;
}, true);
canvas.addEventListener("scroll", () => { canvas.scrollLeft = 0; canvas.scrollTop = 0; });
