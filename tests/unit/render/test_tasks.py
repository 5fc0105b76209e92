from __future__ import annotations

from dataclasses import replace

from gdbext.model import Awaited, EventLoop, PyFrame, Report, Task, Thread
from gdbext.render.style import Style
from gdbext.render.tasks import TaskTree
from gdbext.render.text import TextRenderer
from gdbext.schema.write import PARTS, document
from tests.support.fake_report import HOSTILE, INFO, hostile

LOOP, STOPPED = 0x7000, 0x8000
SLEEP = Awaited(kind="asyncio.sleep")


def frame(function: str, line: int) -> PyFrame:
    return PyFrame(function, f"Job.{function}", "/app/job.py", line)


def task(address: int, name: str | None, awaits: Awaited = SLEEP, line: int = 1, **more: object) -> Task:
    given: dict[str, object] = {"loop": LOOP, "thread": 1, "state": "pending", "stack": (frame("work", line),), **more}
    return Task(address, name, awaits=awaits, **given)  # type: ignore[arg-type]


def report(*tasks: Task, cycles: tuple[tuple[int, ...], ...] = (),
           loops: tuple[EventLoop, ...] | None = None) -> Report:
    """A report of tasks, with `awaited_by` set from their awaits."""
    by = {each.address: tuple(other.address for other in tasks if each.address in other.awaits.tasks) for each in tasks}
    thread = Thread(1, 885, 885, "python", "MainThread", status="blocked", syscall="read")
    return Report(INFO, threads=(thread,), event_loops=loops or (EventLoop(LOOP, "_UnixSelectorEventLoop", 1),),
                  tasks=tuple(replace(each, awaited_by=by[each.address]) for each in tasks), task_cycles=cycles)


def text(given: Report, stacks: str = "none") -> str:
    renderer = TextRenderer(given, Style(), lambda file, line: f"    line {line}")
    return TaskTree(given, renderer, stacks).render()


def verdict(given: Report) -> str:
    return TextRenderer(given, Style(), lambda file, line: None).verdict()


def lines(given: Report, stacks: str = "none") -> list[str]:
    return text(given, stacks).splitlines()


def test_tree() -> None:
    both = task(0x10, "main", Awaited((0x20, 0x30), kind="asyncio.gather"), 5)
    lock = Awaited(kind="asyncio.Lock", address=0x90, name="self.lock", holders=(0x40,))
    given = report(both, task(0x20, "a", Awaited((0x40,), kind="asyncio.wait_for", timed=True)),
                   task(0x30, "b", lock, 9), task(0x40, "c", line=7))
    assert text(given, "full") == """\
Event loop 0x7000 (_UnixSelectorEventLoop) runs in thread 1 "MainThread": 4 tasks
  Task "main" 0x10 waits for 2 tasks (asyncio.gather)
    #0   work at /app/job.py:5
             line 5
    Task "a" 0x20 waits for the task below (asyncio.wait_for), with a timeout
      #0   work at /app/job.py:1
               line 1
      Task "c" 0x40 sleeps
        #0   work at /app/job.py:7
                 line 7
    Task "b" 0x30 waits for asyncio.Lock 0x90 self.lock, held by "c" 0x40
      #0   work at /app/job.py:9
               line 9

"""


def test_wait_of_a_task() -> None:
    given = report(
        task(0x10, "busy", Awaited(), state="running"), task(0x20, "ready", Awaited()),
        task(0x30, "over", Awaited(), state="done"), task(0x40, "gone", Awaited(), state="cancelled"),
        task(0x50, None, Awaited(others=1, kind="Future", address=0x99)),
        task(0x60, "more", Awaited((0x30,), 2, "asyncio.gather")))
    told = lines(given)
    assert '  Task "busy" 0x10 runs; its thread is in the system call read' in told
    assert '  Task "ready" 0x20 is ready to run' in told
    assert '    Task "over" 0x30 is done' in told
    assert '  Task "gone" 0x40 is cancelled' in told
    assert "  Task 0x50 waits for Future 0x99" in told
    assert '  Task "more" 0x60 waits for the task below and 2 other futures (asyncio.gather)' in told


