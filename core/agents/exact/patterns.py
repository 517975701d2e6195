"""The table of questions: a pattern for the whole text, and the builder of its task. First match wins.

The order matters: a more exact wording stands above a looser one, the bare formula stands last.
"""

from __future__ import annotations

import re

from core.agents.exact.tasks import (
    Build,
    call,
    compare,
    derivative,
    equations,
    factorise,
    first,
    fold,
    integer,
    integral,
    limit,
    rewrite,
    roots,
    run_of,
    series,
    total,
    value,
    wrap,
)

_ZH = r"[^\u4e00-\u9fff]+?"  # a formula between Chinese words
_N = r"([^,=]+?)"
_V = r"(?P<v>[a-z]|theta)"
_IN = rf"(?:\s*,?\s*(?:with respect to|w\.?r\.?t\.?|in) {_V})?"
_D = r"(?:\s+d(?P<v>[a-z]))?"
_ABBREVIATED = r"(?: \((?:gcd|gcf|hcf|lcm)\))?(?: of| for)?(?: (?:these|the) numbers:?)? "  # (GCD) of these numbers:
_ORDER = r"(?:(?P<order>first|second|third|fourth|\d+(?:st|nd|rd|th)) )?"


def _patterns(*table: tuple[str, Build]) -> list[tuple[re.Pattern[str], Build]]:
    return [(re.compile(pattern, re.IGNORECASE), build) for pattern, build in table]


