"""Spelling of mathematics: LaTeX, typographic signs, number words and Chinese, all to the one plain notation.

Pure text work; unknown words stay as they are and make the grammar refuse the text later.
"""

from __future__ import annotations

import re
import unicodedata

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SIGNS = str.maketrans(
    {
        "×": "*", "·": "*", "⋅": "*", "•": "*", "∙": "*", "∗": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-",
        "—": "-", "﹣": "-", "π": " pi ", "∞": " oo ", "√": " sqrt ", "θ": " theta ", "α": " alpha ", "β": " beta ",
        "≤": "<=", "≥": ">=", "→": "->", "∫": " integral ", "∑": " sum ", "[": "(", "]": ")", "{": "(", "}": ")",
        "½": "(1/2)", "¼": "(1/4)", "¾": "(3/4)", "⅓": "(1/3)", "⅔": "(2/3)", "’": "'", "“": '"', "”": '"',
    }
)  # fmt: skip


def normalise(text: str) -> str:
    """Signs and full-width letters to ASCII, superscripts to `^`, LaTeX to plain notation, Chinese to English words."""
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+", lambda m: f"^({m.group().translate(_SUPERSCRIPTS)})", text)
    text = re.sub("[½¼¾⅓⅔]", lambda m: m.group().translate(_SIGNS), text)
    text = unicodedata.normalize("NFKC", text)
    if "\\" in text or "$" in text:
        text = _from_latex(text)
    text = _from_chinese(text.translate(_SIGNS))
    return " ".join(text.split())


# ---------------------------------------------------------------- LaTeX

_TRIGONOMETRY = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh"
_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}"
_COMMANDS = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "pi": " pi ", "infty": " oo ", "ln": " ln ", "log": " log ",
    "exp": " exp ", "le": "<=", "leq": "<=", "ge": ">=", "geq": ">=", "to": "->", "rightarrow": "->", "bmod": " mod ",
    "mod": " mod ", "pmod": " mod ", "gcd": " gcd ", "max": " max ", "min": " min ", "theta": " theta ",
    "alpha": " alpha ", "beta": " beta ", "quad": " ", "qquad": " ", "displaystyle": " ", "left": "", "right": "",
    "cdots": "...", "dots": "...", "ldots": "...", "int": " integral ", "sum": " sum ", "lim": " limit ",
    "begin": " ", "end": " ",
    **{name: f" {name} " for name in _TRIGONOMETRY.split()},
}  # fmt: skip


def _from_latex(text: str) -> str:
    text = re.sub(r"\\[\[\]()]|\$+|\\[,;:!]|~", " ", text)
    text = re.sub(r"\\(?:text|mathrm|operatorname)" + _GROUP, r" \1 ", text)
    text = re.sub(r"\\[dt]frac", r"\\frac", text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"((\1)/(\2))", text)
    text = re.sub(r"\\frac\{\s*d\s*\}\{\s*d\s*([a-z])\s*\}", r" d/d\1 ", text)
    for _ in range(8):  # from the inside out; deeper nesting is refused by the grammar
        text = re.sub(r"\\frac\s*" + _GROUP + r"\s*" + _GROUP, r"((\1)/(\2))", text)
        text = re.sub(r"\\d?binom\s*" + _GROUP + r"\s*" + _GROUP, r" binomial(\1, \2) ", text)
        text = re.sub(r"\\sqrt\s*\[\s*(\d+)\s*\]\s*" + _GROUP, r" root(\2, \1) ", text)
        text = re.sub(r"\\sqrt\s*" + _GROUP, r" sqrt(\1) ", text)
    text = re.sub(r"\\log_" + _GROUP + r"\s*(\d+|" + _GROUP + ")", r" log(\2, \1) ", text)
    text = re.sub(r"\\log_(\d)\s*(\d+)", r" log(\2, \1) ", text)
    text = re.sub(r"\^\\circ|\^\{\\circ\}", " degrees", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda m: _COMMANDS.get(m.group(1), f" \\{m.group(1)} "), text)
    return text.replace("\\\\", ",").replace("\\%", "%").replace("&", " ")


# ---------------------------------------------------------------- Chinese

_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_PLACES = {"十": 10, "百": 100, "千": 1000}
_NUMERAL = re.compile("[零〇一二两三四五六七八九十百千万亿]+")
_CHINESE_WORDS = (
    ("的平方根", " ^(1/2) "), ("的立方根", " ^(1/3) "), ("的平方", " ^2 "), ("的立方", " ^3 "), ("的阶乘", " ! "),
    ("乘以", " * "), ("乘", " * "), ("除以", " / "), ("加上", " + "), ("加", " + "), ("减去", " - "), ("减", " - "),
    ("的结果是多少", " "), ("的值是多少", " "), ("等于多少", " "), ("等于几", " "), ("是多少", " "), ("是几", " "),
    ("为多少", " "), ("得多少", " "), ("得几", " "), ("等于", " = "), ("多少", " "), ("的值", " "), ("的结果", " "),
    ("括号", " "), ("根号", " sqrt "), ("次方", " "),
)  # fmt: skip


