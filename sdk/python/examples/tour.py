"""A tour of agentd with its offline model: python3 examples/tour.py"""

import tempfile
from pathlib import Path

from agentd_embed import Agent, Approval, tool


@tool
def ticket(number: int) -> str:
    """The text of a ticket."""
    return f"Ticket {number}: the demo shall have a file."


def approve(approval: Approval) -> bool:
    print(f"May it? {approval.kind}: {approval.command or approval.reason}")
    return approval.kind == "fileChange"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        with Agent(offline=True, cwd=folder, approve=approve, tools=[ticket]) as agent:
            thread = agent.thread(sandbox="readOnly", approvalPolicy="onRequest")
            turn = thread.turn("Do what ticket 7 says")
            for text in turn.text():
                print(text, end="", flush=True)
            result = turn.result()
            print(f"\n{result.turn['status']}, {len(result.items)} items")
            print("files:", [path.name for path in Path(folder).iterdir()])
            again = agent.resume(thread.id)
            print("resumed:", len(again.read()["thread"]["turns"]), "turn")


if __name__ == "__main__":
    main()
