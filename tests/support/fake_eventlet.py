"""Objects of eventlet in fake memory, which are instances of Python classes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.fake_gevent import FakeGevent

#: By class: its module, its base.
_CLASSES = {
    "Semaphore": ("eventlet.semaphore", ""), "BoundedSemaphore": ("eventlet.semaphore", "Semaphore"),
    "Lock": ("eventlet.lock", "Semaphore"), "Event": ("eventlet.event", ""), "Queue": ("eventlet.queue", "LightQueue"),
    "LightQueue": ("eventlet.queue", ""), "Waiter": ("eventlet.queue", ""),
    "GreenThread": ("eventlet.greenthread", "greenlet.greenlet"), "BaseHub": ("eventlet.hubs.hub", ""),
    "Hub": ("eventlet.hubs.epolls", "BaseHub"), "Timer": ("eventlet.hubs.timer", ""),
    "FdListener": ("eventlet.hubs.hub", ""),
}


class FakeEventlet(FakeGevent):
    """A runtime with greenlets of eventlet."""

    def class_of(self, name: str) -> int:
        """A class of eventlet, with its bases (``PyTypeObject *``)."""
        if name not in self._types:
            self.instance(name, inline=False)
        kind = self.type_object(name)
        module, base = _CLASSES.get(name, ("app", "BaseHub"))
        self.build.put("PyTypeObject", kind, tp_dict=self.namespace(__module__=self.string(module)))
        if base:
            base_kind = self.class_of(base) if base in _CLASSES else self.type_object(base)
            self.build.put("PyTypeObject", kind, tp_base=base_kind)
        return kind

    def of_class(self, name: str, **attributes: int) -> int:
        """An instance that the collector tracks."""
        self.class_of(name)
        at = self.instance(name, inline=False, **attributes)
        self.lists[2].append(at)
        return at

    def truth(self, value: bool) -> int:
        """``True`` or ``False``."""
        at = self.integer(int(value))
        self.build.put("PyObject", at, ob_type=self.type_object("bool"))
        return at

    def semaphore(self, kind: str, *waiters: int, counter: int = 0, initial: int = 1) -> int:
        """A semaphore with these greenlets."""
        return self.of_class(kind, counter=self.integer(counter), _waiters=self.deque(*waiters),
                             original_counter=self.integer(initial))

    def event(self, *waiters: int) -> int:
        """An event with these greenlets."""
        return self.of_class("Event", _waiters=self.set_object(*waiters))

    def timer(self, callback: int, *arguments: int, seconds: int = 1, called: bool = False) -> int:
        """A call that a hub is to make."""
        call = self.tuple_object(callback, self.tuple_object(*arguments), self.dictionary([]))
        return self.instance("Timer", inline=False, seconds=self.integer(seconds), called=self.truth(called), tpl=call)

    def listener(self, callback: int, throw: int, spent: bool = False) -> int:
        """What a hub has for a descriptor."""
        return self.instance("FdListener", inline=False, cb=callback, tb=throw, spent=self.truth(spent))

    def hub(self, *timers: int, kind: str = "Hub", runs: int = 0, listeners: Sequence[int] = (),
            second: Sequence[int] = (), closed: Sequence[int] = (), new: Sequence[int] = ()) -> int:
        """A hub with its scheduled calls; `runs` is its greenlet."""
        def entries(calls: Sequence[int]) -> int:
            return self.list_object(*(self.tuple_object(self.integer(5), each) for each in calls))

        def descriptors(values: Sequence[int]) -> int:
            inner = self.dictionary([(self.integer(3 + i), each) for i, each in enumerate(values)])
            return self.dictionary([(self.string("read"), inner)])

        return self.of_class(kind, greenlet=runs or self.builtin("NoneType", "PyObject"), timers=entries(timers),
                             next_timers=entries(new), closed=self.list_object(*closed),
                             listeners=descriptors(listeners),
                             secondaries=descriptors([self.list_object(*second)] if second else []))

    def closure(self, *values: int) -> int:
        """A function with these free variables."""
        at = self.function("on_timeout")
        self.build.put("PyFunctionObject", at, func_closure=self.tuple_object(*map(self.cell, values)))
        return at
