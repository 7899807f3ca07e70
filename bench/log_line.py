"""What one line about a job that succeeded costs the worker, in both formats.

python bench/log_line.py [--lines 20000] 2>/dev/null
"""

import argparse
import logging
import sys
from time import process_time

from longshore.core import settle
from longshore.runtime import logs
from longshore.testing.factories import a_claim
from longshore.worker.log_fields import Successes


def main() -> None:
    """Print microseconds of processor time per line; the lines go to standard error."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=20_000)
    count = parser.parse_args().lines
    claims = [a_claim(handle=number) for number in range(count)]
    ends = [settle.succeeded(one, started_at=10, finished_at=30) for one in claims]
    for as_json in (True, False):
        logs.configure("info", as_json=as_json)
        for most in (count, 100):
            successes = Successes("host:1", most)
            began = process_time()
            successes.tell(claims, ends)
            took = (process_time() - began) / count * 1e6
            which = "json" if as_json else "text"
            sys.stdout.write(
                f"{which}  {min(most, count)} of {count} lines: {took:.2f} µs per job\n"
            )
    logging.shutdown()


if __name__ == "__main__":
    main()
