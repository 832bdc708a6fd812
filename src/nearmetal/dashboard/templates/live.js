"use strict";
/* Puts in place what the server pushes, and counts seconds in between. Without it the page loads itself anew. */
(() => {
  document.body.classList.add("scripted");
  const foot = document.getElementById("link"), away = document.getElementById("away");
  let source, seen = document.body.dataset.version;

  const put = (id, html) => {
    const place = document.getElementById(id);
    if (!place) return;
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    place.innerHTML = html;
    place.querySelectorAll("details").forEach((one, index) => { if (index in open) one.open = open[index]; });
  };

  const received = () => {
    const now = performance.now();
    document.querySelectorAll(".rows").forEach((one) => { one.tabIndex = 0; });
    document.querySelectorAll("[data-seconds]").forEach((one) => { one.dataset.from ??= now - 1000 * one.dataset.seconds; });
    count();
  };

  const shown = (seconds) => seconds < 60 ? `${seconds} s` : seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;

  const isLost = () => document.body.classList.contains("lost");

  const count = () => isLost() || document.querySelectorAll("[data-from]").forEach((one) => {
    one.textContent = `for ${shown(Math.floor((performance.now() - one.dataset.from) / 1000))}`;
  });

  const told = () => {
    foot.textContent = document.querySelector("#state .state.ended")
      ? "This run has ended." : "This page updates itself.";
  };

  /* Where nothing is heard any more the whole page says so at once, wherever one has scrolled to, and in its tab. */
  let title = document.title;
  const lost = (why) => {
    if (!isLost()) {
      title = document.title;
      document.title = `No answer: ${title}`;
      away.dataset.since = new Date(at).toLocaleTimeString();
      document.body.classList.add("lost");
    }
    const text = `The dashboard does not answer any more: this page is as it was at ${away.dataset.since}. ${why}`;
    if (away.textContent !== text) away.textContent = foot.textContent = text;
  };
  const found = () => {
    if (isLost()) document.title = title;
    document.body.classList.remove("lost");
    away.textContent = "";
    told();
    count();
  };

  /* A connection may die without an end: a tunnel breaks, a laptop sleeps. So the server says something now and then,
     and after a silence another connection is tried. A page that slept itself counts its own looks too: what has come
     meanwhile is only heard after the first of them. */
  const SILENCE = 15, LOOKS = 3;
  let heard, at, looks;
  const hear = () => { heard = performance.now(); at = Date.now(); looks = 0; };

  const follow = () => {
    source?.close();
    hear();
    source = new EventSource(`${location.pathname.replace(/\/$/, "")}/events?seen=${seen}`);
    source.onopen = () => { hear(); found(); };
    source.addEventListener("beat", () => { hear(); if (isLost()) found(); });
    source.onmessage = (event) => {
      hear();
      seen = event.lastEventId;
      for (const [id, html] of Object.entries(JSON.parse(event.data))) put(id, html);
      told();
      received();
      mark(document.querySelector(".rows:focus-visible"));
    };
    source.onerror = () => {
      lost(source.readyState === EventSource.CLOSED
        ? "It was started anew, or knows this run no more: open the address that it printed."
        : "It is asked again every 2 s.");
      hear();
    };
  };

  const listen = () => {
    looks += 1;
    if (source.readyState === EventSource.CLOSED || looks < LOOKS || performance.now() - heard < 1000 * SILENCE) return;
    lost(`Nothing was heard of it for ${SILENCE} s: it is asked again.`);
    follow();
  };

  /* What the page asks of a run. The answer is seen when the run's own note of it is pushed. */
  const ask = async (button) => {
    const what = button.dataset.ask;
    const warning = "Stop the run? What was made or changed is put right, and `nearmetal resume` goes on.";
    if (what === "stop" && !confirm(warning)) return;
    const say = (text) => { const place = document.getElementById("asked"); if (place) place.textContent = text; };
    try {
      const answer = await fetch(`${location.pathname.replace(/\/$/, "")}/ask/${what}`, { method: "POST" });
      say(answer.ok ? "" : await answer.text());
    } catch { say("The dashboard does not answer."); }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-ask]");
    if (button) ask(button);
  });

  /* A square's words, for those who cannot hover over it. */
  const say = (square) => {
    const said = document.getElementById("said");
    const text = `${square.closest(".row").querySelector(".name").textContent}, ${square.title}`;
    if (said.textContent !== text) said.textContent = text;
  };
  const pointed = (event) => {
    const square = event.target.closest?.(".strip li[title]");
    if (square) say(square);
  };
  document.addEventListener("click", pointed);
  document.addEventListener("pointerover", pointed);

  /* By the keyboard a grid is one stop, and the arrows go from square to square. Squares are pushed anew while somebody
     stands on one, so that the grid knows where that is. */
  const between = (value, most) => Math.max(0, Math.min(value, most));
  const mark = (rows, down = 0, right = 0) => {
    document.querySelector(".strip li.at")?.classList.remove("at");
    if (!rows) return;
    const strips = rows.querySelectorAll(".strip:not(.heads)");
    const row = between(Number(rows.dataset.row ?? 0) + down, strips.length - 1);
    const squares = strips[row].querySelectorAll("li[title]");
    const place = between(Number(rows.dataset.place ?? 0) + right, squares.length - 1);
    Object.assign(rows.dataset, { row, place });
    squares[place].classList.add("at");
    say(squares[place]);
  };
  const inSight = () => document.querySelector(".strip li.at").scrollIntoView({ block: "nearest" });
  const ways = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    Home: [0, -Infinity], End: [0, Infinity] };
  document.addEventListener("keydown", (event) => {
    const way = ways[event.key];
    if (!way || !event.target.matches(".rows") || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    mark(event.target, ...way);
    inSight();
  });
  document.addEventListener("focusin", (event) => {
    if (!event.target.matches(".rows:focus-visible")) return;
    mark(event.target);
    inSight();
  });
  document.addEventListener("focusout", () => mark(null));

  follow();
  setInterval(() => { count(); listen(); }, 1000);
  received();
})();
