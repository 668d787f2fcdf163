// Returns what is wrong with the layout of the page, a line for each; [] if nothing is.
() => {
  const TARGET_PX = 24;
  const SPACE_PX = 6;
  const problems = new Set();
  const viewport = document.documentElement.clientWidth;

  const describe = (element) => {
    const words = (element.innerText || element.value || element.getAttribute("aria-label") || "").trim().replace(/\s+/g, " ");
    const classes = [...element.classList].map((name) => `.${name}`).join("");
    return `<${element.tagName.toLowerCase()}${element.id && `#${element.id}`}${classes}> “${words.slice(0, 40)}”`;
  };
  // A browser computes a style anew at each question; a page asks of its elements many times.
  const remembered = (compute) => {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, compute(element));
      return known.get(element);
    };
  };
  const styleOf = remembered((element) => {
    const { display, position, overflowX, clipPath } = getComputedStyle(element);
    return { display, position, overflowX, clipPath };
  });
  const boxOf = remembered((element) => element.getBoundingClientRect());
  const scrolls = (element) => /auto|scroll/.test(styleOf(element).overflowX);
  const clips = (element) => /hidden|clip/.test(styleOf(element).overflowX);
  // What only screen readers get, or what is shown with the focus alone.
  const isAside = remembered((element) =>
    element !== document.body && (styleOf(element).clipPath.startsWith("inset") ||
      boxOf(element).right <= 0 || isAside(element.parentElement)));
  const isShown = remembered((element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
    element.getClientRects().length > 0 && !isAside(element));
  const blockAround = (element) => {
    let it = element;
    while (it && /^(inline|contents)$/.test(styleOf(it).display)) it = it.parentElement;
    return it;
  };

  if (document.documentElement.scrollWidth > viewport) {
    problems.add(`the page is ${document.documentElement.scrollWidth} px wide, of ${viewport}`);
  }

  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids.filter((it, index) => ids.indexOf(it) < index)) {
    problems.add(`the id ${id} is there twice, so a label may be that of another field`);
  }

  const shown = [...document.body.querySelectorAll("*")].filter(
    (element) => !element.closest("svg svg, svg *, option, script") && isShown(element),
  );

  for (const element of shown) {
    const box = boxOf(element);
    if (!box.width || !box.height || /absolute|fixed/.test(styleOf(element).position)) continue;
    const parent = blockAround(element.parentElement);
    if (scrolls(parent) || parent === document.body || parent.tagName === "SELECT") continue;
    const around = boxOf(parent);
    if (box.left < around.left - 1 || box.right > around.right + 1) {
      problems.add(`${describe(element)} is beyond ${describe(parent)}, from ${box.left} to ${box.right}, not ${around.left} to ${around.right}`);
    }
  }

  // Texts: nothing is cut, and nothing runs out of its box.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const parent = text.parentElement;
    if (!text.textContent.trim() || parent.closest("svg, option, script, noscript, textarea")) continue;
    if (!isShown(parent)) continue;
    if (parent.closest("td, th")) {
      for (const { 0: word, index } of text.textContent.matchAll(/(?<!\S)[\p{L}\p{N}_:]{2,12}[,.;?]*(?!\S)/gu)) {
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
        if (lines.size > 1) problems.add(`the word “${word}” of ${describe(parent)} is broken, to ${lines.size} lines`);
      }
    }
    range.selectNodeContents(text);
    for (const piece of range.getClientRects()) {
      if (piece.width < SPACE_PX) continue; // where lines are kept, the space at an end hangs over
      for (let box = blockAround(parent); box && box !== document.body; box = box.parentElement) {
        const around = boxOf(box);
        const isOut = piece.left < around.left - 1 || piece.right > around.right + 1;
        if (isOut && !scrolls(box)) {
          problems.add(`the text of ${describe(parent)} runs out of ${describe(box)}`);
          break; // it runs out of what is around that as well
        }
        if (clips(box) && (piece.bottom > around.bottom + 2 || piece.top < around.top - 2)) {
          problems.add(`the text of ${describe(parent)} is cut by ${describe(box)}`);
        }
        if (scrolls(box)) break;
      }
    }
  }

  // What can be pressed: large enough, and nothing upon something else.
  const pressable = shown.filter((element) =>
    element.matches("a[href], button, input, select, textarea, summary"),
  );
  const visiblePart = (element, piece) => {
    let { left, top, right, bottom } = piece;
    for (let it = element.parentElement; it; it = it.parentElement) {
      if (!scrolls(it) && !clips(it)) continue;
      const around = boxOf(it);
      left = Math.max(left, around.left);
      right = Math.min(right, around.right);
      top = Math.max(top, around.top);
      bottom = Math.min(bottom, around.bottom);
    }
    return { left, top, right, bottom };
  };
  const piecesOf = new Map(pressable.map((element) => [
    element, [...element.getClientRects()].map((piece) => visiblePart(element, piece)),
  ]));
  pressable.forEach((one, index) => {
    for (const other of pressable.slice(index + 1)) {
      if (one.contains(other) || other.contains(one)) continue;
      const overlaps = piecesOf.get(one).some((a) => piecesOf.get(other).some((b) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1));
      if (overlaps) problems.add(`${describe(one)} and ${describe(other)} overlap`);
    }
  });
  for (const element of pressable) {
    if (element.tagName === "A" && styleOf(element).display === "inline") continue; // axe judges these
    const target = element.matches("[type=checkbox], [type=radio]") ? element.closest("label") || element : element;
    const { width, height } = boxOf(target);
    if (width < TARGET_PX - 0.5 || height < TARGET_PX - 0.5) {
      problems.add(`${describe(element)} is ${Math.round(width)} × ${Math.round(height)} px, too small to press`);
    }
  }
  return [...problems];
}
