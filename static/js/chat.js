// The conversation: questions as plain text, answers built from safe nodes, what one can do with them.
// Data: webapp/view.py. `act(action, data)` tells the server; it is absent on a shared, read-only page.
"use strict";

function mountChat(element, read, act) {
  const root = el("div", "t-chat");
  const start = el("div", "t-start");
  const note = el("div", "t-banner");
  note.setAttribute("role", "status");
  const list = el("div", "t-questions");
  root.append(note, start, list);
  element.replaceChildren(root);
  const scroller = () => element.closest("#chat") || root;
  let followEnd = true;
  let shown = "";
  let counted = 0;

  function draw() {
    const value = read();
    if (!newerThan(element, value)) return;
    const box = scroller();
    if (!box._watched) {
      box._watched = true;
      // Text that grows also scrolls; only a visitor scrolls up.
      let last = 0;
      box.addEventListener("scroll", () => {
        const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 60;
        if (atEnd || box.scrollTop < last - 1) followEnd = atEnd;
        last = box.scrollTop;
      }, { passive: true });
    }
    const fresh = value.conversation !== shown || value.questions.length !== counted;
    if (fresh) followEnd = true;
    shown = value.conversation;
    counted = value.questions.length;
    drawBanner(note, value);
    drawStart(start, value, act);
    keyed(list, value.questions, (q) => q.key, () => newQuestion(), (node, q) => drawQuestion(node, q, value, act));
    if (followEnd && value.questions.length) box.scrollTop = box.scrollHeight;
    // On phones the page scrolls as a whole, with the timeline below: bring the newest question to the top once.
    if (fresh && act && box.scrollHeight <= box.clientHeight + 1) list.lastElementChild?.scrollIntoView({ block: "start" });
    if (act) rememberPlace(value);
    heard = performance.now();
    waiting = Boolean(act) && value.questions.some((q) => q.running);
  }

  let heard = performance.now();
  let waiting = false;
  draw();
  if (act) {
    restoreTyped();
    setInterval(() => waiting && performance.now() - heard > SILENCE_MS && reconnect(note, read().lang), 2000);
  }
  return draw;
}

// While a question runs the server speaks at least every 5 s. Longer silence: the stream broke (the server went, the
// phone slept). The run itself goes on, so the page waits until the server answers and then opens itself anew.
const SILENCE_MS = 12000;