def test_stacks() -> None:
    deep = replace(task(0x10, "t"), stack=tuple(frame("work", i) for i in range(9)))
    assert len(lines(report(deep), "none")) == 3
    assert sum("#" in line for line in lines(report(deep), "full")) == 9
    assert sum("#" in line for line in lines(report(deep), "top")) == 3
    assert "... 6 frames" in text(report(deep), "top")


def test_task_with_several_waiters_is_shown_once() -> None:
    given = report(task(0x10, "a", Awaited((0x30,)), 1), task(0x20, "b", Awaited((0x30, 0x40)), 2),
                   task(0x30, "c", line=3), task(0x40, "d", line=4))
    assert lines(given)[1:5] == [
        '  Task "a" 0x10 waits for the task below', '    Task "c" 0x30 sleeps',
        '  Task "b" 0x20 waits for 2 tasks; "c" 0x30 shown above', '    Task "d" 0x40 sleeps']


def test_cycle_of_tasks() -> None:
    given = report(task(0x10, "a", Awaited((0x20,))), task(0x20, "b", Awaited((0x10,))),
                   task(0x30, "behind", Awaited((0x10,))), cycles=((0x10, 0x20),))
    told = lines(given)
    assert told[1:4] == ['  Task "behind" 0x30 waits for the task below', '    Task "a" 0x10 waits for the task below',
                         '      Task "b" 0x20 waits for 1 task; "a" 0x10 in a cycle']
    assert ("\nDEADLOCK OF TASKS: 2 asyncio tasks wait for each other.\n\n"
            "Cycle of tasks that wait for each other, without a timeout: "
            '"a" 0x10 -> "b" 0x20 -> "a" 0x10; they continue only if one of them is cancelled.\n') in verdict(given)


def test_task_that_waits_for_itself() -> None:
    lock = Awaited(kind="asyncio.Lock", address=0x90, holders=(0x10,))
    assert ('\nCycle of tasks: "a" 0x10 waits for itself; it continues only if it is cancelled.\n'
            in verdict(report(task(0x10, "a", lock), cycles=((0x10,),))))


def test_long_cycle_is_cut() -> None:
    count = 12
    tasks = [task(i, str(i), Awaited(((i + 1) % count,))) for i in range(count)]
    assert '"7" 0x7 -> "0" 0x0 (4 more between)' in verdict(report(*tasks, cycles=(tuple(range(count)),)))


def test_tasks_with_the_same_stack_are_grouped() -> None:
    event = Awaited(kind="asyncio.Event", address=0x90, name="event")
    tasks = [task(i, f"t{i}", event) for i in range(1, 12)]
    other = task(0x99, "other", event, line=8)
    assert lines(report(*tasks, other))[1:3] == [
        '  11 tasks "t1" 0x1, "t2" 0x2, "t3" 0x3, "t4" 0x4, "t5" 0x5, "t6" 0x6, "t7" 0x7, "t8" 0x8 and 3 more: '
        "each waits for asyncio.Event 0x90 event", '  Task "other" 0x99 waits for asyncio.Event 0x90 event']


def test_grouped_tasks_with_different_waits() -> None:
    tasks = [task(i, f"t{i}", Awaited(kind="asyncio.Queue", address=0x90 + i, name="queue")) for i in (1, 2)]
    assert lines(report(*tasks))[1] == '  2 tasks "t1" 0x1, "t2" 0x2: each waits for another asyncio.Queue'


