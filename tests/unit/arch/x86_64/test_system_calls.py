from __future__ import annotations

from gdbext import arch
from gdbext.inferior.proc.threads import SystemCall

CPU = arch.of("x86_64")


def test_registers_of_a_thread_that_sleeps_are_those_of_a_stop() -> None:
    registers = CPU.sleeping_registers(SystemCall(202, (1, 2, 3, 4, 5, 6), 0x7000, 0x4000))
    assert registers.keys() == CPU.OF_SLEEPERS
    call = CPU.system_call(registers)
    assert call is not None
    assert (call.number, call.name, call.arguments, call.blocked) == (202, "futex", (1, 2, 3, 4, 5, 6), True)


def test_thread_outside_of_a_system_call_is_in_none() -> None:
    assert CPU.system_call(CPU.sleeping_registers(SystemCall(-1, (), 0x7000, 0x4000))) is None