async function reconnect(note, lang) {
  if (note._reconnecting) return;
  note._reconnecting = true;
  drawBanner(note, { banner: { tone: "info", text: say(lang, "reconnecting") } });
  for (;;) {
    try {
      if ((await fetch("healthz", { cache: "no-store" })).ok) break;
    } catch {
      // still away
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
  keepTyped();
  location.reload();
}

// What stands in the composer survives a reload that the visitor did not ask for.
function keepTyped() {
  try {
    sessionStorage.setItem("trinity.typed", document.querySelector("#composer textarea")?.value || "");
  } catch {
    // without storage the text is lost, as with any reload
  }
}

function restoreTyped() {
  try {
    const text = sessionStorage.getItem("trinity.typed");
    sessionStorage.removeItem("trinity.typed");
    if (text) setTimeout(() => fillComposer(text), 1500);
  } catch {
    // nothing was kept
  }
}

// Keep the conversation in the address, so that a reload or a copied address opens it again.
function rememberPlace(value) {
  const url = new URL(location.href);
  const wanted = value.conversation || null;
  if (url.searchParams.get("c") === wanted || value.keep_address) return;
  if (wanted) url.searchParams.set("c", wanted);
  else url.searchParams.delete("c");
  history.replaceState(null, "", url);
}

function drawBanner(box, value) {
  box.hidden = !value.banner;
  if (!value.banner) return;
  box.dataset.tone = value.banner.tone;
  if (box._text === value.banner.text) return;
  box._text = value.banner.text;
  box.replaceChildren(icon(value.banner.tone === "bad" ? "warn" : "info"), el("span", "", value.banner.text));
}

function drawStart(box, value, act) {
  box.hidden = value.questions.length > 0 || !act;
  if (box.hidden) return;
  const wanted = JSON.stringify([value.lang, value.examples, value.pool_note]);
  if (box._drawn === wanted) return;
  box._drawn = wanted;
  const lang = value.lang;
  const examples = el("div", "t-examples");
  for (const text of value.examples) {
    const node = el("button", "t-example", text);
    node.type = "button";
    node.addEventListener("click", () => fillComposer(text));
    examples.appendChild(node);
  }
  const mark = el("div", "t-mark");
  for (const role of ["thinker", "worker", "verifier"]) mark.appendChild(el("span", "t-dot t-dot-" + role));
  const parts = [mark, el("h2", "", say(lang, "start_title")), el("p", "t-lead", say(lang, "start_text")), examples];
  if (value.pool_note) {
    const small = el("p", "t-pool-note");
    small.append(icon("info"), el("span", "", value.pool_note));
    parts.push(small);
  }
  box.replaceChildren(...parts);
}

function fillComposer(text) {
  const area = document.querySelector("#composer textarea");
  if (!area) return;
  area.value = text;
  area.dispatchEvent(new Event("input", { bubbles: true }));
  area.focus();
}

function newQuestion() {
  const node = el("article", "t-question");
  const asked = el("div", "t-asked");
  const reply = el("div", "t-reply");
  const state = el("div", "t-state");
  const answer = el("div", "t-answer");
  const ending = el("div", "t-ending");
  const actions = el("div", "t-actions");
  reply.append(state, answer, ending, actions);
  node.append(asked, reply);
  node._parts = { asked, state, answer, ending, actions };
  return node;
}

function drawQuestion(node, q, value, act) {
  const p = node._parts;
  const lang = value.lang;
  setText(p.asked, q.text);
  if (q.text.length > 500) p.asked.tabIndex = 0; // it may scroll, so the keyboard must reach it
  drawState(p.state, q, lang);
  drawAnswer(p.answer, q, lang);
  drawEnding(p.ending, q, lang);
  drawActions(p.actions, q, value, act);
  node.dataset.tone = q.tone;
  node.setAttribute("aria-busy", String(q.running));
}

// While it runs: what is going on, and that the text below is a draft.
function drawState(box, q, lang) {
  box.hidden = !q.running;
  if (box.hidden) return;
  if (!box.firstChild) box.append(el("span", "t-spinner"), el("span", "t-state-text"), el("span", "t-draft-chip"));
  setText(box.children[1], q.step);
  setText(box.children[2], say(lang, "draft"));
  box.children[2].hidden = !q.draft;
}

function drawAnswer(box, q, lang) {
  box.hidden = q.answer.length === 0;
  setClass(box, "t-is-draft", q.draft);
  const drawn = lang + q.plain;
  if (box._drawn === drawn) return;
  box._drawn = drawn;
  box.replaceChildren();
  fillProse(box, q.answer, lang);
}

function drawEnding(box, q, lang) {
  box.hidden = q.running;
  if (q.running) return;
  const wanted = JSON.stringify([lang, q.headline, q.detail, q.summary, q.unsaved]);
  if (box._drawn === wanted) return;
  box._drawn = wanted;
  const signs = { ok: "check", warn: "warn", bad: "warn", stopped: "stop" };
  const chip = el("span", "t-ending-chip t-tone-" + q.tone);
  chip.append(icon(signs[q.tone] || "info"), el("span", "", q.headline));
  const line = el("p", "t-ending-line");
  line.append(chip, el("span", "t-summary", summaryLine(q.summary, lang, 0)));
  const parts = [line];
  if (q.detail) parts.push(el("p", "t-detail", q.detail));
  if (q.unsaved) parts.push(el("p", "t-detail t-unsaved", q.unsaved));
  box.replaceChildren(...parts);
}

function drawActions(box, q, value, act) {
  box.hidden = q.running;
  const wanted = [value.lang, q.plain !== "", q.running, Boolean(act), q.id, q.saved, q.thumb, q.thumb_reason].join("|");
  if (box._drawn === wanted) return;
  box._drawn = wanted;
  const lang = value.lang;
  const parts = [];
  if (q.plain) parts.push(copyButton("t-quiet", say(lang, "copy_answer"), () => q.plain, lang));
  if (act) {
    parts.push(button("t-quiet", "steps", say(lang, "show_turns"), () => act("trace", { id: q.id })));
    parts.push(button("t-quiet", "retry", say(lang, "retry"), () => act("retry", { id: q.id })));
    parts.push(button("t-quiet", "download", "Markdown", () => act("export", { id: q.id, format: "md" })));
    parts.push(button("t-quiet", "download", "JSON", () => act("export", { id: q.id, format: "json" })));
  }
  if (act && q.plain && q.saved) parts.push(...thumbs(q, lang, act));
  box.replaceChildren(...parts);
}

// A thumb on the answer, and why. A second click on the same thumb takes it away.
function thumbs(q, lang, act) {
  const parts = ["up", "down"].map((way) => {
    const on = q.thumb === way;
    const node = button("t-mini t-thumb", way, say(lang, "thumb_" + way), () => act("thumb", { id: q.id, value: on ? "" : way }));
    node.setAttribute("aria-pressed", String(on));
    return node;
  });
  if (q.thumb) {
    const field = el("input", "t-why");
    field.value = q.thumb_reason;
    field.maxLength = 500;
    field.placeholder = say(lang, "thumb_why");
    field.setAttribute("aria-label", say(lang, "thumb_why"));
    field.addEventListener("change", () => act("thumb", { id: q.id, value: q.thumb, reason: field.value }));
    parts.push(field);
  }
  return parts;
}

// The inline message at the composer: why a question was not begun, or a link that was asked for.
function mountNotice(element, read) {
  const box = el("div", "t-notice");
  box.setAttribute("role", "alert");
  element.replaceChildren(box);
  function draw() {
    const value = read();
    if (!newerThan(element, value)) return;
    box.hidden = !value.text;
    box.dataset.tone = value.tone || "info";
    const parts = value.text ? [icon(value.tone === "bad" ? "warn" : "info"), el("span", "", value.text)] : [];
    if (value.link) parts.push(...shareLink(value));
    box.replaceChildren(...parts);
  }
  draw();
  return draw;
}

function shareLink(value) {
  const address = new URL(value.link, location.href).href;
  const field = el("input", "t-share-link");
  field.readOnly = true;
  field.value = address;
  field.setAttribute("aria-label", say(value.lang, "share_link"));
  field.addEventListener("focus", () => field.select());
  return [field, copyButton("t-quiet", say(value.lang, "copy_link"), () => address, value.lang)];
}

// A file made on the server and handed over once.
function mountDownload(element, read) {
  return function save() {
    const file = read();
    if (!file || !file.name || element._done === file.seq) return;
    element._done = file.seq;
    const link = el("a");
    link.href = URL.createObjectURL(new Blob([file.text], { type: file.mime }));
    link.download = file.name;
    document.body.appendChild(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 5000);
  };
}
