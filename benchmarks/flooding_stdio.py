"""A bare stdio MCP server that continuously sends notifications besides its responses."""

import sys
import threading

from benchmarks.echo import Answers

BLOCK = (
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/unknown"}\n'
    b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
    b"\n\n\n\nnot JSON\n"
) * 100


def main() -> None:
    """Respond until stdin ends; flood after the first request."""
    answers, turn, begun = Answers(), threading.Lock(), threading.Event()

    def write(data: bytes) -> None:
        with turn:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def flood() -> None:
        begun.wait()
        while True:
            write(BLOCK)

    threading.Thread(target=flood, daemon=True).start()
    for line in sys.stdin.buffer:
        if (answer := answers.to(line)) is not None:
            write(answer + b"\n")
        begun.set()


if __name__ == "__main__":
    main()
