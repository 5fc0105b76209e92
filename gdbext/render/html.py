"""Documents of schema ``gdbext/1`` as one page of HTML that needs nothing but itself.

A page may show several looks: the representatives of classes of cores, the processes of a tree, the workers of a
cluster. Here is what stands around and above them; a look's own sections are made by `html_look`, and what they tell is
decided in `html_told`. What comes from the target is escaped by `html_markup`. The script and the style of the page are
page.js and page.css; its policy names their hashes and forbids everything else, so that a name that got into it as
markup after all could neither run nor load anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from gdbext.render.html_graph import MARKERS, Graph, Node
from gdbext.render.html_look import LookSections
from gdbext.render.html_markup import NOTHING, Content, Markup, join, named, table, tag
from gdbext.render.html_stacks import Stacks
from gdbext.render.html_text import PATH, SENTENCE, Json, cut, plural
from gdbext.render.html_told import STATES, Budget, Told

_HOME = Path(__file__).resolve().parent
#: How many characters of a title are shown.
_TITLE = 200
#: How many waits between targets are told in words.
_BETWEEN_TOLD = 200


def html_page(looks: Sequence[Json], title: str, classes: Sequence[Json] = (), between: Sequence[Json] = ()) -> str:
    """One self-contained file, in ASCII.

    :param looks: each has `target`, what was looked at in words, and `document`, or None and the `problem` why there is
        none; optional are `hint`, what to do about a problem, `stopped`, for how many seconds the target stood still,
        and `parent`, the `target` of the look that this one stands below in the index.
    :param classes: of many targets, those that are alike: `verdict` in words, `count`, `members` (targets), and
        `representative`, the `target` of a look.
    :param between: who waits for whom across looks: `waiter` and `holder` (targets; `holder` may be None), for `what`
        in words, and whether that is part of a `deadlock`.

    Everything in them is taken for hostile, whatever program has written it.
    """
    told = [Told(look) for look in looks]
    stacks = Stacks(Budget())
    shown = [LookSections(each, index, stacks, 3 if len(looks) > 1 else 2) for index, each in enumerate(told)]
    anchors = {each.target: f"look{index}" for index, each in enumerate(told)}
    style, script = _asset("page.css"), _asset("page.js")
    main: list[Content] = []
    if between:
        main.append(_between(between, anchors))
    if classes:
        main.append(_classes(classes, anchors))
    controls = _controls(told)
    if len(looks) == 1:
        main.append(shown[0].whole(controls))
    else:
        # each has its verdict in the index; that of an only one stands above it
        main += [_index(told), controls, *(look.whole(None) for look in shown)]
    body = join([
        tag("a", "Skip to the content", class_="skip", href="#content"), MARKERS,
        tag("header", tag("h1", cut(title, _TITLE)), shown[0].about() if len(looks) == 1 else ""),
        tag("main", *main, id="content", tabindex="-1"),
        tag("footer", "Made by gdbext. Nothing in this file is loaded from elsewhere. Keys: ", tag("kbd", "/"),
            " search, ", tag("kbd", "Esc"), " clear, ", tag("kbd", "Tab"), " and ", tag("kbd", "Enter"),
            " go to a thread and open it."),
        Markup(f"<script>{script}</script>")])
    head = _head(title, style, script)
    page = f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _head(title: str, style: str, script: str) -> Markup:
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; "
              f"style-src {_hash(style)}; script-src {_hash(script)}")
    return join([
        tag("meta", charset="utf-8", void=True),
        tag("meta", http_equiv="Content-Security-Policy", content=policy, void=True),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1", void=True),
        tag("meta", name="color-scheme", content="light dark", void=True),
        tag("meta", name="referrer", content="no-referrer", void=True),
        tag("title", cut(title, _TITLE)), Markup(f"<style>{style}</style>")])


def _asset(name: str) -> str:
    return (_HOME / name).read_text(encoding="ascii")


def _hash(text: str) -> str:
    """An inline style or script as a policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('ascii')).digest()).decode('ascii')}'"


