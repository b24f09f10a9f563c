"""Names that tests share."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"
