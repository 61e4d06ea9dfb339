"""The agent changes a file in the current folder, and this program decides whether it may."""

from agentd_embed import Agent, Approval


def approve(approval: Approval) -> bool:
    print(f"\n[may it? {approval.kind}: {approval.command or approval.reason}]")
    return approval.kind == "fileChange"


def main() -> None:
    # Without `offline`, the model is that of the configuration.
    with Agent(offline=True, approve=approve) as agent:
        thread = agent.thread(sandbox="readOnly", approvalPolicy="onRequest")
        turn = thread.turn("Describe this project in a file")
        for text in turn.text(commentary=True):
            print(text, end="", flush=True)

        result = turn.result()
        print()
        for item in result.items:
            if item["type"] == "fileChange":
                print("changed:", item["changes"][0]["path"])
        print(len(result.items), "items")


if __name__ == "__main__":
    main()
