"""The system call filter: a deny list, compiled to the classic BPF that the kernel wants. No library is needed.

A list of what is allowed would be stricter, but Python, numpy and the C library use some 200 calls that differ by
version; a missing one looks like a wrong answer. Calls newer than the list are refused, so it does not age.
"""

from __future__ import annotations

import errno
import platform
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from core.errors import SandboxUnavailable
from core.sandbox import syscalls

_LOAD, _JUMP_EQUAL, _JUMP_ABOVE, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK
_PR_SET_PDEATHSIG = 1
_SIGNAL_FCNTL = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: any signal to any process of the same user
_SIGNAL_IOCTL = (0x8901, 0x8902, 0x5412, 0x541C)  # FIOSETOWN, SIOCSPGRP; TIOCSTI, TIOCLINUX type into a terminal

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


@dataclass(frozen=True, slots=True)
class Architecture:
    """One machine type: its column in the tables, its audit number, and whether it has a second call table."""

    column: int
    audit: int
    has_x32: bool


ARCHITECTURES = {
    "x86_64": Architecture(0, 0xC000003E, True),
    "aarch64": Architecture(1, 0xC00000B7, False),
}


def build_filter(*, landlock: bool, machine: str | None = None) -> bytes:
    """The filter as an array of `struct sock_filter`.

    Args:
        landlock: add what a mount namespace would guard but landlock does not: changes of file metadata are
            answered with success and do nothing, and no program can be executed.
        machine: as `platform.machine()` says; default: this one.

    Raises:
        SandboxUnavailable: the numbers of this architecture are not known here.
    """
    name = machine or platform.machine()
    if name not in ARCHITECTURES or sys.byteorder != "little":
        raise SandboxUnavailable(f"no system call numbers for {name}: only {', '.join(ARCHITECTURES)} are known")
    arch = ARCHITECTURES[name]
    code = _prologue(arch)
    for table in (syscalls.REACH, syscalls.OUTLIVE, syscalls.HOARD, syscalls.KERNEL):
        code += _answer(arch, table, errno.EPERM)
    if landlock:
        code += _answer(arch, syscalls.EXEC, errno.EPERM)
        code += _answer(arch, syscalls.METADATA, 0)
        code += _answer(arch, {"truncate": syscalls.SPECIAL["truncate"]}, errno.EPERM)
    code += _judged(arch)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _prologue(arch: Architecture) -> list[Instruction]:
    code = [(_LOAD, 0, 0, _ARCH), (_JUMP_EQUAL, 1, 0, arch.audit), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if arch.has_x32:
        code += [(_JUMP_BITS, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    return [*code, (_JUMP_ABOVE, 0, 1, syscalls.NEWEST), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]


def _answer(arch: Architecture, table: syscalls.Numbers, error: int) -> list[Instruction]:
    """Answer every call of the table with `error` (0: pretend success)."""
    code: list[Instruction] = []
    for numbers in table.values():
        if (number := numbers[arch.column]) is not None:
            code += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error)]
    return code


def _judged(arch: Architecture) -> list[Instruction]:
    """Calls that are right or wrong by an argument."""
    refuse: Instruction = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    allow: Instruction = (_RETURN, 0, 0, _ALLOW)
    code: list[Instruction] = []

    def rule(name: str, body: Iterable[Instruction]) -> None:
        number = syscalls.SPECIAL[name][arch.column]
        block = list(body)
        assert number is not None
        code.extend([(_JUMP_EQUAL, 0, len(block), number), *block])

    # Threads are wanted, processes are not. clone3 hides its flags in memory, so the C library falls back to clone.
    rule("clone3", [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)])
    rule("clone", [_argument(0), (_JUMP_BITS, 0, 1, _CLONE_THREAD), allow, refuse])
    # A stream pair talks to itself only (asyncio wants one); a datagram pair could address any UNIX socket.
    kind = ((_JUMP_EQUAL, 0, 1, _SOCK_STREAM | flags) for flags in (0, 0o2000000, 0o4000, _SOCK_FLAGS))
    pairs = [step for jump in kind for step in (jump, allow)]
    rule("socketpair", [_argument(0), (_JUMP_EQUAL, 1, 0, _AF_UNIX), refuse, _argument(1), *pairs, refuse])
    no_address = [_argument(4), (_JUMP_EQUAL, 1, 0, 0), refuse, _argument(4, high=True), (_JUMP_EQUAL, 0, 1, 0)]
    rule("sendto", [*no_address, allow, refuse])
    rule("prlimit64", [_argument(0), (_JUMP_EQUAL, 0, 1, 0), allow, refuse])
    rule("fcntl", [_argument(1), *_none_of(_SIGNAL_FCNTL, refuse), allow])
    rule("ioctl", [_argument(1), *_none_of(_SIGNAL_IOCTL, refuse), allow])
    rule("prctl", [_argument(0), *_none_of((_PR_SET_PDEATHSIG,), refuse), allow])
    return code


def _argument(index: int, *, high: bool = False) -> Instruction:
    """Load one half of a 64-bit argument."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index + (4 if high else 0))


def _none_of(values: Iterable[int], refuse: Instruction) -> list[Instruction]:
    return [step for value in values for step in ((_JUMP_EQUAL, 0, 1, value), refuse)]
