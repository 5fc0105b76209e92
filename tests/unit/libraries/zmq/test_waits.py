"""A thread that waits for messages of a ZeroMQ socket, from fake objects of the library and descriptors of files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from gdbext.inferior.protocol import Module, Section
from gdbext.model import Report
from gdbext.model.reasons import parts
from tests.support.blocked_threads import put
from tests.support.fake_proc import FakeProc
from tests.support.fake_target import LIBC_TEXT, FakeTarget
from tests.support.reasons import said
from tests.support.snapshots import report_of

ZMQ, SIZE = 0x7C00_0001_0000, 0x4000
POLL, EPOLL_WAIT = 7, 232
#: Descriptors: the mailbox, the epoll of the library's thread, a connection, a listening socket.
MAILBOX, EPOLL, CONNECTION, LISTENER = 8, 7, 9, 10


class Library:
    """The library in a target, with classes and objects."""

    def __init__(self, target: FakeTarget) -> None:
        self.target, self._next = target, ZMQ + 0x1000
        target.loaded.append(Module("/usr/lib/libzmq.so.5.2.5", (Section(".text", ZMQ, ZMQ + SIZE),)))
        target.ram.map(ZMQ, bytes(SIZE))
        own = self._image(struct.pack("<QQ", 0, self._image(b"N10__cxxabiv117__class_type_infoE\0")))
        self._type = self._image(struct.pack("<qQQ", 0, own, 0)) + 16

    def _image(self, data: bytes) -> int:
        at, self._next = self._next, self._next + (len(data) + 31 & ~15)
        self.target.ram.write(at, data)
        return at

    def object(self, name: str, words: dict[int, int], size: int = 4096) -> int:
        """An object of a class, with words at some offsets."""
        kind = self._image(struct.pack("<QQ", self._type, self._image(f"N3zmq{len(name)}{name}E\0".encode())))
        at = put(self.target, bytes(size))
        self.target.ram.u64(at, self._image(struct.pack("<qQQ", 0, kind, 0)) + 16)
        for offset, word in words.items():
            self.target.ram.u64(at + offset, word)
        return at


def report(tmp_path: Path, kind: str = "req_t", *, polled: int = MAILBOX, listens: bool = False,
           stored: int = CONNECTION) -> Report:
    """A thread polls a descriptor in the library, another one watches a connection with process 88.

    :param stored: the descriptor in the library's entry for the connection.
    """
    target, fake = FakeTarget(), FakeProc(tmp_path)
    library = Library(target)
    mailbox = library.object("mailbox_t", {16: MAILBOX | MAILBOX << 32})
    socket = library.object(kind, {24: mailbox})
    watched = {CONNECTION: library.object("zmtp_engine_t", {40: socket})}
    if listens:
        watched[LISTENER] = library.object("tcp_listener_t", {32: socket})
    lines = ""
    for fd, events in watched.items():
        entry = put(target, struct.pack("<iiQQ", stored if fd == CONNECTION else fd, 0, 0, events))
        lines += f"tfd: {fd:8} events:       19 data: {entry:16x}  pos:0 ino:1f sdev:9\n"
    fake.open(MAILBOX, "anon_inode:[eventfd]", os.O_RDWR)
    fake.open(EPOLL, "anon_inode:[eventpoll]", os.O_RDWR, more=lines)
    fake.open(CONNECTION, "socket:[31]", os.O_RDWR)
    fake.process(88, "worker")
    fake.open(3, "socket:[32]", os.O_RDWR, pid=88)
    fake.internet("tcp", "0100007F:0050", "0100007F:0051", 31)
    fake.internet("tcp", "0100007F:0051", "0100007F:0050", 32)
    target.proc = fake.proc()
    thread = target.blocked(target.thread(), POLL, put(target, struct.pack("<ihh", polled, 1, 0)), 1, 0xFFFFFFFF)
    thread.frames = [(LIBC_TEXT + 0x100, thread.stack), (ZMQ + 0x40, thread.stack + 0x40), *thread.frames[1:]]
    target.blocked(target.thread(), EPOLL_WAIT, EPOLL, 0, 256, 0xFFFFFFFF)
    return report_of(target)


def why(made: Report) -> list[str | None]:
    lock = made.lock(made.threads[0].waits.lock) if made.threads[0].waits is not None else None
    return [said(each) for each in parts(lock.why)] if lock is not None else []


def test_socket_with_a_connection(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert why(made) == ["a REQ socket of ZeroMQ", 'the other end is fd 3 of process 88 "worker"']
    assert [(each.what, each.process) for each in made.threads[0].ended_by] == [("process", 88)]


def test_others_may_connect_to_a_listening_socket(tmp_path: Path) -> None:
    made = report(tmp_path, "router_t", listens=True)
    assert why(made)[0] == "a ROUTER socket of ZeroMQ"
    assert why(made)[-1] == "others may connect"
    assert {each.what for each in made.threads[0].ended_by} == {"process", "outside"}


@pytest.mark.parametrize("how", [{"kind": "ctx_t"}, {"polled": 4}, {"stored": 5}])
def test_other_objects_and_descriptors_are_not_sockets(how: dict[str, int], tmp_path: Path) -> None:
    assert not any("ZeroMQ" in (each or "") for each in why(report(tmp_path, **how)))  # type: ignore[arg-type]
