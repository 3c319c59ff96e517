"use strict";
// Draws the values of the server's events. Nothing here is simulated: bars are differences of the
// events' counters. Texts are HTML elements with `data-series`, charts are canvases.

const SPAN = 20;            // seconds that charts over time show
const PATIENCE = 1000;      // milliseconds after which a tenant's call gives up: what was longer is not known
const STALE = 2000;         // milliseconds without an event after which the page says so
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const byId = id => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const series = (name, unit = "") => make("output", { "data-series": name, "data-unit": unit });

// Lines differ by colour, dash and mark, so that no one of these is needed.
const STYLES = {
  "fixed-5": { color: "purple", dash: [2, 3], mark: "square" },
  "fixed-20": { color: "green", dash: [8, 4], mark: "triangle" },
  "fixed-100": { color: "orange", dash: [10, 3, 2, 3], mark: "diamond" },
  adaptive: { color: "blue", dash: [], mark: "disc", width: 2.5 },
  "client-1": { color: "purple", dash: [2, 3], mark: "square" },
  "client-2": { color: "green", dash: [8, 4], mark: "triangle" },
  "client-3": { color: "orange", dash: [10, 3, 2, 3], mark: "diamond" },
  "client-4": { color: "blue", dash: [], mark: "disc" },
  "client-5": { color: "muted", dash: [5, 2], mark: "ring" },
  fifo: { color: "orange", mark: "diamond" },
  fair: { color: "blue", mark: "disc" },
  quota: { color: "ink", dash: [4, 4], width: 1 },
  admitted: { color: "blue", fill: true },
  refused: { color: "pale", fill: true },
  w: { color: "muted", mark: "ring" },
  a: { color: "blue", mark: "disc" },
  c: { color: "orange", mark: "cross" },
};
let colors = {};
const readColors = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["card", "ink", "muted", "line", "grid", "blue", "orange", "green", "purple", "pale"])
    colors[name] = style.getPropertyValue("--" + name).trim();
};

/// A mark as an SVG path around (0, 0): the legends and the canvases share it.
const MARKS = {
  disc: r => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  square: r => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
  triangle: r => `M0 ${-1.2 * r}L${1.15 * r} ${r}H${-1.15 * r}z`,
  diamond: r => `M0 ${-1.3 * r}L${1.3 * r} 0L0 ${1.3 * r}L${-1.3 * r} 0z`,
  cross: r => `M${-r} ${-r}L${r} ${r}M${-r} ${r}L${r} ${-r}`,
};
MARKS.ring = MARKS.disc;
const outlined = mark => mark === "ring" || mark === "cross";

const drawKey = span => {
  const style = STYLES[span.dataset.key], color = `var(--${style.color})`;
  const parts = [], width = style.dash ? 24 : 12;
  if (style.fill) parts.push(`<path d="M0 0h12v12h-12z" fill="${color}"/>`);
  if (style.dash) parts.push(`<path d="M0 6h24" stroke="${color}" stroke-width="${style.width || 2}" stroke-dasharray="${style.dash.join(" ")}"/>`);
  if (style.mark) parts.push(`<path transform="translate(${width / 2} 6)" d="${MARKS[style.mark](4)}" ${outlined(style.mark) ? `fill="none" stroke="${color}" stroke-width="1.5"` : `fill="${color}"`}/>`);
  span.innerHTML = `<svg width="${width}" height="12" aria-hidden="true">${parts.join("")}</svg>`;
};
const key = name => { const span = make("span", { class: "key", "data-key": name }); drawKey(span); return span; };

// Numbers --------------------------------------------------------------------------------------

