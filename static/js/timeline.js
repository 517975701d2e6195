// The timeline: one card per turn, who spoke in which role, why, how long, at what price, with what verdict.
// Data: webapp/timeline.py. The tick of a running turn is counted here, between two updates of the server.
"use strict";

function mountTimeline(element, read) {
  const root = el("section", "t-timeline");
  const head = el("div", "t-timeline-head");
  const title = el("h2", "t-timeline-title");
  const total = el("p", "t-total");
  head.append(title, total);
  const empty = el("div", "t-timeline-empty");
  const list = el("ol", "t-cards");
  const status = el("div", "t-visually-hidden");
  status.setAttribute("role", "status");
  status.setAttribute("aria-live", "polite");
  root.append(head, empty, list, status);
  element.replaceChildren(root);
  let value = null;
  let arrived = 0;

  function draw() {
    const next = read();
    if (!newerThan(element, next)) return;
    value = next;
    arrived = performance.now();
    const lang = value.lang;
    setText(title, say(lang, "timeline_title"));
    list.setAttribute("aria-label", say(lang, "timeline_title"));
    drawLegend(empty, lang, value.cards.length > 0 || value.running);
    list.hidden = value.cards.length === 0;
    keyed(list, value.cards, (card) => card.key, () => newCard(), (node, card) => drawCard(node, card, lang));
    setText(total, summaryLine(value.summary, lang, 0));
    total.hidden = !value.summary;
    setText(status, value.announce);
  }

  function tick() {
    if (!value || !value.running || document.hidden) return;
    const more = (performance.now() - arrived) / 1000;
    value.cards.forEach((card, at) => {
      if (card.live) setText(list.children[at]._parts.seconds, Show.seconds(value.lang, card.seconds + more));
    });
    if (value.summary) setText(total, summaryLine(value.summary, value.lang, more));
  }

  setInterval(tick, 200);
  draw();
  return draw;
}

// "3 turns · 4.2 s · 2,310 tokens · $0.0041 · head v12"
function summaryLine(summary, lang, more) {
  if (!summary) return "";
  const parts = [
    say(lang, summary.turns === 1 ? "one_turn" : "n_turns", { n: summary.turns }),
    Show.seconds(lang, summary.seconds + more),
    ...(summary.tokens === null ? [] : [Show.tokens(lang, summary.tokens)]), // null: a stopped reply told no count
    Show.cost(lang, summary.cost),
  ];
  if (summary.checkpoint) parts.push(say(lang, "head_is", { name: summary.checkpoint }));
  return parts.join(" · ");
}

function drawLegend(box, lang, hidden) {
  box.hidden = hidden;
  if (hidden || box.dataset.lang === lang) return;
  box.dataset.lang = lang;
  const rows = el("ul", "t-legend");
  for (const role of ["thinker", "worker", "verifier"]) {
    const row = el("li");
    row.append(roleBadge(role, lang), el("span", "", say(lang, "legend_" + role)));
    rows.appendChild(row);
  }
  box.replaceChildren(el("p", "", say(lang, "timeline_empty")), rows);
}

function roleBadge(role, lang) {
  const badge = el("span", "t-role t-role-" + role);
  badge.append(icon(role), el("span", "", say(lang, "role_" + role)));
  return badge;
}

function newCard() {
  const card = el("li", "t-card");
  const fold = el("details", "t-fold");
  const top = el("summary", "t-card-top");
  const line = el("div", "t-line");
  const number = el("span", "t-number");
  const role = el("span", "t-role-place");
  const model = el("span", "t-model");
  const seconds = el("span", "t-seconds");
  line.append(number, role, model, seconds);
  const verdict = el("div", "t-verdict");
  const preview = el("div", "t-preview");
  const facts = el("div", "t-facts");
  const chance = el("div", "t-chance");
  top.append(line, verdict, preview, facts, chance);
  const body = el("div", "t-card-body");
  fold.append(top, body);
  const notes = el("ul", "t-notes");
  card.append(fold, notes);
  card._parts = { fold, number, role, model, seconds, verdict, preview, facts, chance, body, notes };
  fold.addEventListener("toggle", () => card._card && drawBody(card, card._card, card._lang));
  return card;
}

function drawCard(node, card, lang) {
  const p = node._parts;
  const changed = JSON.stringify([card, lang]);
  if (node._drawn === changed) return;
  node._drawn = changed;
  node._card = card;
  node._lang = lang;
  node.dataset.state = card.state;
  node.dataset.role = card.role || "";
  setText(p.number, card.index);
  p.number.setAttribute("aria-label", say(lang, "turn_n", { n: card.index }));
  drawRole(p.role, card, lang);
  setText(p.model, card.agent || say(lang, "choosing"));
  p.model.title = card.model || "";
  setText(p.seconds, card.seconds === null ? "" : Show.seconds(lang, card.seconds));
  drawVerdict(p.verdict, card, lang);
  setText(p.preview, card.state === "retrying" ? say(lang, "retrying") : card.preview);
  setClass(p.preview, "t-typing", card.live && card.state !== "choosing");
  p.preview.hidden = !p.preview.textContent;
  setText(p.facts, factsLine(card, lang));
  p.facts.hidden = !p.facts.textContent;
  setText(p.chance, chanceLine(card, lang));
  p.chance.hidden = !p.chance.textContent;
  drawNotes(p.notes, card, lang);
  drawBody(node, card, lang);
}

function drawRole(place, card, lang) {
  const wanted = card.role ? lang + card.role : "";
  if (place.dataset.role === wanted) return;
  place.dataset.role = wanted;
  place.replaceChildren(...(card.role ? [roleBadge(card.role, lang)] : [el("span", "t-spinner")]));
}

