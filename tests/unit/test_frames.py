"""Tracebacks as they are stored."""

import traceback

import pytest

from longshore.worker.traceback_text import describe_frames


def _caught(action) -> BaseException:
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def _without_carets(told: str) -> list[str]:
    return [line for line in told.splitlines() if set(line.strip()) - set("^~")]


def _plain():
    raise ValueError("no")


def _from_another():
    try:
        _plain()
    except ValueError as error:
        raise RuntimeError("so") from error


def _while_handling():
    try:
        _plain()
    except ValueError:
        raise RuntimeError("then")  # noqa: B904


def _hiding():
    try:
        _plain()
    except ValueError:
        raise RuntimeError("alone") from None


def _wordless():
    raise ValueError


def _of_a_module():
    raise pytest.UsageError("no")


def _misspelt():
    return describe_frame  # noqa: F821


def _lacking():
    return "".isalphaa


def _unreadable():
    compile("1 +", "nowhere.py", "exec")


def _noted():
    error = ValueError("no")
    error.add_note("on a Monday\nin the rain")
    raise error


def _from_nowhere():
    raise type("StrayError", (Exception,), {"__module__": None})("no")


@pytest.mark.parametrize(
    "action",
    [_plain, _wordless, _of_a_module, _misspelt, _lacking, _unreadable, _noted, _from_nowhere],
)
def test_frames_are_told_as_python_tells_them_but_for_the_carets(action):
    error = _caught(action)

    told = describe_frames(error)

    expected = traceback.format_exception(type(error), error, error.__traceback__.tb_next)
    assert _without_carets(told) == _without_carets("".join(expected))


def test_a_cause_comes_first():
    told = describe_frames(_caught(_from_another))

    assert told.index("ValueError: no") < told.index("direct cause") < told.index("so\n")


def test_a_context_comes_first_too():
    told = describe_frames(_caught(_while_handling))

    assert told.index("ValueError: no") < told.index("During handling") < told.index("then")


def test_a_context_that_was_hidden_stays_hidden():
    assert "ValueError" not in describe_frames(_caught(_hiding))


def test_a_group_tells_its_members():
    error = ExceptionGroup("several", [_caught(_plain), _caught(_hiding)])

    told = describe_frames(_caught(lambda: (_ for _ in ()).throw(error)))

    assert "ValueError: no" in told
    assert "RuntimeError: alone" in told


def test_an_endless_recursion_is_cut():
    def again():
        again()

    assert len(describe_frames(_caught(again)).splitlines()) < 100


def test_an_error_that_is_its_own_cause_ends():
    error = _caught(_plain)
    error.__cause__ = error

    assert "ValueError: no" in describe_frames(error)


def test_an_error_whose_text_raises_is_survived():
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    def raise_mute():
        raise MuteError

    assert "Mute" in describe_frames(_caught(raise_mute))
