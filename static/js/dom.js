// Building blocks shared by every part of the page. Text reaches the document through textContent only: nothing a
// model or a visitor wrote is ever parsed as markup. STRINGS (both message catalogues) is defined before this file.
"use strict";

const SVG_NS = "http://www.w3.org/2000/svg";
const MATH_NS = "http://www.w3.org/1998/Math/MathML";

const ICONS = {
  copy: "M9 9h10v10H9z M5 15V5h10",
  retry: "M4 12a8 8 0 1 0 2.5-5.8 M4 4v4.5h4.5",
  download: "M12 4v11 M7.5 11 12 15.5 16.5 11 M5 19.5h14",
  share: "M12 15V4 M8 7.5 12 3.5l4 4 M6 11v8.5h12V11",
  steps: "M5 6h.01 M5 12h.01 M5 18h.01 M9.5 6H20 M9.5 12H20 M9.5 18H20",
  check: "M5 12.5 10 17.5 19.5 7",
  cross: "M6 6l12 12 M18 6 6 18",
  again: "M7 7h9a4 4 0 0 1 0 8H6 M9 11.5 5.5 15 9 18.5",
  warn: "M12 4 2.8 20h18.4z M12 10v4.5 M12 17.3v.01",
  info: "M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17z M12 11v5 M12 8v.01",
  stop: "M7 7h10v10H7z",
  plus: "M12 5v14 M5 12h14",
  pencil: "M5 19l1-4L16.5 4.5l3 3L9 18z",
  bin: "M5 7h14 M10 7V4.5h4V7 M7 7l1 12.5h8L17 7",
  menu: "M4 7h16 M4 12h16 M4 17h16",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z M12 2.5V5 M12 19v2.5 M2.5 12H5 M19 12h2.5 M5.3 5.3 7 7 M17 17l1.7 1.7 M5.3 18.7 7 17 M17 7l1.7-1.7",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  chevron: "M9 6l6 6-6 6",
  up: "M7 11v8.5H4V11z M7 11l4-7c1.6 0 2.5 1 2.2 2.6L12.6 10H18c1.3 0 2.2 1.1 1.9 2.4l-1.3 5.5c-.2 1-1 1.6-2 1.6H7",
  down: "M17 13V4.5h3V13z M17 13l-4 7c-1.6 0-2.5-1-2.2-2.600l.6-3.4H6c-1.3 0-2.2-1.1-1.9-2.4L5.400 6.100c.2-1 1-1.6 2-1.6H17",
  link: "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.7-5.7L12 7 M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.7 5.7L12 17",
  thinker: "M9 18h6 M10 21h4 M8.5 15a6 6 0 1 1 7 0c-.6.5-.9 1.2-.9 2h-5.2c0-.8-.3-1.5-.9-2z",
  worker: "M14.5 6.5a4 4 0 0 0-5.3 5.3L4 17l3 3 5.2-5.2a4 4 0 0 0 5.3-5.3L15 12l-3-3z",
  verifier: "M12 3.5 19 6v5.5c0 4.3-2.9 7.4-7 9-4.1-1.6-7-4.7-7-9V6z M8.8 11.8l2.3 2.3 4.2-4.4",
};

// An element with a class and a text. The text is always text.
function el(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined && text !== null) node.textContent = text;
  return node;
}

function icon(name) {
  const svg = document.createElementNS(SVG_NS, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "t-icon");
  const path = document.createElementNS(SVG_NS, "path");
  path.setAttribute("d", ICONS[name]);
  svg.appendChild(path);
  return svg;
}

function button(className, iconName, label, onClick) {
  const node = el("button", className);
  node.type = "button";
  if (iconName) node.appendChild(icon(iconName));
  node.appendChild(el("span", "t-button-label", label));
  node.setAttribute("aria-label", label);
  node.title = label;
  node.addEventListener("click", onClick);
  return node;
}

