"""A bare MCP server over stdio: a line in, a line out."""

import sys

from benchmarks.echo import Answers


def main() -> None:
    """Answer until stdin ends."""
    answers = Answers()
    for line in sys.stdin.buffer:
        if (answer := answers.to(line)) is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