def _from_chinese(text: str) -> str:
    if not re.search("[\u4e00-\u9fff]", text):
        return text
    text = re.sub(
        r"([\d.]+|[零〇一二两三四五六七八九十百千万亿]+)分之([\d.]+|[零〇一二两三四五六七八九十百千万亿]+)",
        r"(\2/\1)",
        text,
    )
    text = text.replace("百分之", "百分之 ")
    text = re.sub(r"百分之 ([\d.]+|[零〇一二两三四五六七八九十百千万亿]+)", r"(\1/100)", text)
    text = _NUMERAL.sub(_numeral, text)
    text = re.sub(r"([\d.]+)\s*的\s*([\d.]+)\s*次(?:方|幂)", r"(\1)^(\2)", text)
    text = re.sub(r"([\d.%)]+)\s*的\s*(?=[\d(])", r"\1 * ", text) if "%" in text or "/" in text else text
    for word, sign in _CHINESE_WORDS:
        text = text.replace(word, sign)
    return re.sub("[?？。！!]+$", "", text.replace("，", ",").replace("、", ",").replace("。", " ")).strip()


def _numeral(match: re.Match[str]) -> str:
    text = match.group()
    if text in ("万", "亿", "十百"):
        return text
    total = section = digit = 0
    plain = not any(c in "十百千万亿" for c in text)
    if plain:
        return "".join(str(_DIGITS[c]) for c in text)
    for c in text:
        if c in _DIGITS:
            digit = _DIGITS[c]
        elif c in _PLACES:
            section, digit = section + (digit or 1) * _PLACES[c], 0
        else:
            total, section, digit = (total + section + digit) * (10_000 if c == "万" else 10**8), 0, 0
    return str(total + section + digit)


# ---------------------------------------------------------------- English words

_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNIT_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen"""
_TENS = {w: 10 * n for n, w in enumerate(_TEN_WORDS.split(), 2)}
_SMALL = {word: n for n, word in enumerate(_UNIT_WORDS.split())} | _TENS
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SPOKEN = "|".join([*_SMALL, *_SCALES])
_NUMBER_WORDS = re.compile(rf"\b(?:{_SPOKEN})(?:(?:[\s-]+(?:and\s+)?)(?:{_SPOKEN}))*\b", re.IGNORECASE)
_REWRITES: list[tuple[str, str]] = [
    (r"\bmultiplied (?:by|with)\b|\btimes\b", " * "),
    (r"\bdivided by\b|\bover\b", " / "),
    (r"\bplus\b|\badded to\b", " + "),
    (r"\bminus\b", " - "),
    (r"\bnegative (?=[\d(])", " -"),
    (r"\b(?:raised )?to the (?:power of|power)\s*|\braised to\b|\bto the power\b", " ^ "),
    (r"\bto the (\d+)(?:st|nd|rd|th)(?: power)?", r" ^ \1 "),
    (r"\bsquared\b", " ^2 "),
    (r"\bcubed\b", " ^3 "),
    (r"\b(?:the )?square root of\b", " sqrt "),
    (r"\b(?:the )?cube root of\b", " cbrt "),
    (r"\b(?:the )?(?:factorial of|factorial) (?=[\d(])", " factorial "),
    (r"(?<=[\d)]) factorial\b", " ! "),
    (r"\b(?:the )?(?:absolute value|modulus) of\b", " abs "),
    (r"\b(?:the )?(?:natural log(?:arithm)?|ln) of\b", " ln "),
    (r"\blog(?:arithm)? base (\w+) of (\w+)\b", r" log(\2, \1) "),
    (r"\b(?:the )?(sin|cos|tan|sine|cosine|tangent|log|logarithm|exp) of\b", r" \1 "),
    (r"\bsine\b", " sin "), (r"\bcosine\b", " cos "), (r"\btangent\b", " tan "), (r"\blogarithm\b", " log "),
    (r"(\d+(?:\.\d+)?)\s*(?:°|degrees?\b)", r"degrees(\1)"),
    (r"\b(?:the )?square of ([\w.]+|\([^()]*\))", r"((\1)^2)"),
    (r"\b(?:the )?cube of ([\w.]+|\([^()]*\))", r"((\1)^3)"),
    (r"\bper ?cent\b", "%"),
    (r"(\d[\d,.]*)\s*%\s*off\s+(?:of\s+)?(\d[\d,.]*)", r"((\2) * (1 - (\1)/100))"),
    (r"%\s*of\b", " /100 * "),
    (r"(\d+/\d+) of (?=[\d(])", r"(\1) * "),
    (r"\bhalf of\b|\bone half of\b", "(1/2) * "),
    (r"\b(?:a|one) third of\b", "(1/3) * "),
    (r"\b(?:a|one) quarter of\b", "(1/4) * "),
    (r"\b(?:double|twice)\b", "2 * "),
    (r"\btriple\b", "3 * "),
    (r"\bmodulo\b", " mod "),
    (r"(\d+)\s+choose\s+(\d+)", r"binomial(\1, \2)"),
    (r"(?<=[\d)])\s*[xX]\s*(?=[\d(])", " * "),
    (r"\bdivided\b", " / "),
]  # fmt: skip


def from_words(text: str) -> str:
    """English number words and operation words to signs: `twelve times nine` to `12 * 9`."""
    text = _NUMBER_WORDS.sub(_spoken, text)
    for pattern, sign in _REWRITES:
        text = re.sub(pattern, sign, text, flags=re.IGNORECASE)
    return text


def _spoken(match: re.Match[str]) -> str:
    total = group = 0
    words = [w for w in re.split(r"[\s-]+", match.group().lower()) if w != "and"]
    if len(words) > 1 and all(_SMALL.get(w, 99) < 10 for w in words):
        return " ".join(str(_SMALL[w]) for w in words)  # "two two" is no number
    for word in words:
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred":
            group = max(group, 1) * 100
        else:
            total, group = total + max(group, 1) * _SCALES[word], 0
    return str(total + group)
