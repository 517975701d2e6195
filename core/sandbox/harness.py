"""Runs inside the sandbox around a solution, or around a check. Standard library only: the sandbox gets this text.

`serve` holds the solution and answers calls. `examine` holds the check, which calls a stand-in that asks the parent.
Both speak lines on the channel: a random token of this run, a space, a plain value (core/sandbox/wire.py). The token
keeps accidents apart, nothing more: a solution can find it, and gains the power to say what its own function returns.
"""

import builtins
import json
import sys

TYPE_CHECKING = False  # importing `typing` for real takes 8 ms in every sandboxed process
if TYPE_CHECKING:
    from typing import Any


class Unsupported(Exception):
    """The check hands over something that cannot cross, or wants something that cannot come back."""


class Line:
    """The channel to the parent."""

    def __init__(self, reading: int, writing: int) -> None:
        self._in, self._out = open(reading, "rb"), open(writing, "wb")  # noqa: SIM115
        self.setup = json.loads(self._in.readline())
        self.wire = type(sys)("wire")
        exec(self.setup["wire"], self.wire.__dict__)  # noqa: S102 - our own module, sent by the parent
        self._token = self.setup["token"].encode() + b" "

    def say(self, message: "dict[str, Any]") -> None:
        """Send one message. Raises WireError when a value in it is too large or too deep."""
        self._out.write(self._token + self.wire.dump(message).encode() + b"\n")
        self._out.flush()

    def hear(self) -> "dict[str, Any] | None":
        """The next message; None when the parent has hung up."""
        line = self._in.readline()
        message: dict[str, Any] | None = self.wire.load(line[len(self._token) :].decode()) if line else None
        return message


def run_module(source: str, name: str, **given: "Any") -> "dict[str, Any]":
    """Execute source as a module of its own, so that dataclasses and pickling find it. Returns its namespace."""
    module = type(sys)(name)
    module.__dict__.update(given)
    sys.modules[name] = module
    exec(compile(source, name + ".py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    return module.__dict__


def find(namespace: "dict[str, Any]", entry_point: str) -> "Any":
    """The function to call: `name`, `Class.method`, or a method of a class `Solution`; a fresh object each time."""
    head, _, method = entry_point.partition(".")
    if method:
        return getattr(namespace[head](), method)
    if entry_point in namespace:
        return namespace[entry_point]
    if hasattr(namespace.get("Solution"), entry_point):
        return getattr(namespace["Solution"](), entry_point)
    raise NameError(f"the code defines no function {entry_point}")


def describe(error: BaseException) -> "list[str]":
    """An exception as the nearest built-in class and its text."""
    names = [kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind]
    try:
        text = str(error)[:500]
    except BaseException:
        text = ""
    return [names[0], text, type(error).__name__]


def serve(line: Line) -> None:
    """Load the solution, then answer calls until the parent hangs up."""
    try:
        namespace = run_module(line.setup["solution"], "solution")
        find(namespace, line.setup["entry_point"])
    except BaseException as error:
        line.say({"error": describe(error)})
        return
    sys.stdout.flush()
    line.say({"value": None})
    while (message := line.hear()) is not None:
        try:
            function = find(namespace, line.setup["entry_point"])
            value = function(*message["args"], **message["kwargs"])
            sys.stdout.flush()
            line.say({"id": message["id"], "value": value})
        except BaseException as error:
            line.say({"id": message["id"], "error": describe(error)})


class Candidate:
    """Stands in for the solution's function inside the check: every call is made by the parent, elsewhere."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._calls = 0
        self.raised: list[Exception] = []

    def __call__(self, *args: "Any", **kwargs: "Any") -> "Any":
        """The solution's answer, or its exception. Raises Unsupported for arguments that cannot cross."""
        if any(callable(value) for value in (*args, *kwargs.values())):
            raise Unsupported("the check passes a function to the solution; only plain data can cross")
        number, self._calls = self._calls, self._calls + 1
        try:
            self._line.say({"id": number, "args": list(args), "kwargs": kwargs})
        except self._line.wire.WireError as error:
            if number:  # an earlier answer may be in it, made too large on purpose
                raise self._remember(RuntimeError(f"an argument cannot cross: {error}")) from None
            raise Unsupported(f"an argument cannot cross: {error}") from None
        try:
            answer = self._line.hear()
        except self._line.wire.WireError as error:
            raise self._remember(RuntimeError(f"the answer is not plain data: {error}")) from None
        if answer is None:
            raise SystemExit(1)
        if answer.get("id") != number or "value" not in answer:
            raise self._remember(rebuild(answer.get("error")))
        return answer["value"]

    def _remember(self, error: Exception) -> Exception:
        self.raised.append(error)
        return error


def rebuild(told: "Any") -> Exception:
    """The exception that `describe` told of, as a built-in one."""
    if not isinstance(told, list) or len(told) != 3:
        return RuntimeError("the answer belongs to no call")
    name, text, own_name = map(str, told)
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(text)
        except TypeError:  # some want more than a text
            pass
    return RuntimeError(f"{own_name}: {text}")


def examine(line: Line) -> None:
    """Run the check against a stand-in for the candidate and report how it went."""
    candidate = Candidate(line)
    name, source = line.setup["entry_point"], line.setup["check"]
    try:
        namespace = run_module(source, "check", **{name: candidate})
        namespace[name] = candidate  # the check's text may define it: the unfinished function of a prompt
        if callable(namespace.get("check")):
            namespace["check"](candidate)
    except Unsupported as error:
        line.say({"verdict": "unsupported", "detail": str(error)})
    except Exception as error:
        by = "candidate" if any(error is known for known in candidate.raised) else "check"
        detail = f"{type(error).__name__}: {str(error)[:300]}".rstrip(": ")
        line.say({"verdict": by, "detail": detail, "line": failing_line(error, source)})
    else:
        line.say({"verdict": "passed"})


def failing_line(error: BaseException, source: str) -> str:
    """The innermost line of the check that the exception passed through."""
    trace, number = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "check.py":
            number = trace.tb_lineno
        trace = trace.tb_next
    return source.splitlines()[number - 1].strip()[:300] if number else ""


if __name__ == "__main__":
    channel = Line(*globals().pop("__channel__"))
    {"serve": serve, "examine": examine}[channel.setup["mode"]](channel)
