"use strict";
/* Charts that answer: the drawn marks say what they show, mark their like in other charts, and can be filtered. */
(() => {
  const NEAR = 16;  // pixels from the pointer within which a mark is meant: dots are small
  const panel = document.getElementById("filter"), tip = document.getElementById("tip");
  const { treatments, names } = panel ? JSON.parse(panel.dataset.told) : { treatments: [], names: {} };
  const about = new Map(Object.entries(names));

  /* Each mark begins with a treatment's name, and may have a block: "docker · block 3 · 29,100/s". One that begins with
     something else, as a request does, only says what it shows. */
  const marks = new Map();
  for (const element of document.querySelectorAll(".picture [aria-label]")) {
    const parts = element.getAttribute("aria-label").split(" · "), who = about.get(parts[0]);
    if (!who) {
      if (parts.length > 1) {
        marks.set(element, { who: [], block: 0, said: parts });
        element.classList.add("said");
      }
      continue;
    }
    const block = Number(parts.map((part) => /^block (\d+)$/.exec(part)?.[1]).find(Boolean) ?? 0);
    marks.set(element, { who, block, said: parts });
    element.classList.add("mark");
  }

  // ── Filter ──
  const levels = [...document.querySelectorAll("#filter [data-factor]")];
  const [first, last] = document.querySelectorAll("#filter [type=number]");

  const filterMarks = () => {
    const out = new Set(levels.filter((one) => !one.checked).map((one) => `${one.dataset.factor}/${one.dataset.level}`));
    const kept = treatments.map((places) => !places.some((level, factor) => out.has(`${factor}/${level}`)));
    const from = Number(first?.value || 1), to = Number(last?.value || Infinity);
    for (const [element, { who, block }] of marks) {
      const isIn = !who.length || who.some((one) => kept[one]) && (!block || (from <= block && block <= to));
      element.classList.toggle("out", !isIn);
    }
    panel?.classList.toggle("active", out.size > 0 || from > 1 || to < Number(last?.max ?? Infinity));
  };
  panel?.addEventListener("input", filterMarks);
  panel?.querySelector(".all").addEventListener("click", () => {
    levels.forEach((one) => { one.checked = true; });
    if (first) [first.value, last.value] = [first.min, last.max];
    filterMarks();
  });

  // ── The same treatment and block in all charts ──
  const line = panel?.querySelector(".marked");
  let pointed = null, pinned = null;

  const show = () => {
    const chosen = pinned ?? pointed;
    if (!line) return;
    document.body.classList.toggle("pointing", Boolean(chosen));
    for (const [element, { who, block }] of marks) {
      const isHere = Boolean(chosen?.block && chosen.block === block);
      element.classList.toggle("here", isHere);
      element.classList.toggle("lit", isHere || Boolean(chosen?.who.some((one) => who.includes(one))));
    }
    line.hidden = !pinned;
    if (pinned) line.firstElementChild.textContent = `Marked: ${name(pinned)}`;
  };
  const name = ({ said, block }) => block ? `${said[0]}, block ${block}` : said[0];
  const pin = (mark) => { pinned = mark; show(); };
  line?.querySelector("button").addEventListener("click", () => pin(null));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { tip.hidden = true; pin(null); } });

  /* The mark that is meant: what is under the pointer, or else the nearest dot. */
  const find = (event) => {
    const picture = event.target.closest?.(".picture");
    if (!picture) return null;
    const own = marks.get(event.target);
    if (own && event.target.getAttribute("aria-roledescription") === "point") return own;
    let nearest = NEAR, found = own ?? null;
    for (const dot of picture.querySelectorAll(':is(.mark,.said)[aria-roledescription="point"]:not(.out)')) {
      const box = dot.getBoundingClientRect();
      const away = Math.hypot(event.clientX - (box.left + box.right) / 2, event.clientY - (box.top + box.bottom) / 2);
      if (away < nearest) [nearest, found] = [away, marks.get(dot)];
    }
    return found;
  };

  const say = (mark, event) => {
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.said.join("\n");
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
    tip.style.top = `${event.clientY + 18 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 18}px`;
  };

  document.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const mark = find(event);
    say(mark, event);
    const shared = mark?.who.length ? mark : null;
    if (shared === pointed) return;
    pointed = shared;
    if (!pinned) show();
  });
  document.addEventListener("click", (event) => {
    if (panel?.contains(event.target)) return;
    const mark = find(event);
    say(mark, event);
    if (mark && !mark.who.length) return;
    if (mark || event.target.closest?.(".picture")) pin(mark === pinned ? null : mark);
  });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  if (panel) {
    panel.hidden = false;
    filterMarks();
  }
})();
