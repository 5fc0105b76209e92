"""The functions that do not return to their callers, by the names that a disassembler prints."""

from __future__ import annotations

import re

# mangled, demangled, and of stubs
_NO_RETURN = re.compile(
    r"(?:(?:__GI_)?_*(?:abort|exit|Exit|quick_exit|pthread_exit|stack_chk_fail(?:_local)?|fortify_fail|chk_fail"
    r"|longjmp(?:_chk)?|siglongjmp|assert\w*_fail\w*|assert|libc_fatal|libc_message|libc_assert_fail|malloc_assert"
    r"|cxa_(?:re)?throw\w*|cxa_bad_(?:cast|typeid)|cxa_pure_virtual|cxa_call_unexpected|cxa_call_terminate"
    r"|clang_call_terminate|Unwind_Resume|rust_start_panic|Py_FatalError\w*|err|errx|verr|verrx)"
    r"|_*Py_Fatal\w*|std::__throw_\w+\(.*\)|_ZSt\d+__throw_\w+|std::terminate\(\)|_ZSt9terminatev"
    r"|_ZN4core(?:9panicking|6option1\dexpect_failed|6option13unwrap_failed|6result13unwrap_failed|5slice5index\d+slice_)"
    r"\w+(?:\.llvm\.\d+)?|core::(?:panicking|(?:option|result)::(?:unwrap|expect)_failed).*"
    r"|_ZN5alloc5alloc18handle_alloc_error\w+|_ZN3std9panicking\w*panic\w+|rust_panic\w*)(?:@.*|\.part\.\d+|\.cold)?$")


def does_not_return(symbol: str) -> bool:
    """Whether a function of this name does not return."""
    return _NO_RETURN.match(symbol) is not None