PATTERNS = _patterns(
    # calculus
    (rf"(?:the )?{_ORDER}derivative of (?P<e>.+?){_IN}(?:\s*,?\s*(?:at|when|for) (?:[a-z] ?= ?)?(?P<at>[-\d./]+|pi))?",
     derivative),
    (rf"differentiate (?P<e>.+?){_IN}", derivative),
    (rf"d/d{_V} ?(?P<e>.+)", derivative),
    (r"(?:对|求导:?|求) ?(?P<e>[^\u4e00-\u9fff]+?) ?(?:的导数|求导数?|的导函数)?(?<=[导数])", derivative),
    (r"求导(?:数)?[:,]? ?(?P<e>[^\u4e00-\u9fff]+)", derivative),
    (r"(?P<e>[^\u4e00-\u9fff]+?) ?的导数", derivative),
    (rf"(?:the )?(?:(?:definite|indefinite) )?(?:integral|antiderivative)(?: of)? (?P<e>.+?){_D}"
     r" from (?P<a>.+?) to (?P<b>.+?)", integral),
    (rf"integrate (?P<e>.+?){_D} from (?P<a>.+?) to (?P<b>.+?)", integral),
    (rf"integral ?_ ?\(?(?P<a>[^()^]+?)\)? ?\^ ?\(?(?P<b>[^()\s]+)\)? ?(?P<e>.+?) ?d ?{_V}", integral),
    (rf"(?:the )?(?:indefinite )?(?:integral|antiderivative)(?: of)? (?P<e>.+?) ?d ?{_V}", integral),
    (rf"(?:integrate|(?:the )?(?:indefinite )?(?:integral|antiderivative)(?: of)?) (?P<e>.+?){_IN}", integral),
    (rf"(?:求)? ?(?P<e>{_ZH}) ?从 ?(?P<a>{_ZH}) ?到 ?(?P<b>{_ZH}) ?的?定?积分", integral),
    (r"(?:求)? ?(?P<e>[^\u4e00-\u9fff]+?) ?的(?:不定)?积分", integral),
    (rf"(?:the )?limit of (?P<e>.+?) as {_V} (?:->|approaches|goes to|tends to) (?P<a>\S+(?: infinity)?)"
     r"(?: from (?:the )?(?P<side>left|right|above|below))?", limit),
    (rf"(?:the )?limit(?: as)? ?_? ?\(? ?{_V} ?(?:->|approaches|goes to|tends to) ?"
     r"(?P<a>[-\w]+?)(?:\^?(?P<side>[+-]))? ?\)?(?: of)? (?P<e>.+)", limit),
    (rf"lim(?:it)? ?_? ?\(? ?{_V} ?-> ?(?P<a>[-\w]+) ?\)? ?(?P<e>.+)", limit),
    (rf"(?:求)? ?当 ?{_V} ?(?:趋于|趋近于|趋向于?|->) ?(?P<a>\S+?) ?时,? ?(?P<e>[^\u4e00-\u9fff]+?) ?的极限", limit),
    (rf"(?:the )?(?:taylor |maclaurin |power )?(?:series|expansion)(?: expansion)? (?:of|for) (?P<e>.+?)"
     rf"(?: (?:around|about|at|near) (?:{_V} ?= ?)?(?P<a>[-\d./]+|pi))?"
     r"(?:,? (?:up )?to (?:order |degree )?(?P<n>\d+)(?:th)?(?: order)?)?", series),
    # sums
    (rf"(?:the )?sum of (?P<e>.+?) (?:for|from|where|when) {_V} ?(?:=|from) ?(?P<a>.+?) to (?P<b>.+)", total("sum")),
    (rf"sum ?_ ?\( ?{_V} ?= ?(?P<a>[^()]+)\) ?\^ ?\(?(?P<b>[^()\s]+)\)? ?(?P<e>.+)", total("sum")),
    (rf"(?:the )?product of (?P<e>.+?) (?:for|from|where) {_V} ?(?:=|from) ?(?P<a>.+?) to (?P<b>.+)", total("product")),
    (r"(?:the )?sum of (?:the )?first (?P<n>[\w ]+?) (?:natural|counting|positive) (?:numbers|integers)", first("k")),
    (r"(?:the )?sum of (?:the )?first (?P<n>[\w ]+?) (?:numbers|integers)", first("k")),
    (r"(?:the )?sum of (?:the )?first (?P<n>[\w ]+?) odd (?:numbers|integers)", first("2*k - 1")),
    (r"(?:the )?sum of (?:the )?first (?P<n>[\w ]+?) even (?:numbers|integers)", first("2*k")),
    (r"(?:the )?sum of (?:the )?first (?P<n>[\w ]+?) (?:perfect )?squares", first("k^2")),
    (r"(?:the )?sum of (?:the )?first (?P<n>[\w ]+?) (?:perfect )?cubes", first("k^3")),
    (r"(?:the )?sum of (?:all )?(?:the )?(?:whole |natural )?(?:integers|numbers) (?:from|between) "
     r"(?P<a>[\w ]+?) (?:to|and|through) (?P<b>[\w ]+)", run_of),
    (r"从 ?(?P<a>\d+) ?(?:加)? ?到 ?(?P<b>\d+) ?(?:的和|相加)?", run_of),
    # number theory
    (rf"(?:the )?(?:gcd|gcf|hcf|(?:greatest|highest) common (?:divisor|factor)){_ABBREVIATED}(?P<l>.+)", call("gcd")),
    (rf"(?:the )?(?:lcm|(?:least|lowest) common multiple){_ABBREVIATED}(?P<l>.+)", call("lcm")),
    (r"(?P<l>[\d ,和与and]+?) ?的最大公(?:约|因)数", call("gcd")),
    (r"(?P<l>[\d ,和与and]+?) ?的最小公倍数", call("lcm")),
    (rf"is {_N} (?:a )?prime(?: number)?", integer("isprime", "is {0} prime")),
    (r"(\d+) ?是(?:不是|否是?)?(?:一个)?(?:质数|素数)吗?", integer("isprime", "is {0} prime")),
    (rf"(?:the )?prime factors? of {_N}|(?:the )?prime factori[sz]ation of {_N}", lambda m: factorise(m)),
    (rf"factor(?:i[sz]e)? {_N} (?:into primes?|into prime factors)", integer("factorise", "{0}")),
    (r"(?:把|将|对)? ?(\d+) ?(?:进行)?(?:分解质因数|质因数分解|的质因数)", integer("factorise", "{0}")),
    (r"(?:分解质因数|质因数分解):? ?(\d+)", integer("factorise", "{0}")),
    (rf"(?:all )?(?:the )?(?:positive )?(?:divisors|factors) of {_N}", integer("divisors", "divisors of {0}")),
    (r"(?:the )?(\d+)(?:st|nd|rd|th) prime(?: number)?", integer("nthprime", "prime number {0}")),
    (r"第 ?(\d+) ?个(?:质数|素数)", integer("nthprime", "prime number {0}")),
    (rf"(?:the )?next prime(?: number)? after {_N}", integer("nextprime", "next prime after {0}")),
    (rf"(?:primes|prime numbers) (?:are there )?(?:are )?(?:less than|below|under|smaller than) {_N}",
     integer("primesbelow", "primes below {0}")),
    (rf"(?:the )?remainder (?:when|of|if) {_N} (?:is )?divided by {_N}", wrap("{0} mod {1}")),
    (r"(\d+) ?/ ?(\d+) ?的余数", wrap("{0} mod {1}")),
    (r"(?:the )?(\d+)(?:st|nd|rd|th) fibonacci(?: number)?", wrap("fibonacci({0})")),
    (rf"(?:the )?(?:binomial coefficient )?{_N} choose {_N}", wrap("binomial({0}, {1})")),
    (rf"(?:the )?(?:ways to choose|combinations of choosing) {_N} (?:items )?(?:from|out of) {_N}(?: items)?",
     wrap("binomial({1}, {0})")),
    (rf"(?:the )?factorial of {_N}", wrap("{0}!")),
    # rewriting
    (r"(?:simplify|reduce) (?:the )?(?:fraction )?(?P<e>[^=]+?) to (?:its )?(?:lowest|simplest) (?:terms|form)", value),
    (r"simplify:? (?P<e>[^=]+)|化简:? ?(?P<f>[^=\u4e00-\u9fff]+)", lambda m: rewrite(m, "simplify")),
    (r"expand:? (?P<e>[^=]+)|展开:? ?(?P<f>[^=\u4e00-\u9fff]+)", lambda m: rewrite(m, "expand")),
    (r"(?:fully )?factor(?:i[sz]e)?:? (?P<e>[^=]+)|"
     r"(?:因式分解|分解因式):? ?(?P<f>[^=\u4e00-\u9fff]+)", lambda m: rewrite(m, "factor")),
    # equations
    (r"(?:the )?(?:solve|solutions? (?:of|to)|solution set of|解|求解)? ?(?:the )?(?:following )?"
     r"(?:(?:quadratic |linear |cubic )?equations?|system(?: of equations)?|simultaneous equations|方程组|方程)?[:,]? ?"
     r"(?P<e>[^\u4e00-\u9fff]*=[^\u4e00-\u9fff]*?)"
     r"(?:,? (?:for|find|solve for|what is) (?:the value of )?(?P<v>[a-z](?:(?:,| and| ,|, and) ?[a-z])*))?"
     r"(?: ?的解|,? ?求 ?[a-z](?: ?= ?)?|,? ?[a-z] ?=)?", equations),
    (r"solve for (?P<v>[a-z])(?: in|:|,|, if| if| when)? ?(?P<e>.*=.*)", equations),
    (r"(?:the )?(?:value of )?(?P<v>[a-z]) (?:if|when|such that|given(?: that)?|in(?: the equation)?|where|"
     r"that satisfies|satisfying)[:,]? "
     r"(?P<e>.*=.*)", equations),
    (r"(?P<v>[a-z])[:,] (?P<e>.*=.*)", equations),
    (r"if (?P<e>.*=.*?),? (?:then )?(?:what is|find|what's|what does|solve for) "
     r"(?:the value of )?(?P<v>[a-z])(?: equal)?", equations),
    (r"(?:the )?(?:roots?|zeros|zeroes|solutions?) of (?P<e>[^=]+)", roots),
    # comparisons
    (r"(?:is|does|are) (?P<a>.+?) ?(?P<r>(?:<=|>=|==|=|<|>)|equals?(?: to)?|the same as|"
     r"(?:less|greater|smaller|bigger|larger|more) than(?: or equal to)?|at most|at least) ?(?P<b>.+)", compare),
    # lists
    (r"(?:the )?sum of (?P<l>[^=]+)", fold("+")),
    (r"(?:the )?product of (?P<l>[^=]+)", fold("*")),
    (r"(?:the )?difference (?:between|of) (?P<l>[^=]+)", fold("-", reverse=True)),
    (r"(?:the )?quotient of (?P<l>[^=]+)", fold("/", reverse=True)),
    (r"(?:the )?(?:average|mean|arithmetic mean)(?: of)? (?P<l>[^=]+)", call("mean")),
    (r"(?:the )?median(?: of)? (?P<l>[^=]+)", call("median")),
    (r"(?:the )?(?:max|maximum|largest)(?: of)? (?P<l>[^=]+)", call("max")),
    (r"(?:the )?(?:min|minimum|smallest)(?: of)? (?P<l>[^=]+)", call("min")),
    (rf"add {_N} (?:and|to) {_N}", wrap("{0} + {1}")),
    (rf"subtract {_N} from {_N}", wrap("{1} - {0}")),
    (rf"multiply {_N} (?:by|and|with) {_N}", wrap("{0} * {1}")),
    (rf"divide {_N} by {_N}", wrap("{0} / {1}")),
    (r"(?:solve )?(?:the )?(?:final )?(?:(?:answer|result) (?:to|of) )?(?:the )?following "
     r"(?:arithmetic |mathematical )?(?:problem|expression|calculation|addition|subtraction|multiplication|division): "
     r"(?P<e>[^=]+)", value),
    (r"(?P<e>[^=]+)", value),
)  # fmt: skip
