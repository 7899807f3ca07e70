"""Tracebacks as they are stored."""

import traceback

from longshore.worker.frames import describe_frames


def _caught(action) -> BaseException:
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


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


def test_frames_are_told_as_python_tells_them_but_for_the_carets():
    error = _caught(_plain)

    told = describe_frames(error)

    expected = [
        line
        for line in "".join(
            traceback.format_exception(type(error), error, error.__traceback__.tb_next)
        ).splitlines()
        if set(line.strip()) - set("^~")
    ]
    assert told.splitlines() == expected


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
