// Starts to record what gets the focus by Tab; then `window.takeFocus()` judges what has it now.
() => {
  const isShown = (element) =>
    element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;
  const describe = (element) => element.outerHTML.slice(0, 160);
  const stops = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
    .filter((element) => element.tabIndex >= 0 && !element.disabled && isShown(element))
    // Of radio buttons one is a stop; arrows lead to the others.
    .filter((element) => element.type !== "radio" || element.checked);
  const missing = new Set(stops);
  const faults = [];

  window.takeFocus = () => {
    const element = document.activeElement;
    if (!element || element === document.body) {
      return { isOver: true, faults: [...faults, ...[...missing].map((it) => `Tab does not come to ${describe(it)}`)] };
    }
    if (missing.delete(element)) {
      const style = getComputedStyle(element);
      if (!element.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) {
        faults.push(`it is not seen that it has the focus: ${describe(element)}`);
      }
      const [box] = element.getClientRects();
      const x = Math.min(Math.max((box.left + box.right) / 2, 1), innerWidth - 1);
      const y = Math.min(Math.max((box.top + box.bottom) / 2, 1), innerHeight - 1);
      const above = document.elementFromPoint(x, y);
      const isSeen = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
      if (!isSeen || !above || !(element.contains(above) || above.contains(element))) {
        faults.push(`it is hidden while it has the focus: ${describe(element)}`);
      }
    }
    return { isOver: false, faults: [] };
  };
  return stops.length;
}