const format = (name, value) => {
  if (value === null || value === undefined) return "–";
  if (/^tenants.*p99/.test(name) && value >= PATIENCE) return "≥ " + PATIENCE.toLocaleString("en-US");
  return /_m?s$/.test(name) && value < 100
    ? value.toFixed(1)
    : Math.round(value).toLocaleString("en-US");
};
/// The value of `algorithms.gcra.per_second` in an event.
const valueOf = (event, name) => {
  const [panel, ...rest] = name.split(".");
  let at = event[panel];
  for (const part of rest) {
    if (at && Array.isArray(at.rows) && !(part in at)) at = at.rows;
    at = Array.isArray(at) ? at.find(row => row.id === part) : at && at[part];
  }
  return at;
};
let outputs = [];
const collectOutputs = () => {
  outputs = [...document.querySelectorAll("[data-series]")];
  // Ten changes a second are too many for a screen reader to announce.
  for (const output of outputs) output.setAttribute("aria-live", "off");
};
const writeNumbers = event => {
  for (const output of outputs) {
    const name = output.dataset.series, value = valueOf(event, name);
    const text = format(name, value) + (output.dataset.unit ? " " + output.dataset.unit : "");
    output.dataset.value = value ?? "";
    if (output.textContent !== text) output.textContent = text;
  }
};

// Canvases -------------------------------------------------------------------------------------

