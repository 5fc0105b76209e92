"""The verb `dask`, and snapshots of cores as tasks, without Dask."""

from __future__ import annotations

import concurrent.futures
import sys
from pathlib import Path
from typing import Any

import pytest

from gdbext.errors import GdbextError
from gdbext.launcher import cli
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.status import Unreadable
from gdbext.launcher.verbs import dask
from gdbext.schema.write import document
from tests.support.fake_report import healthy


def test_scheduler_address_from_text_or_file(tmp_path: Path) -> None:
    for address in ("tcp://scheduler:8786", "tls://10.0.0.1:8786", "ucx://[fe80::1]:13337"):
        assert dask.scheduler_address(address) == address
    assert dask.scheduler_address("scheduler:8786") == "tcp://scheduler:8786"
    file = tmp_path / "scheduler.json"
    file.write_text('{"type": "Scheduler", "address": "tcp://10.0.0.1:8786"}')
    assert dask.scheduler_address(str(file)) == "tcp://10.0.0.1:8786"
    with pytest.raises(Unreadable, match="is neither an address nor a file"):
        dask.scheduler_address("scheduler")
    for text in ("{", "[]", "{}", '{"address": "nowhere"}', '{"address": 8786}'):
        file.write_text(text)
        with pytest.raises(GdbextError, match=r"scheduler\.json (is not a scheduler file|does not contain a)"):
            dask.scheduler_address(str(file))


def test_missing_dask_is_bad_usage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert cli.main(["dask", "tcp://127.0.0.1:8786"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("gdbext dask: Dask cannot be imported: ")
    assert told.endswith("; pip install 'gdbext[dask]'\n")


# -- snapshots of cores ---------------------------------------------------------------------------------------


class Cluster:
    """A client of two workers that give a fixed answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.sent: list[str] = []
        self.futures: list[concurrent.futures.Future[Any]] = []
        self.cancelled: list[Any] = []

    def nthreads(self) -> dict[str, int]:
        return {"tcp://192.0.2.1:1": 2, "tcp://192.0.2.1:2": 1}

    def submit(self, function: Any, expression: str, space: dict[str, Any], pure: bool) -> Any:
        assert (function, space, pure) == (eval, {}, False)
        self.sent.append(expression)
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if isinstance(self._answer, Exception):
            future.set_exception(self._answer)
        else:
            future.set_result(self._answer)
        return future

    def cancel(self, futures: list[Any]) -> None:
        self.cancelled += futures


SEEN: dict[str, Any] = {
    "target": "/there/core", "document": document(healthy()), "text": "", "dot": None, "stopped": None, "seconds": 1.0,
    "problem": None, "hint": None, "status": 0, "notes": []}


def test_worker_takes_a_snapshot_of_a_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = Cluster(SEEN)
    remote = dask.RemoteSnapshots(cluster, "/shared")
    assert remote.jobs == 3
    seen = remote.take_snapshot(Target(core=Path("core")), Options(search=(Path("build"),), sysroot=Path("image")))
    assert (seen.target, seen.status, seen.document, seen.notes) == ("core", 0, SEEN["document"], ())
    (sent,) = cluster.sent
    # relative names mean those of this machine's directory
    for name in ("core", "build", "image"):
        assert repr(str(tmp_path / name)) in sent
    assert "('/shared', {" in sent
    remote.end()
    assert cluster.cancelled == []


@pytest.mark.parametrize(("options", "is_sent"), [(Options(), False), (Options(object_names=False), True)])
def test_worker_of_an_earlier_version_gets_no_option_that_it_lacks(options: Options, is_sent: bool) -> None:
    cluster = Cluster(SEEN)
    dask.RemoteSnapshots(cluster).take_snapshot(Target(core=Path("/core")), options)
    assert ("'object_names': False" in cluster.sent[0]) == is_sent
    assert ("object_names" in cluster.sent[0]) == is_sent


DEEP: Any = []
for _ in range(2000):
    DEEP = [DEEP]


@pytest.mark.parametrize("value", [b"bytes", DEEP],
                         ids=["bytes", "deep-list"])
def test_unknown_member_of_any_type_is_left_out(value: object) -> None:
    answer = {**SEEN, "document": {**SEEN["document"], "later": value}}
    seen = dask.RemoteSnapshots(Cluster(answer)).take_snapshot(Target(core=Path("/core")), Options())
    assert seen.problem is None
    assert seen.document is not None
    assert "later" not in seen.document


@pytest.mark.parametrize(("answer", "problem", "hint"), [
    ({"problem": "gdbext is not installed", "hint": "install it"}, "gdbext is not installed", "install it"),
    (RuntimeError("no worker"), "the task failed: RuntimeError: no worker", None),
    ({**SEEN, "document": {"schema": "gdbext/2"}}, 'its report cannot be read: $.schema: expected "gdbext/1"',
     "install the same version of gdbext there"),
])
def test_failed_snapshot_is_a_problem(answer: Any, problem: str, hint: str | None) -> None:
    seen = dask.RemoteSnapshots(Cluster(answer)).take_snapshot(Target(core=Path("/core")), Options())
    assert (seen.document, seen.problem, seen.hint, seen.status) == (None, problem, hint, 3)
