"""What a step works on, read without an engine: the rows of the keys that it touches, or all.

The result of a query for some keys depends on the rows of these alone; so the step computes it
anew for them, and corrects what the dataset holds of them.  Too much for memory is not read: then
the engine scans.
"""

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

Inputs: TypeAlias = Mapping[str, pa.Table]
