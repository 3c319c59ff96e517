// The functions that this check runs inside the page, beside those of every check. Each returns a
// value that JSON can hold.
(() => {
  const { wait: sleep, until, move } = probe;
  const ticks = () => Number(document.body.dataset.ticks);
  const series = (root = document) =>
    Object.fromEntries([...root.querySelectorAll("[data-series]")].map(e => [e.dataset.series, e.dataset.value]));
  const serverValue = async name => (await (await fetch("/settings")).json()).find(s => s.name === name)?.value;
  const click = path => document.querySelector(`[data-post="${path}"]`).click();

  Object.assign(probe, {
    ticks,
    series,
    settings: () => [...document.querySelectorAll("[data-setting]")].map(input => input.dataset.setting),
    click,
    /// Milliseconds until `count` more events came, or null.
    events: (count, milliseconds) => { const goal = ticks() + count; return until(milliseconds, () => ticks() >= goal); },
    /// Names of the series that change within this many milliseconds.
    moving: async milliseconds => {
      const before = series(), moved = new Set();
      await until(milliseconds, () => {
        for (const [name, value] of Object.entries(series())) if (value !== before[name]) moved.add(name);
        return moved.size === Object.keys(before).length;
      });
      return [...moved];
    },
    /// Moves a slider to `to`, waits until a series meets `shows`, such as "queue.quota = 100", and
    /// moves it back.
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
    /// The seconds on the time axis of a chart, those of the events so far, and the number of lines
    /// that end now.
    drawn: id => ({ events: ticks() / 10, ...document.getElementById(id).drawn }),
    /// Shows one client before each backend, or five before one.
    view: name => document.querySelector(`[data-view="${name}"]`).click(),
    /// Milliseconds until a series changes without any input, or null.
    changes: (key, milliseconds) => { const before = series()[key]; return until(milliseconds, () => series()[key] !== before); },
    /// Moves a slider, and returns whether the server then says that the workers do not change automatically;
    /// then turns the automatic changes on again, and returns whether they are; then moves the slider again.
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
    /// Clicks a button that sends a request, and returns the values of `queue.*` before and after.
    cancel: async () => {
      const read = () => Object.fromEntries(["waiting", "admitted", "cancelled", "last_waits_s"].map(key => [key, Number(series()["queue." + key])]));
      click("/queue/refill");
      const refilled = await until(3000, () => read().waiting >= 190);
      // The event that showed it may have been read while waiters joined.
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
    /// Clicks the button that calls `/api/hello`, and returns the text that the page then shows.
    hello: async () => {
      const answers = document.getElementById("answers");
      answers.textContent = "";
      document.getElementById("hello").click();
      await until(5000, () => answers.textContent);
      return answers.textContent;
    },
  });
})();
