"""Answer text -> a tree of safe nodes that the page builds by hand.

Models write Markdown and LaTeX, and whatever else they were talked into. Here it is parsed by markdown-it (raw HTML
off) and latex2mathml into plain lists; the browser makes each node with `createElement` and `textContent` from an
allow-list (`static/js/dom.js`), so no string is ever parsed as markup on the page. An image stays the text it was
written as: a remote picture is a beacon.

A node is a string, or `[tag, attributes, child, ...]`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Node: TypeAlias = "str | list[Any]"

MAX_MARKDOWN = 200_000  # characters; a longer text is shown plain, parsing it would hold up every other page
MAX_FORMULA = 2_000  # characters of one LaTeX formula
# The JSON writer behind Gradio stops at 254 nested lists, and one value it cannot write ends the page's stream. So an
# answer's tree stays far below: at most MAX_DEPTH of blocks and emphasis, with a formula of MAX_FORMULA_DEPTH inside.
MAX_DEPTH = 32
MAX_FORMULA_DEPTH = 40
_MAX_NESTING = 40  # of the parser, which silently drops what is deeper: more than MAX_DEPTH, so that it is noticed
_LINE_ENDS = re.compile("\r\n|\r|\n")  # those of the parser: str.splitlines() knows more and would count them, too
_SURROGATES = re.compile("[\ud800-\udfff]")
_SIMPLE = {
    "paragraph": "p",
    "bullet_list": "ul",
    "list_item": "li",
    "blockquote": "blockquote",
    "strong": "strong",
    "em": "em",
    "s": "s",
    "hr": "hr",
    "hardbreak": "br",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
_MATHS = {"math_inline": False, "math_single": False, "math_inline_double": True, "math_block": True}
_MATHML_TAGS = frozenset(  # the list of static/js/dom.js
    re.findall(
        r"\w+",
        "math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd "
        "mstyle mpadded mphantom menclose mfenced",
    )
)
_MATHML_ATTRIBUTES = frozenset(
    re.findall(
        r"\w+",
        "display mathvariant stretchy fence separator form linethickness columnalign rowspacing columnspacing width "
        "lspace rspace movablelimits accent accentunder displaystyle scriptlevel notation open close minsize maxsize",
    )
)


def clean(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD: they are no UTF-8 and would break the reply to the browser."""
    return _SURROGATES.sub("\ufffd", text)


@lru_cache(maxsize=256)
def prose(text: str) -> list[Node]:
    """The nodes of a Markdown text. Never raises: what cannot be parsed is one plain paragraph."""
    text = clean(text)
    if len(text) > MAX_MARKDOWN:
        return [["pre", {}, text]]
    from markdown_it.tree import SyntaxTreeNode

    try:
        return [node for block in SyntaxTreeNode(_parser().parse(text)).children for node in _block(block, text)]
    except (RecursionError, ValueError, IndexError, KeyError):  # hostile nesting: still show what was said
        return [["pre", {}, text]]


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.texmath import texmath_plugin

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING}).enable(["table", "strikethrough"])
    parser.disable("reference")  # a line `[a]: http://x` would define a link and vanish from the answer
    parser.use(texmath_plugin, delimiters="brackets")
    # "$5 and $6" is money, not a formula: no spaces inside the dollars, no digit right behind them.
    return parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)


def _block(block: SyntaxTreeNode, text: str) -> list[Node]:
    """The nodes of one top-level block; its lines as they were written where they nest too deep."""
    nodes = _nodes(block)
    if _depth(nodes) <= MAX_DEPTH:
        return nodes
    first, last = block.map or (0, None)
    return [["pre", {}, "\n".join(_LINE_ENDS.split(text)[first:last]).rstrip("\n")]]


def _depth(nodes: list[Node], *, through: bool = False) -> int:
    """How many nodes stand inside one another; a formula counts as one unless `through`."""
    depth, level = 0, [node for node in nodes if not isinstance(node, str)]
    while level:
        depth += 1
        level = [
            child for node in level if through or node[0] != "math" for child in node[2:] if not isinstance(child, str)
        ]
    return depth


def _children(node: SyntaxTreeNode) -> list[Node]:
    nodes: list[Node] = []
    for child in node.children:
        nodes.extend(_nodes(child))
    return nodes


def _nodes(node: SyntaxTreeNode) -> list[Node]:
    kind = node.type
    if kind == "text":
        return [node.content]
    if kind == "softbreak":
        return ["\n"]
    if kind == "inline":
        return _children(node)
    if kind == "image":
        return [f"![{node.content}]({node.attrs.get('src', '')})"]
    if kind in _SIMPLE:
        return [[_SIMPLE[kind], {}, *_children(node)]]
    if kind == "math_inline" and node.content.startswith("{"):
        return [f"${node.content}$"]  # `${...}` is a template of some language, hardly a formula: nothing is lost
    if kind in _MATHS:
        return [_formula(node.content, block=_MATHS[kind])]
    return _special(node)


def _special(node: SyntaxTreeNode) -> list[Node]:
    """Nodes that carry something beside their children."""
    kind = node.type
    if kind == "heading":
        level = min(6, int(node.tag[1:]) + 2)  # the page's own h1 and h2 stay above the answer's headings
        return [[f"h{level}", {}, *_children(node)]]
    if kind == "ordered_list":
        return [["ol", {"start": str(node.attrs.get("start", 1))}, *_children(node)]]
    if kind == "code_inline":
        return [["code", {}, node.content]]
    if kind in ("fence", "code_block"):
        language = (node.info or "").split()[:1]
        return [["pre", {"lang": language[0][:20]} if language else {}, node.content.rstrip("\n")]]
    if kind == "link":
        return _link(str(node.attrs.get("href", "")), _children(node))
    return [node.content] if not node.children else _children(node)


def _link(href: str, inside: list[Node]) -> list[Node]:
    """A web link, or its plain text when it leads anywhere else than http, https or mail."""
    if urlsplit(href).scheme in ("http", "https", "mailto"):
        return [["a", {"href": href}, *inside]]
    return [*inside, f" ({href})"]


def _formula(source: str, *, block: bool) -> Node:
    """LaTeX as MathML, or the source in code style when it does not parse or nests too deep."""
    plain: Node = ["code", {}, source.strip()]
    if len(source) > MAX_FORMULA:
        return plain
    from latex2mathml.converter import convert_to_element

    try:
        formula = _mathml(convert_to_element(source.strip(), display="block" if block else "inline"))
    except Exception:  # the converter raises many kinds of its own, and some of Python's, on broken LaTeX
        return plain
    return formula if _depth([formula], through=True) <= MAX_FORMULA_DEPTH else plain


def _mathml(element: Element) -> Node:
    import html

    tag = element.tag.rsplit("}", 1)[-1]
    inside: list[Node] = [html.unescape(element.text)] if element.text else []
    inside += [_mathml(child) for child in element]
    if tag not in _MATHML_TAGS:
        return ["mrow", {}, *inside]
    return [tag, {k: str(v) for k, v in element.attrib.items() if k in _MATHML_ATTRIBUTES}, *inside]
