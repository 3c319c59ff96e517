"use strict";
// Advances the clock of the playground and draws what its limits did. Nothing is decided here: every
// number comes from the module. Texts are HTML elements, and charts are canvases without text.

const LONGEST_FRAME = 100;  // milliseconds; a tab in the background does not catch up
const PAST = 55000;  // milliseconds, to the middle of the third number of workers
const STEPS_PER_SECOND = 20;
const TALLEST_BAR = 12;     // calls in a step; more do not make the bar higher
const COLUMN = 50;          // milliseconds; a column of blocks around the edge
const POINTS = 400;         // of the charts of the adaptive limit: 40 s
const byId = id => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const say = (element, words) => { if (element.textContent !== words) element.textContent = words; };
const seconds = value => value.toFixed(1) + " s";

// Canvases -------------------------------------------------------------------------------------

let colors = {};
const readColors = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["blue", "pale", "orange", "line", "muted"]) colors[name] = style.getPropertyValue("--" + name).trim();
};
/// Clears a canvas, and returns its context in CSS pixels with its size.
const begin = canvas => {
  const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  return { g, w, h };
};
/// Draws parts from 0 to 1 between `bottom` and `top`. The last one is at the right edge, and `count` of them are as wide
/// as the canvas.
const line = ({ g, w }, parts, count, top, bottom, color, dash = []) => {
  g.beginPath();
  const first = count - parts.length;
  parts.forEach((part, i) => g.lineTo((first + i) / (count - 1) * w, bottom - Math.min(Math.max(part, 0), 1) * (bottom - top)));
  g.strokeStyle = color;
  g.lineWidth = 1.5;
  g.setLineDash(dash);
  g.stroke();
  g.setLineDash([]);
};
const bars = ({ g, w }, counts, most, top, bottom, color) => {
  g.fillStyle = color;
  const each = w / counts.length;
  counts.forEach((count, i) => {
    const height = Math.min(count / most, 1) * (bottom - top);
    if (count) g.fillRect(i * each, bottom - height, Math.max(each - 0.5, 1), height);
  });
};
/// Stacks a block for each time in its column.
const blocks = ({ g, w, h }, times, end, most, color) => {
  g.fillStyle = color;
  const heights = new Map(), width = w * COLUMN / end, height = h / most;
  for (const time of times) {
    const column = Math.floor(time / COLUMN), row = (heights.get(column) ?? 0) + 1;
    heights.set(column, row);
    g.fillRect(column * width, h - row * height, width - 1, height - 1);
  }
};
const upright = ({ g, h }, x, color, dash = []) => {
  g.beginPath();
  g.moveTo(x, 0);
  g.lineTo(x, h);
  g.strokeStyle = color;
  g.lineWidth = 1;
  g.setLineDash(dash);
  g.stroke();
  g.setLineDash([]);
};

// Panels ----------------------------------------------------------------------------------------

/// The run around the edge of two windows.
const buildEdge = () => {
  let run = new tollgate.Edge();
  const [quota, edge, end, around] = run.scale(), limiters = [0, 1];
  for (const element of document.querySelectorAll("[data-around]")) say(element, around + " ms");
  const show = () => {
    const arrivals = run.arrivals(), now = run.now();
    limiters.forEach(limiter => {
      const plot = begin(byId("starts-" + limiter)), at = time => time / end * plot.w;
      for (let time = 0; time <= end; time += edge / 2) upright(plot, at(time), colors.line);
      if (now < end) upright(plot, at(now), colors.muted);
      blocks(plot, arrivals, end, quota + 1, colors.pale);
      blocks(plot, run.starts(limiter), end, quota + 1, colors.blue);
      if (limiter === 0) for (let time = edge; time < end; time += edge) upright(plot, at(time), colors.orange, [4, 4]);
      say(byId("around-" + limiter), String(run.around(limiter)));
      say(byId("most-" + limiter), String(run.most(limiter)));
    });
    const counts = run.in_windows();
    document.querySelectorAll("[data-window]").forEach((output, i) => say(output, `${counts[i]} of ${quota}`));
    byId("most-0").classList.toggle("over", run.most(0) > quota);
  };
  return {
    show,
    came: () => run.came(),
    advance: milliseconds => run.advance(milliseconds),
    finish: () => run.advance(end),
    again: () => { run.free(); run = new tollgate.Edge(); },
  };
};

