"""Find the conditions of a SQL statement or of a PL/pgSQL body, and take out one at a time.

There is no grammar here. A clause begins with a keyword (`where`, `on`, `having`, `if`, `when`,
`order by`, `limit` ...) and ends with another keyword, a semicolon or the bracket around it;
inside, `and`, `or` and commas outside of brackets separate the operands.

`probed` gives the same statement with a call around each condition that notes its value: only a
test in which a condition was not true can see that it is always true.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ["Change", "Probe", "changes", "probed"]

_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<string>[eE]?'(?:[^']|'')*'|\"[^\"]*\"|\$\w+)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<other>:[A-Za-z_]\w*|\d+(?:\.\d+)?|::|:=|<=|>=|<>|->>|->|\|\||.)",
    re.DOTALL,
)
_OPENING, _CLOSING = {"(", "["}, {")", "]"}
_ENDS_FILTER = {
    *("where", "group", "having", "order", "limit", "offset", "union", "except", "intersect"),
    *("returning", "window", "for", "on", "do", "loop", "join", "left", "right", "full"),
    *("inner", "cross", "natural", "then", "set", ","),
}
_ENDS_GUARD = {"then", "loop"}
_ENDS_ORDER = {
    *(
        "limit",
        "offset",
        "fetch",
        "rows",
        "range",
        "groups",
        "for",
        "union",
        "loop",
        "returning",
    ),
}
_ENDS_LIMIT = {"offset", "for", "loop", "union", "order"}
_JOINS = {"left", "right", "full"}
_MORE_ROWS = 1000
"""A limit that is taken out lets so many rows more pass."""


@dataclass(frozen=True, slots=True)
class Change:
    """One condition of a statement, and what the statement is without it."""

    clause: str
    """The keyword that the condition stands behind."""
    old: str
    """The condition, on one line."""
    new: str
    """What takes its place, in a word: `true`, `false`, `reversed`, `more`."""
    text: str
    """The whole statement with the change."""
    span: tuple[int, int] = (0, 0)
    """Where the condition begins and ends in the statement."""
    place: int = 1
    """Which one it is, where the same condition stands several times."""

    @property
    def label(self) -> str:
        """Clause, condition and change on one line, the same as long as these are the same."""
        again = f" ({self.place})" if self.place > 1 else ""
        return f"{self.clause} {self.old} -> {self.new}{again}"


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return self.text.lower()


def changes(sql: str) -> list[Change]:
    """Every change that takes one condition out of the statement."""
    tokens = [
        _Token(found[0], found.start(), found.end())
        for found in _TOKEN.finditer(sql)
        if found.lastgroup != "space"
    ]
    seen: dict[str, int] = {}
    result: list[Change] = []
    for clause, first, last, new in _found(tokens):
        begin, end = tokens[first].start, tokens[last - 1].end
        old = sql[begin:end]
        text = sql[:begin] + _instead(old, new) + sql[end:]
        one = Change(clause, _on_one_line(old), new, text, (begin, end))
        place = seen[one.label] = seen.get(one.label, 0) + 1
        result.append(replace(one, place=place))
    return result


@dataclass(frozen=True, slots=True)
class Probe:
    """A condition whose value is noted when the statement runs."""

    span: tuple[int, int]
    true: Sequence[str]
    """The changes, by label, that show only where the condition is not true."""
    false: Sequence[str]
    """Those that show only where it is true."""


def probed(sql: str, note: str, first: int = 0) -> tuple[str, list[Probe]]:
    """The statement with `note(number, condition)` around each condition, and the conditions.

    An order and a limit have no value that could be noted, and a full join takes no function.
    """
    found: dict[tuple[int, int], tuple[list[str], list[str]]] = {}
    has_full_join = re.search(r"\bfull\s+(outer\s+)?join\b", sql) is not None
    for one in changes(sql):
        if one.new in ("true", "false") and not (has_full_join and one.clause == "on"):
            true, false = found.setdefault(one.span, ([], []))
            (true if one.new == "true" else false).append(one.label)
    # At the same place what begins is around what has begun before it, if it is longer.
    marks: list[tuple[int, int, str]] = []
    for number, (begin, end) in enumerate(found, first):
        marks += [(begin, begin - end, f"{note}({number}, ("), (end, end - begin, "))")]
    text, done = "", 0
    for at, _, mark in sorted(marks, key=lambda mark: (mark[0], mark[2] != "))", mark[1])):
        text, done = text + sql[done:at] + mark, at
    return text + sql[done:], [Probe(span, *labels) for span, labels in found.items()]


def _instead(old: str, new: str) -> str:
    """The old condition stays in the text, so that its parameters keep their types."""
    if new == "more":
        return f"({old}) + {_MORE_ROWS}"
    if new == "reversed":
        shorter = re.sub(r"\s+(asc|desc)$", "", old, flags=re.IGNORECASE)
        return shorter if old.lower().endswith(" desc") else f"{shorter} desc"
    return f"(({old}) or true)" if new == "true" else f"(({old}) and false)"


def _on_one_line(text: str) -> str:
    return " ".join(re.sub(r"--[^\n]*", "", text).split())


_Found = tuple[str, int, int, str]
"""The clause, the first token of the condition, the one behind its last, and the change."""


def _found(tokens: list[_Token]) -> Iterator[_Found]:
    for at, token in enumerate(tokens):
        before = tokens[at - 1].word if at else ""
        behind = tokens[at + 1].word if at + 1 < len(tokens) else ""
        match before, token.word, behind:
            case (
                ("end", "if" | "loop", _)
                | (_, "on", "conflict" | "constraint")
                | ("distinct", "on", _)
            ):
                pass
            case _, "where" | "having" | "on" as clause, _:
                yield from _filter(tokens, clause, at + 1)
            case _, "if" | "elsif" | "while" | "when" as clause, _:
                if clause != "when" or not _is_plain_case(tokens, at):
                    yield from _guard(tokens, clause, at + 1)
            case "order", "by", _:
                yield from _order(tokens, at + 1)
            case _, "limit", following if following != "1":
                yield "limit", at + 1, _end(tokens, at + 1, _ENDS_LIMIT), "more"
            case _:
                pass


def _order(tokens: list[_Token], first: int) -> Iterator[_Found]:
    last = _end(tokens, first, _ENDS_ORDER)
    for begin, end in _split(tokens, first, last, ","):
        yield "order by", begin, end, "reversed"


def _filter(tokens: list[_Token], clause: str, first: int) -> Iterator[_Found]:
    """Rows pass a filter: without the condition, more of them do."""
    last = _end(tokens, first, _ENDS_FILTER)
    yield from _operands(tokens, clause, first, last)


def _guard(tokens: list[_Token], clause: str, first: int) -> Iterator[_Found]:
    """What a guard stands before is done always, or never."""
    last = _end(tokens, first, _ENDS_GUARD)
    conjuncts = _split(tokens, first, last, "and")
    if clause != "while" or len(conjuncts) > 1:
        yield from _operands(tokens, clause, first, last)
    yield clause, first, last, "false"


def _operands(tokens: list[_Token], clause: str, first: int, last: int) -> Iterator[_Found]:
    """Each operand of `and` is true, and each of `or` false, at every depth of brackets."""
    disjuncts = _split(tokens, first, last, "or")
    if len(disjuncts) > 1:
        yield clause, first, last, "true"
        for begin, end in disjuncts:
            yield clause, begin, end, "false"
            if len(_split(tokens, begin, end, "and")) > 1 or _bare(tokens, begin, end):
                yield from _inner(tokens, clause, begin, end)
        return
    for begin, end in _split(tokens, first, last, "and"):
        if [one.word for one in tokens[begin:end]] in (["true"], ["false"]):
            continue
        yield clause, begin, end, "true"
        yield from _inner(tokens, clause, begin, end)


def _inner(tokens: list[_Token], clause: str, first: int, last: int) -> Iterator[_Found]:
    """The operands of what stands in brackets, or of one side of an `or`."""
    bare = _bare(tokens, first, last)
    begin, end = bare or (first, last)
    is_compound = any(len(_split(tokens, begin, end, word)) > 1 for word in ("and", "or"))
    if not is_compound or (bare is None and len(_split(tokens, begin, end, "and")) == 1):
        return
    for one in _operands(tokens, clause, begin, end):
        if one[1:3] != (begin, end):
            yield one


def _bare(tokens: list[_Token], first: int, last: int) -> tuple[int, int] | None:
    """What is inside, if one pair of brackets is around all of it."""
    if tokens[first].text != "(" or tokens[last - 1].text != ")":
        return None
    closing = _end(tokens, first + 1, set())
    is_query = tokens[first + 1].word in ("select", "with", "values")
    return (first + 1, last - 1) if closing == last - 1 and not is_query else None


def _is_plain_case(tokens: list[_Token], at: int) -> bool:
    """Whether a `when` names a value (`case x when 1`) or an error, and no condition."""
    if tokens[at - 1].word == "exception" or tokens[at + 1].word == "sqlstate":
        return True
    if tokens[at + 1].text.startswith("'") and tokens[at + 2].word == "then":
        return True
    depth = 0
    for place in range(at - 1, -1, -1):
        word = tokens[place].word
        if word in _CLOSING or (word == "end" and _ends_case(tokens, place)):
            depth += 1
        elif depth and (word in _OPENING or word == "case"):
            depth -= 1
        elif word == "case":
            return tokens[place + 1].word != "when"
        elif word in _OPENING or word == ";":
            return False
    return False


def _ends_case(tokens: list[_Token], at: int) -> bool:
    return at + 1 == len(tokens) or tokens[at + 1].word not in ("if", "loop")


def _end(tokens: list[_Token], first: int, ends: set[str]) -> int:
    """Where a clause is over: a word of `ends`, or the end of what is around it."""
    depth = 0
    for at in range(first, len(tokens)):
        word = tokens[at].word
        if not depth and (word in _CLOSING or word in {";", "end"}):
            return at
        if not depth and word in ends and not _is_function(tokens, at):
            return at
        if word in _OPENING or word == "case":
            depth += 1
        elif word in _CLOSING or word == "end":
            depth -= 1
    return len(tokens)


def _is_function(tokens: list[_Token], at: int) -> bool:
    """`left(x, 1)` is no join."""
    return tokens[at].word in _JOINS and tokens[at + 1].text == "("


def _split(tokens: list[_Token], first: int, last: int, at_word: str) -> list[tuple[int, int]]:
    """The parts between `at_word`, outside of brackets; the `and` of a `between` is none."""
    parts: list[tuple[int, int]] = []
    depth, begin, is_between = 0, first, False
    for at in range(first, last):
        word = tokens[at].word
        if word in _OPENING or word == "case":
            depth += 1
        elif word in _CLOSING or word == "end":
            depth -= 1
        elif not depth and word == "between":
            is_between = True
        elif not depth and word == "and" and is_between:
            is_between = False
        elif not depth and word == at_word:
            parts.append((begin, at))
            begin = at + 1
    return [*parts, (begin, last)]
