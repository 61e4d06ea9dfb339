"""Checks folders with the public validator of the skills format: one line a folder, `valid` or `invalid`,
then its path."""

import sys
from pathlib import Path

from skills_ref.validator import validate

for folder in sys.argv[1:]:
    try:
        verdict = "invalid" if validate(Path(folder)) else "valid"
    except (ValueError, AttributeError):
        # Text that its parser does not expect, for which its program ends with an error.
        verdict = "invalid"
    print(verdict, folder)
