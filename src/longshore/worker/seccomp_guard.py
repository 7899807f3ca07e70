"""A child process that reaches for its worker's life loses its own instead.

Linux is asked to end a process that sends a signal to the worker, to its process group or to
everyone: then the job has died alone, and is known. Whoever else kills the worker is not
hindered, so a worker that dies all the same did not die of this job. The fence holds for
everything that the process starts, and cannot be taken down.
"""

import ctypes
import functools
import os
import platform
import struct
import sys
from collections.abc import Sequence

__all__ = ["is_possible", "put_up", "targets"]

_ARCHITECTURES = {
    # The number that the kernel has for it, that of `seccomp`, and, with the place of the
    # signal among its arguments, those of kill, tkill, tgkill, rt_sigqueueinfo and
    # rt_tgsigqueueinfo.
    "x86_64": (0xC000003E, 317, ((62, 1), (200, 1), (234, 2), (129, 1), (297, 2))),
    "aarch64": (0xC00000B7, 277, ((129, 1), (130, 1), (131, 2), (138, 1), (240, 2))),
}
_PIDFD_OPEN = 434
_EVERYONE = -1

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_ALL_THREADS = 1
_PR_SET_NO_NEW_PRIVS = 38

_KILL_PROCESS, _ALLOW = 0x8000_0000, 0x7FFF_0000
_NOT_PERMITTED = 0x0005_0001
"""The call fails with EPERM: to open another process is not yet to signal it."""
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16


def targets() -> tuple[int, ...]:
    """What a child of this process may not send signals to, as `kill` names it."""
    return (os.getpid(), -os.getpgrp(), _EVERYONE)


@functools.cache
def is_possible() -> bool:
    """Whether the kernel does this, and lets this process ask for it."""
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES:
        return False
    action = ctypes.c_uint32(_KILL_PROCESS)
    return _seccomp(_GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def put_up(forbidden: Sequence[int]) -> None:
    """Let this process die when it sends a signal to one of these. OSError if it cannot be."""
    program = _program(forbidden)
    code = ctypes.create_string_buffer(b"".join(program))
    # struct sock_fprog: how many instructions, and where they are.
    described = struct.pack("@HP", len(program), ctypes.addressof(code))
    if _seccomp(_SET_MODE_FILTER, _ALL_THREADS, described) == 0:
        return
    # Without the right to do more, a process may do this if it gives up ever getting more.
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _seccomp(_SET_MODE_FILTER, _ALL_THREADS, described) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is not to be had")


def _seccomp(operation: int, flags: int, argument: object) -> int:
    _, number, _ = _ARCHITECTURES[platform.machine()]
    return ctypes.CDLL(None, use_errno=True).syscall(number, operation, flags, argument)


def _program(forbidden: Sequence[int]) -> list[bytes]:
    architecture, _, calls = _ARCHITECTURES[platform.machine()]
    program = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_IF_EQUAL, architecture, then=1),
        _step(_RETURN, _ALLOW),
    ]
    for number, signal_place in calls:
        # Signal 0 only asks whether someone is there.
        ends = [
            _step(_LOAD, _ARGUMENTS_AT + 8 * signal_place),
            _step(_JUMP_IF_EQUAL, 0, then=1),
            _step(_RETURN, _KILL_PROCESS),
            _step(_RETURN, _ALLOW),
        ]
        program += _guarded(number, forbidden, ends)
    program += _guarded(_PIDFD_OPEN, forbidden, [_step(_RETURN, _NOT_PERMITTED)])
    return [*program, _step(_RETURN, _ALLOW)]


def _guarded(number: int, forbidden: Sequence[int], ends: Sequence[bytes]) -> list[bytes]:
    """What is done about this call: it `ends` so when its first argument is one of these."""
    length = len(forbidden) + len(ends) + 2
    return [
        _step(_LOAD, _NUMBER_AT),
        _step(_JUMP_IF_EQUAL, number, otherwise=length),
        _step(_LOAD, _ARGUMENTS_AT),
        *(
            _step(_JUMP_IF_EQUAL, one, then=len(forbidden) - place)
            for place, one in enumerate(forbidden)
        ),
        _step(_RETURN, _ALLOW),
        *ends,
    ]


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction; jumps count the instructions that are left out."""
    return struct.pack("@HBBI", code, then, otherwise, value & 0xFFFF_FFFF)
