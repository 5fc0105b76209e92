"""`gdbext dask` and `gdbext triage --dask`, on clusters on this machine and on one with several hosts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import clusters, cores, hosts, interpreters, samples
from tests.support.clusters import Cluster
from tests.support.hosts import Host
from tests.support.interpreters import CHECKOUT
from tests.support.patience import patience

# the network that the hosts of a cluster share
SCHEDULER, WORKERS = "198.51.100.1", ("198.51.100.2", "198.51.100.3")
# makes a host disappear while a process on it is inspected
CUTTER = """#!/bin/sh
[ "$(hostname)" = {name} ] || exec "${{GDBEXT_GDB:-gdb}}" "$@"
ip link set dev eth0 down
exec sleep infinity
"""
@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two deadlocked workers, and one without a nanny in the process of client and scheduler."""
    with clusters.started(tmp_path_factory.mktemp("hung"), ["--plain"]) as cluster:
        yield cluster


def running_on(pid: int) -> bool:
    fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return fields["TracerPid"] == "0" and fields["State"][0] not in "tT"


# -- clusters --------------------------------------------------------------------------------------------------

def test_hung_cluster_is_explained_on_one_page(hung: Cluster, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = clusters.snapshot_at_rest(hung, "--html", str(page))
    assert found.returncode == 1, found
    lines = found.stdout.splitlines()
    assert lines[0] == (f"Dask cluster {hung.facts['scheduler']}: 1 scheduler, 1 client, 3 workers; "
                        f"examined on 1 machine")
    assert "2 workers: deadlock between the GIL and pthread rwlock in libdrv.so (recorded)" in lines
    for number, (address, worker) in enumerate(zip(hung.facts["addresses"], hung.facts["workers"])):
        assert worker["address"] in hung.facts["addresses"]
        start = f"  worker {address} (PID {hung_pid(hung, address)} on {socket.gethostname()}), "
        (at,) = [at for at, line in enumerate(lines) if line.startswith(start)]
        assert f"has 1 task to run: partition-{number}" in lines[at]
        # the cycle of this worker
        assert 'waits for pthread rwlock in libdrv.so of thread' in lines[at + 1]
        assert '"gpu-callbacks" waits for' in lines[at + 1]
    assert "  Cycle: thread" in found.stdout
    # cloudpickle 3.1.3 and later sends functions without the names of their files
    file = rf"({re.escape(str(samples.SOURCES / 'cluster.py'))}|<dynamic-code>)"
    assert re.search(rf"^ +at {file}:\d+ in allocate$", found.stdout, re.MULTILINE)
    (at,) = [at for at, line in enumerate(lines) if line.startswith("1 scheduler, worker and client: ")]
    assert lines[at].startswith("1 scheduler, worker and client: only waits: no deadlock, all ")
    assert "waits for 2 futures" in lines[at + 1]
    assert f"(PID {hung.sample.pid} on " in lines[at + 1]
    assert "Not read" not in found.stdout
    assert found.stderr == ""
    text = page.read_text()
    assert "deadlock between the GIL and pthread rwlock in libdrv.so" in text
    assert "cluster.py" in text
    assert all(running_on(pid) for pid in (*hung.pids, hung.sample.pid))


def test_redacted_page_does_not_name_machine_or_folders(hung: Cluster, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for options in (("--html", str(page)), ("--json",)):
        found = clusters.snapshot_at_rest(hung, "--redact", *options)
        assert found.returncode == 1, found
        shown = found.stdout + page.read_text()
        assert "deadlock between the GIL and pthread rwlock in libdrv.so" in shown
        assert "on HOST1)" in shown
        secrets = (socket.gethostname(), str(samples.SOURCES), str(CHECKOUT))
        assert [secret for secret in secrets if secret in shown] == []


def hung_pid(hung: Cluster, address: str) -> int:
    (pid,) = [worker["pid"] for worker in hung.facts["workers"] if worker["address"] == address]
    return int(pid)


def test_workers_of_a_hung_scheduler_are_found_by_connections(hung: Cluster) -> None:
    os.kill(hung.sample.pid, signal.SIGSTOP)
    try:
        found = hung.gdbext("--json", "--connect-timeout", "1")
    finally:
        os.kill(hung.sample.pid, signal.SIGCONT)
    assert found.returncode == 1, found
    document = json.loads(found.stdout)
    assert document["schema"] == "gdbext-dask/1"
    assert "does not answer" in document["problem"]
    assert f"kill -CONT {hung.sample.pid}" in document["problem"]
    by_pid = {process["pid"]: process for process in document["processes"]}
    assert {hung.sample.pid, *hung.pids} == set(by_pid)
    assert by_pid[hung.sample.pid]["roles"] == ["scheduler"]
    (deadlock,) = [each for each in document["classes"] if each["kind"] == "deadlock"]
    assert deadlock["members"] == sorted(by_pid[pid]["target"] for pid in hung.pids)
    representative = deadlock["document"]
    (worker,) = [worker for worker in hung.facts["workers"] if worker["pid"] == representative["target"]["pid"]]
    tids = {thread["number"]: thread["tid"] for thread in representative["threads"]}
    edges = {(tids[edge["waiter"]], edge["lock"], tids[edge["holder"]])
             for edge in representative["deadlocks"][0]["edges"]}
    assert edges == {(worker["task"], f"rwlock:{worker['lock']}", worker["callbacks"]),
                     (worker["callbacks"], "gil:0", worker["task"])}
    for pid in hung.pids:
        assert by_pid[pid]["verdict"] == "deadlock between the GIL and pthread rwlock in libdrv.so (recorded)"
        assert by_pid[pid]["class"] == deadlock["id"]
        assert 0 <= by_pid[pid]["stopped"] < 1
    assert all(running_on(pid) for pid in (*hung.pids, hung.sample.pid))


def test_machines_without_gdbext_are_named(hung: Cluster, tmp_path: Path) -> None:
    found = hung.gdbext("--package", str(tmp_path))
    assert found.returncode == 3, found
    for worker in hung.facts["workers"]:
        (line,) = [line for line in found.stdout.splitlines() if f"worker {worker['address']} " in line]
        assert f"gdbext is not installed in {tmp_path} on {socket.gethostname()}; run `pip install gdbext`" in line


def test_healthy_cluster_has_no_deadlock(tmp_path: Path) -> None:
    with clusters.started(tmp_path / "healthy", ["--healthy"]) as cluster:
        found = clusters.snapshot_at_rest(cluster)
        assert found.returncode == 0, found
        assert "deadlock between" not in found.stdout
        assert "2 workers: only waits: no deadlock" in found.stdout
        assert "1 scheduler and client: only waits: no deadlock" in found.stdout
        check_triage_of_cluster(cluster, tmp_path)


def check_triage_of_cluster(cluster: Cluster, directory: Path) -> None:
    """Run `gdbext triage --dask` with a relative name."""
    with samples.abba("mutex", directory / "abba") as sample:
        core = cores.gdb_core(sample)
    (directory / "none").write_text("none")
    ran = subprocess.run([sys.executable, "-m", "gdbext", "triage", os.path.relpath(core, directory), "none", "--json",
                          "--dask", cluster.facts["scheduler"]],
                         env={**os.environ, **cluster.variables}, cwd=directory, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, timeout=patience(120), check=False)
    assert ran.returncode == 1, ran
    found = json.loads(ran.stdout)
    (deadlock,) = found["classes"]
    assert (deadlock["kind"], deadlock["members"]) == ("deadlock", [os.path.relpath(core, directory)])
    assert len(deadlock["document"]["deadlocks"]) == 1
    (failure,) = found["failures"]
    assert failure["target"] == "none"
    assert "none" in failure["problem"]
    assert ran.stderr == f"gdbext triage: none: {failure['problem']}; {failure['hint']}\n"


# -- several hosts ---------------------------------------------------------------------------------------------

@contextlib.contextmanager
def on_hosts(directory: Path, variables: dict[str, str]) -> Iterator[tuple[dict[str, Host], dict[str, Any]]]:
    """A hung cluster on three hosts, a fourth host that reaches only the scheduler, and the client's facts."""
    python, program = Path(sys.executable), samples.SOURCES / "cluster.py"
    with hosts.begun(["alpha", "beta", "gamma", "delta"]) as begun:
        alpha, *others, delta = begun
        alpha.net("link", "add", "switch", "type", "bridge")
        alpha.net("address", "add", f"{SCHEDULER}/24", "dev", "switch")
        alpha.net("link", "set", "dev", "switch", "up")
        alpha.net("route", "add", "default", "dev", "switch")
        for host, address in zip(others, WORKERS):
            hosts.connect(host, f"{address}/24", alpha, host.name)
            alpha.net("link", "set", "dev", host.name, "master", "switch")
        hosts.connect(delta, "203.0.113.2/24", alpha, delta.name)
        alpha.net("address", "add", "203.0.113.1/24", "dev", delta.name)
        alpha.start(python, "-m", "distributed.cli.dask_scheduler", "--host", "0.0.0.0", "--port", "8786",
                    "--no-dashboard", log=directory / "scheduler", variables=variables)
        cluster: list[str | Path] = [python, program, "--driver", samples.build("libdrv.so"),
                                     "--scheduler", f"tcp://{SCHEDULER}:8786"]
        for host, address in zip(others, WORKERS):
            host.start(*cluster, "--nanny", address, "--number", "20000", log=directory / host.name,
                       variables=variables)
        client = alpha.start("env", "-C", str(directory), *cluster, log=directory / "client", variables=variables)
        log = directory / "client"
        samples.wait_until(lambda: log.read_text().endswith("}\n") or client.poll() is not None, "the workers",
                           seen=log.read_text)
        assert client.poll() is None, log.read_text()
        facts = json.loads((directory / "cluster.json").read_text())
        by_name = {host.name: host for host in begun}
        for worker in facts["workers"]:
            for role in ("task", "callbacks"):
                clusters.wait_for_futex(worker["pid"], worker[role], by_name[worker["host"]].proc)
        yield by_name, facts


def is_cycle_of(document: dict[str, Any], worker: dict[str, Any]) -> bool:
    """Whether the document shows the cycle of this worker; other workers have the same numbers."""
    tids = {thread["number"]: thread["tid"] for thread in document["threads"]}
    edges = {(tids[edge["waiter"]], edge["lock"], tids[edge["holder"]]) for edge in document["deadlocks"][0]["edges"]}
    return edges == {(worker["task"], f"rwlock:{worker['lock']}", worker["callbacks"]),
                     (worker["callbacks"], "gil:0", worker["task"])}


def test_workers_on_several_hosts_are_distinguished(tmp_path: Path) -> None:
    folder, missing = clusters.packages()
    if folder is None:
        interpreters.do_without(clusters.NAME, missing)
    if hosts.missing():
        pytest.skip(hosts.missing())
    variables = {"PYTHONPATH": f"{folder}{os.pathsep}{CHECKOUT}"}
    ask = [sys.executable, "-m", "gdbext", "dask", "--json"]
    with on_hosts(tmp_path, variables) as (by_name, facts):
        workers = {worker["host"]: worker for worker in facts["workers"]}
        assert set(workers) == {"beta", "gamma"}
        (pid,) = {worker["pid"] for worker in workers.values()}
        assert len({worker["lock"] for worker in workers.values()}) == 2
        # the process with that number here must sleep; waking up counts
        strangers = [by_name["alpha"], by_name["delta"]]
        for host in strangers:
            host.sleep_as(pid)
        before = [host.status(pid)["voluntary_ctxt_switches"] for host in strangers]

        found = by_name["delta"].run(*ask, "tcp://203.0.113.1:8786", variables=variables)
        assert (found.returncode, found.stderr) == (1, ""), found
        document = json.loads(found.stdout)
        processes = {(process["host"], *process["roles"]): process for process in document["processes"]}
        assert set(processes) == {("alpha", "scheduler"), ("alpha", "client"), ("beta", "worker"), ("gamma", "worker")}
        for name, worker in workers.items():
            process = processes[name, "worker"]
            assert (process["address"], process["pid"]) == (worker["address"], pid)
            assert process["verdict"] == "deadlock between the GIL and pthread rwlock in libdrv.so (recorded)"
            assert 0 <= process["stopped"] < 1
        assert processes["alpha", "client"]["pid"] == facts["pid"]
        assert processes["alpha", "client"]["futures"] == 2
        for role in ("scheduler", "client"):
            assert "no deadlock" in processes["alpha", role]["verdict"]
        (deadlock,) = [each for each in document["classes"] if each["kind"] == "deadlock"]
        (first,) = [name for name in workers if processes[name, "worker"]["target"] == deadlock["representative"]]
        assert [name for name, worker in workers.items() if is_cycle_of(deadlock["document"], worker)] == [first]

        # now from the scheduler's host, while the first one is cut off
        cutter = tmp_path / "gdb"
        cutter.write_text(CUTTER.format(name=first))
        cutter.chmod(0o755)
        started = time.monotonic()
        found = by_name["alpha"].run(*ask, facts["scheduler"], "--gdb", cutter, "--connect-timeout", "1",
                                     variables=variables)
        assert time.monotonic() - started < patience(25), "as long as TCP takes to give a host up"
        assert found.returncode == 1, found
        document = json.loads(found.stdout)
        (failure,) = document["failures"]
        assert failure["target"] == f"worker {workers[first]['address']} (PID {pid} on {first})"
        assert failure["problem"] == "its nanny stopped answering during the snapshot"
        (deadlock,) = [each for each in document["classes"] if each["kind"] == "deadlock"]
        assert [name for name, worker in workers.items() if is_cycle_of(deadlock["document"], worker)] == [
            *(set(workers) - {first})]
        assert all(by_name[name].status(pid)["TracerPid"] == "0" for name in by_name)
        assert [host.status(pid)["voluntary_ctxt_switches"] for host in strangers] == before