function drawVerdict(box, card, lang) {
  box.hidden = !card.verdict && !card.draft;
  if (box.hidden) return box.replaceChildren();
  if (card.draft) {
    box.className = "t-verdict t-draft";
    return box.replaceChildren(el("span", "", say(lang, "draft")));
  }
  const accepted = card.verdict === "ACCEPT";
  box.className = "t-verdict " + (accepted ? "t-accept" : "t-revise");
  const word = el("strong", "", say(lang, accepted ? "verdict_accept" : "verdict_revise"));
  box.replaceChildren(icon(accepted ? "check" : "again"), word);
  if (card.verdict_reason) box.appendChild(el("span", "t-reason", card.verdict_reason));
}

function factsLine(card, lang) {
  if (card.tokens === null) return "";
  const parts = [Show.tokens(lang, card.tokens.prompt + card.tokens.completion), Show.cost(lang, card.cost)];
  if (card.tries > 1) parts.push(say(lang, "n_tries", { n: card.tries }));
  return parts.join(" · ");
}

function chanceLine(card, lang) {
  if (!card.choice) return "";
  const chosen = say(lang, "chosen_with", { p: Show.percent(card.choice.p) });
  if (!card.runner_up) return chosen;
  return chosen + " · " + say(lang, "runner_up", { name: card.runner_up.name, p: Show.percent(card.runner_up.p) });
}

function drawNotes(box, card, lang) {
  box.hidden = card.notes.length === 0;
  keyed(box, card.notes.map((note, at) => ({ ...note, at })), (note) => note.at + note.kind, () => el("li"), (node, note) => {
    if (node._note === note.text) return;
    node._note = note.text;
    node.className = "t-note t-note-" + note.kind;
    node.replaceChildren(icon(note.kind === "error" ? "warn" : "info"), el("span", "", note.text));
  });
}

// The inside of a card is only built while it is open.
function drawBody(node, card, lang) {
  const { fold, body } = node._parts;
  if (!fold.open) return;
  const open = new Set([...body.querySelectorAll("details[open]")].map((d) => d.dataset.part));
  const parts = [];
  if (card.text) parts.push(section(say(lang, "said"), said(card.text)));
  if (card.agents.length) parts.push(bars(say(lang, "agent_chances"), card.agents, lang));
  if (card.roles.length) {
    parts.push(bars(say(lang, "role_chances"), card.roles.map((r) => ({ ...r, name: say(lang, "role_" + r.name) })), lang));
  }
  for (const [at, attempt] of card.failed.entries()) {
    if (attempt.text) parts.push(folded("failed" + at, say(lang, "failed_text", { agent: attempt.agent }), attempt.text, open));
  }
  if (card.reasoning) parts.push(folded("reasoning", say(lang, "reasoning"), card.reasoning, open));
  for (const [at, message] of card.prompt.entries()) {
    parts.push(folded("prompt" + at, say(lang, "prompt_" + message.role), message.content, open));
  }
  const facts = el("dl", "t-dl");
  for (const [name, text] of detailRows(card, lang)) facts.append(el("dt", "", name), el("dd", "", text));
  parts.push(facts);
  const copy = copyButton("t-quiet", say(lang, "copy_json"), () => JSON.stringify(card, null, 2), lang);
  parts.push(copy);
  const focused = body.contains(document.activeElement) && document.activeElement.closest("details")?.dataset.part;
  body.replaceChildren(...parts);
  if (focused) body.querySelector(`details[data-part="${focused}"] > summary`)?.focus();
}

function detailRows(card, lang) {
  const rows = [[say(lang, "model"), card.model || "–"]];
  if (card.tokens) {
    rows.push([say(lang, "tokens_in_out"), `${Show.number(lang, card.tokens.prompt)} / ${Show.number(lang, card.tokens.completion)}`]);
    rows.push([say(lang, "cost"), Show.cost(lang, card.cost)]);
  }
  if (card.first_token !== null) rows.push([say(lang, "first_token"), Show.seconds(lang, card.first_token)]);
  if (card.decided_in !== null) rows.push([say(lang, "decided_in"), `${Math.round(card.decided_in * 1000)} ms`]);
  if (card.read_token) rows.push([say(lang, "read_token"), card.read_token]);
  return rows;
}

function section(name, node) {
  const box = el("div", "t-section");
  box.append(el("h3", "t-section-name", name), node);
  return box;
}

// A box that scrolls must be reachable by keyboard.
function said(text) {
  const box = el("div", "t-said", text);
  box.tabIndex = 0;
  return box;
}

function folded(part, name, text, open) {
  const box = el("details", "t-part");
  box.dataset.part = part;
  box.open = open.has(part);
  box.append(el("summary", "", name), said(text));
  return box;
}

function bars(name, rows, lang) {
  const list = el("ul", "t-bars");
  for (const row of rows) {
    const item = el("li", row.chosen ? "t-bar t-bar-chosen" : "t-bar");
    const track = el("span", "t-bar-track");
    const fill = el("span", "t-bar-fill");
    fill.style.width = `${Math.max(0, Math.min(1, row.p)) * 100}%`;
    track.appendChild(fill);
    item.append(el("span", "t-bar-name", row.name), track, el("span", "t-bar-value", Show.percent(row.p)));
    if (row.masked) item.appendChild(el("span", "t-bar-why", say(lang, "left_out", { why: row.masked })));
    list.appendChild(item);
  }
  return section(name, list);
}
