"""The part of the page that tells of a crash: the fault, the stack at it, what is wrong, and suspects of a race."""

from __future__ import annotations

from collections.abc import Sequence

from gdbext.narrate.crash import RULES, SUSPECTS
from gdbext.render.html_markup import NOTHING, Content, Markup, join, listed, named, table, tag
from gdbext.render.html_stacks import Stacks, frame_words
from gdbext.render.html_text import SENTENCE, Json, cut, plural
from gdbext.render.html_told import Told
from gdbext.render.html_words import Words, evidence

#: How many lines of a message are shown.
_LINES = 40


def crash_section(told: Told, words: Words, stacks: Stacks, heading: str) -> Markup:
    """What there is to say of the crash; nothing if there is none.

    :param heading: the element of its title.
    """
    crash = told.crash
    if crash is None:
        return NOTHING
    stack, guilty = crash["stack"], crash["guilty_frame"]
    left = f", {crash['frames_left_out']:,} more frames left out" if crash["frames_left_out"] else ""
    return tag("section", *_fault(crash, words, heading), *_recursion(crash), *_instruction(crash["fault"]),
               *(_finding(finding, words) for finding in crash["findings"]),
               tag("details", tag("summary", f"Stack at the fault ({plural(len(stack), 'frame')}{left})"),
                   stacks.whole(stack, guilty), open=True),
               _suspects(crash["suspects"], told, words),
               *(tag("p", f"Missing: {cut(line, 500)}") for line in crash["missing"]), class_="block bad")


def _fault(crash: Json, words: Words, heading: str) -> list[Content]:
    fault, stack, guilty = crash["fault"], crash["stack"], crash["guilty_frame"]
    code = f" ({fault['code']})" if fault["code"] and fault["code"] != "SI_TKILL" else ""
    parts: list[Content] = [
        tag(heading, f"{fault['signal']}{code} in ", words.thread(crash["thread"])),
        tag("p", tag("strong", cut(fault["text"], SENTENCE)), evidence(fault["evidence"], fault["why"]))]
    if fault["in_handler"]:
        parts.append(tag("p", "A handler of the signal was running; this is how it was before."))
    if fault["sender"] is not None:
        parts.append(tag("p", f"Sent by process {fault['sender']['pid']} of user {fault['sender']['uid']}."))
    if guilty is not None and guilty < len(stack):
        python = next((frame for frame in stack[guilty:] if frame["language"] == "python"), None)
        places = [stack[guilty]] + ([python] if python is not None and python is not stack[guilty] else [])
        parts.append(tag("p", "In ", listed([frame_words(frame) for frame in places], ", called by ")))
    if fault["message"]:
        lines = [join([cut(line, SENTENCE)]) for line in fault["message"].split("\n")[:_LINES]]
        parts.append(tag("pre", Markup("\n".join(lines))))
    return parts


def _recursion(crash: Json) -> list[Content]:
    recursion = crash["recursion"]
    if recursion is None:
        return []
    least = "" if recursion["whole"] else "at least "
    return [tag("p", f"Recursion: {least}{recursion['frames']:,} native frames, the same calls "
                     f"{least}{recursion['rounds']:,} times.")]


def _instruction(fault: Json) -> list[Content]:
    if not fault["instruction"]:
        return []
    rows = [tag("tr", tag("th", tag("code", named(operand["text"])), scope="row"),
                tag("td", tag("code", str(operand["value"]))), tag("td", cut(operand["what"] or "", 400)),
                tag("td", cut(operand["came_from"] or "", SENTENCE))) for operand in fault["operands"]]
    return [tag("p", "Instruction: ", tag("code", cut(fault["instruction"], 200))),
            table(("Operand", "Value", "What it is", "Where it came from"), rows) if rows else ""]


def _finding(finding: Json, words: Words) -> Markup:
    who = join([words.thread(finding["thread"]), " "]) if finding["thread"] is not None else ""
    return tag("p", tag("strong", f"{RULES.get(finding['rule'], finding['rule'])}: "), who,
               cut(finding["text"], SENTENCE), evidence(finding["evidence"], finding["why"]))


def _suspects(suspects: Sequence[Json], told: Told, words: Words) -> Markup:
    if not suspects:
        return NOTHING
    items = []
    for suspect in suspects:
        thread = told.threads.get(suspect["thread"])
        doing = [" ", words.doing(thread)] if thread is not None else []
        reasons = [tag("li", cut(reason, 500)) for reason in [*suspect["reasons"], suspect["covered"]]]
        items.append(tag("li", tag("b", words.thread(suspect["thread"])), *doing, tag("ul", *reasons)))
    return join([tag("p", SUSPECTS),
                 tag("ol", *items)])
