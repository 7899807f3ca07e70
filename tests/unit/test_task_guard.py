"""Which addresses pass the guard of `http.call`."""

from ipaddress import ip_address

import pytest

from longshore.errors import ConfigError
from longshore.tasks.ssrf import BlockedTargetError, Guard, is_public, reached

INWARD = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
]

OUTWARD = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "223.255.255.254",
    "2606:4700::1111",
    "2a00:1450:4001:800::200e",
    "64:ff9b::8.8.8.8",
    "::ffff:8.8.8.8",
    "2002:808:808::1",
]


@pytest.mark.parametrize("address", INWARD)
def test_an_address_that_leads_inward_is_refused(address: str):
    assert not Guard().allows(ip_address(address))


@pytest.mark.parametrize("address", OUTWARD)
def test_an_address_that_the_whole_internet_reaches_is_allowed(address: str):
    assert Guard().allows(ip_address(address))


@pytest.mark.parametrize("written", ["::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::1"])
def test_an_address_is_judged_by_where_its_packets_end_up(written: str):
    end = reached(ip_address(written))

    assert str(end) == "10.1.2.3"
    assert not is_public(end)


def test_a_network_can_be_allowed_without_its_neighbours():
    guard = Guard(["10.1.0.0/16", "::1/128"])

    assert guard.allows(ip_address("10.1.2.3"))
    assert guard.allows(ip_address("::ffff:10.1.2.3"))
    assert guard.allows(ip_address("::1"))
    assert not guard.allows(ip_address("10.2.0.1"))
    assert not guard.allows(ip_address("127.0.0.1"))


def test_a_network_that_makes_no_sense_stops_the_worker_from_starting():
    with pytest.raises(ConfigError, match="not a network"):
        Guard(["10.1.0.0/99"])


async def test_one_inward_address_among_public_ones_blocks_the_name():
    async def resolve(host: str, port: int) -> list[str]:
        return ["1.1.1.1", "127.0.0.1"]

    with pytest.raises(BlockedTargetError):
        await Guard(resolve=resolve).addresses("mixed.example", 80)


async def test_a_refusal_does_not_tell_which_inward_address_a_name_has():
    async def resolve(host: str, port: int) -> list[str]:
        return ["10.11.12.13"]

    with pytest.raises(BlockedTargetError) as refused:
        await Guard(resolve=resolve).addresses("intranet.example", 80)

    assert "10.11" not in str(refused.value)
