// The header and what belongs to the whole page: language, theme, the drawer on phones, keys.
"use strict";

function mountHeader(element, read) {
  const root = el("header", "t-header");
  const menu = button("t-square t-menu", "menu", "", () => document.body.classList.toggle("t-drawer-open"));
  const brand = el("div", "t-brand");
  const logo = el("img", "t-logo");
  logo.src = "trinity/icons/trinity.svg";
  logo.alt = "";
  logo.width = 26;
  logo.height = 26;
  brand.append(logo, el("h1", "", "TRINITY"));
  const chip = el("div", "t-team");
  const dot = el("span", "t-team-dot");
  const words = el("span", "t-team-words");
  chip.append(dot, words);
  const spring = el("span", "t-spring");
  const tongue = el("a", "t-square t-tongue");
  const theme = button("t-square t-theme", "moon", "", switchTheme);
  theme.insertBefore(icon("sun"), theme.lastChild);
  root.append(menu, brand, chip, spring, tongue, theme);
  element.replaceChildren(root);
  applyTheme(storedTheme());

  function draw() {
    const value = read();
    if (!newerThan(element, value)) return;
    const lang = value.lang;
    document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
    document.title = say(lang, "page_title");
    chip.dataset.state = value.state;
    setText(words, value.words);
    chip.title = value.title || "";
    label(menu, say(lang, "history"));
    label(theme, say(lang, "theme"));
    setText(tongue, lang === "zh" ? "EN" : "中文");
    tongue.lang = lang === "zh" ? "en" : "zh-CN";
    tongue.setAttribute("aria-label", lang === "zh" ? "English" : "中文");
    tongue.href = "?lang=" + (lang === "zh" ? "en" : "zh");
    nameFields(lang);
  }

  // The link keeps the conversation that is open when it is clicked.
  tongue.addEventListener("click", () => {
    const url = new URL(location.href);
    url.searchParams.set("lang", tongue.lang === "en" ? "en" : "zh");
    tongue.href = url.href;
  });
  document.addEventListener("keydown", keys);
  draw();
  return draw;
}

function label(node, text) {
  node.setAttribute("aria-label", text);
  node.title = text;
  setText(node.querySelector(".t-button-label"), text);
}

// Gradio's own Send and Stop are icons without a name.
function nameFields(lang) {
  const name = () => {
    const box = document.querySelector("#composer");
    box?.querySelector("textarea")?.setAttribute("aria-label", say(lang, "composer"));
    for (const [selector, key] of [[".submit-button", "send"], [".stop-button", "stop"]]) {
      const node = box?.querySelector(selector);
      if (node) {
        node.setAttribute("aria-label", say(lang, key));
        node.title = say(lang, key);
      }
    }
  };
  name();
  const box = document.querySelector("#composer");
  if (!box || box._named) return;
  // Stop disappears when it was pressed; the focus goes to Send, which takes its place.
  let onStop = false;
  box.addEventListener("focusin", (event) => { onStop = Boolean(event.target.closest(".stop-button")); });
  box._named = new MutationObserver(() => {
    name();
    if (onStop && !box.querySelector(".stop-button")) {
      onStop = false;
      box.querySelector(".submit-button")?.focus();
    }
  });
  box._named.observe(box, { childList: true, subtree: true });
}

function storedTheme() {
  try {
    return localStorage.getItem("trinity.theme");
  } catch {
    return null;
  }
}

// Without a choice of the visitor the system's (or ?__theme=) rules; Gradio has applied it already.
function applyTheme(wanted) {
  if (wanted && !new URL(location.href).searchParams.has("__theme")) document.body.classList.toggle("dark", wanted === "dark");
  document.documentElement.style.colorScheme = document.body.classList.contains("dark") ? "dark" : "light";
}

function switchTheme() {
  const dark = !document.body.classList.contains("dark");
  document.body.classList.toggle("dark", dark);
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  try {
    localStorage.setItem("trinity.theme", dark ? "dark" : "light");
  } catch {
    // private windows may refuse; the choice then lasts as long as the page
  }
}

function keys(event) {
  if (event.isComposing) return;
  const area = document.querySelector("#composer textarea");
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    area?.focus();
  } else if (event.key === "Escape") {
    if (document.body.classList.contains("t-drawer-open")) closeDrawer();
    else document.querySelector("#composer .stop-button")?.click();
  }
}
