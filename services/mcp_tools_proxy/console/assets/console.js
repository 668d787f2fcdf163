// What pages do besides htmx; all of them can be looked at without it.
"use strict";

(() => {
  const timeFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  const clockFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
  const isToday = (time) => time.toDateString() === new Date().toDateString();

  // Times are UTC in the page, and are shown in the reader's zone.
  const showTimes = (root) => {
    for (const element of root.querySelectorAll("time[datetime]:not([data-shown])")) {
      const time = new Date(element.dateTime);
      if (Number.isNaN(time.getTime())) continue;
      element.title = element.textContent.trim();
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
      if (hint && hint.className === "hint") hint.textContent = `In your zone, ${zone}`;
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
    if (button) copy(button).catch(() => { button.textContent = "Select and copy the text"; });
    const abort = event.target.closest("button[data-abort]");
    if (abort) htmx.trigger(abort.form, "htmx:abort");
  });
  // A refusal is shown where results are: the form keeps what was typed.
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const result = document.getElementById("result");
    if (detail.xhr.status < 400 || !result) return;
    Object.assign(detail, { target: result, selectOverride: "#result", swapOverride: "outerHTML" });
  });
  const tell = (text) => {
    const result = document.getElementById("result") ?? document.querySelector("[data-upload-text]");
    if (result) result.textContent = text;
  };
  document.addEventListener("htmx:sendError", () => tell("The gateway could not be reached. Try it again."));
  document.addEventListener("htmx:sendAbort", () => tell("You stopped waiting, which cancels the call. What its server has done by then is done."));
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
      ? `Sending the file: ${Math.round((100 * loaded) / total)} %` : "The file is here, and is being read";
  });
  // Each look is recorded as one, so a page that nobody sees does not look again.
  const REFRESH_MS = 30_000;
  setInterval(() => {
    if (document.visibilityState !== "visible") return;
    for (const element of document.querySelectorAll("[data-refresh]")) {
      element.dispatchEvent(new CustomEvent("console:refresh"));
    }
  }, REFRESH_MS);

  document.addEventListener("htmx:load", (event) => start(event.detail.elt));
  start(document);
})();
