"""What the laboratory's broker is called."""

from longshore_lab.kafka import new_cluster_id


def test_a_cluster_is_never_called_like_an_option():
    names = {new_cluster_id() for _ in range(2_000)}

    assert len(names) == 2_000
    assert {len(name) for name in names} == {22}
    assert not any(name.startswith("-") for name in names)
