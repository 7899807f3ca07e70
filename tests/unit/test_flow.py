"""What is said of queues: layers, and what makes no sense."""

import pytest

from longshore.core import limit_settings
from longshore.core.limit_settings import (
    BreakerSettings,
    Order,
    QueueSettings,
    effective,
    limit_of,
)
from longshore.core.token_bucket import Limit
from longshore.errors import ConfigError
from longshore.queues import QueueOptions


def test_an_operators_word_counts_field_by_field():
    declared = QueueSettings(max_running=10, rate=5.0, order=Order.FAIR)
    overridden = QueueSettings(max_running=2, burst=9)

    assert effective(declared, overridden) == QueueSettings(
        max_running=2, rate=5.0, burst=9, order=Order.FAIR
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (QueueSettings(max_running=0), "max_running is 0; it must be a whole number from 1"),
        (QueueSettings(max_running=True), "max_running is True"),
        (QueueSettings(max_depth=2.5), "max_depth is 2.5; it must be a whole number"),  # pyright: ignore[reportArgumentType]
        (QueueSettings(rate=2e6), "rate is 2000000.0; it must be from 0.001 to 1e+06"),
        (QueueSettings(rate=float("nan")), "rate is nan"),
        (QueueSettings(retry_rate=0.0005), "retry_rate is 0.0005"),
        (QueueSettings(rate=0.3333), "thousandths"),
        (QueueSettings(order="best"), "order is 'best'; it must be strict or aging or fair"),  # pyright: ignore[reportArgumentType]
        (BreakerSettings(ratio=1.5), "ratio is 1.5; it must be from 0 to 1"),
    ],
)
def test_settings_that_make_no_sense_say_what_would(
    settings: QueueSettings | BreakerSettings, words: str
):
    with pytest.raises(ConfigError) as refused:
        limit_settings.validate("mail", settings)

    assert words in str(refused.value)


def test_a_rate_without_a_burst_holds_what_it_brings_in_a_second():
    assert limit_of(2.5, None) == Limit(2.5, 3)
    assert limit_of(0.01, None) == Limit(0.01, 1)
    assert limit_of(100.0, 7) == Limit(100.0, 7)
    assert limit_of(None, 7) is None


def test_what_is_enforced_can_be_declared():
    assert set(QueueOptions.__annotations__) == limit_settings.ENFORCED
    assert set(QueueSettings.__struct_fields__) >= limit_settings.ENFORCED
