"""API keys: their text, and whom they let in."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from longshore.core import account
from longshore.core.account import Access, ApiKey, Credential, Tenant
from longshore.core.token_bucket import Limit
from longshore.runtime.keys import mint
from longshore.testing.factories import HOUR, a_key

NOW = 1_767_225_600_000_000


def a_stored_key(**changes: Any) -> ApiKey:
    new = a_key()
    key = ApiKey(
        id=new.id,
        digest=new.digest,
        tenant=new.tenant,
        scopes=new.scopes,
        label=new.label,
        created_at=NOW,
    )
    return replace(key, **changes)


def an_access(text: str, **changes: Any) -> Access:
    credential = account.parse(text)
    assert credential is not None
    key = a_stored_key(digest=account.digest(credential.secret), **changes)
    return Access(key, Tenant(name="default"))


def secret_of(text: str) -> str:
    credential = account.parse(text)
    assert credential is not None
    return credential.secret


def test_a_new_key_has_the_shape_that_scanners_look_for():
    key = mint()

    assert re.fullmatch(account.KEY_PATTERN, key.text)
    assert account.parse(key.text) == Credential(key.id, key.text.split("_")[2])
    assert key.digest == account.digest(secret_of(key.text))


def test_no_two_keys_are_alike_and_none_shows_its_secret():
    keys = [mint() for _ in range(1_000)]

    assert len({key.id for key in keys}) == len({key.digest for key in keys}) == 1_000
    assert secret_of(keys[0].text) not in repr(keys[0])
    assert secret_of(keys[0].text) not in repr(account.parse(keys[0].text))


def test_a_rotated_key_keeps_its_id():
    key = mint()

    again = mint(key.id)

    assert (again.id, again.digest == key.digest) == (key.id, False)


def test_a_secret_has_more_than_160_bits():
    assert len(account.ALPHABET) ** account.SECRET_LENGTH > 2**160


@given(st.text() | st.from_regex(account.KEY_PATTERN, fullmatch=True))
def test_a_text_that_is_no_key_is_none(text: str):
    assert account.parse(text) is None


@given(place=st.integers(0, 55), letter=st.sampled_from(account.ALPHABET + "_-\n\0ß"))
def test_a_key_with_a_typing_error_is_none(place: int, letter: str):
    text = account.compose("abcdefghijkl", "0123456789abcdef0123456789abcdef")
    wrong = text[:place] + letter + text[place + 1 :]

    assert (account.parse(wrong) is None) == (wrong != text)


def test_the_right_secret_is_let_in_and_another_is_not():
    key = mint()

    assert account.admits(an_access(key.text), secret_of(key.text), NOW)
    assert not account.admits(an_access(key.text), secret_of(mint().text), NOW)
    assert not account.admits(None, secret_of(key.text), NOW)


def test_a_key_is_let_in_until_it_expires_or_is_revoked():
    key = mint()
    expiring = an_access(key.text, expires_at=NOW + 1)
    revoked = an_access(key.text, revoked_at=NOW)

    assert account.admits(expiring, secret_of(key.text), NOW)
    assert not account.admits(expiring, secret_of(key.text), NOW + 1)
    assert not account.admits(revoked, secret_of(key.text), NOW)


def test_a_secret_before_the_last_is_let_in_for_its_grace():
    old, new = mint(), mint()
    rotated = account.rotated(an_access(old.text).key, new.digest, grace=HOUR, now=NOW)
    access = Access(rotated, Tenant(name="default"))

    assert account.admits(access, secret_of(new.text), NOW + HOUR)
    assert account.admits(access, secret_of(old.text), NOW + HOUR - 1)
    assert not account.admits(access, secret_of(old.text), NOW + HOUR)


def test_a_key_of_a_tenant_that_is_disabled_or_gone_is_refused():
    key = mint()
    access = an_access(key.text)

    for tenant in (None, Tenant(name="default", is_disabled=True)):
        assert not account.admits(Access(access.key, tenant), secret_of(key.text), NOW)
    operators = Access(replace(access.key, tenant=None), None)
    assert account.admits(operators, secret_of(key.text), NOW)


@pytest.mark.parametrize("found", [True, False])
def test_a_check_compares_two_digests_whether_or_not_there_is_a_key(
    found: bool, monkeypatch: pytest.MonkeyPatch
):
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(account.hmac, "compare_digest", compare)
    account.admits(an_access(mint().text) if found else None, secret_of(mint().text), NOW)

    assert compared == [(32, 32), (32, 32)]


@pytest.mark.parametrize(
    ("rate", "burst", "limit"),
    [
        (None, None, None),
        (0.2, None, Limit(0.2, 1)),
        (12.5, None, Limit(12.5, 13)),
        (12.5, 100, Limit(12.5, 100)),
    ],
)
def test_a_tenant_without_a_burst_has_what_a_second_brings(
    rate: float | None, burst: int | None, limit: Limit | None
):
    assert Tenant(name="acme", rate=rate, burst=burst).limit == limit
