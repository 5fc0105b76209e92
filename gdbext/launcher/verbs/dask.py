"""`gdbext dask ADDRESS`: snapshots of the processes of a Dask cluster, each taken on its own machine, on one page.

A worker that hangs runs nothing, so gdbext asks its nanny, which is its parent process: there `snapshot_there` starts a
Python that takes the snapshot. No code runs in a worker. The scheduler names the processes and takes a snapshot of
itself. If it hangs, the processes of the cluster on this machine are found by their connections, and read from here.

For `triage --dask`, tasks of a cluster that does not hang take snapshots of cores.

Source: distributed 2024.8.0 and 2026.8.0, `Client`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gdbext.errors import BadDocument, GdbextError, MissingLibrary
from gdbext.launcher.cli import (
    add_by_gdb,
    add_object_names,
    add_output,
    add_timeout,
    number,
    parse_colour,
    seconds,
)
from gdbext.launcher.cluster.answers import checked_snapshot
from gdbext.launcher.cluster.page import SCHEMA, Survey, as_document, class_rows, merged, page, shown_targets, status
from gdbext.launcher.cluster.remote import ADDRESS, Sent, as_json
from gdbext.launcher.cluster.survey import Surveyor, Unanswered, answer_of, survey_from_here
from gdbext.launcher.output import say, write, write_file
from gdbext.launcher.pager import write_report
from gdbext.launcher.snapshots.classes import bad_document
from gdbext.launcher.snapshots.options import Options, Target
from gdbext.launcher.snapshots.snapshot import Snapshot
from gdbext.launcher.status import NO_ANSWER, Unreadable
from gdbext.launcher.targets import pid
from gdbext.render.escape import NOTHING, json_line, printable
from gdbext.render.style import Style
from gdbext.schema.read import read_document
from gdbext.schema.write import document_text

NAME = "dask"
HELP = "why a Dask cluster hangs: every worker, the scheduler and the client"
DESCRIPTION = """Takes snapshots of the scheduler of a Dask cluster, of its workers, through their nannies,
and of clients on this machine or on the scheduler's. Processes in which the same
happened are shown together, deadlocks first. The machines of the workers need gdbext;
this machine needs Dask: pip install 'gdbext[dask]'."""
EXAMPLES = """examples:
  gdbext dask tcp://scheduler:8786
  gdbext dask tcp://scheduler:8786 --client 4711    the client is process 4711
  gdbext dask scheduler.json --html cluster.html    as in `dask worker --scheduler-file`
  gdbext dask tls://scheduler:8786                  certificates as Dask is configured
  gdbext dask tcp://scheduler:8786 --package /shared/gdbext

exit status: 0 nothing wrong found, 1 a deadlock or another state that does not end by
itself, 2 bad usage or no Dask here, 3 a process could not be read, 4 a machine lacks
the GDB of --gdb or its Python, 5 a hang that may end when something outside of the process happens;
of several processes, the first of 1, 5, 4, 3, 0 that occurs"""

#: The default of ``--jobs``.
_JOBS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    parser.add_argument("address", metavar="ADDRESS", help="the address of the scheduler, or its scheduler file")
    parser.add_argument("--client", metavar="PID", type=pid, help="the client is this process on this machine")
    add_output(parser, SCHEMA)
    group = parser.add_argument_group("snapshot options")
    add_by_gdb(group, " of every machine")
    group.add_argument("--package", metavar="DIR", help="a folder that contains the package gdbext on every machine, "
                       "if Python does not find it")
    group.add_argument("--jobs", metavar="N", type=number, default=_JOBS,
                       help=f"how many snapshots are taken on one machine at a time (default: {_JOBS})")
    add_timeout(group)
    add_object_names(group)
    group.add_argument("--connect-timeout", metavar="SECONDS", type=seconds, default=10.0,
                       help="how long the scheduler, or a nanny, may take to answer (default: 10)")


def run(options: argparse.Namespace) -> int:
    """Survey a cluster and report; return the exit status."""
    address = scheduler_address(options.address)
    found = asyncio.run(survey(address, options))
    if options.redact:
        from gdbext.commands.answer import without_private

        found = without_private(found, hosts={process.host for process in found.processes if process.host})
    triage = merged(found)
    if options.json:
        write(json_line(as_document(found, triage)))
    else:
        write_report(page(found, triage, Style(parse_colour(options))), options.pager)
    if options.html is not None:
        from gdbext.render.html import html_page

        write_file(options.html, html_page(shown_targets(found, triage), f"gdbext: Dask cluster {found.address}",
                                           class_rows(found, triage)))
    if found.problem is not None:
        say(f"gdbext dask: {printable(found.problem)}")
    return status(found)


def scheduler_address(text: str) -> str:
    """The scheduler's address: `text`, or what the scheduler file of that name contains.

    :raises GdbextError: it is neither.
    """
    if ADDRESS.fullmatch(text):
        return text if "://" in text else f"tcp://{text}"
    try:
        address = json.loads(Path(text).expanduser().read_text(encoding="utf-8"))["address"]
    except OSError as error:
        raise Unreadable(f"{printable(text)} is neither an address nor a file: {error.strerror}",
                         "give the scheduler's, such as tcp://127.0.0.1:8786") from None
    except (ValueError, LookupError, TypeError):
        raise GdbextError(f"{printable(text)} is not a scheduler file", "give the address instead") from None
    if not isinstance(address, str) or not ADDRESS.fullmatch(address):
        raise GdbextError(f"{printable(text)} does not contain a scheduler's address", "give the address instead")
    return address


def import_dask() -> Any:
    """Import the package `distributed`, without its log: the report names the processes that do not answer.

    :raises MissingLibrary: it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise MissingLibrary(f"Dask cannot be imported: {error}", "pip install 'gdbext[dask]'") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed


