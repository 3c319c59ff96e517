// The functions that checks run inside every page. Each returns a value that JSON can hold.
(() => {
  const sleep = ms => new Promise(done => setTimeout(done, ms));
  const until = async (milliseconds, done) => {
    const start = performance.now();
    for (;;) {
      if (await done()) return performance.now() - start;
      if (performance.now() - start > milliseconds) return null;
      await sleep(5);
    }
  };
  const move = (input, value) => {
    input.value = value;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  /// The boxes of all texts: those of elements, and those that canvases report.
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
      for (const { words, left, top, right, bottom } of canvas.texts ?? [])
        found.push({ node: { data: words }, edge, left: edge.left + left, top: edge.top + top, right: edge.left + right, bottom: edge.top + bottom });
    }
    return found;
  };

  globalThis.probe = {
    wait: sleep,
    until,
    move,
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
