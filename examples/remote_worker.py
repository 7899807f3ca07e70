"""A worker in plain Python, for those who write one in another language: no Longshore inside.

It knows one type of job, `add`. In three terminals:

longshore api
python remote_worker.py http://127.0.0.1:8080 [API key]
longshore --url http://127.0.0.1:8080 submit add a=2 b=3
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.request

BASE, LEASE_S, STOP = sys.argv[1] if sys.argv[1:] else "", 30, threading.Event()
TASKS = {"add": lambda payload: payload["a"] + payload["b"]}


def say(words):
    """A line for whoever watches."""
    print(time.strftime("%H:%M:%S"), words, flush=True)


def call(method, path, body=None):
    """One request, sent again until it is answered: every call may be."""
    headers = {"Content-Type": "application/json"}
    if len(sys.argv) > 2:
        headers["Authorization"] = f"Bearer {sys.argv[2]}"
    sent = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(BASE + path, sent, headers, method=method)
    for pause in (0.1, 0.2, 0.5, 1, 2, 5):
        try:
            with urllib.request.urlopen(asked, timeout=40) as answer:
                return json.loads(answer.read() or b"null")
        except OSError as error:
            if getattr(error, "code", 503) not in (429, 503):
                raise
            say(f"{method} {path}: {error}; again in {pause} s")
        time.sleep(pause)
    raise SystemExit(f"{BASE} does not answer")


def run(claim, state):
    """The settlement of one claim: succeeded, to be retried, or dead at the last."""
    begun = {"claim": claim["claim"], "started_at_us": state["now_us"]}
    try:
        result = TASKS[claim["type"]](claim["payload"])
        say(f"job {claim['id']} {claim['type']} {claim['payload']}: {result}")
        return begun | {"verb": "succeed", "result": result}
    except Exception as error:
        say(f"job {claim['id']} {claim['type']} {claim['payload']} failed: {error!r}")
        why = {"kind": type(error).__name__, "message": str(error)}
        failed = begun | {"charge": True, "failure": why}
        if claim["failures"] + 1 >= claim["max_attempts"]:
            return failed | {"verb": "kill", "reason": "exhausted"}
        return failed | {"verb": "retry", "delay_us": 10**6 * 5 ** (claim["failures"] + 1)}


def renew(session, state):
    """Keep the lease, and hear whether to stop."""
    while not STOP.wait(LEASE_S / 3):
        known = {"number": state["number"], "held": state["held"]}
        if call("POST", f"/v1/sessions/{session}:renew", known)["is_quiet"]:
            say("the service asks to stop")
            STOP.set()


def main():
    """Work until SIGTERM or Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    offer = {"worker": f"example-{os.getpid()}", "queues": ["default"], "types": list(TASKS)}
    session = call("POST", "/v1/sessions", offer | {"lease_us": LEASE_S * 10**6})["id"]
    say(f"session {session} is open: waiting for jobs of the type {', '.join(TASKS)}")
    state = {"number": 0, "held": []}
    threading.Thread(target=renew, args=(session, state), daemon=True).start()
    done = []
    while not STOP.is_set() or done:
        body = {"number": state["number"] + 1, "settlements": done, "wait_seconds": 2}
        body["want"] = 0 if STOP.is_set() else 1
        answer = call("POST", f"/v1/sessions/{session}:exchange", body)
        held = [one["claim"] for one in answer["claims"]]
        state.update(number=body["number"], held=held, now_us=answer["now_us"])
        done = [run(claim, state) for claim in answer["claims"]]
    call("DELETE", f"/v1/sessions/{session}")
    say(f"session {session} is closed")


if BASE:
    main()
else:
    print(__doc__)
