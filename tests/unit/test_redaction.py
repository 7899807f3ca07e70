"""Texts do not repeat what a URL holds in secret."""

import pytest

from longshore.tasks.redaction import without_query, without_secrets


@pytest.mark.parametrize(
    ("text", "url", "told"),
    [
        ("token=abcd", "https://x/?token=abcd", "***"),
        ("got abcd and n", "https://x/?token=abcd&n=n", "got *** and n"),
        ("a b/c d", "https://x/?t=b%2Fc+d", "a ***"),
        ("b%2fc b%2Fc+d", "https://x/?t=b%2Fc+d", "b%2fc ***"),
        ("s3cr3t!", "https://x/?s3cr3t", "***!"),
        ("&lt;abcd&gt;", "https://x/?t=%3Cabcd%3E", "***"),
        ("part abcd", "https://x/a#abcd", "part abcd"),
        ("nothing", "https://x/", "nothing"),
        ("nothing", "https://x/?", "nothing"),
    ],
)
def test_the_query_is_taken_out_in_every_notation(text: str, url: str, told: str):
    assert without_secrets(text, url) == told


@pytest.mark.parametrize("rest", ["", "?a=b", "#a", "?a#b", "#a?b"])
def test_a_url_is_told_up_to_its_query(rest: str):
    assert without_query(f"https://x:8/p{rest}") == "https://x:8/p"
