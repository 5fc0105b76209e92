"""Locks of Boost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gdbext.model.kinds import LockKind
from gdbext.proofs.flow.atomics import Inlined
from gdbext.proofs.functions import Call, calls
from gdbext.proofs.pairs import Pairs

PAIRS: Final[Mapping[LockKind, Pairs]] = {
    # Boost 1.74 boost/thread/pthread/shared_mutex.hpp. All of it is in the header, so the compiler may inline a
    # release: each locks and unlocks the pthread mutex that protects the state and comes after it
    "boost-shared-mutex": Pairs(
        calls("_ZN5boost12shared_mutex4lockEv _ZN5boost12shared_mutex11lock_sharedEv "
              "_ZN5boost12shared_mutex12lock_upgradeEv _ZN5boost12shared_mutex23unlock_upgrade_and_lockEv")
        + calls("_ZN5boost12shared_mutex8try_lockEv _ZN5boost12shared_mutex15try_lock_sharedEv "
                "_ZN5boost12shared_mutex16try_lock_upgradeEv", "not zero"),
        (*calls("_ZN5boost12shared_mutex6unlockEv _ZN5boost12shared_mutex13unlock_sharedEv "
                "_ZN5boost12shared_mutex14unlock_upgradeEv"), Call("pthread_mutex_unlock", offset=8)),
        inlined=Inlined(8, frozenset(), frozenset())),
}
