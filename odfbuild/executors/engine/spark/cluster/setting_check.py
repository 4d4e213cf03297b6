"""Settings of a session, read back: it is refused with other ones than were given."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odfbuild.errors import EngineFailedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class RefusedSettingError(EngineFailedError):
    """Spark does not accept a setting."""

    code = "spark-setting"


def check_settings(session: "SparkSession", wanted: Mapping[str, str]) -> None:
    """Read settings back: refuse a session with other ones than were given, however that came.

    They decide what queries mean, and what they can reach.  Raises RefusedSettingError.
    """
    for name, value in wanted.items():
        found = session.conf.get(name)
        if found != value:
            raise RefusedSettingError(
                what=f"Spark runs with {name} = {found}",
                why=f"queries only run with {value}: the setting decides what they mean or can "
                "access",
                fix="remove that setting from the configuration of this Spark",
            )