const buildLanes = world => {
  const quota = world.quota();
  say(byId("quota"), quota + "/s");
  return world.algorithms().map((name, index) => {
    const canvas = make("canvas", { role: "img", "aria-label": `Calls that ${name} admitted over the last 8 seconds` });
    const now = make("output", { "data-now": name, "aria-live": "off" }), most = make("output", { "data-most": name, "aria-live": "off" });
    byId("lanes").append(make("div", { class: "lane" }, make("span", { class: "name" }, name), make("div", { class: "figure" }, canvas), now, most));
    return () => {
      const steps = Array.from(world.admitted_steps(index)), [last, highest] = world.admitted(index);
      let sum = 0;
      const sums = steps.map((count, i) => sum += count - (steps[i - STEPS_PER_SECOND] ?? 0));
      const plot = begin(canvas), middle = plot.h * 0.6, part = value => value / quota / 2.25;
      bars(plot, steps, TALLEST_BAR, middle + 3, plot.h, colors.pale);
      line(plot, [part(quota), part(quota)], 2, 1, middle, colors.orange, [4, 4]);
      // The first second of the sum is not complete.
      line(plot, sums.slice(STEPS_PER_SECOND).map(part), steps.length, 1, middle, colors.blue);
      say(now, String(last));
      say(most, String(highest));
      most.classList.toggle("over", highest > quota);
    };
  });
};

/// A button for each waiter. When the one with the focus leaves, the focus stays at its place.
const buildQueue = world => {
  const list = byId("waiters"), buttons = new Map();
  list.addEventListener("click", event => {
    const number = event.target.dataset.waiter;
    if (number) { world.cancel(Number(number)); show(); }
  });
  const show = () => {
    const waiting = world.waiting(), still = new Set(waiting), focused = document.activeElement;
    const place = [...list.children].indexOf(focused?.parentElement);
    for (const [number, item] of buttons) if (!still.has(number)) { item.remove(); buttons.delete(number); }
    for (const number of waiting) {
      if (buttons.has(number)) continue;
      const button = make("button", { type: "button", "data-waiter": number, "aria-label": `Cancel waiter ${number}` }, String(number));
      const item = make("li", {}, button);
      buttons.set(number, item);
      list.append(item);
    }
    if (place >= 0 && !focused.isConnected) (list.children[Math.min(place, list.children.length - 1)]?.firstChild ?? byId("refill")).focus();
    say(byId("waiting"), String(waiting.length));
    say(byId("last"), world.last_released() ? String(world.last_released()) : "–");
    say(byId("newcomer"), seconds(world.newcomer()));
    say(byId("released"), String(world.released()));
    byId("held").hidden = !world.is_paused();
    const plot = begin(byId("releases"));
    bars(plot, Array.from(world.released_steps()), 2, 1, plot.h, colors.blue);
  };
  return [show];
};

