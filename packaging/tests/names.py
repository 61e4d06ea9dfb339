"""What the packages are called, from `packaging/names.toml`, and where the checkout is."""

import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
NAMES = tomllib.loads((CHECKOUT / "packaging/names.toml").read_text())
PYPI, NPM = NAMES["pypi"], NAMES["npm"]