def test_loops() -> None:
    loops = (EventLoop(LOOP, "Loop", 1), EventLoop(STOPPED, "Loop", None))
    given = report(task(0x10, "t", Awaited((0x20,))), task(0x20, "u", loop=STOPPED, thread=None), loops=loops)
    told = lines(given)
    assert told[0] == 'Event loop 0x7000 (Loop) runs in thread 1 "MainThread": 1 task'
    assert told[2] == '    Task "u" 0x20 sleeps', "under the task of another loop that waits for it"
    assert told[4] == "Event loop 0x8000 (Loop) runs in no thread that asyncio records: 1 task"
    assert text(replace(given, event_loops=(), tasks=())) == "No event loop of asyncio or trio runs or has tasks.\n"
    idle = report(loops=(EventLoop(LOOP, "Loop", 1),))
    assert lines(idle)[0] == 'Event loop 0x7000 (Loop) runs in thread 1 "MainThread": no tasks'


def test_indentation_of_a_deep_tree_is_limited() -> None:
    count = 500
    chain = [task(i, None, Awaited((i + 1,)), i) for i in range(1, count)]
    told = lines(report(*chain, task(count, None)))
    assert len(told) == count + 2
    assert max(len(line) - len(line.lstrip()) for line in told) <= 48


def test_text_from_the_target_is_escaped() -> None:
    lock = Awaited(kind="asyncio.Lock", address=0x90, name="x", holders=(0x20,))
    given = report(task(0x10, "a", lock), task(0x20, "b", Awaited((0x10,), kind="x")), cycles=((0x10, 0x20),))
    damaged = hostile(given)
    tasks = tuple(replace(each, awaits=replace(each.awaits, kind=HOSTILE)) for each in damaged.tasks)
    loops = tuple(replace(loop, kind=HOSTILE) for loop in damaged.event_loops)
    damaged = replace(damaged, tasks=(*tasks, *(replace(tasks[0], address=0x30 + i, awaits=Awaited(
        kind=HOSTILE, address=i)) for i in range(2))), event_loops=loops)
    told = text(damaged, "full")
    assert "\x1b" not in told
    assert all(char.isprintable() for line in told.split("\n") for char in line)


def test_other_futures_of_a_task() -> None:
    assert Awaited().what is None
    assert Awaited(kind="asyncio.gather").what == "asyncio.gather"
    assert Awaited(kind="asyncio.Lock", address=0x90, name="lock").what == "asyncio.Lock 0x90 lock"


def test_json() -> None:
    lock = Awaited(kind="asyncio.Lock", address=0x90, name="lock", holders=(0x10,))
    given = report(task(0x10, "a", Awaited((0x20,), kind="asyncio.wait_for", timed=True), 5), task(0x20, None, lock),
                   cycles=((0x10, 0x20),))
    made = document(given, (*PARTS, "tasks"))
    assert made["event_loops"] == [{"id": "0x7000", "kind": "_UnixSelectorEventLoop", "thread": 1}]
    assert made["task_cycles"] == [["0x10", "0x20"]]
    assert made["tasks"][0] == {
        "id": "0x10", "name": "a", "loop": "0x7000", "thread": 1, "state": "pending",
        "stack": [{"language": "python", "function": "work", "qualified_name": "Job.work", "file": "/app/job.py",
                   "line": 5, "columns": None, "kind": None}],
        "awaits": {"task": "0x20", "tasks": ["0x20"], "other_futures": 0, "what": "asyncio.wait_for",
                   "kind": "asyncio.wait_for", "address": None, "name": None, "holders": [], "timed": True},
        "awaited_by": []}
    assert made["tasks"][1]["awaits"] == {"task": None, "tasks": [], "other_futures": 0,
                                          "what": "asyncio.Lock 0x90 lock", "kind": "asyncio.Lock", "address": "0x90",
                                          "name": "lock", "holders": ["0x10"], "timed": False}
    assert made["tasks"][1]["awaited_by"] == ["0x10"]
    several = report(task(0x10, "a", Awaited((0x20, 0x30))), task(0x20, "b"), task(0x30, "c"))
    assert document(several, ("tasks",))["tasks"][0]["awaits"]["task"] is None


def test_json_has_no_tasks_unless_asked() -> None:
    assert not {"tasks", "task_cycles", "event_loops"} & set(document(report(task(0x10, "a"))))