// Space at the right of charts over time, for half of the word "now".
const EDGE = 16;
const sizes = new WeakMap();
const watchSize = new ResizeObserver(entries => {
  for (const { target, contentRect } of entries) sizes.set(target, contentRect);
  redraw();
});
/// Clears a canvas and returns its context, in CSS pixels, and its size.
const begin = canvas => {
  const size = sizes.get(canvas), ratio = devicePixelRatio || 1;
  canvas.texts = [];
  if (!size || !size.width) return null;
  const width = Math.round(size.width * ratio), height = Math.round(size.height * ratio);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, size.width, size.height);
  g.font = "12px " + getComputedStyle(document.body).fontFamily;
  return { g, w: size.width, h: size.height, snap: x => (Math.round(x * ratio - 0.5) + 0.5) / ratio };
};
const stroke = (g, color, width, dash = []) => { g.strokeStyle = color; g.lineWidth = width; g.setLineDash(dash); g.stroke(); g.setLineDash([]); };
const rule = (plot, x0, y0, x1, y1, color, dash) => {
  plot.g.beginPath();
  plot.g.moveTo(plot.snap(x0), plot.snap(y0));
  plot.g.lineTo(plot.snap(x1), plot.snap(y1));
  stroke(plot.g, color, 1, dash);
};
const text = (g, words, x, y, align = "left", color = colors.muted, baseline = "middle") => {
  g.fillStyle = color; g.textAlign = align; g.textBaseline = baseline; g.fillText(words, x, y);
  // The check uses these boxes to find texts that cover each other.
  const box = g.measureText(words);
  g.canvas.texts.push({ words, left: x - box.actualBoundingBoxLeft, top: y - box.actualBoundingBoxAscent, right: x + box.actualBoundingBoxRight, bottom: y + box.actualBoundingBoxDescent });
};
const mark = (g, style, x, y, r = 4) => {
  const path = new Path2D(MARKS[style.mark](r));
  g.save();
  g.translate(x, y);
  if (outlined(style.mark)) { g.strokeStyle = colors[style.color]; g.lineWidth = 1.5; g.stroke(path); }
  else { g.strokeStyle = colors.card; g.lineWidth = 2; g.stroke(path); g.fillStyle = colors[style.color]; g.fill(path); }
  g.restore();
};
/// The least number of a round series, times a power of ten, that is not less than `value`.
const nice = value => {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return power * [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find(step => step * power >= value);
};
const duration = ms => ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`;
/// The seconds that charts over time show now: the time since the page was opened, up to the whole
/// range.
const shownSpan = () => Math.min(SPAN, Math.max(2, latest().t - past[0].t));
const timeAxis = (plot, left, right, y) => {
  const span = shownSpan(), most = right - left < 240 ? 2 : 4, step = [1, 2, 5, 10].find(step => span / step <= most);
  for (let ago = step * Math.floor(span / step); ago >= 0; ago -= step)
    text(plot.g, ago ? `−${ago} s` : "now", right - (right - left) * ago / span, y, "center", colors.muted, "top");
};
const linear = (most, unit) => {
  const top = nice(Math.max(most, 2));
  return { place: v => v / top, ticks: [0, top / 2, top].map(v => [v / top, v === top && unit ? `${v} ${unit}` : `${v}`]) };
};
const logarithmic = (least, most) => {
  // While there is no number yet, or no longer.
  if (!Number.isFinite(least) || !Number.isFinite(most)) [least, most] = [10, 1000];
  const low = Math.floor(Math.log10(Math.max(least, 1))), high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(most, 10))));
  const ticks = [];
  for (let power = low; power <= high; power++) ticks.push([(power - low) / (high - low), duration(10 ** power)]);
  return { place: v => Math.min(1, Math.max(0, (Math.log10(Math.max(v, 1e-9)) - low) / (high - low))), ticks };
};

// The events of the last seconds.
let past = [];
const latest = () => past[past.length - 1];

/// Lines over the last seconds: `lines` have a style and the series' name, `guide` is the quota's.
const timeChart = (id, lines, scale, guide) => {
  const plot = begin(byId(id));
  if (!plot) return;
  const { g, w, h } = plot, now = latest().t, span = shownSpan();
  const values = lines.map(line => past.map(event => valueOf(event, line.name)));
  const all = values.flat().filter(v => typeof v === "number");
  const guides = guide ? past.map(event => valueOf(event, guide)) : [];
  const axis = scale(Math.min(...all.filter(v => v > 0)), Math.max(...all, ...guides));
  const left = Math.ceil(Math.max(...axis.ticks.map(tick => g.measureText(tick[1]).width))) + 8, right = w - EDGE, top = 8, bottom = h - 24;
  const y = part => bottom - (bottom - top) * part, x = t => right - (right - left) * (now - t) / span;
  for (const [part, words] of axis.ticks) {
    rule(plot, left, y(part), right, y(part), part ? colors.grid : colors.line);
    text(g, words, left - 8, y(part), "right");
  }
  timeAxis(plot, left, right, bottom + 8);
  const path = (values, color, width, dash) => {
    g.beginPath();
    let down = false;
    past.forEach((event, i) => {
      if (typeof values[i] !== "number" || x(event.t) < left) { down = false; return; }
      down ? g.lineTo(x(event.t), y(axis.place(values[i]))) : g.moveTo(x(event.t), y(axis.place(values[i])));
      down = true;
    });
    g.lineJoin = "round";
    stroke(g, color, width, dash);
  };
  if (guide) path(guides, colors.ink, 1, [4, 4]);
  lines.forEach((line, i) => path(values[i], colors[line.style.color], line.style.width || 1.75, line.style.dash));
  const ends = lines.filter((line, i) => {
    const value = values[i][past.length - 1];
    if (typeof value === "number") mark(g, line.style, right, y(axis.place(value)));
    return typeof value === "number";
  });
  // For the check.
  g.canvas.drawn = { span, lines: ends.length };
};

const perSecond = rate => rate + " /s";
/// Bars of one algorithm: a bar for each event, calls refused above calls admitted, a pixel apart.
const drawLane = (canvas, id, top, left) => {
  const plot = begin(canvas);
  if (!plot) return;
  const { g, w, h, snap } = plot, now = latest().t, span = shownSpan(), right = w - EDGE, head = 4, bottom = h - 1;
  const x = t => Math.max(left, right - (right - left) * (now - t) / span), y = v => bottom - (bottom - head) * Math.min(1, v / top);
  text(g, perSecond(top), left - 8, head, "right", colors.muted, "top");
  text(g, "0", left - 8, bottom, "right", colors.muted, "bottom");
  const bars = [];
  for (let i = 1; i < past.length; i++) {
    const a = valueOf(past[i - 1], "algorithms." + id), b = valueOf(past[i], "algorithms." + id), dt = past[i].t - past[i - 1].t;
    if (!a || !b || dt <= 0 || x(past[i].t) <= left) continue;
    const from = Math.round(x(past[i - 1].t)), to = Math.round(x(past[i].t));
    const admitted = (b.admitted - a.admitted) / dt, refused = (b.refused - a.refused) / dt;
    bars.push([from, to - from, y(admitted), y(admitted + refused)]);
  }
  g.fillStyle = colors.pale;
  for (const [at, width, level, peak] of bars) g.fillRect(at, peak, width, Math.max(0, level - peak - 1));
  g.fillStyle = colors.blue;
  for (const [at, width, level] of bars) g.fillRect(at, level, width, bottom - level);
  rule(plot, left, bottom, right, bottom, colors.line);
  const quota = valueOf(latest(), "algorithms.quota");
  rule(plot, left, y(quota), right, y(quota), colors.ink, [4, 4]);
};
const drawLanes = () => {
  const calls = past.slice(1).map((event, i) => {
    const a = past[i].algorithms.rows[0], b = event.algorithms.rows[0];
    return (b.admitted + b.refused - a.admitted - a.refused) / Math.max(event.t - past[i].t, 0.05);
  });
  const { rows, quota } = latest().algorithms, top = nice(Math.max(10, quota, ...calls));
  const axis = begin(byId("lanes-axis"));
  if (!axis) return;
  const left = Math.ceil(axis.g.measureText(perSecond(top)).width) + 8;
  timeAxis(axis, left, axis.w - EDGE, 2);
  for (const row of rows) {
    drawLane(byId("lane-" + row.id), row.id, top, left);
    byId("most-" + row.id).classList.toggle("over", row.most_in_a_second > 1.75 * quota);
  }
};

const drawDots = () => {
  const plot = begin(byId("dots"));
  if (!plot) return;
  const { g, w, h } = plot, waiters = latest().queue.waiters;
  const columns = w >= 560 ? 25 : 20, lines = Math.ceil(waiters.length / columns);
  const dx = w / columns, dy = h / lines, r = Math.min(dx, dy, 20) * 0.28;
  [...waiters].forEach((state, i) => mark(g, STYLES[state], dx * (i % columns + 0.5), dy * (Math.floor(i / columns) + 0.5), state === "c" ? r * 0.8 : r));
};

const drawWaits = () => {
  const plot = begin(byId("waits"));
  if (!plot) return;
  const { g, w, h } = plot, { fifo, fair } = latest().tenants;
  const axis = logarithmic(10, PATIENCE), { ticks } = axis;
  ticks[0][1] = "≤ " + ticks[0][1];
  ticks[ticks.length - 1][1] = "≥ " + ticks[ticks.length - 1][1];
  const left = Math.ceil(Math.max(...fifo.map(row => g.measureText(row.label).width))) + 24, right = w - 24, top = 8, bottom = h - 24;
  const x = part => left + (right - left) * part;
  ticks.forEach(([part, words]) => {
    rule(plot, x(part), top, x(part), bottom, part ? colors.grid : colors.line);
    text(g, words, x(part), bottom + 8, "center", colors.muted, "top");
  });
  fifo.forEach((row, i) => {
    const y = top + (bottom - top) * (i + 0.5) / fifo.length, other = fair.find(one => one.id === row.id);
    text(g, row.label, 0, y, "left", colors.ink);
    // The diamond's corners show where both are the same.
    const marks = [[STYLES.fifo, row.p99_ms, 7], [STYLES.fair, other.p99_ms, 4]].filter(([, wait]) => typeof wait === "number");
    const at = marks.map(([, wait]) => x(axis.place(wait)));
    if (at.length === 2) rule(plot, at[0], y, at[1], y, colors.muted);
    marks.forEach(([style, , r], i) => mark(g, style, at[i], y, r));
  });
};

const draw = () => {
  if (!past.length) return;
  drawLanes();
  drawDots();
  timeChart("queue-rate", [{ name: "queue.per_second", style: { ...STYLES.a, dash: [] } }], (_, most) => linear(most, "/s"), "queue.quota");
  drawWaits();
  const lines = measure => latest().backend.rows.map(row => ({ name: `backend.${row.id}.${measure}`, style: STYLES[row.id] }));
  timeChart("goodput", lines("goodput"), (_, most) => linear(most, "/s"));
  timeChart("latency", lines("p99_ms"), logarithmic);
  timeChart("limits", latest().backend.fleet.rows.map(({ id }) => ({ name: `backend.fleet.${id}.limit`, style: STYLES[id] })), (_, most) => linear(most, ""));
  timeChart("fleet-goodput", [{ name: "backend.fleet.goodput", style: STYLES.adaptive }], (_, most) => linear(most, "/s"), "backend.fleet.capacity");
  timeChart("fleet-latency", [{ name: "backend.fleet.p99_ms", style: STYLES.adaptive }], logarithmic, "backend.fleet.unqueued_ms");
};
let drawing = false, drawnAt = 0;
/// Draws in the next frame. With reduced motion, the charts step once a second.
const redraw = event => {
  if (drawing || event && calm.matches && performance.now() - drawnAt < 950) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; drawnAt = performance.now(); draw(); });
};

// The rows of tables, from the first event ------------------------------------------------------

const buildRows = event => {
  for (const { id, label } of event.algorithms.rows) {
    byId("lanes").append(make("div", { class: "lane" },
      make("span", { class: "name" }, label),
      make("div", { class: "chart figure" }, make("canvas", { id: "lane-" + id, role: "img", "aria-label": `Calls that ${label} admitted and refused over the last 20 seconds` })),
      make("span", { class: "now" }, series(`algorithms.${id}.per_second`, "/s")),
      make("span", { class: "most", id: "most-" + id }, series(`algorithms.${id}.most_in_a_second`))));
  }
  byId("lanes").append(make("div", { class: "lane foot", "aria-hidden": "true" }, make("div", { class: "chart figure" }, make("canvas", { id: "lanes-axis" }))));
  const row = (head, names) => make("tr", {}, make("th", { scope: "row" }, head), ...names.map(name => make("td", {}, series(name))));
  for (const { id, label } of event.tenants.fifo) {
    const names = ["fifo", "fair"].flatMap(queue => ["p99_ms", "per_second", "gave_up_per_second", "waiting"].map(field => `tenants.${queue}.${id}.${field}`));
    byId("tenants-table").tBodies[0].append(row(label, names));
  }
  for (const { id, label } of event.backend.rows) {
    const names = ["limit", "in_use", "goodput", "p99_ms"].map(field => `backend.${id}.${field}`);
    byId("backend-table").tBodies[0].append(row(make("span", {}, key(id), label), names));
  }
  for (const { id, label } of event.backend.fleet.rows)
    byId("clients").append(make("li", {}, key(id), label, series(`backend.fleet.${id}.limit`)));
  collectOutputs();
  document.querySelectorAll("canvas").forEach(canvas => watchSize.observe(canvas));
};

// Sliders and buttons ---------------------------------------------------------------------------

const sliders = new Map();
const showSetting = (slider, value) => {
  const words = `${Number(value).toLocaleString("en-US")}${slider.unit ? " " + slider.unit : ""}`;
  slider.output.textContent = words;
  slider.input.setAttribute("aria-valuetext", words);
};
/// Sends a slider's latest value. One request is in flight at a time, and values in between are
/// skipped.
const send = async slider => {
  if (slider.sending) return;
  slider.sending = true;
  while (slider.sent !== slider.input.value) {
    slider.sent = slider.input.value;
    try {
      await fetch("/settings/" + slider.name, { method: "PUT", body: slider.sent });
    } catch { /* The status says that the server is gone, and its next event sets the slider. */ }
  }
  slider.sending = false;
  slider.changedAt = performance.now();
};
const buildSliders = async () => {
  const settings = await (await fetch("/settings")).json();
  for (const { name, panel, label, unit, min, max, step, value } of settings) {
    const parent = document.querySelector(`[data-panel="${panel}"]`);
    if (!parent || sliders.has(name)) continue;
    const id = "setting-" + name.replace(".", "-");
    const input = make("input", { type: "range", id, "data-setting": name, min, max, step, value });
    const slider = { name, unit, input, output: make("output", { for: id, "aria-live": "off" }), sent: String(value), sending: false, changedAt: -Infinity };
    parent.append(make("div", { class: "slider" }, make("label", { for: id }, label), slider.output, input));
    input.addEventListener("input", () => { slider.changedAt = performance.now(); showSetting(slider, input.value); send(slider); });
    showSetting(slider, value);
    sliders.set(name, slider);
  }
};
/// Follows the server's settings: another page may have changed them, or the server is a new one.
const followSettings = settings => {
  for (const slider of sliders.values()) {
    const value = settings[slider.name];
    if (value === undefined || slider.sending || Number(slider.input.value) === value || performance.now() - slider.changedAt < 500) continue;
    slider.input.value = slider.sent = String(value);
    showSetting(slider, value);
  }
};

/// Calls a route 15 times, and returns the statuses, and the fields and the body of the last answer.
const callHello = async () => {
  const statuses = [];
  let answer;
  for (let i = 0; i < 15; i++) statuses.push((answer = await fetch("/api/hello")).status);
  const fields = ["ratelimit", "ratelimit-policy", "retry-after"].map(name => `${name}: ${answer.headers.get(name) ?? "–"}`);
  return [statuses.join(" "), "", "The last answer:", ...fields, await answer.text()].join("\n");
};
const buildButtons = () => {
  byId("hello").addEventListener("click", async () => {
    byId("answers").textContent = await callHello().catch(error => "No answer: " + error.message);
  });
  for (const button of document.querySelectorAll("[data-post]"))
    button.addEventListener("click", () => fetch(button.dataset.post, { method: "POST" }).catch(() => {}));
  const views = document.querySelectorAll("[data-view]");
  for (const button of views)
    button.addEventListener("click", () => {
      for (const view of views) view.setAttribute("aria-pressed", view === button);
      for (const part of document.querySelectorAll("[data-of]")) part.hidden = part.dataset.of !== button.dataset.view;
      redraw();
    });
  for (const command of document.querySelectorAll("div.command")) {
    const code = command.firstElementChild, button = make("button", { type: "button" }, "Copy");
    code.textContent = code.textContent.replaceAll("{origin}", location.origin);
    button.setAttribute("aria-label", "Copy: " + code.textContent);
    code.tabIndex = 0;
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    command.append(button);
  }
};

// Events ----------------------------------------------------------------------------------------

let state = "";
const say = (next, words) => {
  const status = byId("status");
  if (state !== next) { state = status.dataset.state = next; status.textContent = words; }
};
/// What the reasons of a controller mean; `Reason` of the crate has them.
const WHY = {
  unknown: "no window of calls has ended yet",
  no_queue: "calls do not queue, so the limit grows",
  queue: "calls queue, so the limit shrinks towards the workers",
  unused: "the limit was not in use",
  probe: "measures the latency at half of the limit",
  measured: "the latency without a queue is known again",
  jump: "calls became much slower: finds out whether they queue",
  refused: "calls were refused",
};
let ticks = 0, lastEvent = performance.now();
const onEvent = event => {
  if (past.length && event.t < latest().t) past = [];   // the server is a new one
  if (!ticks) buildRows(event);
  past.push(event);
  while (past.length > 2 && past[1].t < event.t - SPAN) past.shift();
  document.body.dataset.ticks = ++ticks;
  lastEvent = performance.now();
  say("live", "Live");
  writeNumbers(event);
  byId("why").textContent = WHY[event.backend.why.reason] ?? event.backend.why.reason;
  followSettings(event.settings);
  byId("cycling").hidden = !(byId("cycle").hidden = event.backend.cycling);
  for (const button of document.querySelectorAll("[data-controller]"))
    button.setAttribute("aria-pressed", button.dataset.controller === event.backend.fleet.controller);
  redraw(event);
};
const listen = () => {
  const source = new EventSource("/events");
  source.onmessage = message => onEvent(JSON.parse(message.data));
  source.onopen = () => { if (!sliders.size) buildSliders().catch(() => {}); };
  source.onerror = () => {
    say("lost", "Disconnected, trying again");
    // The browser reconnects by itself unless the server answered with an error.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 1000);
  };
};

readColors();
dark.addEventListener("change", () => { readColors(); redraw(); });
document.querySelectorAll(".key").forEach(drawKey);
buildButtons();
buildSliders().catch(() => {});
listen();
setInterval(() => { if (performance.now() - lastEvent > STALE) say("lost", "Disconnected, trying again"); }, 500);
