"""The far end of a Helper: this file is run by path in a small Python of its own and imports nothing of aidiag.

It loads a script, whose `VERBS` (name -> function) it then serves until its standard input ends. The script finds
`doing(text)` among its globals: told before each call that may block, it lets the other side name the call that does
not return, and counts as a sign of life.

One JSON object a line. In: `{"id", "verb", "arguments"}`. Out: `{"ready": true}` once, then for each request
`{"id", "value"}` or `{"id", "error": {"type", "reason", "remedy"}}`. The type is the name of a class in `errors.py`: an
exception of that name (the script may define it) keeps it, PermissionError is NotPermittedError. What `doing` was told
last lies in a file in memory (the second argument): CLOCK_MONOTONIC and the length of the text, then the text.
"""

import json
import os
import struct
import sys
import time

NOTE = struct.Struct("=dI")
NOTE_LIMIT_BYTES = 400
ERROR_TYPES = ("CollectorError", "HungError", "NotPermittedError", "UnavailableError")


def describe(error: BaseException) -> dict[str, str]:
    """The error object of an answer."""
    name = type(error).__name__
    if name in ERROR_TYPES:
        reason, remedy = getattr(error, "reason", str(error)), getattr(error, "remedy", "")
        return {"type": name, "reason": str(reason), "remedy": str(remedy)}
    kind = "NotPermittedError" if isinstance(error, PermissionError) else "CollectorError"
    return {"type": kind, "reason": f"{name}: {error}", "remedy": ""}


def main(script: str, notes: int) -> None:
    """Serve the verbs of a script on the standard streams, and keep notes in a file."""
    answers = os.dup(1)  # whatever a library prints must not land between the answers
    os.dup2(2, 1)

    def say(**message: object) -> None:
        rest = json.dumps(message).encode() + b"\n"
        while rest:
            rest = rest[os.write(answers, rest) :]

    def doing(text: str) -> None:
        data = text.encode(errors="backslashreplace")[:NOTE_LIMIT_BYTES]
        os.pwrite(notes, NOTE.pack(time.monotonic(), len(data)) + data, 0)

    names: dict[str, object] = {"__name__": "aidiag_helper", "__file__": script, "doing": doing}
    with open(script, "rb") as file:
        exec(compile(file.read(), script, "exec"), names)  # noqa: S102  (runpy would double the imports)
    names["doing"] = doing  # in place of the one that the script may define for those who read it
    verbs = names["VERBS"]
    assert isinstance(verbs, dict), "VERBS is a dict of functions"
    say(ready=True)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        number = request["id"]
        try:
            say(id=number, value=verbs[request["verb"]](*request["arguments"]))
        except Exception as error:  # noqa: BLE001  (whatever a verb raises is its answer)
            say(id=number, error=describe(error))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
