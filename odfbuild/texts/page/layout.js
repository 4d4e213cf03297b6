// The places of boxes and edges, from left to right, as the pages of lineage have them: layers by
// the longest way, neighbours near each other, tops by least squares.  Here, as what is shown changes.

const BETWEEN = 90, APART = 18, BEND_APART = 10;

function levelsOf(count, before, after) {
  const left = before.map(({ length }) => length), level = new Array(count).fill(0);
  const done = new Array(count).fill(false);
  let queue = left.flatMap((number, at) => number ? [] : [at]), next = 0;
  for (let settled = 0; settled < count;) {
    if (!queue.length) { // a circle: it is cut before the first node that is left
      while (done[next]) next += 1;
      queue = [next];
    }
    for (const at of queue.splice(0)) {
      if (done[at]) continue;
      done[at] = true;
      settled += 1;
      for (const each of after[at]) {
        if (done[each]) continue;
        level[each] = Math.max(level[each], level[at] + 1);
        left[each] -= 1;
        if (left[each] === 0) queue.push(each);
      }
    }
  }
  for (let at = 0; at < count; at += 1) {
    if (after[at].length && !before[at].length) {
      level[at] = Math.max(0, Math.min(...after[at].map((each) => level[each])) - 1);
    }
  }
  return level;
}

function layOut(sizes, arcs) {
  const count = sizes.length, before = sizes.map(() => []), after = sizes.map(() => []);
  for (const [source, target] of arcs) { after[source].push(target); before[target].push(source); }
  const level = levelsOf(count, before, after);
  const bendAt = new Map(), near = sizes.map(() => [[], []]), steps = new Set();
  const ways = arcs.map(([source, target]) => {
    const way = [];
    for (let between = level[source] + 1; between < level[target]; between += 1) {
      const key = `${source}:${between}`;
      if (!bendAt.has(key)) { bendAt.set(key, level.length); level.push(between); near.push([[], []]); }
      way.push(bendAt.get(key));
    }
    [source, ...way, target].reduce((one, other) => {
      const key = `${one}:${other}`;
      if (!steps.has(key)) { steps.add(key); near[one][1].push(other); near[other][0].push(one); }
      return other;
    });
    return way;
  });
  const height = level.map((_, at) => at < count ? sizes[at][1] : 0);
  const layers = ordered(level, near, count);
  const middle = settled(layers, near, height);
  const lefts = [], widths = [];
  let edge = 0;
  for (const layer of layers) {
    const width = Math.max(0, ...layer.map((each) => each < count ? sizes[each][0] : 0));
    lefts.push(edge);
    widths.push(width);
    edge += width + BETWEEN;
  }
  const least = Math.min(...middle.map((at, each) => at - height[each] / 2), Infinity);
  const topOf = (each) => Math.round(middle[each] - height[each] / 2 - least);
  return {
    layer: level,
    places: sizes.map(([wide, high], each) => [lefts[level[each]], topOf(each), wide, high]),
    bends: ways.map((way) => way.flatMap((each) => [[lefts[level[each]], topOf(each)],
      [lefts[level[each]] + widths[level[each]], topOf(each)]])),
    size: [Math.max(0, edge - BETWEEN), Math.max(0, ...middle.map((_, each) => topOf(each) + height[each]))],
  };
}

function ordered(level, near, count) {
  const layers = Array.from({ length: Math.max(-1, ...level) + 1 }, () => []);
  const met = new Set();
  for (let start = 0; start < count; start += 1) {
    const pending = [start];
    while (pending.length) {
      const at = pending.pop();
      if (met.has(at)) continue;
      met.add(at);
      layers[level[at]].push(at);
      pending.push(...[...near[at][1]].reverse(), ...[...near[at][0]].reverse());
    }
  }
  const place = new Float64Array(level.length);
  const note = (layer) => layer.forEach((each, at) => { place[each] = layer.length > 1 ? at / (layer.length - 1) : 0.5; });
  layers.forEach(note);
  for (let sweep = 0; sweep < (level.length > 4000 ? 4 : 10); sweep += 1) {
    const side = sweep % 2;
    for (const layer of side ? [...layers].reverse() : layers) {
      const wish = new Map(layer.map((each) => {
        const beside = near[each][side];
        return [each, beside.length ? beside.reduce((sum, one) => sum + place[one], 0) / beside.length : place[each]];
      }));
      layer.sort((a, b) => wish.get(a) - wish.get(b));
      note(layer);
    }
  }
  return layers;
}

function settled(layers, near, height) {
  const middle = new Float64Array(height.length), offsets = layers.map((layer) => {
    let at = 0;
    return layer.map((each, place) => {
      if (place) {
        const above = layer[place - 1], apart = height[above] && height[each] ? APART : BEND_APART;
        at += (height[above] + height[each]) / 2 + apart;
      }
      return at;
    });
  });
  layers.forEach((layer, number) => layer.forEach((each, at) => {
    middle[each] = offsets[number][at] - (offsets[number].at(-1) || 0) / 2;
  }));
  const straight = (one, other) => height[one] || height[other] ? 1 : 4;
  for (let pass = 0; pass < 8; pass += 1) {
    const order = layers.map((_, at) => at);
    for (const number of pass % 2 ? order.reverse() : order) {
      const layer = layers[number];
      const pools = [];
      layer.forEach((each, at) => {
        const beside = pass >= 6 ? [...near[each][0], ...near[each][1]] : near[each][pass % 2];
        let weight = 0, sum = 0;
        for (const one of beside) { const pull = straight(each, one); weight += pull; sum += middle[one] * pull; }
        let pool = [(weight ? sum / weight : middle[each]) - offsets[number][at], weight || 0.1, 1];
        while (pools.length && pools.at(-1)[0] > pool[0]) {
          const [wish, heavy, held] = pools.pop(), total = heavy + pool[1];
          pool = [(wish * heavy + pool[0] * pool[1]) / total, total, held + pool[2]];
        }
        pools.push(pool);
      });
      let at = 0;
      for (const [wish, , held] of pools) {
        for (let each = 0; each < held; each += 1, at += 1) middle[layer[at]] = wish + offsets[number][at];
      }
    }
  }
  return [...middle];
}
