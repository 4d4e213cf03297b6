"""The interval of each input of a step."""

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

Inputs: TypeAlias = Mapping[str, pa.Table]
