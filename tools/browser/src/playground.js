// The functions that the check of the playground runs inside the page.
(() => {
  const { until, move } = probe;
  const byId = id => document.getElementById(id);
  const number = id => parseFloat(byId(id).textContent.replaceAll(",", ""));
  const waiters = () => [...document.querySelectorAll("[data-waiter]")].map(button => Number(button.dataset.waiter));
  const lanes = which => [...document.querySelectorAll(`[data-${which}]`)].map(output => Number(output.textContent));
  Object.assign(probe, {
    number,
    lanes,
    slide: (id, value) => move(byId(id), value),
    click: id => byId(id).click(),
    /// Milliseconds until a number is within the bounds, or null.
    becomes: (id, least, most, milliseconds) => until(milliseconds, () => number(id) >= least && number(id) <= most),
    /// Milliseconds until each algorithm has admitted between `least` and `most` calls in the last second, or null.
    admitted: (least, most, milliseconds) => until(milliseconds, () => lanes("now").every(it => it >= least && it <= most)),
    /// For each canvas of a panel, how many pixels have been drawn.
    drawn: panel => [...byId(panel).querySelectorAll("canvas")].map(canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let pixels = 0;
      for (let i = 3; i < data.length; i += 4) pixels += data[i] > 0;
      return pixels;
    }),
    /// Cancels the third waiter while the clock stands, and returns the waiters before and after,
    /// and the focused element.
    cancel: async () => {
      byId("pause").click();
      await probe.wait(100);
      const before = waiters(), third = document.querySelector(`[data-waiter="${before[2]}"]`);
      third.focus();
      third.click();
      await until(1000, () => number("waiting") < before.length);
      const after = waiters(), focus = Number(document.activeElement.dataset.waiter);
      byId("pause").click();
      return { before, after, focus };
    },
    /// What the first panel showed when the fixed window had doubled, or null.
    first: async () => (await until(5000, () => globalThis.first)) === null ? null : globalThis.first,
    /// Whether the page is paused, and the numbers of the first panel.
    still: async () => {
      await until(5000, () => number("time") > 0);
      return [byId("pause").getAttribute("aria-pressed") === "true", number("around-0"), number("most-0"), number("around-1"), number("most-1")];
    },
    /// The page's loaded resources other than itself.
    requests: () => performance.getEntriesByType("resource").map(entry => entry.name.slice(0, 80)),
  });
})();
