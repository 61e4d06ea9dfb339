"""Applies patches with `apply_diff` of the Python package `openai-agents`.

Reads one JSON object a line, {"before", "diff"}, and writes {"after"} or {"error"} for each.
Only the module with that function is loaded: it needs no other package.
"""

import importlib.util
import json
import pathlib
import sys

folder = importlib.util.find_spec("agents").submodule_search_locations[0]
spec = importlib.util.spec_from_file_location("apply_diff", pathlib.Path(folder) / "apply_diff.py")
module = importlib.util.module_from_spec(spec)
sys.modules["apply_diff"] = module
spec.loader.exec_module(module)

for line in sys.stdin:
    case = json.loads(line)
    try:
        answer = {"after": module.apply_diff(case["before"], case["diff"])}
    except ValueError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))
