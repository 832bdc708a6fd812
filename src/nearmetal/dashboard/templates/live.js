"use strict";
/* Puts in place what the server pushes, and counts seconds in between. Without it the page loads itself anew. */
(() => {
  const foot = document.getElementById("link");
  const source = new EventSource(`${location.pathname.replace(/\/$/, "")}/events?seen=${document.body.dataset.version}`);

  const put = (id, html) => {
    const place = document.getElementById(id);
    if (!place) return;
    const open = [...place.querySelectorAll("details")].map((one) => one.open);
    place.innerHTML = html;
    place.querySelectorAll("details").forEach((one, index) => { if (index in open) one.open = open[index]; });
  };

  const received = () => {
    const now = performance.now();
    document.querySelectorAll("[data-seconds]").forEach((one) => { one.dataset.from ??= now - 1000 * one.dataset.seconds; });
    count();
  };

  const shown = (seconds) => seconds < 60 ? `${seconds} s` : seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${seconds % 60} s` : `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;

  const count = () => document.querySelectorAll("[data-from]").forEach((one) => {
    one.textContent = `for ${shown(Math.floor((performance.now() - one.dataset.from) / 1000))}`;
  });

  const told = () => {
    foot.textContent = document.querySelector("#state .state.ended")
      ? "This run has ended." : "Follows what goes on.";
  };

  source.onopen = () => { told(); document.body.classList.remove("lost"); };
  source.onmessage = (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) put(id, html);
    told();
    const titled = document.querySelector("[data-title]");
    if (titled) document.title = titled.dataset.title;
    received();
  };
  source.onerror = () => {
    document.body.classList.add("lost");
    foot.textContent = source.readyState === EventSource.CLOSED
      ? "The dashboard has ended or was started anew: what you see does not change any more."
      : "The dashboard does not answer: what you see may be old. Trying again.";
  };

  /* A square's words, for those who cannot hover over it. */
  const say = (event) => {
    const square = event.target.closest?.(".strip li[title]"), said = document.getElementById("said");
    if (square && said) said.textContent = `${square.closest(".row").querySelector(".name").textContent}, ${square.title}`;
  };
  document.addEventListener("click", say);
  document.addEventListener("pointerover", say);
  setInterval(count, 1000);
  received();
})();
