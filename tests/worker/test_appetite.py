"""Which queues are asked, and for how much, when child processes are scarce."""

from longshore.worker.appetite import Appetite, Request

ALL = ("images", "mail", "default")


def an_appetite(**answer: list[str]) -> Appetite:
    """One that has just received an answer from everyone."""
    appetite = Appetite(ALL)
    receive(appetite, appetite.request(60, 2, None, 0.0), **answer)
    return appetite


def receive(appetite: Appetite, asked: Request, now: float = 0.0, **answer: list[str]) -> None:
    empty: dict[str, list[str]] = {"apart": [], "common": [], "surplus": []}
    appetite.received(asked, **(empty | answer), now=now)


def test_everyone_is_asked_for_everything_as_long_as_it_fits():
    appetite = an_appetite(apart=["images"], common=["mail"])

    assert appetite.request(60, 1, None, 0.0) == Request(60, None)
    assert appetite.request(60, 0, ("mail", "images"), 0.0) == Request(60, ("mail", "images"))


def test_without_child_processes_nothing_changes():
    appetite = Appetite(ALL)

    assert appetite.request(60, None, ALL, 0.0) == Request(60, ALL)
    assert appetite.is_eager(None) is False


def test_a_queue_of_jobs_for_children_is_not_asked_while_there_is_no_room():
    appetite = an_appetite(apart=["images"], common=["mail"], surplus=["images"])

    asked = appetite.request(60, 0, None, 0.0)

    assert asked == Request(60, ("mail", "default"), is_partial=True)
    assert appetite.is_eager(0) is False


def test_it_is_asked_for_what_there_is_room_in_turn_with_the_others():
    appetite = an_appetite(apart=["images"], common=["mail"], surplus=["images"])
    children = Request(2, ("images",), is_partial=True, is_for_children=True)
    others = Request(60, ("mail", "default"), is_partial=True)

    for _ in range(2):
        assert appetite.is_eager(2) is True
        assert appetite.request(60, 2, None, 0.0) == children
        receive(appetite, children, apart=["images"] * 2)
        assert appetite.request(60, 2, None, 0.0) == others
        receive(appetite, others)


def test_with_nothing_else_to_ask_no_more_is_asked_than_there_is_room():
    appetite = Appetite(("images",))
    receive(
        appetite,
        appetite.request(60, 2, None, 0.0),
        apart=["images"] * 60,
        surplus=["images"] * 58,
    )

    assert appetite.request(60, 0, None, 0.0).want == 0
    for _ in range(3):
        asked = appetite.request(60, 1, None, 0.0)
        assert asked == Request(1, ("images",), is_for_children=True)
        receive(appetite, asked, apart=["images"])


def test_once_it_gives_less_than_there_is_room_everyone_is_asked_again():
    appetite = an_appetite(apart=["images"], common=["mail"], surplus=["images"])
    asked = appetite.request(60, 2, None, 0.0)

    receive(appetite, asked, apart=["images"])

    assert appetite.request(60, 1, None, 0.0) == Request(60, None)


def test_a_mixed_queue_rests_and_is_asked_again():
    appetite = an_appetite(apart=["default"], common=["default", "mail"], surplus=["default"])

    assert appetite.request(60, 0, None, 0.1).queues == ("images", "mail")
    assert appetite.rest_of(0.1) == 0.15
    asked = appetite.request(60, 0, None, 0.3)
    assert asked == Request(60, ALL)
    assert appetite.rest_of(0.3) is None
    receive(appetite, asked, common=["default"], now=0.3)
    assert appetite.request(60, 0, None, 0.3) == Request(60, None)


def test_a_mixed_queue_that_rests_still_gives_what_the_children_can_begin():
    appetite = Appetite(("default",))
    both = ["default"]
    asked = appetite.request(60, 2, None, 0.0)
    receive(appetite, asked, apart=both * 5, common=both, surplus=both * 3)

    for _ in range(3):
        asked = appetite.request(60, 1, None, 0.1)
        assert asked == Request(1, ("default",), is_for_children=True)
        receive(appetite, asked, apart=both, now=0.1)
