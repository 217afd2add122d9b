"use strict";
// The player's state is a function of the number of the step, so stepping back is as easy as stepping forth.

function stateAt(data, number) {
  // What is to be seen after the steps 0..number.
  const state = { number, recorded: new Set(), released: new Set(), arrows: new Set(), bytes: 0, grads: [], phase: "start" };
  for (let i = 0; i <= number; i++) {
    const step = data.steps[i];
    state.phase = step.phase;
    if (step.phase === "record") {
      state.recorded.add(step.entry);
      state.bytes += step.bytes;
      for (const line of step.lines) state.arrows.add(line);
    } else if (step.phase === "replay") {
      if (step.freed.length) state.released.add(step.entry);
      state.bytes -= step.bytes;
      for (const one of step.delivered) state.grads.push(one);
    }
  }
  state.step = data.steps[number];
  return state;
}

function clamp(data, number) {
  return Math.max(0, Math.min(data.steps.length - 1, number));
}

function escapeText(text) {
  return String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
}

function short(x) {
  return Number(x.toPrecision(3)).toString();
}

function arrayHtml(item) {
  let inner = "";
  if (item.numbers !== undefined) inner = `<pre>${escapeText(item.numbers)}</pre>`;
  else if (item.bytes !== undefined) {
    const counts = item.histogram || [];
    const most = Math.max(1, ...counts);
    const bars = counts.map((n, i) => `<rect x="${i * 8}" y="${40 - (38 * n) / most}" width="7" height="${(38 * n) / most}"/>`).join("");
    const odd = (item.nan ? `, ${item.nan} NaN` : "") + (item.inf ? `, ${item.inf} inf` : "");
    inner = `<svg class="bars" width="${counts.length * 8}" height="40">${bars}</svg>`;
    if (counts.length) inner += `<div class="soft">${short(item.low)} to ${short(item.high)}, mean ${short(item.mean)}, norm ${short(item.norm)}${odd}</div>`;
    else inner += `<div class="soft">no finite value${odd}</div>`;
  }
  if (item.note) inner = ` <i>${escapeText(item.note)}</i>` + inner;
  return `<div class="array"><b>${escapeText(item.name)}</b> <span class="soft">${escapeText(item.kind)}</span>${inner}</div>`;
}

function section(title, items) {
  return items && items.length ? `<h3>${title}</h3>${items.map(arrayHtml).join("")}` : "";
}

function panelHtml(state) {
  const step = state.step;
  let text = `<h2>${escapeText(step.title)}</h2>`;
  if (step.where) text += `<div class="where">${escapeText(step.where)}${step.module ? ` &middot; module ${escapeText(step.module)}` : ""}</div>`;
  if (step.text) text += `<p>${escapeText(step.text)}</p>`;
  if (step.phase === "record") {
    text += `<h3>inputs</h3><div>${step.inputs.map(escapeText).join(", ")}</div>`;
    text += section("gives", step.outputs);
    text += step.saved.length ? section("saves for the replay", step.saved) : "<h3>saves nothing</h3>";
    if (step.rule) text += `<h3>rule</h3><pre class="rule">${escapeText(step.rule)}</pre>`;
  }
  if (step.phase === "replay") {
    text += step.arriving.length ? section("arrives", step.arriving) : "<h3>nothing arrives: not on the way to the result</h3>";
    if (step.rule) text += `<h3>rule</h3><pre class="rule">${escapeText(step.rule)}</pre>`;
    text += section("leaves", step.leaving);
    text += `<h3>${step.freed.length ? "releases " + step.freed.map(escapeText).join(", ") : "has nothing to release"}</h3>`;
    text += section("complete", step.delivered);
    if (step.hooks) text += `<p class="soft">${step.hooks} hook(s) of this entry are not run by the player.</p>`;
  }
  if (state.grads.length && step.phase === "end") text += section("gradients", state.grads);
  return text;
}

function start(data, page) {
  // Bind the state to the page: buttons, slider, keys.
  let number = 0;
  let timer = null;
  const at = (id) => page.getElementById(id);
  const boxOf = data.entries;
  const slider = at("slider");
  slider.max = data.steps.length - 1;
  const groups = {}; // entries by box: a folded box has several
  for (const [entry, box] of Object.entries(boxOf)) (groups[box] = groups[box] || []).push(Number(entry));

  function show(next) {
    number = clamp(data, next);
    const state = stateAt(data, number);
    slider.value = number;
    at("count").textContent = `step ${number} of ${data.steps.length - 1}`;
    at("bytes").textContent = `${state.bytes.toLocaleString("en")} bytes saved now`;
    at("phase").textContent = { start: "start", record: "recording", seed: "replay", replay: "replay", end: "end" }[state.phase];
    at("panel").innerHTML = panelHtml(state);
    const there = {};
    for (const [box, entries] of Object.entries(groups)) {
      const node = at("b" + box);
      there[box] = entries.some((e) => state.recorded.has(e));
      node.classList.toggle("future", !there[box]);
      node.classList.toggle("truncated", entries.some((e) => state.released.has(e)));
      node.classList.toggle("now", state.step.box === Number(box));
    }
    for (const [box, user] of Object.entries(data.sources)) at("b" + box).classList.toggle("future", !there[user]);
    for (let i = 0; i < data.arrows; i++) {
      const on = (state.step.lines || []).includes(i);
      at("a" + i).classList.toggle("future", !state.arrows.has(i));
      at("a" + i).classList.toggle("flow", on);
      at("a" + i).classList.toggle("up", on && state.phase === "replay");
    }
    at("back").disabled = at("first").disabled = number === 0;
    at("forth").disabled = at("last").disabled = number === data.steps.length - 1;
    if (number === data.steps.length - 1) stop();
    const now = page.querySelector(".now");
    if (now && now.scrollIntoView) now.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  function stop() {
    if (timer !== null) clearInterval(timer);
    timer = null;
    at("play").textContent = "\u25b6 play";
  }
  function toggle() {
    if (timer !== null) return stop();
    if (number === data.steps.length - 1) show(0);
    timer = setInterval(() => show(number + 1), 900);
    at("play").textContent = "\u23f8 pause";
  }
  at("first").onclick = () => show(0);
  at("back").onclick = () => show(number - 1);
  at("forth").onclick = () => show(number + 1);
  at("last").onclick = () => show(data.steps.length - 1);
  at("play").onclick = toggle;
  slider.oninput = () => show(Number(slider.value));
  page.addEventListener("keydown", (event) => {
    if (event.target === slider) return;
    const keys = { ArrowRight: () => show(number + 1), ArrowLeft: () => show(number - 1), Home: () => show(0), End: () => show(data.steps.length - 1), " ": toggle };
    if (keys[event.key]) {
      keys[event.key]();
      event.preventDefault();
    }
  });
  show(0);
}

if (typeof module !== "undefined") module.exports = { stateAt, clamp, panelHtml, arrayHtml };
