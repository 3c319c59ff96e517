// What the check runs inside the page. Each function returns a value that JSON can hold.
(() => {
  const sleep = ms => new Promise(done => setTimeout(done, ms));
  const ticks = () => Number(document.body.dataset.ticks);
  const series = (root = document) =>
    Object.fromEntries([...root.querySelectorAll("[data-series]")].map(e => [e.dataset.series, e.dataset.value]));
  const until = async (milliseconds, done) => {
    const start = performance.now();
    for (;;) {
      if (await done()) return performance.now() - start;
      if (performance.now() - start > milliseconds) return null;
      await sleep(5);
    }
  };
  const serverValue = async name => (await (await fetch("/settings")).json()).find(s => s.name === name)?.value;
  const move = (input, value) => {
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const click = path => document.querySelector(`[data-post="${path}"]`).click();
  /// The boxes of all texts: those of elements, and those that canvases say they have drawn.
  const boxes = () => {
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      if (!node.data.trim() || ["SCRIPT", "STYLE"].includes(node.parentElement.tagName)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (let { left, top, right, bottom } of range.getClientRects()) {
        for (let up = node.parentElement; up; up = up.parentElement) {
          if (getComputedStyle(up).overflowX === "visible") continue;
          const clip = up.getBoundingClientRect();
          [left, right] = [Math.max(left, clip.left), Math.min(right, clip.right)];
        }
        if (right > left && bottom > top) found.push({ node, left, top, right, bottom });
      }
    }
    for (const canvas of document.querySelectorAll("canvas")) {
      const edge = canvas.getBoundingClientRect();
      for (const { words, left, top, right, bottom } of canvas.texts)
        found.push({ node: { data: words }, edge, left: edge.left + left, top: edge.top + top, right: edge.left + right, bottom: edge.top + bottom });
    }
    return found;
  };

  globalThis.probe = {
    ticks,
    series,
    settings: () => [...document.querySelectorAll("[data-setting]")].map(input => input.dataset.setting),
    wait: sleep,
    click,
    /// Milliseconds until `count` more events came, or null.
    events: (count, milliseconds) => { const goal = ticks() + count; return until(milliseconds, () => ticks() >= goal); },
    /// Names of the series that change within so many milliseconds.
    moving: async milliseconds => {
      const before = series(), moved = new Set();
      await until(milliseconds, () => {
        for (const [name, value] of Object.entries(series())) if (value !== before[name]) moved.add(name);
        return moved.size === Object.keys(before).length;
      });
      return [...moved];
    },
    /// Moves a slider to `to`, waits for what `shows` says of a series, as "queue.quota = 100", and moves it back.
    slider: async (name, to, shows) => {
      const input = document.querySelector(`[data-setting="${name}"]`), from = Number(input.value);
      const [key, is, bound] = shows.split(" "), value = key => parseFloat(series()[key]);
      const compare = { "=": (a, b) => a === b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b }[is];
      const there = () => compare(value(key), Number(bound));
      // Calls to the algorithms come for two seconds of three; these have just begun to come.
      if (name.startsWith("algorithms.")) {
        await until(5000, () => value("algorithms.offered") < 60);
        await until(5000, () => value("algorithms.offered") >= 60);
      }
      // After a slider of the panel has moved, there is no percentile for a moment.
      const ready = await until(5000, () => Number.isFinite(value(key)) && !there()), before = value(key);
      const changes = Promise.all([until(3000, async () => await serverValue(name) === to), until(3000, there)]);
      move(input, to);
      const [server, shown] = await changes;
      move(input, from);
      const back = await until(3000, async () => await serverValue(name) === from);
      return { from, ready, before, server, shown, back };
    },
    /// The seconds that the time axis of a chart has, those of the events so far, and how many lines end now.
    drawn: id => ({ events: ticks() / 10, ...document.getElementById(id).drawn }),
    /// Shows one client before each backend, or five before one.
    view: name => document.querySelector(`[data-view="${name}"]`).click(),
    /// Milliseconds until a series is not what it was, without any input, or null.
    changes: (key, milliseconds) => { const before = series()[key]; return until(milliseconds, () => series()[key] !== before); },
    /// Moves a slider, and returns whether the server then says that the workers do not move by themselves; then
    /// gives them back, and returns whether they do; then moves the slider again.
    handBack: async () => {
      const input = document.querySelector('[data-setting="backend.workers"]'), button = document.getElementById("cycle");
      move(input, 25);
      const taken = await until(3000, () => !button.hidden && series()["backend.workers"] === "25");
      button.click();
      const given = await until(3000, () => button.hidden && series()["backend.workers"] === "10");
      // As after a fresh start, for the sliders.
      move(input, 11);
      await until(3000, () => series()["backend.workers"] === "11");
      move(input, 10);
      const left = await until(3000, () => !button.hidden && series()["backend.workers"] === "10");
      return [taken, given, left];
    },
    /// Clicks a button that sends a request, and returns what `queue.*` was before and after.
    cancel: async () => {
      const read = () => Object.fromEntries(["waiting", "admitted", "cancelled", "last_waits_s"].map(key => [key, Number(series()["queue." + key])]));
      click("/queue/refill");
      const refilled = await until(3000, () => read().waiting >= 190);
      // The event that showed it may have been read while waiters came.
      await sleep(250);
      const before = read();
      const gone = now => now.cancelled - before.cancelled + now.admitted - before.admitted;
      let after = before;
      click("/queue/cancel");
      // The numbers of an event are read one after the other, and waiters leave the limiter one by one.
      const fell = await until(3000, () => {
        after = read();
        return after.cancelled > before.cancelled && after.last_waits_s < before.last_waits_s / 2
          && Math.abs(before.waiting - after.waiting - gone(after)) <= 1;
      });
      const movedOn = await until(3000, () => read().admitted > after.admitted);
      return { refilled, before, fell, after, movedOn };
    },
    /// Milliseconds until a series is `goal`, or null.
    becomes: (key, goal, milliseconds) => until(milliseconds, () => Number(series()[key]) === goal),
    /// Milliseconds until a series is more than `bound`, or null.
    exceeds: (key, bound, milliseconds) => until(milliseconds, () => Number(series()[key]) > bound),
    /// Clicks the button that calls `/api/hello`, and returns what the page says then.
    hello: async () => {
      const answers = document.getElementById("answers");
      answers.textContent = "";
      document.getElementById("hello").click();
      await until(5000, () => answers.textContent);
      return answers.textContent;
    },
    /// Pixels by which the page is wider than its window, and elements that scroll sideways.
    sideways: () => ({
      page: document.documentElement.scrollWidth - innerWidth,
      tables: [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.firstElementChild.id),
    }),
    /// Pairs of texts that cover each other by more than a pixel each way, and texts that are cut at the
    /// edge of a canvas.
    overlaps: () => {
      const all = boxes(), found = [];
      all.forEach((a, i) => all.slice(i + 1).forEach(b => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (a.node !== b.node && wide > 1 && high > 1) found.push(`"${a.node.data.trim()}" and "${b.node.data.trim()}"`);
      }));
      for (const { node, edge, left, top, right, bottom } of all)
        if (edge && Math.min(left - edge.left, top - edge.top, edge.right - right, edge.bottom - bottom) < -0.5) found.push(`"${node.data}" leaves its canvas`);
      return { texts: all.length, found };
    },
  };
})();
