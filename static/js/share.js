// A shared conversation: fetched once, drawn by the same code as the chat page, without anything that acts.
"use strict";

async function showShared() {
  document.body.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  const address = location.pathname.replace(/\/$/, "") + "/data" + location.search;
  const reply = await fetch(address);
  const value = await reply.json();
  const lang = value.lang;
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
  setText(document.getElementById("open-app"), say(lang, "open_app"));
  const lead = document.getElementById("lead");
  if (value.gone) return setText(lead, value.gone);
  document.title = value.title || say(lang, "shared_title");
  setText(lead, say(lang, "shared_lead"));
  mountChat(document.getElementById("chat"), () => value.chat, null);
  const places = document.getElementById("timelines");
  for (const [at, timeline] of value.timelines.entries()) {
    const place = el("div");
    places.appendChild(place);
    mountTimeline(place, () => timeline);
    const question = value.chat.questions[at].text;
    place.querySelector("h2").after(el("p", "t-total", question.length > 80 ? question.slice(0, 80) + "…" : question));
  }
  return undefined;
}

showShared();
