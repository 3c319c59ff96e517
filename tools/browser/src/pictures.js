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
    for (const element of svg.querySelectorAll("*")) {
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
});
