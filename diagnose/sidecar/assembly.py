"""Putting a sidecar or a daemon together from its parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aidiag.collectors import COLLECTORS, registry
from aidiag.collectors.collector import Clock, Context
from aidiag.collectors.live import LiveNode
from aidiag.collectors.node import Node
from aidiag.collectors.records import records_of
from aidiag.collectors.runner import Runner
from aidiag.diagnose.config import Config
from aidiag.diagnose.report.model import JobFacts, Unknown
from aidiag.diagnose.report.words import language
from aidiag.diagnose.rulebook import load_rulebook, load_waivers_of, rule_errors
from aidiag.diagnose.sidecar.http import Server
from aidiag.diagnose.sidecar.loop import Output, Sidecar
from aidiag.diagnose.sidecar.serving import serve
from aidiag.rules.engine import Tracker

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Assembly:
    """A sidecar with what it needs around it. `server` is None where no port could be had."""

    sidecar: Sidecar
    context: Context
    runner: Runner
    server: Server | None

    @property
    def host(self) -> str:
        """The name of this host."""
        return self.context.node.name

    @property
    def port(self) -> int:
        """The port that is served, 0 where none is."""
        return self.server.port if self.server else 0

    def close(self) -> None:
        """Stop serving and collecting; nothing that hangs is waited for."""
        self.runner.stop()
        if self.server:
            self.server.close()


class _Gaps:
    """The runner as the loop's source, with what it cannot see."""

    def __init__(self, runner: Runner, errors: Sequence[str]) -> None:
        self._runner = runner
        self._errors = tuple(Unknown("settings", error, "mend the file; all else is in force") for error in errors)
        self.poll = runner.poll

    def gaps(self) -> tuple[Unknown, ...]:
        """Collectors that should see and do not, and rule files that are left out."""
        outcomes = self._runner.outcomes().values()
        blind = (o for o in outcomes if o.state not in ("ok", "unavailable"))
        return (*(Unknown(o.collector, o.reason, o.remedy) for o in blind), *self._errors)


def assemble(
    config: Config,
    context_of: Callable[[Node], Context],
    *,
    clock: Clock,
    outputs: Sequence[Output],
    job: Callable[[], JobFacts],
    port: int,
    exact_port: bool,
    host: str = "",
    broken_settings: Sequence[str] = (),
) -> Assembly:
    """Build and start collectors, rules and HTTP; the loop itself is run by the caller.

    Raises OSError where `exact_port` is set and the port cannot be had; without it a sidecar that cannot serve works
    on without HTTP.
    """
    node = LiveNode(name=host)
    context = context_of(node)
    context = replace(context, records=records_of(context))
    known = registry()
    collectors = [make(context) for name, make in COLLECTORS.items() if name not in config.disable]
    book = load_rulebook(known, config)
    waivers, broken = load_waivers_of(config)
    errors = [*broken_settings, *rule_errors(book), *broken]
    for error in errors:
        log.warning("%s", error)
    runner = Runner(collectors, host=node.name, clock=clock, intervals=config.intervals)
    sidecar = Sidecar(
        host=node.name,
        clock=clock,
        registry=known,
        rules=book.rules,
        source=_Gaps(runner, errors),
        tracker=Tracker(clock.unix() - clock.monotonic(), language(config.lang), context.job or ""),
        outputs=outputs,
        job=job,
        waivers=waivers,
    )
    server: Server | None = None
    try:
        server = serve(
            known, lambda: sidecar.snapshot, sidecar.alive,
            listen=config.listen, port=port, exact=exact_port, host=node.name,
        )  # fmt: skip
    except OSError as problem:
        if exact_port:
            raise
        log.error("no HTTP: %s port %d: %s", config.listen, port, problem)
    runner.start()
    return Assembly(sidecar, context, runner, server)
