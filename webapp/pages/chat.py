"""The chat page's layout: history on the left, conversation in the middle, timeline on the right.

Model text never meets a Gradio template: `html_template` is constant, values are JSON, and the scripts of
`static/js` draw them with `textContent` (a Handlebars slot would run `${...}` as code).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import gradio as gr

from core.assets import STATIC
from webapp.i18n import CATALOGUES, DEFAULT, say
from webapp.pages.chat_data import ChatData, Opened, notice
from webapp.pages.chat_handlers import MAX_TURNS_OFFERED, ChatHandlers, Update, options_of
from webapp.pages.incoming import action, language, word

if TYPE_CHECKING:
    from webapp.site import Site

# BrowserState scrambles what it keeps; with a fixed key it survives a restart. The token itself is the secret.
_SCRAMBLE = "trinity"


def strings_js() -> str:
    """Both message catalogues as a JavaScript constant, safe inside a script element."""
    return "const STRINGS = " + json.dumps(CATALOGUES, ensure_ascii=True).replace("<", "\\u003c") + ";\n"


def part(value: Any, mount: str, *scripts: str, elem_id: str, acts: bool = False, **more: Any) -> gr.HTML:
    """One hand-drawn component: its value is JSON, `mount` is the function of `static/js` that draws it."""
    sources = "\n".join((STATIC / "js" / f"{name}.js").read_text(encoding="utf-8") for name in ("dom", *scripts))
    act = ", (action, data) => trigger('select', { action, ...data })" if acts else ""
    start = f"const draw = {mount}(element.firstElementChild, () => props.value{act});\nwatch('value', draw);"
    return gr.HTML(
        value,
        html_template="<div></div>",
        js_on_load=f"{strings_js()}{sources}\n{start}",
        elem_id=elem_id,
        apply_default_css=False,
        **more,
    )


class ChatPage:
    """Builds the components inside the current `gr.Blocks` and connects them to the handlers."""

    def __init__(self, site: Site, blocks: gr.Blocks) -> None:
        self._site = site
        self._handlers = ChatHandlers(site)
        self._data = ChatData(site)
        self._lay_out()
        self._connect(blocks)

    def _lay_out(self) -> None:
        # Drawn before the page's own load event is sent: it must leave `?c=` in the address for it.
        blank, lang = Opened(keep_address=True), DEFAULT
        self.owner = gr.BrowserState("", storage_key="trinity.owner", secret=_SCRAMBLE)
        self.stored = gr.BrowserState("", storage_key="trinity.lang", secret=_SCRAMBLE)
        self.place = gr.Textbox(visible="hidden", elem_id="place")
        self.lang = gr.Textbox(lang, visible="hidden", elem_id="lang")
        self.header = part(self._data.header(lang), "mountHeader", "history", "shell", elem_id="top")
        with gr.Row(elem_id="desk"):
            with gr.Column(elem_id="side", min_width=0):
                self.history = part(None, "mountHistory", "history", elem_id="history", acts=True)
            with gr.Column(elem_id="main", min_width=0):
                self.chat = part(
                    self._data.chat(blank, lang), "mountChat", "timeline", "chat",
                    elem_id="chat", acts=True,
                )  # fmt: skip
                with gr.Column(elem_id="dock", min_width=0):
                    self._lay_out_composer(lang)
            with gr.Column(elem_id="trace", min_width=0):
                self.timeline = part(self._data.timeline(blank, lang), "mountTimeline", "timeline", elem_id="timeline")
        self.download = part(None, "mountDownload", "chat", elem_id="download", visible="hidden")

    def _lay_out_composer(self, lang: str) -> None:
        settings = self._site.settings
        self.notice = part(notice(lang), "mountNotice", "chat", elem_id="notice")
        self.composer = gr.Textbox(
            show_label=False, container=False, lines=1, max_lines=8, autofocus=True, submit_btn=True,
            placeholder=say(lang, "placeholder"), elem_id="composer",
        )  # fmt: skip
        with gr.Accordion(say(lang, "options"), open=False, elem_id="options") as self.options:
            with gr.Row():
                self.turns = gr.Slider(1, MAX_TURNS_OFFERED, value=5, step=1, elem_id="opt-turns", buttons=[])
                self.usd = gr.Number(settings.question_usd, step=0.05, elem_id="opt-usd")
                self.pool = gr.Dropdown(self._site.pools(), value=self._site.names.pool, elem_id="opt-pool")
                self.head = gr.Dropdown(self._site.heads(), value=self._site.names.head, elem_id="opt-head")
            self.exclude = gr.CheckboxGroup([], elem_id="opt-exclude")

    @property
    def _outputs(self) -> list[Any]:
        return [
            self.chat, self.timeline, self.history, self.header, self.notice, self.download, self.place, self.lang,
            self.owner, self.stored, self.composer, self.options, self.turns, self.usd, self.pool, self.head,
            self.exclude,
        ]  # fmt: skip

    def _connect(self, blocks: gr.Blocks) -> None:
        who = [self.owner, self.place, self.lang]
        chosen = [self.turns, self.usd, self.exclude, self.pool, self.head]
        quiet: dict[str, Any] = {
            "outputs": self._outputs,
            "show_progress": "hidden",
            "concurrency_limit": None,
            "api_visibility": "private",
            # Gradio's own checks would answer in English, with a traceback in the log; webapp/pages/incoming.py and
            # `options_of` check every value, and say what is wrong in the visitor's language.
            "preprocess": False,
        }
        blocks.load(self._load, [self.owner, self.stored], **quiet)
        self.composer.submit(self._ask, [*who, self.composer, *chosen], **quiet)
        self.composer.stop(
            self._stop, [self.owner, self.place], None, queue=False, api_visibility="private", preprocess=False
        )
        self.history.select(self._history, who, **quiet)
        self.chat.select(self._chat, who, **quiet)
        for choice in (self.pool, self.head):
            choice.input(self._team, [self.pool, self.head, self.lang], **quiet)

    async def _stop(self, owner: Any, place: Any) -> None:
        await self._handlers.stop(word(owner), word(place))

    async def _load(self, owner: Any, stored: Any, request: gr.Request) -> AsyncIterator[tuple[Any, ...]]:
        async for update in self._handlers.load(word(owner), word(stored), request):
            yield self._values(update)

    async def _ask(
        self,
        owner: Any,
        place: Any,
        lang: Any,
        text: Any,
        turns: Any,
        usd: Any,
        exclude: Any,
        pool: Any,
        head: Any,
        request: gr.Request,
    ) -> AsyncIterator[tuple[Any, ...]]:
        most = self._site.settings.question_usd
        options = options_of(turns, usd, exclude, self._site.offered(pool, head), most_usd=most)
        asked = text if isinstance(text, str) else ""
        async for update in self._handlers.ask(word(owner), word(place), language(lang), asked, options, request):
            yield self._values(update)

    async def _history(
        self, owner: Any, place: Any, lang: Any, event: gr.EventData, request: gr.Request
    ) -> AsyncIterator[tuple[Any, ...]]:
        async for update in self._handlers.history_action(
            word(owner), word(place), language(lang), action(event._data), request
        ):
            yield self._values(update)

    async def _chat(
        self, owner: Any, place: Any, lang: Any, event: gr.EventData, request: gr.Request
    ) -> AsyncIterator[tuple[Any, ...]]:
        async for update in self._handlers.chat_action(
            word(owner), word(place), language(lang), action(event._data), request
        ):
            yield self._values(update)

    async def _team(self, pool: Any, head: Any, lang: Any) -> AsyncIterator[tuple[Any, ...]]:
        """Another pool or head was chosen: load its team and offer its agents."""
        async for update in self._handlers.team(*self._site.offered(pool, head), language(lang)):
            yield self._values(update)

    def _values(self, update: Update) -> tuple[Any, ...]:
        """One value for each output; `gr.skip()` for what stays."""
        lang = update.lang or ""
        hold = gr.skip()
        plain = [update.chat, update.timeline, update.history, update.header, update.notice, update.download]
        names = [update.place, update.lang, update.owner, update.lang]
        return (
            *(hold if value is None else value for value in [*plain, *names]),
            self._composer_update(update),
            gr.update(label=say(lang, "options")) if lang else hold,
            gr.update(label=say(lang, "opt_turns")) if lang else hold,
            gr.update(label=say(lang, "opt_usd"), info=say(lang, "opt_usd_info")) if lang else hold,
            gr.update(label=say(lang, "opt_pool"), info=say(lang, "opt_pool_info")) if lang else hold,
            gr.update(label=say(lang, "opt_head"), info=say(lang, "opt_head_info")) if lang else hold,
            self._exclude_update(update),
        )

    def _composer_update(self, update: Update) -> Any:
        changes: dict[str, Any] = {}
        if update.typed is not None:
            changes["value"] = update.typed
        if update.running is not None:
            changes |= {"submit_btn": not update.running, "stop_btn": update.running}
        if update.lang:
            changes["placeholder"] = say(update.lang, "placeholder")
        return gr.update(**changes) if changes else gr.skip()

    def _exclude_update(self, update: Update) -> Any:
        changes: dict[str, Any] = {}
        if update.lang:
            changes |= {"label": say(update.lang, "opt_exclude"), "info": say(update.lang, "opt_exclude_info")}
        if update.team is not None and update.team.team is not None:
            changes |= {"choices": [agent.name for agent in update.team.team.agents], "value": []}
        return gr.update(**changes) if changes else gr.skip()