def _controls(looks: Sequence[Told]) -> Markup:
    """Search, and buttons that show only threads of a state; of no use without the script, which shows them."""
    found = [state for look in looks for state in look.states.values()]
    if not found:
        return NOTHING
    states = [tag("button", words, " ", tag("b", f"{found.count(state):,}"), type="button", aria_pressed="false",
                  data_filter=state, class_=state) for state, words in STATES.items() if state in found]
    return tag("div",
               tag("label", "Search threads ", tag("kbd", "/"), for_="query"),
               tag("input", id="query", type="search", autocomplete="off", spellcheck="false",
                   placeholder="name, number, function, file, lock", aria_controls="content", void=True),
               tag("div", *states, class_="states", role="group", aria_label="Only threads of these states"),
               tag("button", "Open all", type="button", id="open"),
               tag("button", "Close all", type="button", id="close"),
               tag("output", id="found", for_="query", role="status"),
               id="find", role="search", hidden=True)


def _index(looks: Sequence[Told]) -> Markup:
    depths: dict[str, int] = {}
    for look in looks:
        # a parent stands above its children, so a circle cannot be made
        depths.setdefault(look.target, depths.get(look.parent, -1) + 1 if look.parent is not None else 0)
    rows = []
    for index, look in enumerate(looks):
        kind, text = look.verdict()
        rows.append(tag("tr", tag("th", tag("a", named(look.target, PATH), href=f"#look{index}"), scope="row",
                                  class_=f"depth{min(depths[look.target], 9)}"),
                        tag("td", text, class_=f"verdict {kind}"),
                        tag("td", f"{len(look.threads):,}" if look.seen else "", class_="number"),
                        tag("td", f"{look.stopped:.2f} s" if look.stopped is not None else "", class_="number"),
                        data_look=index))
    return tag("nav", tag("h2", plural(len(looks), "target")),
               table(("Target", "Verdict", "Threads", "Stopped for"), rows, ("Threads", "Stopped for")),
               aria_label="Targets", class_="block")


def _target(target: str, anchors: Mapping[str, str]) -> Markup:
    """A target, as a link where the page has a look at it."""
    name = named(target, PATH)
    return tag("a", name, href=f"#{anchors[target]}") if target in anchors else name


def _classes(classes: Sequence[Json], anchors: Mapping[str, str]) -> Markup:
    rows = []
    for each in classes:
        items = [tag("li", _target(str(member), anchors)) for member in each.get("members", ())]
        members = tag("details", tag("summary", plural(len(items), "member")), tag("ul", *items)) if items else ""
        rows.append(tag("tr", tag("td", f"{int(each['count']):,}", class_="number"),
                        tag("th", str(each["verdict"]), scope="row"),
                        tag("td", _target(str(each.get("representative")), anchors), members)))
    return tag("section", tag("h2", "1 class" if len(classes) == 1 else f"{len(classes):,} classes"),
               table(("How many", "What happened", "Representative and members"), rows, ("How many",)),
               class_="block")


def _between(between: Sequence[Json], anchors: Mapping[str, str]) -> Markup:
    graph, sentences = Graph(), []
    for index, edge in enumerate(between):
        bad, what = bool(edge.get("deadlock")), f"what {edge['what']}"
        targets = [str(end) for end in (edge["waiter"], edge.get("holder")) if end is not None]
        for target in targets:
            graph.add(Node(f"look {target}", "thread", [cut(target, 120)], anchors.get(target), bad))
        graph.add(Node(what, "lock", [cut(edge["what"], 120)], None, bad))
        graph.connect(f"look {targets[0]}", what, "waits", bad)
        for holder in targets[1:]:
            graph.connect(what, f"look {holder}", "for", bad)
        if index < _BETWEEN_TOLD:
            ends = [_target(target, anchors) for target in targets]
            sentences.append(tag("li", ends[0], " waits for ", named(edge["what"], SENTENCE),
                                 *(join([" of ", end]) for end in ends[1:]), tag("b", " (deadlock)") if bad else ""))
    left = len(between) - len(sentences)
    dead = any(edge.get("deadlock") for edge in between)
    return tag("section", tag("h2", "Deadlock across targets" if dead else "Across targets"),
               graph.draw("Who waits for whom across targets"), tag("ul", *sentences),
               tag("p", f"and {left:,} more") if left else "", class_="block bad" if dead else "block")
