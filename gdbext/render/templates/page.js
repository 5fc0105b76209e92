"use strict";
(function () {
  const find = document.getElementById("find");
  if (!find) return;
  const query = document.getElementById("query");
  const found = document.getElementById("found");
  const threads = Array.from(document.querySelectorAll("details.thread"));
  const targets = Array.from(document.querySelectorAll(".target"));
  const filters = Array.from(find.querySelectorAll("button[data-filter]"));
  const total = threads.reduce((sum, each) => sum + Number(each.dataset.count), 0);
  // the text of an entry, and of each thread of a group; built on first use
  const texts = new Map();
  let pending = false;

  function textOf(entry) {
    let text = texts.get(entry);
    if (!text) {
      const chips = Array.from(entry.querySelectorAll(".chips > li"));
      let own = "";
      for (const part of entry.children) {
        if (!chips.length || !part.matches(".facts")) own += " " + part.textContent;
        else for (const item of part.children) if (!item.querySelector(".chips")) own += " " + item.textContent;
      }
      text = { own: own.toLowerCase(), chips: chips.map((chip) => [chip, chip.textContent.toLowerCase()]) };
      texts.set(entry, text);
    }
    return text;
  }

  // the number of matching threads of an entry; hides the others
  function match(entry, words, states) {
    if (states.size && !states.has(entry.dataset.state)) return 0;
    if (!words.length) {
      if (texts.has(entry)) for (const [chip] of texts.get(entry).chips) chip.hidden = false;
      return Number(entry.dataset.count);
    }
    const text = textOf(entry);
    const missing = words.filter((word) => !text.own.includes(word));
    if (!text.chips.length) return missing.length ? 0 : 1;
    let count = 0;
    for (const [chip, own] of text.chips) {
      chip.hidden = !missing.every((word) => own.includes(word));
      if (!chip.hidden) count += 1;
    }
    return count;
  }

  function filter() {
    pending = false;
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = new Set(filters.filter((each) => each.getAttribute("aria-pressed") === "true")
      .map((each) => each.dataset.filter));
    const active = words.length > 0 || states.size > 0;
    let shown = 0;
    const perTarget = new Map();
    for (const entry of threads) {
      const count = match(entry, words, states);
      entry.hidden = count === 0;
      shown += count;
      const target = entry.closest(".target");
      perTarget.set(target, (perTarget.get(target) || 0) + count);
    }
    for (const target of targets) {
      const without = active && targets.length > 1 && !perTarget.get(target);
      target.hidden = without;
      for (const row of document.querySelectorAll('tr[data-target="' + target.dataset.target + '"]')) row.hidden = without;
    }
    const where = targets.length > 1 ? " in " + targets.filter((target) => !target.hidden).length + " of " + targets.length : "";
    found.textContent = active ? shown + " of " + total + " threads" + where : "";
  }

  function later() {
    if (!pending) {
      pending = true;
      requestAnimationFrame(filter);
    }
  }

  function clear() {
    query.value = "";
    for (const each of filters) each.setAttribute("aria-pressed", "false");
    filter();
  }

  // open the destination of a link, and show it even if it does not match
  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    if (target.closest("[hidden]")) clear();
    for (let each = target; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    target.scrollIntoView({ block: "nearest" });
    const focused = target.tagName === "DETAILS" ? target.querySelector("summary") : target;
    focused.focus();
  }

  query.addEventListener("input", later);
  for (const each of filters) {
    each.addEventListener("click", () => {
      each.setAttribute("aria-pressed", each.getAttribute("aria-pressed") === "true" ? "false" : "true");
      filter();
    });
  }
  const set = (open) => () => {
    for (const each of threads) if (!each.hidden) each.open = open;
  };
  document.getElementById("open").addEventListener("click", set(true));
  document.getElementById("close").addEventListener("click", set(false));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && document.activeElement !== query) {
      event.preventDefault();
      query.focus();
      query.select();
    } else if (event.key === "Escape") {
      if (query.value || filters.some((each) => each.getAttribute("aria-pressed") === "true")) clear();
      else query.blur();
    }
  });
  // paper has no way to open an entry; those of many threads stay as they are
  let closed = [];
  window.addEventListener("beforeprint", () => {
    const few = threads.length <= 40 ? ", details.thread" : "";
    closed = Array.from(document.querySelectorAll("details.target, details.part" + few)).filter((each) => !each.open);
    for (const each of closed) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
    closed = [];
  });
  window.addEventListener("hashchange", reveal);
  // following the same link again fires no hashchange event
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[href]");
    const to = link && link.getAttribute("href");
    if (to && to === location.hash) reveal();
  });
  find.hidden = false;
  if (location.hash) reveal();
})();
