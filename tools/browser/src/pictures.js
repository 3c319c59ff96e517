// The functions that check a picture.
Object.assign(probe, {
  /// Makes a page with only this picture, inline.
  put: picture => {
    document.documentElement.lang = "en";
    document.body.style.margin = "0 16px";
    document.body.innerHTML = picture;
  },
  /// The number of texts, and the elements outside of the picture or of the page.
  picture: () => {
    const svg = document.querySelector("svg"), edge = svg.getBoundingClientRect(), outside = [];
    if (edge.right > innerWidth || document.documentElement.scrollWidth > innerWidth) outside.push(`the picture ends at ${edge.right} of ${innerWidth} px`);
    const scale = edge.width / svg.viewBox.baseVal.width, g = document.createElement("canvas").getContext("2d");
    for (const element of svg.querySelectorAll(":not(style)")) {
      let { left, right, top, bottom } = element.getBoundingClientRect();
      if (element.tagName === "text" && !element.hasAttribute("transform")) {
        // The box of a text has room for descenders deeper than these.
        g.font = getComputedStyle(element).font;
        const size = g.measureText(element.textContent.trim());
        top += scale * (size.fontBoundingBoxAscent - size.actualBoundingBoxAscent);
        bottom -= scale * (size.fontBoundingBoxDescent - size.actualBoundingBoxDescent);
      }
      const beyond = Math.max(edge.left - left, edge.top - top, right - edge.right, bottom - edge.bottom);
      if (beyond > 0.5) outside.push(`<${element.tagName}> "${element.textContent.trim()}" lies ${beyond.toFixed(1)} px outside`);
    }
    return { texts: svg.querySelectorAll("text").length, outside };
  },
  /// Sets the theme of the page like rustdoc does, or none.
  theme: (name, background, ink) => {
    const { dataset, style } = document.documentElement;
    if (name) dataset.theme = name; else delete dataset.theme;
    style.setProperty("--main-background-color", background);
    style.setProperty("--main-color", ink);
  },
  /// The luminance of the background, which is the first rectangle; the lowest contrast of a text to it; and the
  /// contrast of each color, by the name that it has in the light form.
  contrast: () => {
    const luminance = color => {
      const [red, green, blue] = color.match(/[\d.]+/g).map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const [first, ...rest] = document.querySelectorAll("svg [fill], svg [stroke]"), colors = {};
    const background = luminance(getComputedStyle(first).fill);
    let texts = Infinity;
    for (const element of rest) {
      const what = (element.getAttribute("stroke") ?? "none") === "none" ? "fill" : "stroke";
      const own = luminance(getComputedStyle(element)[what]);
      const contrast = (Math.max(own, background) + 0.05) / (Math.min(own, background) + 0.05);
      colors[element.getAttribute(what)] = contrast;
      if (element.tagName === "text") texts = Math.min(texts, contrast);
    }
    return { background, texts, colors };
  },
});