function setText(node, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

function setClass(node, name, on) {
  if (node.classList.contains(name) !== Boolean(on)) node.classList.toggle(name, Boolean(on));
}

// The sentence of a key in a language, with {places} filled in.
function say(lang, key, values) {
  const catalogue = STRINGS[lang] || STRINGS.en;
  const text = catalogue[key] || STRINGS.en[key] || key;
  return text.replace(/\{(\w+)\}/g, (all, name) => (values && name in values ? String(values[name]) : all));
}

const Show = {
  number: (lang, value) => new Intl.NumberFormat(lang === "zh" ? "zh-CN" : "en").format(value),
  seconds: (lang, value) => {
    const digits = value < 10 ? 1 : 0;
    return say(lang, "n_seconds", { n: value.toFixed(digits) });
  },
  cost: (lang, value) => (value === null || value === undefined ? say(lang, "cost_unknown")
    : value === 0 ? say(lang, "cost_free") : "$" + value.toFixed(value < 1 ? 4 : 2)),
  percent: (value) => (value > 0 && value < 0.005 ? "<1 %" : Math.round(value * 100) + " %"),
  tokens: (lang, value) => say(lang, "n_tokens", { n: Show.number(lang, value) }),
};

// Keep one child per item, in order, reusing the node of a key: what a visitor opened or focused stays as it is.
function keyed(parent, items, keyOf, make, update) {
  const old = new Map();
  for (const child of parent.children) old.set(child.dataset.key, child);
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let node = old.get(key);
    if (node) old.delete(key);
    else {
      node = make(item);
      node.dataset.key = key;
    }
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of old.values()) node.remove();
}

const PROSE_TAGS = new Set(("p h3 h4 h5 h6 ul ol li blockquote pre code table thead tbody tr th td strong em s a br hr")
  .split(" "));
const MATH_TAGS = new Set(("math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover " +
  "mtable mtr mtd mstyle mpadded mphantom menclose mfenced").split(" "));

// Fill `parent` with the nodes that webapp/prose.py made. A tag outside the lists becomes a span.
function fillProse(parent, nodes, lang) {
  for (const node of nodes) {
    if (typeof node === "string") parent.appendChild(document.createTextNode(node));
    else parent.appendChild(proseNode(node, lang));
  }
}

function proseNode([tag, attributes, ...children], lang) {
  if (MATH_TAGS.has(tag)) {
    const node = document.createElementNS(MATH_NS, tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (/^[a-z]+$/.test(name) && !name.startsWith("on") && name !== "href") node.setAttribute(name, value);
    }
    fillProse(node, children, lang);
    return node;
  }
  if (tag === "pre") return codeBlock(children.join(""), attributes.lang, lang);
  const node = el(PROSE_TAGS.has(tag) ? tag : "span");
  if (tag === "ol" && /^\d{1,9}$/.test(attributes.start || "")) node.start = Number(attributes.start);
  if (tag === "a" && /^(https?|mailto):/i.test(attributes.href || "")) {
    node.href = attributes.href;
    node.target = "_blank";
    node.rel = "noopener noreferrer nofollow";
  }
  fillProse(node, children, lang);
  if (tag !== "table") return node;
  const frame = el("div", "t-table");
  frame.tabIndex = 0;
  frame.appendChild(node);
  return frame;
}

function codeBlock(text, language, lang) {
  const box = el("div", "t-code");
  const bar = el("div", "t-code-bar");
  bar.appendChild(el("span", "", language || ""));
  bar.appendChild(copyButton("t-quiet", say(lang, "copy_code"), () => text, lang));
  const pre = el("pre");
  pre.tabIndex = 0;
  pre.appendChild(el("code", "", text));
  box.append(bar, pre);
  return box;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea");
    area.value = text;
    area.style.position = "fixed";
    area.style.opacity = "0";
    document.body.appendChild(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// A button that copies what `text()` gives and says so for two seconds.
function copyButton(className, label, text, lang) {
  const node = button(className, "copy", label, async () => {
    await copyText(text());
    const word = node.querySelector(".t-button-label");
    node.classList.add("t-did");
    setText(word, say(lang, "copied"));
    setTimeout(() => {
      node.classList.remove("t-did");
      setText(word, label);
    }, 2000);
  });
  return node;
}

// Several pages may draw the same component; values that arrive late are older and are left out.
function newerThan(element, value) {
  if (!value || typeof value !== "object") return false;
  if (element._seq !== undefined && value.seq < element._seq) return false;
  element._seq = value.seq;
  return true;
}