// A part of the height for a value, and the range of the axis, for the highest value of a chart.
const linear = unit => highest => {
  const top = Math.ceil(1.1 * highest / unit) * unit;
  return { part: value => value / top, range: `0 to ${top.toLocaleString("en-US")}` };
};
const logarithmic = highest => {
  const decades = Math.max(Math.ceil(Math.log10(highest / 10)), 1);
  return { part: value => Math.log10(value / 10) / decades, range: `10 to ${(10 * 10 ** decades).toLocaleString("en-US")}, log scale` };
};
const buildCharts = world => [
  ["limit", "Limit", "limits", "", linear(10)],
  ["goodput", "Goodput", "goodput", "/s", linear(100)],
  ["latency", "Latency, p99", "latency", " ms", logarithmic],
].map(([id, title, method, unit, scale]) => {
  const canvas = make("canvas", { role: "img", "aria-label": `${title} over the last 40 seconds, with the best fixed limit as a dashed line` });
  const now = make("output", { id, "aria-live": "off" }), best = make("output", { id: "best-" + id, "aria-live": "off" }), axis = make("span");
  const caption = make("p", { class: "caption" }, make("span", {}, title + " ", now), make("span", {}, "best fixed ", best), axis);
  byId("charts").append(make("div", {}, caption, make("div", { class: "figure" }, canvas)));
  const format = value => Math.round(value).toLocaleString("en-US") + unit;
  return () => {
    const values = Array.from(world[method]()), half = values.length / 2;
    if (!half) return;
    const adaptive = values.slice(0, half), fixed = values.slice(half), { part, range } = scale(Math.max(...values));
    const plot = begin(canvas);
    line(plot, fixed.map(part), POINTS, 1, plot.h - 1, colors.orange, [6, 4]);
    line(plot, adaptive.map(part), POINTS, 1, plot.h - 1, colors.blue);
    say(now, format(adaptive.at(-1)));
    say(best, format(fixed.at(-1)));
    say(axis, range);
  };
});

// Controls --------------------------------------------------------------------------------------

/// Shows the value of a slider beside it, and calls `set` when a user moves it.
const slider = (id, set) => {
  const input = byId(id), output = document.querySelector(`output[for=${id}]`);
  const show = () => say(output, input.value + input.dataset.unit);
  input.addEventListener("input", () => { set(Number(input.value)); show(); });
  show();
  return value => { if (Number(input.value) !== value) { input.value = value; show(); } };
};

const fail = error => {
  byId("failure").hidden = false;
  say(byId("failure"), `The page has stopped: ${error}`);
  console.error(error);
};

const start = () => {
  const edge = buildEdge(), world = new tollgate.Playground();
  let speed = 1, paused = matchMedia("(prefers-reduced-motion: reduce)").matches, before = performance.now(), owed = 0, time = 0, frames = 0;
  const showPause = () => byId("pause").setAttribute("aria-pressed", paused);
  byId("pause").addEventListener("click", () => { paused = !paused; showPause(); });
  showPause();
  slider("speed", value => { speed = value; });
  byId("again").addEventListener("click", () => { edge.again(); if (paused) edge.finish(); });
  slider("calls", value => world.set_calls(value));
  byId("burst").addEventListener("click", () => world.burst(60));
  slider("rate", value => { world.set_rate(value); say(byId("rate-code"), String(value)); });
  say(byId("rate-code"), byId("rate").value);
  byId("hold").addEventListener("click", () => world.pause(3000));
  byId("refill").addEventListener("click", () => world.refill());
  const showWorkers = slider("workers", value => world.set_workers(value));
  byId("cycle").addEventListener("change", event => world.set_cycling(event.target.checked));

  const panels = [...buildLanes(world), ...buildQueue(world), ...buildCharts(world)];
  /// Lets the charts begin with a past, and fills the queue.
  const addPast = () => {
    time = PAST;
    world.advance(PAST - 4000);
    world.burst(60);
    world.advance(4000);
    world.refill();
  };
  const advance = now => {
    if (!paused) owed += Math.min(Math.max(now - before, 0), LONGEST_FRAME) * speed;
    before = now;
    const whole = Math.floor(owed);
    owed -= whole;
    // The past takes a while to compute, so the calls around the edge are shown before.
    if (!time && frames > 1 && (paused || edge.came())) addPast();
    else if (time) { time += whole; world.advance(whole); }
    frames += 1;
    edge.advance(whole);
    edge.show();
    if (!time) return;
    say(byId("time"), seconds(time / 1000));
    showWorkers(world.workers());
    byId("cycle").checked = world.is_cycling();
    panels.forEach(show => show());
  };
  const frame = now => {
    try { advance(now); } catch (error) { return fail(error); }
    requestAnimationFrame(frame);
  };
  if (paused) edge.finish();
  edge.show();
  requestAnimationFrame(frame);
};

readColors();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColors);
const bytes = Uint8Array.from(atob(MODULE), character => character.charCodeAt(0));
tollgate({ module_or_path: bytes }).then(start).catch(fail);
