// The list of earlier conversations: open, rename in place, delete after a second click, begin a new one.
// Data: webapp/pages/chat_data.py.
"use strict";

function mountHistory(element, read, act) {
  const root = el("nav", "t-history");
  const top = el("div", "t-history-top");
  const fresh = el("button", "t-new");
  fresh.type = "button";
  fresh.append(icon("plus"), el("span"));
  fresh.addEventListener("click", () => {
    closeDrawer();
    act("new", {});
  });
  top.appendChild(fresh);
  const empty = el("p", "t-history-empty");
  const list = el("ul", "t-conversations");
  const foot = el("div", "t-history-foot");
  root.append(top, empty, list, foot);
  element.replaceChildren(root);

  function draw() {
    const value = read();
    if (!newerThan(element, value)) return;
    const lang = value.lang;
    root.setAttribute("aria-label", say(lang, "history"));
    setText(fresh.children[1], say(lang, "new_conversation"));
    setText(empty, say(lang, "history_empty"));
    empty.hidden = value.conversations.length > 0;
    keyed(list, value.conversations, (c) => c.id, (c) => newConversation(c, lang, act), (node, c) => {
      node._lang = lang;
      setText(node._parts.title, c.title || say(lang, "untitled"));
      setClass(node, "t-current", c.id === value.current);
      setClass(node, "t-running", c.running);
      if (c.id === value.current) node._parts.open.setAttribute("aria-current", "page");
      else node._parts.open.removeAttribute("aria-current");
    });
    drawFoot(foot, value, lang, act);
  }

  draw();
  return draw;
}

function newConversation(conversation, lang, act) {
  const node = el("li", "t-conversation");
  const open = el("button", "t-open");
  open.type = "button";
  const title = el("span", "t-title");
  open.append(el("span", "t-run-dot"), title);
  open.addEventListener("click", () => {
    closeDrawer();
    act("open", { id: conversation.id });
  });
  const rename = button("t-mini", "pencil", say(lang, "rename"), () => startRename(node, conversation, act));
  const bin = sureButton("t-mini", "bin", say(lang, "delete"), say(lang, "delete_sure"), () => act("delete", { id: conversation.id }));
  node.append(open, rename, bin);
  node._parts = { open, title, rename, bin };
  return node;
}

// A button that acts on the second click within four seconds.
function sureButton(className, iconName, label, question, onSure) {
  const node = button(className, iconName, label, () => {
    if (node.classList.contains("t-sure")) {
      node.classList.remove("t-sure");
      return onSure();
    }
    node.classList.add("t-sure");
    setText(node.querySelector(".t-button-label"), question);
    node.setAttribute("aria-label", question);
    setTimeout(() => {
      node.classList.remove("t-sure");
      setText(node.querySelector(".t-button-label"), label);
      node.setAttribute("aria-label", label);
    }, 4000);
    return undefined;
  });
  return node;
}

function startRename(node, conversation, act) {
  const { open, title } = node._parts;
  const field = el("input", "t-rename");
  field.value = title.textContent;
  field.maxLength = 120;
  field.setAttribute("aria-label", say(node._lang, "rename"));
  open.hidden = true;
  node.insertBefore(field, open);
  field.focus();
  field.select();
  let over = false;
  function end(keep) {
    if (over) return;
    over = true;
    const text = field.value.trim();
    field.remove();
    open.hidden = false;
    if (keep && text && text !== title.textContent) {
      setText(title, text);
      act("rename", { id: conversation.id, title: text });
    }
    open.focus();
  }
  field.addEventListener("blur", () => end(true));
  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") end(true);
    if (event.key === "Escape") end(false);
  });
}

function drawFoot(foot, value, lang, act) {
  const wanted = JSON.stringify([lang, value.current && value.can_share, value.shared, value.conversations.length > 0]);
  if (foot._drawn === wanted) return;
  foot._drawn = wanted;
  const parts = [];
  if (value.current && value.can_share) {
    parts.push(button("t-quiet", "share", say(lang, "share"), () => act("share", { id: value.current })));
    if (value.shared) parts.push(button("t-quiet", "cross", say(lang, "unshare"), () => act("unshare", { id: value.current })));
  }
  if (value.conversations.length) {
    parts.push(sureButton("t-quiet", "bin", say(lang, "delete_all"), say(lang, "delete_all_sure"), () => act("delete_all", {})));
  }
  foot.replaceChildren(...parts);
}

function closeDrawer() {
  document.body.classList.remove("t-drawer-open");
}
