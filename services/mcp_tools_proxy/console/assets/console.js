// What pages do besides htmx; all of them can be looked at without it.
"use strict";

(() => {
  const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  const fullFormat = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  });
  const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const isToday = (time) => time.toDateString() === new Date().toDateString();

  // Times are UTC in the page, and are shown in the reader's zone.
  const showTimes = (root) => {
    for (const element of root.querySelectorAll("time[datetime]:not([data-shown])")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      element.title = `${fullFormat.format(time)} (${time.toISOString().slice(0, 19).replace("T", " ")} UTC)`;
      const format = "short" in element.dataset && isToday(time) ? clockFormat : timeFormat;
      element.textContent = format.format(time);
      element.dataset.shown = "";
    }
  };

  const copy = async (button) => {
    const source = document.getElementById(button.dataset.copy);
    await navigator.clipboard.writeText(source.textContent);
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 2000);
  };

  // Buttons that only a script can serve are hidden until there is one.
  const start = (root) => {
    showTimes(root);
    showTypedTimes(root);
    for (const button of root.querySelectorAll("button[data-copy][hidden], button[data-abort][hidden]")) button.hidden = false;
  };

  // Times that a person types are in the reader's zone; the page and what it sends are in UTC.
  const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const showTypedTimes = (root) => {
    for (const input of root.querySelectorAll('input[type="datetime-local"]')) {
      const time = new Date(`${input.defaultValue}Z`);
      if (input.defaultValue && !Number.isNaN(time.getTime())) {
        input.value = new Date(time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
      }
      const hint = document.getElementById(`hint-${input.name}`);
      if (hint && hint.className === "hint") hint.textContent = `Time zone: ${zone}`;
    }
  };
  document.addEventListener("formdata", (event) => {
    for (const input of event.target.querySelectorAll('input[type="datetime-local"]')) {
      if (input.value) event.formData.set(input.name, `${new Date(input.value).toISOString().slice(0, 19)}Z`);
    }
  });

  // The live view: it says when its connection is lost, and keeps the newest rows only.
  const showLost = (lost) => {
    for (const notice of document.querySelectorAll("[data-live-lost]")) notice.hidden = !lost;
  };
  document.addEventListener("htmx:sseError", () => showLost(true));
  document.addEventListener("htmx:sseOpen", () => showLost(false));
  document.addEventListener("htmx:sseMessage", ({ target }) => {
    const most = Number(target.dataset.mostRows);
    while (most && target.rows.length > most) target.deleteRow(-1);
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button).catch(() => { button.textContent = "Copy failed: select the text"; });
    const abort = event.target.closest("button[data-abort]");
    if (abort) htmx.trigger(abort.form, "htmx:abort");
  });
  // What became of a request is told where results are, else beside what made it: the page stays.
  const tell = (element, content, kind = "bad") => {
    document.getElementById("told")?.remove();
    const notice = document.createElement("div");
    notice.id = "told";
    notice.className = `notice ${kind}`;
    notice.setAttribute("role", "alert");
    notice.append(...content);
    for (const shown of element.querySelectorAll("[data-upload]")) shown.hidden = true;
    const result = document.querySelector("#result[aria-live]");
    if (result) result.replaceChildren(notice);
    else if (element.matches("form")) element.append(notice);
    else element.before(notice);
  };
  const tellNoAnswer = (element, reason) => tell(element, [element.matches("[data-refresh]")
    ? `${reason} The page shows older data and retries automatically.`
    : `${reason} Try again.`]);
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { xhr, requestConfig: { elt } } = detail;
    const answer = new DOMParser().parseFromString(xhr.responseText, "text/html");
    const parts = ["hx-select", "hx-select-oob"].map((name) => elt.getAttribute(name)).filter(Boolean);
    const refusal = answer.querySelector("[data-refusal]");
    detail.shouldSwap = !refusal && answer.querySelector(parts.join(", ")) !== null;
    if (detail.shouldSwap) document.getElementById("told")?.remove();
    else if (refusal) tell(elt, refusal.children);
    else tellNoAnswer(elt, `Unexpected response from the gateway (status ${xhr.status}).`);
  });
  document.addEventListener("htmx:sendError", ({ detail }) => tellNoAnswer(detail.elt, "The gateway could not be reached."));
  document.addEventListener("htmx:sendAbort", ({ detail }) =>
    tell(detail.elt, ["Call cancelled. Changes that the server has already made are not undone."], "warn"));
  // How much of a file is sent, and that it is read after that.
  document.addEventListener("htmx:xhr:progress", (event) => {
    const shown = event.target.querySelector?.("[data-upload]");
    const { loaded, total } = event.detail;
    if (!shown || !total) return;
    const bar = shown.querySelector("progress");
    shown.hidden = false;
    if (loaded < total) bar.value = (100 * loaded) / total;
    else bar.removeAttribute("value");
    shown.querySelector("[data-upload-text]").textContent = loaded < total
      ? `Uploading: ${Math.round((100 * loaded) / total)}%` : "Upload complete. Processing the file";
  });
  // Each look is recorded as one, so a page that nobody sees does not look again; and what somebody
  // is at would lose the focus or the selection.
  const REFRESH_MS = 30_000;
  const isInUse = (element) => {
    const selection = getSelection();
    return element.contains(document.activeElement) || (!selection.isCollapsed && selection.containsNode(element, true));
  };
  setInterval(() => {
    if (document.visibilityState !== "visible") return;
    for (const element of document.querySelectorAll("[data-refresh]")) {
      if (!isInUse(element)) element.dispatchEvent(new CustomEvent("console:refresh"));
    }
  }, REFRESH_MS);

  // Where there is little space, what can be folded is folded; without a script it stays open.
  const narrow = matchMedia("(max-width: 54rem)");
  const fold = () => {
    for (const details of document.querySelectorAll("details[data-fold]")) details.open = !narrow.matches;
  };
  narrow.addEventListener("change", fold);
  fold();

  document.addEventListener("htmx:load", (event) => start(event.detail.elt));
  start(document);
})();