async def survey(address: str, options: argparse.Namespace) -> Survey:
    """Take snapshots of all processes of a cluster.

    :param address: the scheduler's, in Dask's form: ``tcp://host:8786``.
    :raises MissingLibrary: Dask is not installed here.
    """
    distributed = import_dask()
    warnings.simplefilter("ignore")  # versions may differ
    limit = options.connect_timeout
    client = distributed.Client(address, asynchronous=True, timeout=limit, name="gdbext", set_as_default=False)
    try:
        await answer_of(client, 2 * limit, "the scheduler")
        return await Surveyor(client, address, options).survey()
    except Unanswered as error:
        why = str(error)
        if not isinstance(error.__cause__, (OSError, type(None))):
            why = (f"{address} is not a Dask scheduler, or has another release than {distributed.__version__} here: "
                   f"{type(error.__cause__).__name__}")
        return await survey_from_here(address, options, why)
    finally:
        # without a limit it waits for its open questions
        with contextlib.suppress(Unanswered):
            await answer_of(client.close(timeout=2), 5, "the scheduler")


# -- snapshots of cores as tasks ---------------------------------------------------------------------------------------

class RemoteSnapshots:
    """Lets the workers of a Dask cluster that does not hang take snapshots of cores.

    Cores and search folders must have the same paths on the workers' machines, as on a shared file system.

    :param client: a `distributed.Client` that is not asynchronous.
    :param package: a folder that contains gdbext there, if Python does not find it.
    """

    def __init__(self, client: Any, package: str | None = None) -> None:
        self._client = client
        self._package = package
        self._futures: set[Any] = set()
        #: How many snapshots the cluster takes at a time.
        self.jobs: int = max(1, sum(client.nthreads().values()))

    def take_snapshot(self, target: Target, options: Options) -> Snapshot:
        """Take a snapshot, like `snapshot.take_snapshot`; `jobs` threads may call this at a time."""
        started = time.monotonic()
        wanted = as_json(target, options)
        call = f"{Sent('snapshot_in_task').expression}(*{(self._package, wanted)!r})"
        # not pure: a file may have changed since the last snapshot
        future = self._client.submit(eval, call, {}, pure=False)
        self._futures.add(future)
        try:
            answer = future.result()
        except Exception as error:  # of any type: raised by the task, or by Dask
            answer = {"problem": f"the task failed: {type(error).__name__}: {error}"}
        finally:
            self._futures.discard(future)
        answer = checked_snapshot(answer)
        document = answer.pop("document")
        if document is not None:
            try:
                # written again: it may be of another version of gdbext, and members that are not known may be anything
                line = "".join(document_text(read_document(document), document.keys())).encode()
            except BadDocument as error:
                answer = dict(zip(("problem", "hint"), bad_document(error)))
            else:
                return Snapshot(target.name, line, **answer)
        return Snapshot(target.name, None, NOTHING, NOTHING, None, time.monotonic() - started, answer["problem"],
                        answer.get("hint"), NO_ANSWER)

    def end(self) -> None:
        """End the snapshots that other threads wait for; they then fail."""
        self._client.cancel(list(self._futures))


@contextlib.contextmanager
def remote_snapshots(address: str, package: str | None = None) -> Iterator[RemoteSnapshots]:
    """Connect to the workers of a cluster.

    :raises GdbextError: Dask is not installed here, or the cluster cannot be reached or has no workers.
    """
    distributed = import_dask()
    try:
        client = distributed.Client(scheduler_address(address), timeout=10, name="gdbext", set_as_default=False)
    except Exception as error:  # raised by the connection, or by a server that is not Dask's
        raise Unreadable(f"the Dask cluster at {printable(address)} cannot be reached: {error}",
                         "check the address; if it hangs: gdbext dask ADDRESS") from None
    with client:
        if not client.nthreads():
            raise Unreadable(f"the Dask cluster at {printable(address)} has no workers", "start some")
        yield RemoteSnapshots(client, package)
