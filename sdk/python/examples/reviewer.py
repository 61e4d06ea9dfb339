"""Reviews a branch in continuous integration: python3 reviewer.py BASE

Exits with 1 when a finding is urgent, and with 2 when there is no review.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from agentd_embed import Agent, AgentdError, Result

#: Findings of this priority and of more urgent ones, down to 0, fail the job.
URGENT = 1
#: Seconds.
TIMEOUT = 600.0


def review(base: str) -> Result[str]:
    """The review of what the branch changes."""
    # Further options, such as a model for tests.
    options: dict[str, Any] = json.loads(os.environ.get("REVIEWER_OPTIONS", "{}"))
    with Agent(cwd=os.getcwd(), **options) as agent:
        thread = agent.thread(sandbox="readOnly", approvalPolicy="never", ephemeral=True)
        return thread.review({"type": "baseBranch", "branch": base}).result(timeout=TIMEOUT)


def main() -> int:
    try:
        result = review(sys.argv[1])
    except AgentdError as error:
        print(f"there is no review: {error}", file=sys.stderr)
        return 2
    findings = sorted(result.findings or [], key=lambda it: it.get("priority", URGENT))
    for finding in findings:
        place = finding.get("location", {})
        print(f"{place.get('path', '?')}:{place.get('startLine', 0)}: P{finding.get('priority', '?')} {finding['title']}")
    # A review without findings as data is read by a person.
    print(f"{len(findings)} findings" if findings else result.review)
    return 1 if any(it.get("priority", URGENT) <= URGENT for it in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
